"""Facts, histories and places as JSON and as cells of a table.

Row: one value. Reading: the values and changes of one place, from one read of its entries.

The store's own cache is not used: a list shows the places of many users, each for a moment.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

from factmem._cli.targets import place_name
from factmem.ledger.entries import Entry, stored
from factmem.ledger.history import FactChange, HistoryEntry, changes_of
from factmem.ledger.ledger import Ledger
from factmem.memory.listing import FactOrigin
from factmem.memory.review import InboxItem, inbox_items
from factmem.models._values import canonical
from factmem.models.facts import AnyFact, FactSource, SingleFact, SourceKind
from factmem.models.places import Place
from factmem.models.when import stamp
from factmem.providers.results import PlaceInfo


def value_words(values: Iterable[object]) -> str:
    """Return values as the text of a cell: strings unchanged, everything else as JSON."""
    return ", ".join(
        each if isinstance(each, str) else json.dumps(each, ensure_ascii=False) for each in values
    )


def fact_record(fact: AnyFact, place: Place) -> dict[str, Any]:
    """Return a fact with plain JSON values as JSON."""
    confirmed = {} if fact.confirmed_at is None else {"confirmed_at": stamp(fact.confirmed_at)}
    by = {"actor": fact.actor, "reason": fact.reason}
    named = {name: text for name, text in by.items() if text is not None}
    return {"place": place_name(place), **stored(fact), **confirmed, **named}


def history_record(entry: HistoryEntry) -> dict[str, Any]:
    """Return an entry of a history as JSON."""
    record: dict[str, Any] = {"action": entry.action.value, "recorded_at": stamp(entry.recorded_at)}
    if entry.fact is not None:
        record["fact"] = stored(entry.fact)
    if entry.forgotten:
        record["forgotten"] = [*entry.forgotten]
    return record


def origin_record(fact: AnyFact, origin: FactOrigin) -> dict[str, Any]:
    """Return a fact with its sources and its history as JSON."""
    return {
        **fact_record(fact, origin.place),
        "sources": [_source_record(each) for each in origin.sources],
        "history": [history_record(each) for each in origin.history or ()],
    }


def _source_record(source: FactSource) -> dict[str, Any]:
    names = ("kind", "conversation", "message", "quote", "model", "before")
    return {name: part for name in names if (part := getattr(source, name)) is not None}


def source_words(sources: Sequence[FactSource]) -> str:
    """Describe the first of several sources in a few words, with its quote."""
    if not sources:
        return ""
    source = sources[0]
    message = None if source.message is None else f"message {source.message}"
    quote = None if source.quote is None else f'"{source.quote}"'
    parts = [source.kind.value, source.conversation, message, quote]
    return ", ".join(part for part in parts if part is not None)


def speaker(source: FactSource | None) -> str:
    """Describe who said a fact and where, without the quote."""
    if source is None:
        return ""
    return ", ".join(part for part in (source.kind.value, source.conversation) if part)


def author(actor: str | None, source: FactSource | None) -> str:
    """Describe who made a change, or who said the fact."""
    said = "" if source is None or (actor and source.kind is SourceKind.CODE) else speaker(source)
    return said if actor is None else f"{actor}: {said}" if said else actor


def place_record(info: PlaceInfo) -> dict[str, Any]:
    """Return the name, counts and times of a place as JSON."""
    return {
        "place": place_name(info.place),
        "identity": [*info.place.identity],
        "count": info.count,
        "bytes": info.bytes,
        "oldest": None if info.oldest is None else stamp(info.oldest),
        "newest": None if info.newest is None else stamp(info.newest),
    }


@dataclass(frozen=True, slots=True)
class Row:
    """One value: the fact that saved it, and its position among the fact's values."""

    place: Place
    fact: AnyFact
    position: int = 0
    relevance: float | None = None
    """The relevance to the search that found it; None outside of a search."""
    item: InboxItem | None = None
    """Why it waits for a person; None if it does not."""

    @property
    def value(self) -> Any:
        """The value, as plain JSON."""
        return self.fact.values[self.position]

    @property
    def is_proposed(self) -> bool:
        """Whether it waits beside the current values."""
        return self.item is not None and self.item.kind in {"contradiction", "proposed"}

    @property
    def subject(self) -> tuple[object, ...]:
        """What the value says: equal proposals are one decision."""
        words = json.dumps(self.value, ensure_ascii=False, sort_keys=True).casefold()
        ends = self.item is not None and self.item.is_ending
        return self.place.identity, self.fact.concept.keyword, words, ends, self.is_proposed

    @property
    def alone(self) -> AnyFact:
        """The fact with this value only."""
        fact: Any = self.fact
        found: AnyFact = (
            fact if isinstance(fact, SingleFact) else replace(fact, values=(self.value,))
        )
        return found


@dataclass(frozen=True)
class Reading:
    """A place at the time of a request."""

    place: Place
    entries: Sequence[Entry]

    @cached_property
    def _ledger(self) -> Ledger:
        return Ledger(self.entries)

    @cached_property
    def _now(self) -> str:
        return max(stamp(datetime.now(UTC)), self._ledger.recorded_at)

    @cached_property
    def facts(self) -> list[AnyFact]:
        """The current facts, by keyword, in the order in which they were said."""
        return sorted(self._ledger.load_all((), self._now), key=_order)

    @property
    def rows(self) -> list[Row]:
        """The current values, in the order of `facts`."""
        return rows_of(self.place, self.facts)

    def rows_at(self, when: datetime) -> list[Row]:
        """Return the values that were current at a time."""
        then = stamp(when)
        return rows_of(
            self.place, sorted(Ledger(self.entries, until=then).load_all((), then), key=_order)
        )

    def waiting(self, since: datetime | None) -> list[Row]:
        """Return the values that wait for a person.

        Proposals, and what models learnt since a time.
        """
        proposals = self._ledger.proposals((), self._now)
        items = inbox_items(self.place, proposals, self.facts, since)
        return [row for item in items for row in rows_of(self.place, [item.fact], item)]

    def with_proposals(self) -> list[Row]:
        """Return the current values and, beside them, those that are proposed."""
        waits = self.waiting(datetime.now(UTC))
        proposed = [r for r in waits if r.is_proposed and r.item and not r.item.is_ending]
        return sorted([*proposed, *self.rows], key=lambda row: row.fact.concept.keyword)

    def row(self, fact_id: str, position: int) -> Row | None:
        """Return a value that waits or is current; None if it was changed or forgotten."""
        keyword = self._keyword(fact_id)
        part = Reading(self.place, [_about(keyword, entry) for entry in self.entries])
        found = [row for row in (*part.waiting(None), *part.rows) if row.fact.id == fact_id]
        return next((row for row in found if row.position == position), None)

    def former(self, keyword: str) -> list[Row]:
        """Return the values that a keyword had and has no longer, the newest first."""
        held = {canonical(row.value) for row in self.rows if row.fact.concept.keyword == keyword}
        found: dict[object, Row] = {}
        for change in reversed(self.changes):
            for row in rows_of(self.place, (*change.added, *change.removed)):
                if row.fact.concept.keyword == keyword and canonical(row.value) not in held:
                    found.setdefault(canonical(row.value), row)
        return [*found.values()]

    @cached_property
    def changes(self) -> list[FactChange]:
        """The changes, oldest first."""
        return [*changes_of(self.place, self.entries, {})]

    def _keyword(self, fact_id: str) -> str | None:
        """Return the keyword that a fact was last saved with; None if it never was."""
        for entry in reversed(self.entries):
            for fact in entry.get("facts", ()):
                if fact["id"] == fact_id:
                    return fact["keyword"]
        return None


def rows_of(
    place: Place,
    facts: Iterable[AnyFact],
    item: InboxItem | None = None,
    relevance: float | None = None,
) -> list[Row]:
    """Return the values of facts."""
    return [
        Row(place, fact, position, relevance, item)
        for fact in facts
        for position in range(len(fact.values))
    ]


def _order(fact: AnyFact) -> tuple[str, datetime]:
    return fact.concept.keyword, fact.timestamp


def _about(keyword: str | None, entry: Entry) -> Entry:
    """Return the part of an entry about one keyword."""
    part: Entry = {**entry, "facts": [f for f in entry.get("facts", ()) if f["keyword"] == keyword]}
    if "forget" in entry:
        part["forget"] = [name for name in entry["forget"] if name[0] == keyword]
    if "retract" in entry:
        part["retract"] = [each for each in entry["retract"] if each["keyword"] == keyword]
    return part
