"""Dialogs of the browser: EditDialog, ConfirmDialog, FormerDialog, NameDialog, KeysDialog.

A dialog only asks: it closes with its result, and the `Browser`, which waits for it, changes the
store. Outside of the editor, texts of the store are shown escaped and as `Text`, because Textual
would read markup in a string.
"""

from collections.abc import Sequence
from typing import ClassVar, TypeVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.screen import ModalScreen
from textual.widgets import Button, Input, OptionList, Static, TextArea
from textual.widgets.option_list import Option

from factmem._cli.place_names import place_name
from factmem._cli.readings import Row, value_words
from factmem._cli.targets import editable
from factmem.models._display import shown

R = TypeVar("R")


class Dialog(ModalScreen[R]):
    """A box over the screen."""

    DEFAULT_CSS = """
    Dialog { align: center middle; }
    Dialog > Vertical {
        width: 96%; max-width: 80; height: auto; max-height: 80%;
        border: round $primary; background: $surface; padding: 1 2;
    }
    Dialog Static { height: auto; margin-bottom: 1; }
    Dialog Horizontal { height: auto; }
    Dialog Button { margin-right: 2; }
    Dialog TextArea { height: 8; }
    Dialog OptionList { height: auto; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss(None)", "Cancel")]


class EditDialog(Dialog[str | None]):
    """An editor for one value; its result is the new text, or None if cancelled."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+s", "save", "Save", priority=True),
        Binding("escape", "dismiss(None)", "Cancel", priority=True),
    ]

    def __init__(self, row: Row) -> None:
        super().__init__()
        self._row = row

    def compose(self) -> ComposeResult:
        title = f"{self._row.fact.concept.keyword} in {place_name(self._row.place)}"
        with Vertical():
            yield Static(Text(shown(title), "bold"))
            yield TextArea(editable(self._row.value), tab_behavior="focus")
            with Horizontal():
                yield Button("Save (Ctrl+S)", variant="primary", action="screen.save")
                yield Button("Cancel (Esc)", action="screen.dismiss(None)")

    def action_save(self) -> None:
        _ = self.dismiss(self.query_one(TextArea).text)


class ConfirmDialog(Dialog[bool]):
    """A question with the answers yes and no."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "dismiss(True)", "Yes"),
        Binding("n,escape", "dismiss(False)", "No"),
    ]

    def __init__(self, question: str) -> None:
        super().__init__()
        self._question = question

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Static(Text(shown(self._question)))
            with Horizontal():
                yield Button("No (n)", action="screen.dismiss(False)")  # the first has the focus
                yield Button("Yes (y)", variant="warning", action="screen.dismiss(True)")


class FormerDialog(Dialog[Row | None]):
    """The former values of a keyword; its result is the one to restore."""

    def __init__(self, rows: Sequence[Row]) -> None:
        super().__init__()
        self._rows = rows

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Static("Enter restores a former value, Esc cancels")
            yield OptionList(*(Option(Text(shown(value_words([r.value])))) for r in self._rows))

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        _ = self.dismiss(self._rows[event.option_index])


class NameDialog(Dialog[tuple[str, str] | None]):
    """Asks for a name and a reason, which each change of the session names."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._suggested = name

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Static(
                "Your name and, if you like, a reason. All changes of this session name them."
            )
            yield Input(self._suggested, placeholder="Name", id="actor")
            yield Input(placeholder="Reason", id="reason")

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Go to the next field, or close with both."""
        name, reason = (self.query_one(each, Input).value.strip() for each in ("#actor", "#reason"))
        if event.input.id == "actor" and name:
            self.query_one("#reason", Input).focus()
        elif name:
            _ = self.dismiss((name, reason))


class KeysDialog(Dialog[None]):
    """The keys of the browser."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,question_mark,q,enter", "dismiss(None)", "Close")
    ]
    _KEYS = """\
j k        next and previous value            /    search
g G        first and last value               p    find a place
n N        next and previous page of a value  i    inbox
Enter      the page of a value                s    sort
y          accept: a person says it is right  r    reload
e          correct                            u    undo
f          reject; history keeps the value    Esc  back
h          restore a former value             q    quit

? proposed   ! doubtful   + new   \N{CHECK MARK} confirmed by a person"""

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Static(Text(self._KEYS))
