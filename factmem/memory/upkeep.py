"""Maintenance of contents: tidying, moving, renaming and converting, with their reports."""

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Any, TypeAlias

from pydantic import JsonValue

from factmem._arguments import expect_within
from factmem.events import MemoryEvents, MemoryOperation
from factmem.ledger.entries import Entry, StoredFact
from factmem.memory._selection import PlaceSelection
from factmem.models._checked import checked_concept, checked_places
from factmem.models._display import Displayed
from factmem.models._names import checked_name
from factmem.models.boundary import check_writable
from factmem.models.clock import TimeProvider, moment, stamp, system_clock
from factmem.models.facts import Concept
from factmem.models.places import Place
from factmem.providers.base import FactStore, fact_store
from factmem.providers.results import ErasureReceipt

__all__ = ["ConversionReport", "MoveReport", "TidyReport"]


Conversion: TypeAlias = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class TidyReport(Displayed):
    """The result of `tidy`."""

    places: list[Place]
    """The places that were rewritten."""
    entries: int
    """The number of entries of their histories that were removed or shortened."""


@dataclass(frozen=True, slots=True)
class MoveReport(Displayed):
    """The result of `move`."""

    entries: int
    """The number of entries that were new in the target."""
    receipt: ErasureReceipt
    """The receipt of the source's erasure, which was already empty."""


@dataclass(frozen=True, slots=True)
class ConversionReport(Displayed):
    """The result of `convert`, without values."""

    places: list[Place]
    """The places whose values were converted, or would be in a dry run."""
    values: int
    """The number of values, including history."""
    failed: list[tuple[Place, str]] = field(default_factory=list[tuple[Place, str]])
    """The place and id of each fact with a value that cannot be converted."""


async def tidy_place(
    store: FactStore, place: Place, now: str, *, expired: bool, keep: timedelta | None
) -> int:
    """Remove expired values and old history from a place; return the number of changed entries."""
    if keep is not None:
        example = "history_older_than=timedelta(days=365)"
        expect_within(keep, timedelta, "history_older_than", example, least=timedelta(0))
    cutoff = "" if keep is None else stamp(moment(now) - keep)

    def edit(entries: Sequence[Entry]) -> Sequence[Entry | None]:
        from factmem.ledger._removal import tidied  # slow to import

        return tidied(entries, now, expired=expired, cutoff=cutoff)

    return await store.rewrite(edit, place.subject, place.scope)


async def move_place(store: FactStore, source: Place, target: Place) -> MoveReport:
    """Copy the history of a place to another one, remove it from the source, then erase the source.

    Copying again adds nothing: repeat the call to finish an interrupted move. Only copied entries
    are removed, in one atomic step. Entries that are saved in the meantime are copied in the next
    round. The source is erased only if it is empty.
    """
    if source.identity == target.identity:
        raise ValueError("source and target must be two places: move(guest, account)")
    new = 0
    while True:
        while entries := await store.entries(source.subject, source.scope):
            new += await store.replay(entries, target.subject, target.scope)
            await store.rewrite(partial(_without, entries), source.subject, source.scope)
        receipt = await store.erase(source.subject, source.scope, only_empty=True)
        if not await store.entries(source.subject, source.scope):
            return MoveReport(new, receipt)


def _without(copied: Sequence[Entry], entries: Sequence[Entry]) -> Sequence[Entry | None]:
    """Return a ledger without its copied entries; unchanged if these were rewritten meanwhile."""
    count = len(copied)
    if list(entries[:count]) != list(copied):
        return entries
    return [*[None] * count, *entries[count:]]


async def rename_in_place(store: FactStore, place: Place, old: str, new: Concept[Any, Any]) -> int:
    """Rename a keyword and change its description in one place and its history.

    Raises:
        ValueError: The place already has facts with the new keyword.
    """
    checked_name(old, "keyword")

    def edit(entries: Sequence[Entry]) -> Sequence[Entry | None]:
        keywords = {fact["keyword"] for entry in entries for fact in entry.get("facts", ())}
        if old not in keywords:
            return entries
        if new.keyword in keywords:
            raise ValueError(
                f"{str(place)!r} already has facts with {new.keyword!r}: nothing was renamed there"
            )
        return [_renamed(entry, old, new) for entry in entries]

    return await store.rewrite(edit, place.subject, place.scope)


def _renamed(entry: Entry, old: str, new: Concept[Any, Any]) -> Entry:
    entry = entry.copy()
    if facts := entry.get("facts"):
        entry["facts"] = [
            _described(fact, new) if fact["keyword"] == old else fact for fact in facts
        ]
    if forget := entry.get("forget"):
        entry["forget"] = [
            (new.keyword if keyword == old else keyword, fact_id, position)
            for keyword, fact_id, position in forget
        ]
    return entry


def _described(fact: StoredFact, concept: Concept[Any, Any]) -> StoredFact:
    return {**fact, "keyword": concept.keyword, "description": concept.description}


async def convert_place(
    store: FactStore,
    place: Place,
    concept: Concept[Any, Any],
    function: Conversion,
    *,
    operation: str | None,
) -> tuple[int, list[str]]:
    """Convert the values of a concept in one place and its history.

    Each converted entry is marked with the operation, and skipped if the operation is repeated.

    Returns:
        The number of values, and the ids of the facts that cannot be converted; nothing is written
        if there are any.
    """
    counted, failed = 0, list[str]()

    def edit(entries: Sequence[Entry]) -> Sequence[Entry | None]:
        nonlocal counted
        counted = 0
        failed.clear()
        after: list[Entry] = []
        for entry in entries:
            copy = deepcopy(entry)
            facts = [each for each in copy.get("facts", ()) if each["keyword"] == concept.keyword]
            done = copy.get("operations", [])
            if facts and operation not in done:
                counted += sum(_convert(fact, concept, function, failed) for fact in facts)
                copy["operations"] = [*done, str(operation)]
            after.append(copy)
        return entries if failed or not counted else after

    if operation is None:
        edit(await store.entries(place.subject, place.scope))
    else:
        await store.rewrite(edit, place.subject, place.scope)
    return counted, list(dict.fromkeys(failed))


def _convert(
    fact: StoredFact, concept: Concept[Any, Any], function: Conversion, failed: list[str]
) -> int:
    """Convert the values of one stored fact in place; return their number."""
    values = fact["values"] if "values" in fact else [fact["value"]] if "value" in fact else []
    try:
        new = [
            concept.codec.dump(
                concept.codec.check(function(value), concept.keyword), concept.keyword
            )
            for value in values
        ]
    except Exception:  # noqa: BLE001 - the function is the application's; the report has the id
        failed.append(fact["id"])
        return len(values)
    if "values" in fact:
        fact["values"] = new
    elif new:
        fact["value"] = new[0]
    fact["description"] = concept.description
    return len(values)


class ContentsUpkeep:
    """The maintenance methods of `MemoryContents`.

    Args:
        provider: The provider, restricted to the boundary of `selection` and observed.
        selection: The places that the memory may access.
        events: Reports rejected calls; the provider reports everything else.
        clock: Returns the time.
    """

    def __init__(
        self,
        provider: FactStore,
        selection: PlaceSelection,
        events: MemoryEvents,
        clock: TimeProvider = system_clock,
    ) -> None:
        self._provider = provider
        self._selection = selection
        self._events = events
        self._clock = clock

    async def tidy(
        self, *, expired: bool = True, history_older_than: timedelta | None = None
    ) -> TidyReport:
        """Remove expired values and old history from the disk, in every place of the memory.

        Current values do not change. Each place is rewritten in one atomic step.

        Args:
            expired: Whether to remove expired values with their history.
            history_older_than: Remove values that were replaced, forgotten or expired longer ago
                than this; None keeps them.

        Raises:
            ValueError: The time span is negative.
            MemoryAccessError: The view is read-only.
        """
        async with self._events.before(MemoryOperation.FORGET):
            store = fact_store(self._provider)
        now = stamp(self._clock())
        changed: list[Place] = []
        entries = 0
        for info in await store.places():
            count = await tidy_place(
                store, info.place, now, expired=expired, keep=history_older_than
            )
            if count:
                changed.append(info.place)
                entries += count
        return TidyReport(changed, entries)

    async def move(self, source: Place, target: Place) -> MoveReport:
        """Move a place with its history to another one, such as a guest to an account.

        The source is copied, emptied and erased. To finish an interrupted move, repeat the call:
        nothing is duplicated. Facts that are saved to the source in the meantime move as well. If
        both places have a concept with one value, the value of the source becomes the newest.
        Entries older than the target's newest entry are recorded with the time of that entry.

        Raises:
            ValueError: Source and target are the same place.
            MemoryAccessError: One of the places is not writable in this view. Nothing was moved.
        """
        async with self._events.before(MemoryOperation.SAVE):
            store = fact_store(self._provider)
            for place in checked_places([source, target]):
                check_writable(place, self._selection.boundary)
        return await move_place(store, source, target)

    async def rename(self, keyword: str, concept: Concept[Any, Any]) -> int:
        """Store the facts of a keyword under another concept's keyword and description.

        The history is renamed as well. Each place is rewritten in one atomic step; if one fails,
        repeat the call. Values are not changed; see `convert`.

        Returns:
            The number of changed places.

        Raises:
            ValueError: A place already has facts with the new keyword; the places before it were
                renamed.
            MemoryAccessError: The view is read-only.
        """
        async with self._events.before(MemoryOperation.SAVE):
            store = fact_store(self._provider)
            checked_concept(concept)
            if keyword == concept.keyword:
                raise ValueError("keyword must not be that of concept: rename('theme', IDE_THEME)")
        changed = 0
        for info in await store.places():
            changed += await rename_in_place(store, info.place, keyword, concept) > 0
        return changed

    async def convert(
        self,
        concept: Concept[Any, Any],
        function: Callable[[Any], Any],
        *,
        operation: str | None = None,
    ) -> ConversionReport:
        """Convert the stored values of a concept and its history to the concept's type.

            report = await memory.contents.convert(PRICE, to_cents)  # a dry run
            if not report.failed:
                await memory.contents.convert(PRICE, to_cents, operation="prices in cents")

        Each place is rewritten in one atomic step. A place with a value that cannot be converted is
        not changed, and `failed` contains the fact. To finish an interrupted conversion, repeat the
        call with the same `operation`: no value is converted twice.

        Args:
            concept: The concept with its new value type.
            function: Takes a stored value as plain JSON and returns a value of the concept's type.
                It runs while the store is locked, possibly in a worker thread, and must be fast.
            operation: The application's name for this conversion, which marks what it has
                converted. Without it nothing is written, and the report says what would be.

        Raises:
            MemoryAccessError: The view is read-only, and `operation` is set.
        """
        async with self._events.before(MemoryOperation.SAVE):
            store = fact_store(self._provider)
            checked_concept(concept)
            if operation is not None:
                checked_name(operation, "operation")
        report = ConversionReport([], 0)
        values = 0
        for info in await store.places():
            count, failed = await convert_place(
                store, info.place, concept, function, operation=operation
            )
            report.failed.extend((info.place, each) for each in failed)
            if count and not failed:
                report.places.append(info.place)
                values += count
        return ConversionReport(report.places, values, report.failed)

    async def export(self) -> dict[str, JsonValue]:
        """Return all data of the memory's places with their history, as plain JSON.

        Use it when a person asks for their stored data: `memory.of("alice").contents.export()`,
        then `json.dumps`. `entries` are the ledger's entries: saves with value, dates, source,
        quote and metadata, and deletions. To move facts, use `export_facts`.
        """
        async with self._events.before(MemoryOperation.HISTORY):
            store = fact_store(self._provider)
        places: list[JsonValue] = []
        for info in await store.places():
            entries: Any = await store.entries(info.subject, info.scope)
            places.append(
                {
                    "scope": str(info.scope),
                    "subject": info.subject.name,
                    "entity": info.subject.entity,
                    "current_values": info.count,
                    "entries": entries,
                }
            )
        return {"exported_at": stamp(self._clock()), "places": places}
