"""The upkeep half of MemoryContents: tidy, move, rename, convert, export."""

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
    """The contents of a memory, as far as they are maintained.

    Args:
        provider: The provider, restricted to the boundary of `selection` and observed.
        selection: The places that the memory may access.
        events: Reports refused calls; the provider reports everything else.
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

        What is current does not change. Each place is rewritten in one atomic step.

        Args:
            expired: Whether values that have expired are removed with their history.
            history_older_than: Remove what was replaced, forgotten or expired longer ago than
                this; None keeps it.

        Raises:
            ValueError: The span is negative.
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

        The source is copied, emptied and erased. A move that was interrupted is finished by the
        same call, and nothing is doubled. What is saved to the source meanwhile moves too. Where both places hold a concept
        of one value, the value of the source is the newest. Entries that are older than the
        target's newest entry count as recorded at that time.

        Raises:
            ValueError: Both are one place.
            MemoryAccessError: The view does not let both be written. Nothing was moved.
        """
        async with self._events.before(MemoryOperation.SAVE):
            store = fact_store(self._provider)
            for place in checked_places([source, target]):
                check_writable(place, self._selection.boundary)
        return await move_place(store, source, target)

    async def rename(self, keyword: str, concept: Concept[Any, Any]) -> int:
        """Store the facts of a keyword under another concept's keyword and description.

        History is renamed too. Each place is rewritten in one atomic step; when one fails, call
        again. Values stay as they are: see `convert`.

        Returns:
            How many places were changed.

        Raises:
            ValueError: A place has facts about the new keyword already; places before it are done.
            MemoryAccessError: The view is read-only.
        """
        async with self._events.before(MemoryOperation.SAVE):
            store = fact_store(self._provider)
            checked_concept(concept)
            if keyword == concept.keyword:
                raise ValueError("keyword must be another one: rename('theme', IDE_THEME)")
        changed = 0
        for info in await store.places():
            changed += await rename_in_place(store, info.place, keyword, concept) > 0
        return changed

    async def convert(
        self, concept: Concept[Any, Any], function: Callable[[Any], Any], *, dry_run: bool = True
    ) -> ConversionReport:
        """Convert the stored values of a concept to its type, history included.

            report = await memory.contents.convert(AGE, int)
            if not report.failed:
                await memory.contents.convert(AGE, int, dry_run=False)

        Each place is rewritten in one atomic step. A place with a value that cannot be converted
        stays as it is, and `failed` names the fact.

        Args:
            concept: The concept with its new value type.
            function: Takes a stored value as plain JSON, and returns a value of the concept's type.
                It runs with the store held, maybe in a worker thread, and must be quick.
            dry_run: Write nothing, only report.

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
        """Return everything that the memory's places hold, history included, as plain JSON.

        For a person who asks which data is stored about them: `memory.of("alice").contents.export()`
        and then `json.dumps`. `entries` are the lines of the ledger: each save with value, dates,
        source, quote and metadata, and each forgetting. To move facts, use `export_facts`.
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
