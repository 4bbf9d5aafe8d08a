"""FactPage: the details of one value."""

import json
from collections.abc import Iterator
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
from factmem.memory.origin import FactOrigin
from factmem.models._display import shown
from factmem.models.sources import FactSource


def page_text(row: Row, origin: FactOrigin | None) -> Text:
    """Return the page of a fact as styled and escaped text."""
    page = Text()
    _add_heading(page, shown(row.fact.concept.keyword))
    page.append(f"{shown(row.fact.concept.description)}\n\n", "dim")
    value = (
        row.value
        if isinstance(row.value, str)
        else json.dumps(row.value, ensure_ascii=False, indent=2)
    )
    for line in value.split("\n"):
        page.append(f"{shown(line)}\n", "bold")
    page.append("\n")
    for name, words in _fields(row):
        page.append(f"{name:<12}", "dim")
        page.append(f"{shown(words)}\n")
    sources = origin.sources if origin else []
    _add_heading(page, "\nSources" if sources else "\nNo source was recorded")
    for source in sources:
        _add_source(page, source)
    history = (origin.history if origin else None) or []
    _add_confirmations(page, history)
    _add_heading(page, "\nHistory")
    for entry in history:
        _add_entry(page, entry)
    return page


def _add_heading(page: Text, heading: str) -> None:
    page.append(f"{heading}\n", "bold underline")


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


def _add_source(page: Text, source: FactSource) -> None:
    parts = [source.kind.value, source.conversation or ""]
    if source.message is not None:
        parts.append(f"message {source.message}")
    if source.model is not None:
        parts.append(f"extracted by {source.model}")
    page.append(f"  {shown(', '.join(part for part in parts if part))}\n")
    if source.quote is not None:
        page.append(f'    "{shown(source.quote)}"\n', "italic green")


def _add_confirmations(page: Text, history: list[HistoryEntry]) -> None:
    confirmed = [each for each in history if each.action is HistoryAction.CONFIRMED]
    if confirmed:
        times = "once" if len(confirmed) == 1 else f"{len(confirmed):,} times"
        _add_heading(page, f"\nConfirmed {times}, last {time_words(confirmed[-1].recorded_at)}")


_MARKS: dict[HistoryAction, tuple[str, str]] = {
    HistoryAction.SAVED: ("●", "green"),
    HistoryAction.CONFIRMED: ("○", "cyan"),
    HistoryAction.FORGOTTEN: ("✕", "red"),
    HistoryAction.SUPERSEDED: ("◌", "yellow"),
}


def _add_entry(page: Text, entry: HistoryEntry) -> None:
    mark, color = _MARKS[entry.action]
    page.append(f"  {mark} ", color)
    page.append(f"{time_words(entry.recorded_at)}  {entry.action.value:<10}  ")
    if entry.fact is not None:
        page.append(shown(value_words(entry.fact.values)))
        if entry.fact.source is not None:
            page.append(f"  {shown(source_words([entry.fact.source]))}", "dim")
    page.append("\n")


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
