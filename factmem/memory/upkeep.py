"""Maintenance of contents: tidying, moving and exporting, with their reports."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any

from pydantic import JsonValue

from factmem._arguments import expect_within
from factmem.events import MemoryOperation
from factmem.ledger.entries import Entry
from factmem.memory.concept_changes import ConceptChanges
from factmem.models._checked import checked_places
from factmem.models._display import Displayed
from factmem.models.boundary import check_writable
from factmem.models.clock import before, stamp
from factmem.models.places import Place
from factmem.providers.base import FactStore, fact_store
from factmem.providers.results import ErasureReceipt

__all__: list[str] = []


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


class ContentsUpkeep(ConceptChanges):
    """The maintenance methods of `MemoryContents`."""

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
            store, keep, now = fact_store(self._provider), history_older_than, stamp(self._clock())
            if keep is not None:
                example = "history_older_than=timedelta(days=365)"
                expect_within(keep, timedelta, "history_older_than", example, least=timedelta(0))
        cutoff = "" if keep is None else before(now, keep)

        def edit(entries: Sequence[Entry]) -> Sequence[Entry | None]:
            from factmem.ledger._removal import tidied  # slow to import

            return tidied(entries, now, expired=expired, cutoff=cutoff)

        changed: dict[Place, int] = {}
        for info in await store.places():
            if count := await store.rewrite(edit, info.subject, info.scope):
                changed[info.place] = count
        return TidyReport([*changed], sum(changed.values()))

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
