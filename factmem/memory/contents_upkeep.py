"""ContentsUpkeep: tidy, move, rename, convert and export of MemoryContents."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from pydantic import JsonValue

from factmem.events import MemoryEvents, MemoryOperation
from factmem.ledger.entries import stamp
from factmem.memory.selection import PlaceSelection
from factmem.memory.upkeep import (
    ConversionReport,
    MoveReport,
    TidyReport,
    convert_place,
    move_place,
    rename_in_place,
    tidy_place,
)
from factmem.models.boundary import check_writable
from factmem.models.checked import checked_concept, checked_places
from factmem.models.clock import TimeProvider, system_clock
from factmem.models.facts import Concept
from factmem.models.places import Place
from factmem.providers.base import AgentMemoryProvider, fact_store

__all__ = ["ContentsUpkeep"]


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
        provider: AgentMemoryProvider,
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
            MemoryAccessError: The view may not write both places. Nothing was moved.
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
        self, concept: Concept[Any, Any], function: Callable[[Any], Any], *, dry_run: bool = True
    ) -> ConversionReport:
        """Convert the stored values of a concept and its history to the concept's type.

            report = await memory.contents.convert(AGE, int)
            if not report.failed:
                await memory.contents.convert(AGE, int, dry_run=False)

        Each place is rewritten in one atomic step. A place with a value that cannot be converted is
        not changed, and `failed` contains the fact.

        Args:
            concept: The concept with its new value type.
            function: Takes a stored value as plain JSON and returns a value of the concept's type.
                It runs while the store is locked, possibly in a worker thread, and must be fast.
            dry_run: Whether to only report, without writing.

        Raises:
            MemoryAccessError: The view is read-only, and `dry_run` is not set.
        """
        async with self._events.before(MemoryOperation.SAVE):
            store = fact_store(self._provider)
            checked_concept(concept)
        report = ConversionReport([], 0)
        values = 0
        for info in await store.places():
            count, failed = await convert_place(
                store, info.place, concept, function, dry_run=dry_run
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
