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
from factmem._cli.readings import Row, source_words, value_words
from factmem._cli.times import time_words
from factmem.ledger.history import HistoryAction, HistoryEntry
from factmem.memory.listing import FactOrigin
from factmem.models._display import shown
from factmem.models.facts import FactState

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
