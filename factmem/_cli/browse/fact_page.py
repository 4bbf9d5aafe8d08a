"""FactPage: the details of one value."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import Screen
from textual.widgets import Footer, Static

from factmem._cli.place_names import place_name
from factmem._cli.readings import Row
from factmem._cli.records import source_words, value_words
from factmem._cli.times import time_words
from factmem.ledger.history import HistoryAction, HistoryEntry
from factmem.memory.listing import FactOrigin
from factmem.models._display import shown

_HEADING = "bold underline"
_MARKS: dict[HistoryAction, tuple[str, str]] = {
    HistoryAction.SAVED: ("  ● ", "green"),
    HistoryAction.CONFIRMED: ("  ○ ", "cyan"),
    HistoryAction.FORGOTTEN: ("  ✕ ", "red"),
    HistoryAction.SUPERSEDED: ("  ◌ ", "yellow"),
}


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
    if times := [e.recorded_at for e in history if e.action is HistoryAction.CONFIRMED]:
        count = "once" if len(times) == 1 else f"{len(times):,} times"
        page.append(f"\nConfirmed {count}, last {time_words(times[-1])}\n", _HEADING)
    page.append("\nHistory\n", _HEADING)
    for entry in history:
        page.append(*_MARKS[entry.action])
        page.append(f"{time_words(entry.recorded_at)}  {entry.action.value:<10}  ")
        if entry.fact is not None:
            page.append(shown(value_words(entry.fact.values)))
            if entry.fact.source is not None:
                page.append(f"  {shown(source_words([entry.fact.source]))}", "dim")
        page.append("\n")


def _fields(row: Row) -> Iterator[tuple[str, str]]:
    fact = row.fact
    yield "place", place_name(row.place)
    yield "type", fact.concept.fact_type.value
    yield "said", time_words(fact.timestamp)
    yield "confirmed", time_words(fact.confirmed_at)
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
        Binding("e", "choose('correct')", "Edit"),
        Binding("f", "choose('forget')", "Forget"),
        Binding("y", "choose('keep')", "Keep"),
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
        """Lay out the page."""
        with VerticalScroll(can_focus=True):
            yield Static(self._text)
        yield Footer()

    def action_choose(self, action: str) -> None:
        """Close the page with an action as its result."""
        _ = self.dismiss(action or None)

    def show(self, row: Row, origin: FactOrigin | None) -> None:
        """Show a new state of the value."""
        self.row = row
        self._text = page_text(row, origin)
        content: Any = self._text
        self.query_one(Static).update(content)
