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
from factmem.models._display import CELLS, Displayed, Sheet, fact_cells, one_kind
from factmem.models._stored_facts import stored_concept
from factmem.models.clock import moment, stamp
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
    PLANNED = "planned"
    """A value that begins later: it becomes current at its `since`, unless it is forgotten before."""


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


_NOTHING: dict[str, Any] = dict.fromkeys(CELLS)
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
        ended = [name[1] for name in entry.get("forget", ()) if name[2]]
        ended += [life.item.fact_id for life, _ in trace.retracted[number] if life is not None]
        if ended:
            ids = tuple(dict.fromkeys(ended))
            events.append(
                HistoryEntry(HistoryAction.FORGOTTEN, moment(at), None, ids, False, *by_of(entry))
            )
        elif any("digest" in each for each in entry.get("retract", ())):
            action = HistoryAction.SUPERSEDED
            events.append(HistoryEntry(action, moment(at), None, (), False, *by_of(entry)))
    return events


class Histories:
    """The histories of many concepts of one place, whose entries are split by keyword once.

    Facts of several keywords may share an id, and then the history of one needs the entries of all:
    keywords with a common id are one group.

    Args:
        entries: All entries of the place.
    """

    def __init__(self, entries: Iterable[Entry]) -> None:
        self._entries = list(entries)
        self._groups: dict[str, str] = {}
        """For each keyword another one of its group; the last one is itself."""
        self._parts: dict[str, list[Entry]] = {}
        self._sizes: dict[str, int] = {}
        self._last: tuple[Concept[Any, Any] | None, History] = None, History()
        """The last answer: several facts of one concept follow each other."""
        self._group()
        at = ""
        for entry in self._entries:
            at = max(at, entry["at"])
            for group, part in self._split(entry).items():
                piece: Entry = {**entry, "at": at, "facts": part["facts"]}
                piece = {**piece, "forget": part["forget"], "retract": part["retract"]}
                self._parts.setdefault(group, []).append(piece)
                size = sum(map(len, part.values()))
                self._sizes[group] = self._sizes.get(group, 0) + size

    def of(self, concept: Concept[Any, Any]) -> History:
        """Return the history of a concept; see `history`."""
        if not concept.codec.is_plain_text:  # callers may change such values
            return self._history(concept)
        last, found = self._last
        if last is None or last != concept or last.was != concept.was:
            found = self._history(concept)
            self._last = concept, found
        return History(found)

    def _history(self, concept: Concept[Any, Any]) -> History:
        groups = self._groups_of(concept)
        is_one = len(groups) < 2
        parts = [part for group in groups for part in self._parts.get(group, ())]
        return history(parts if is_one else self._entries, concept)

    def size(self, concept: Concept[Any, Any]) -> int:
        """Return about how many changes `of` has to read."""
        groups = self._groups_of(concept)
        return sum(self._sizes.get(each, 0) for each in groups) if len(groups) < 2 else self._all

    @property
    def _all(self) -> int:
        return sum(self._sizes.values())

    def _groups_of(self, concept: Concept[Any, Any]) -> set[str]:
        return {self._root(each) for each in concept.keywords if each in self._groups}

    def _group(self) -> None:
        first: dict[str, str] = {}
        for entry in self._entries:
            for keyword, fact_id in _names(entry):
                self._groups.setdefault(keyword, keyword)
                if fact_id is not None and first.setdefault(fact_id, keyword) != keyword:
                    self._groups[self._root(keyword)] = self._root(first[fact_id])

    def _root(self, keyword: str) -> str:
        while (other := self._groups[keyword]) != keyword:
            keyword = other
        return keyword

    def _split(self, entry: Entry) -> dict[str, dict[str, Any]]:
        """Return the parts of an entry, by group."""
        parts: dict[str, dict[str, Any]] = {}

        def part(keyword: str) -> dict[str, Any]:
            empty: dict[str, Any] = {"facts": [], "forget": [], "retract": []}
            return parts.setdefault(self._root(keyword), empty)

        for fact in entry.get("facts", ()):
            part(fact["keyword"])["facts"].append(fact)
        for name in entry.get("forget", ()):
            part(name[0])["forget"].append(name)
        for each in entry.get("retract", ()):
            part(each["keyword"])["retract"].append(each)
        return parts


def _names(entry: Entry) -> Iterator[tuple[str, str | None]]:
    """Yield each keyword of an entry, with the id of a fact of it."""
    for fact in entry.get("facts", ()):
        yield fact["keyword"], fact["id"]
    for name in entry.get("forget", ()):
        yield name[0], None
    for each in entry.get("retract", ()):
        yield each["keyword"], None


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
    items = [Item(0, value, saved.fact, saved.at, saved.by) for _, value in values_of(saved.fact)]
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
    elif is_new and fact.since is not None and stamp(fact.since.begin) > saved.at:
        action = HistoryAction.PLANNED
    return HistoryEntry(action, moment(saved.at), fact, (), is_unreadable, *saved.by)
