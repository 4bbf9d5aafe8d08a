"""Dialogs of the browser: EditDialog, ConfirmDialog."""

from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.screen import ModalScreen
from textual.widgets import Button, Static, TextArea

from factmem._cli.browse.session import Row, editable
from factmem._cli.place_names import place_name
from factmem.models._display import shown

__all__ = ["ConfirmDialog", "EditDialog"]

_BOX = """
%(name)s { align: center middle; }
%(name)s > Vertical {
    width: 80%%; max-width: 100; height: auto; max-height: 80%%;
    border: round $primary; background: $surface; padding: 1 2;
}
%(name)s Static { height: auto; margin-bottom: 1; }
%(name)s Horizontal { height: auto; }
%(name)s Button { margin-right: 2; }
"""


class EditDialog(ModalScreen[str | None]):
    """An editor for one value; its result is the new text, or None if cancelled."""

    DEFAULT_CSS = _BOX % {"name": "EditDialog"} + "EditDialog TextArea { height: 8; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+s", "save", "Save", priority=True),
        Binding("escape", "cancel", "Cancel", priority=True),
    ]

    def __init__(self, row: Row) -> None:
        super().__init__()
        self._row = row

    def compose(self) -> ComposeResult:
        """Lay out the dialog."""
        title = f"{self._row.fact.concept.keyword} in {place_name(self._row.place)}"
        with Vertical():
            yield Static(Text(shown(title), "bold"))
            yield TextArea(editable(self._row.value), tab_behavior="focus")
            with Horizontal():
                yield Button("Save (Ctrl+S)", variant="primary", id="save")
                yield Button("Cancel (Esc)", id="cancel")

    def on_button_pressed(self, event: Button.Pressed) -> None:
        """Save or cancel with the mouse."""
        if event.button.id == "save":
            self.action_save()
        else:
            self.action_cancel()

    def action_save(self) -> None:
        """Close with the typed text."""
        _ = self.dismiss(self.query_one(TextArea).text)

    def action_cancel(self) -> None:
        """Close without a change."""
        _ = self.dismiss(None)


class ConfirmDialog(ModalScreen[bool]):
    """A question with the answers yes and no."""

    DEFAULT_CSS = _BOX % {"name": "ConfirmDialog"}
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "answer(True)", "Yes"),
        Binding("n,escape", "answer(False)", "No"),
    ]

    def __init__(self, question: str) -> None:
        super().__init__()
        self._question = question

    def compose(self) -> ComposeResult:
        """Lay out the dialog."""
        with Vertical():
            yield Static(Text(shown(self._question)))
            with Horizontal():
                yield Button("No (n)", id="no")  # the first one has the focus
                yield Button("Yes (y)", variant="warning", id="yes")

    def on_button_pressed(self, event: Button.Pressed) -> None:
        """Answer with the mouse."""
        _ = self.dismiss(event.button.id == "yes")

    def action_answer(self, answer: bool) -> None:
        """Answer with a key."""
        _ = self.dismiss(answer)
