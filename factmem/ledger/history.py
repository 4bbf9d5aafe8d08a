"""The history of a concept: every save, confirmation, supersession and forgetting. Pure.

The entries about the keyword are traced, and each effect becomes a `HistoryEntry`.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from factmem.ledger._items import Item, values_of
from factmem.ledger._presentation import as_far_as_readable, as_plain, is_misfit, presented
from factmem.ledger._trace import SavedFact, Trace
from factmem.ledger.entries import Entry, StoredFact, by_of
from factmem.models._display import Displayed, Sheet, fact_cells, one_kind
from factmem.models._stored_facts import stored_concept
from factmem.models.clock import moment
from factmem.models.facts import AnyFact, Concept, FactType

__all__ = ["History", "HistoryAction", "HistoryEntry"]


class HistoryAction(StrEnum):
    """The kind of a change in a concept's history."""

    SAVED = "saved"
    """At least one value was new."""
    CONFIRMED = "confirmed"
    """All values were current already."""
    FORGOTTEN = "forgotten"
    SUPERSEDED = "superseded"
    """A statement recorded after one that was said later, which changed nothing."""
    PROPOSED = "proposed"
    """A value that waits for a decision of a person or the application."""


@dataclass(frozen=True, slots=True)
class HistoryEntry(Displayed):
    """One change of a concept in one place."""

    action: HistoryAction
    recorded_at: datetime
    fact: AnyFact | None = None
    """The saved, confirmed or superseded fact; None for a forgetting."""
    forgotten: tuple[str, ...] = ()
    """The ids of the facts whose values were forgotten; the values are not repeated."""
    is_unreadable: bool = False
    """Whether a value of `fact` does not fit the concept's type. All are then plain JSON."""
    actor: str | None = None
    """Who made the change."""
    reason: str | None = None


class History(list[HistoryEntry], Displayed):
    """The history of a concept, oldest first: a list that notebooks show as a table."""

    def to_rows(self) -> list[dict[str, Any]]:
        """Return a row for each value: `pandas.DataFrame(history.to_rows())`.

        A forgetting is a row without a value. Times are datetimes. The values have one type: strings,
        numbers or booleans if all are of that type, otherwise JSON.
        """
        return one_kind(row for entry in self for row in _rows_of(entry))

    def _sheet(self) -> Sheet:
        rows = [
            (
                entry.recorded_at,
                entry.action.value,
                None if entry.fact is None else entry.fact.values,
                None if entry.fact is None else entry.fact.source,
            )
            for entry in self
        ]
        return Sheet("History", ("recorded", "action", "value", "source"), rows)


def _rows_of(entry: HistoryEntry) -> Iterator[dict[str, Any]]:
    head = {"recorded": entry.recorded_at, "action": entry.action.value}
    if entry.fact is None:
        for fact_id in entry.forgotten or (None,):
            yield {**head, **_NOTHING, "id": fact_id}
    else:
        for position in range(len(entry.fact.values)):
            yield {**head, **fact_cells(entry.fact, position)}


_NOTHING: dict[str, Any] = {
    "keyword": None,
    "value": None,
    "said": None,
    "confirmed": None,
    "expires": None,
    "since": None,
    "until": None,
    "importance": None,
    "source": None,
    "conversation": None,
    "quote": None,
    "state": None,
    "actor": None,
    "reason": None,
}
"""The columns of a missing fact."""


def history(entries: Iterable[Entry], concept: Concept[Any, Any]) -> History:
    """Return every save, confirmation and forgetting of a concept's keywords, oldest first.

    Each fact shows the description and the type that it was saved with, and in `confirmed_at` the
    time at which it was recorded. A save without remaining values is not shown. A statement that
    was superseded at once is shown with its `timestamp`, which is when it was said. A fact with a
    value that does not fit the concept's `value_type` is shown as plain JSON.
    """
    keywords = frozenset(concept.keywords)
    found = list(_concerning(entries, keywords))
    trace = Trace(found)
    events = History()
    concepts: dict[tuple[str, str], Concept[Any, Any]] = {}
    for number, (entry, at) in enumerate(zip(found, trace.recorded, strict=True)):
        for saved in trace.saved[number]:
            fact = saved.fact
            if fact["keyword"] in keywords and saved.values:
                kind = (fact["description"], fact["type"])
                as_saved = concepts.get(kind) or concepts.setdefault(kind, _as_saved(concept, fact))
                events.append(_event(saved, as_saved))
        ended = [name[1] for name in entry.get("forget", ())]
        ended += [life.item.fact_id for life, _ in trace.retracted[number] if life is not None]
        if ended:
            ids = tuple(dict.fromkeys(ended))
            events.append(
                HistoryEntry(HistoryAction.FORGOTTEN, moment(at), None, ids, False, *by_of(entry))
            )
        elif trace.retracted[number]:
            action = HistoryAction.SUPERSEDED
            events.append(HistoryEntry(action, moment(at), None, (), False, *by_of(entry)))
    return events


def _concerning(entries: Iterable[Entry], keywords: frozenset[str]) -> Iterator[Entry]:
    """Yield the parts of entries about keywords, and about facts that share an id with its facts."""
    entries = list(entries)
    ids = {
        fact["id"]
        for entry in entries
        for fact in entry.get("facts", ())
        if fact["keyword"] in keywords
    }
    at = ""
    for entry in entries:
        at = max(at, entry["at"])
        facts = [fact for fact in entry.get("facts", ()) if fact["id"] in ids]
        gone = [name for name in entry.get("forget", ()) if name[0] in keywords]
        retracted = [each for each in entry.get("retract", ()) if each["keyword"] in keywords]
        if facts or gone or retracted:
            part: Entry = {**entry, "at": at, "facts": facts}
            yield {**part, "forget": gone, "retract": retracted}


def _as_saved(concept: Concept[Any, Any], fact: StoredFact) -> Concept[Any, Any]:
    fact_type = FactType(fact["type"])
    return stored_concept(concept.keyword, fact["description"], fact_type, concept.value_type)


def _event(saved: SavedFact, concept: Concept[Any, Any]) -> HistoryEntry:
    is_new = any(value.is_new for value in saved.values)
    items = [
        Item(0, value, saved.fact, position, saved.at, saved.by)
        for position, value in values_of(saved.fact)
    ]
    for item, value in zip(items, saved.values, strict=True):
        if value.is_proposed:
            item.state = "proposed"
    fact, *others = as_far_as_readable(concept, items)
    is_unreadable = bool(others) or is_misfit(fact, concept)
    if others:
        (fact,) = presented(as_plain(concept), items)
    action = HistoryAction.SAVED if is_new else HistoryAction.CONFIRMED
    if saved.is_superseded:
        action = HistoryAction.SUPERSEDED
    elif saved.is_proposed:
        action = HistoryAction.PROPOSED
    return HistoryEntry(action, moment(saved.at), fact, (), is_unreadable, *saved.by)
