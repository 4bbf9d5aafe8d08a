"""The parts of the browser's screen, and its dialogs.

PlacesTree shows scopes, subjects and entities as a tree, whose branches are filled when opened.
FactTable shows values, with who said each of them, and FactPage the details of one value.

A dialog only asks: it closes with its result, and the `Browser`, which waits for it, changes the
store. Outside of the editor, texts of the store are shown escaped and as `Text`, because Textual
would read markup in a string.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, ClassVar, TypeVar
from unicodedata import bidirectional

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.screen import ModalScreen, Screen
from textual.widgets import Button, DataTable, Footer, Input, OptionList, Static, TextArea, Tree
from textual.widgets.option_list import Option
from textual.widgets.tree import TreeNode

from factmem._cli.desk import editable
from factmem._cli.output import ago, time_words
from factmem._cli.readings import Row, source_words, speaker, value_words
from factmem._cli.targets import place_name
from factmem.ledger.history import HistoryAction, HistoryEntry
from factmem.memory.listing import FactOrigin
from factmem.models._display import shown
from factmem.models.facts import FactSource, FactState
from factmem.models.places import Place

_Branch = dict[str, list[Place]]

_OPEN = 200
"""Branches with more places are closed at first: a screen shows fewer, and closed ones cost
nothing."""


class PlacesTree(Tree[Place | list[Place]]):
    """The places of a store. The data of a leaf is a place, that of a branch a list of places."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - textual's name
        super().__init__(Text("places"), id=id)
        self.show_root = False
        self.guide_depth = 2

    def show(self, places: Iterable[Place], containing: str = "") -> int:
        """Show the places whose name contains a string, and return their number."""
        self.clear()
        wanted = containing.casefold()
        chosen = [each for each in places if wanted in place_name(each).casefold()]
        scopes: _Branch = {}
        for place in chosen:
            kind, scope, *_ = place.identity
            scopes.setdefault(f"{kind} {scope}", []).append(place)
        for label, held in scopes.items():
            node = self.root.add(Text(shown(label)), data=held, expand=True)
            self._add_subjects(node, held)
        self.root.expand()
        self.call_after_refresh(self._place_cursor)
        return len(chosen)

    def _place_cursor(self) -> None:
        """Put the cursor on the first line if it is on none."""
        self.cursor_line = max(self.cursor_line, 0)

    def _add_subjects(self, node: TreeNode[Place | list[Place]], places: list[Place]) -> None:
        subjects: _Branch = {}
        for place in places:
            subjects.setdefault(str(place.identity[2]), []).append(place)
        for label, held in subjects.items():
            if len(held) == 1 and held[0].identity[3] is None:
                node.add_leaf(Text(shown(label)), data=held[0])
                continue
            branch = node.add(Text(f"{shown(label)} ({len(held):,})"), data=held)
            if len(held) <= _OPEN:
                branch.expand()

    def on_tree_node_expanded(self, event: "Tree.NodeExpanded[Place | list[Place]]") -> None:
        """Add the entities of a subject when it opens for the first time."""
        node = event.node
        if node.parent is None or node.parent is self.root or node.children:
            return
        held = node.data
        if isinstance(held, list):
            for place in held:
                entity = place.identity[3]
                node.add_leaf(Text("(itself)" if entity is None else shown(entity)), data=place)


MOST_ROWS = 1_000
"""The most rows of the table: more than anyone reads, and drawn at once. The filter finds
others."""
_LONGEST = 400
"""The maximum of characters of a value in a cell; no screen shows more."""
_LEAST = 16
"""The least width of a value."""
_WIDE = 100
"""The width of a screen from which on the table shows who said a value, and its quote."""

_NARROW = 90
"""The width of a screen up to which the value needs the room of the dates."""

_JOINED_EMOJI = re.compile("(?<=[\u2600-\u27bf\ufe0f\U0001f000-\U0001faff])\u200d")
_RIGHT_TO_LEFT = frozenset({"R", "AL"})


def _cell(text: str) -> Text:
    """Return the text of a cell, which does not affect its neighbours."""
    text = shown(text)
    if not text.isascii():
        # A joined emoji such as a family has 2 cells in some terminals and 6 in others.
        text = _JOINED_EMOJI.sub("", text)
        if any(bidirectional(each) in _RIGHT_TO_LEFT for each in text):
            # A terminal that reorders Hebrew and Arabic would also move the dates after them.
            text += "\N{LEFT-TO-RIGHT MARK}"
    return Text(text, no_wrap=True, overflow="ellipsis")


_SIGNS = {"contradiction": "?", "proposed": "?", "doubtful": "!", "new": "+", "confirmed": "✓"}


def _sign(row: Row) -> str:
    return _SIGNS.get(row.fact.state.value if row.item is None else row.item.kind, " ")


_Columns = dict[str, tuple[int, Callable[[Row], str]]]
_VALUE: _Columns = {" ": (1, _sign), "value": (0, lambda row: value_words([row.value])[:_LONGEST])}
_BY: _Columns = {"said by": (0, lambda row: _words(row.fact.source))}
_KEYWORD: _Columns = {"keyword": (18, lambda row: row.fact.concept.keyword)}
_PLACE: _Columns = {"of": (12, lambda row: _entity(row.place))}
_KEYWORD_SHORT: _Columns = {"keyword": (11, lambda row: row.fact.concept.keyword)}
_PLACE_SHORT: _Columns = {"of": (8, lambda row: _entity(row.place))}
_SAID: _Columns = {"said": (10, lambda row: ago(row.fact.timestamp))}


def _entity(place: Place) -> str:
    return "/".join(place.subject.levels) or place_name(place)


def _words(source: FactSource | None) -> str:
    """Return who said something, with the quote first, as a cell shows only its beginning."""
    if source is None or source.quote is None:
        return speaker(source)
    return f'{source.kind.value}: "{source.quote}" {source.conversation or ""}'.rstrip()


class FactTable(DataTable[Text]):
    """A table of values with a cursor for keyboard and mouse."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j,n", "cursor_down", "Down", show=False),
        Binding("k,N", "cursor_up", "Up", show=False),
        Binding("g,home", "scroll_top", "First", show=False),
        Binding("G,end", "scroll_bottom", "Last", show=False),
    ]

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - textual's name
        super().__init__(id=id, cursor_type="row", zebra_stripes=True)
        self.shown: Sequence[Row] = ()
        """The rows of the table."""

    @property
    def row(self) -> Row | None:
        """The row under the cursor."""
        return self.shown[self.cursor_row] if self.cursor_row < len(self.shown) else None

    def show(self, rows: Sequence[Row], *, keep_cursor: bool = False) -> None:
        """Show other rows; with `keep_cursor` the cursor stays on its value if it is among them."""
        stays = self._position_of(self.row, rows) if keep_cursor else 0
        self.shown = rows[:MOST_ROWS]
        has_places = any(row.item is not None or row.relevance is not None for row in rows)
        width = self.size.width or self.app.size.width
        is_wide = self.app.size.width >= _WIDE
        columns = _VALUE | (_BY if is_wide else {}) | _KEYWORD
        columns |= (_PLACE if has_places else {}) | _SAID
        if self.app.size.width < _NARROW:
            columns = _VALUE | _KEYWORD_SHORT | (_PLACE_SHORT if has_places else _SAID)
        used = sum(cells + 2 for cells, _ in columns.values()) + 2
        share = max((width - used) // (2 if is_wide else 1), _LEAST)
        self.clear(columns=True)
        for name, (cells, _) in columns.items():
            self.add_column(name, width=cells or share)
        self.add_rows([[_cell(words(row)) for _, words in columns.values()] for row in self.shown])
        self.move_cursor(row=stays)

    def _position_of(self, row: Row | None, rows: Sequence[Row]) -> int:
        """Return the index of a value among other rows, or the cursor's."""
        if row is None:
            return 0
        wanted = (row.fact.id, row.position)
        found = (at for at, each in enumerate(rows) if (each.fact.id, each.position) == wanted)
        return next(found, self.cursor_row)

    def on_resize(self) -> None:
        self.show(self.shown, keep_cursor=True)


_HEADING = "bold underline"
_MARKS: dict[HistoryAction, tuple[str, str]] = {
    HistoryAction.SAVED: ("  ● ", "green"),
    HistoryAction.CONFIRMED: ("  ○ ", "cyan"),
    HistoryAction.FORGOTTEN: ("  ✕ ", "red"),
    HistoryAction.SUPERSEDED: ("  ◌ ", "yellow"),
}
_OTHER = "  ? ", "yellow"
"""The mark of proposals and decisions about them."""


def page_text(row: Row, origin: FactOrigin | None) -> Text:
    """Return the page of a fact as styled and escaped text."""
    is_text, concept = isinstance(row.value, str), row.fact.concept
    value = row.value if is_text else json.dumps(row.value, ensure_ascii=False, indent=2)
    lines = "\n".join(map(shown, value.split("\n")))
    page = Text.assemble(
        (f"{shown(concept.keyword)}\n", _HEADING),
        (f"{shown(concept.description)}\n\n", "dim"),
        (f"{lines}\n\n", "bold"),
    )
    for name, words in _fields(row):
        page.append(f"{name:<12}", "dim").append(f"{shown(words)}\n")
    sources = origin.sources if origin else []
    page.append("\nSources\n" if sources else "\nNo source was recorded\n", _HEADING)
    for source in sources:
        model = f", extracted by {source.model}" if source.model else ""
        page.append(f"  {shown(source_words([replace(source, quote=None)]) + model)}\n")
        if source.quote is not None:
            page.append(f'    "{shown(source.quote)}"\n', "italic green")
    _add_history(page, (origin.history if origin else None) or [])
    return page


def _add_history(page: Text, history: Sequence[HistoryEntry]) -> None:
    again = [each for each in history if _action(each) == _AGAIN]
    if again:
        count = "once" if len(again) == 1 else f"{len(again):,} times"
        page.append(f"\nSaid again {count}, last {time_words(again[-1].recorded_at)}\n", _HEADING)
    page.append("\nHistory\n", _HEADING)
    for entry in history:
        page.append(*_MARKS.get(entry.action, _OTHER))
        page.append(f"{time_words(entry.recorded_at)}  {_action(entry):<10}  ")
        if entry.fact is not None:
            page.append(shown(value_words(entry.fact.values)))
            if entry.fact.source is not None:
                page.append(f"  {shown(source_words([entry.fact.source]))}", "dim")
        page.append("\n")


_AGAIN = "said again"


def _action(entry: HistoryEntry) -> str:
    """Return what was done. Only a person confirms; a program that saves a value says it again."""
    is_said = entry.fact is None or entry.fact.state is not FactState.CONFIRMED
    return _AGAIN if entry.action is HistoryAction.CONFIRMED and is_said else entry.action.value


def _fields(row: Row) -> Iterator[tuple[str, str]]:
    fact = row.fact
    yield "place", place_name(row.place)
    yield "type", fact.concept.fact_type.value
    yield "said", time_words(fact.timestamp)
    is_confirmed = fact.state is FactState.CONFIRMED
    yield "confirmed" if is_confirmed else "last said", time_words(fact.confirmed_at)
    if is_confirmed and fact.actor:
        yield "by", fact.actor
    yield "expires", time_words(fact.expires_at) or "never"
    yield "importance", f"{fact.importance:g}"
    if fact.metadata:
        yield "metadata", json.dumps(dict(fact.metadata), ensure_ascii=False)
    yield "id", fact.id


class FactPage(Screen[str | None]):
    """A value with its history, sources and dates. The result of the page is the chosen action."""

    DEFAULT_CSS = """
    FactPage VerticalScroll { padding: 1 2; }
    FactPage Static { width: 100%; height: auto; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,backspace", "choose('')", "Back"),
        Binding("y", "choose('accept')", "Accept"),
        Binding("e", "choose('correct')", "Correct"),
        Binding("f", "choose('reject')", "Reject"),
        Binding("h", "choose('restore')", "Restore"),
        Binding("n,j", "choose('next')", "Next"),
        Binding("N,k", "choose('previous')", "Previous", show=False),
        Binding("u", "choose('undo')", "Undo"),
        Binding("q", "choose('quit')", "Quit"),
    ]

    def __init__(self, row: Row, origin: FactOrigin | None) -> None:
        super().__init__()
        self.row = row
        self._text = page_text(row, origin)

    def compose(self) -> ComposeResult:
        with VerticalScroll(can_focus=True):
            yield Static(self._text)
        yield Footer()

    def action_choose(self, action: str) -> None:
        _ = self.dismiss(action or None)

    def show(self, row: Row, origin: FactOrigin | None) -> None:
        self.row = row
        self._text = page_text(row, origin)
        content: Any = self._text
        self.query_one(Static).update(content)


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
