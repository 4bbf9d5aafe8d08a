"""Imports of rows: facts with their own places and times."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, TypeAlias

from factmem._arguments import kind_of
from factmem.ledger._items import values_of
from factmem.ledger.entries import Entry, StoredFact, stored
from factmem.ledger.resolution import PlacedFact
from factmem.models._values import Canonical, canonical
from factmem.models.clock import stamp
from factmem.models.places import Identity, Place
from factmem.providers.base import FactStore
from factmem.transfer._checks import not_erased
from factmem.transfer.reports import ImportReport

_Content: TypeAlias = tuple[str, str, tuple[Canonical, ...]]


async def import_rows(
    rows: Iterable[PlacedFact[Any]],
    into: FactStore,
    wanted: set[Identity] | None,
    erased: Mapping[Identity, str],
    progress: Callable[[int, int], None] | None,
) -> ImportReport:
    """Write rows to a store, each recorded at the time of its fact.

    All rows are checked before the first is written. Each place is written in one step.
    """
    by_place = _by_place(rows, wanted)
    for place, _ in by_place:  # a view raises here, before anything is written
        await into.replay([], place.subject, place.scope)
    new = read = skipped = 0
    for done, (place, facts) in enumerate(by_place, 1):
        read += len(facts)
        known = await into.entries(place.subject, place.scope)
        unknown = _unknown(known, facts)
        kept = await not_erased(into, place, unknown, erased)
        new += await into.replay(kept, place.subject, place.scope)
        skipped += len(unknown) - len(kept)
        if progress is not None:
            progress(done, len(by_place))
    return ImportReport(tuple(place for place, _ in by_place), read, new, skipped=skipped)


def _by_place(
    rows: Iterable[PlacedFact[Any]], wanted: set[Identity] | None
) -> list[tuple[Place, list[StoredFact]]]:
    found: dict[Identity, tuple[Place, list[StoredFact]]] = {}
    for row in rows:
        if not isinstance(row, PlacedFact):
            raise TypeError(
                f"rows must be PlacedFacts, not {kind_of(row)}: "
                f"[PlacedFact(Place(scope, subject), SingleFact(concept, value, timestamp=when))]"
            )
        identity = row.place.identity
        if wanted is None or identity in wanted:
            found.setdefault(identity, (row.place, []))[1].append(stored(row.fact))
    for _, facts in found.values():
        facts.sort(key=_time)  # stable: rows with equal times keep their order
    return list(found.values())


def _unknown(known: Sequence[Entry], facts: Sequence[StoredFact]) -> list[Entry]:
    """Return one entry for each row that a place does not have.

    Rows are compared by content, because a fact built again from the same row has a new id.
    """
    # A row with a future time is recorded now. Otherwise no later save could be recorded before it.
    now = stamp(datetime.now(UTC))
    saved = {_content(fact) for entry in known for fact in entry.get("facts", ())}
    ids = {(fact["keyword"], fact["id"]) for entry in known for fact in entry.get("facts", ())}
    entries: list[Entry] = []
    for fact in facts:
        content, name = _content(fact), (fact["keyword"], fact["id"])
        if content not in saved and name not in ids:
            saved.add(content)
            entries.append({"at": min(fact["timestamp"], now), "facts": [fact]})
    return entries


def _time(fact: StoredFact) -> str:
    return fact["timestamp"]


def _content(fact: StoredFact) -> _Content:
    values = tuple(canonical(value) for _, value in values_of(fact))
    return fact["keyword"], fact["timestamp"], values
