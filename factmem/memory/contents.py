"""MemoryContents: lists, updates and deletes the contents of a memory."""

from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import aclosing
from datetime import datetime
from types import EllipsisType
from typing import Any

from pydantic import JsonValue
from typing_extensions import TypeVar, Unpack

from factmem._arguments import expect_all, expect_within
from factmem.errors import MemoryAccessError
from factmem.events import MemoryOperation
from factmem.ledger.history import History
from factmem.ledger.resolution import PlacedFact
from factmem.memory.listing import (
    ConceptCounts,
    ConceptInfo,
    MemoryStats,
    MemoryTree,
    Newest,
    RecordPage,
    ResetReport,
    branch_of,
    stats_of,
)
from factmem.memory.upkeep import ContentsUpkeep
from factmem.models._checked import checked_concepts, checked_subjects
from factmem.models._metadata import checked_metadata, includes
from factmem.models.boundary import UNBOUNDED
from factmem.models.concepts import ConceptDefinition
from factmem.models.facts import Concept
from factmem.models.places import MemorySubject
from factmem.models.scopes import ScopeChoice
from factmem.models.sources import FactSource
from factmem.providers.base import fact_store
from factmem.providers.conditions import ForgetConditions
from factmem.providers.results import ErasureReceipt, Forgotten, PlaceInfo, Purge

__all__ = ["MemoryContents"]


T = TypeVar("T")

_AT_ONCE = 32
"""The number of places that are read at a time; more are not faster."""


class MemoryContents(ContentsUpkeep):
    """The contents of a memory, place by place.

    The contents of a view are its places. For a memory that is not a view, they are the whole
    store: all subjects and scopes, not only the memory's own.

    Nothing is cached: each call reads the places from the store and sees the writes of other
    instances and processes. No call to a model.
    """

    async def places(self, *, within: Sequence[str] | None = None) -> list[PlaceInfo]:
        """Return the places that are not empty, ordered by identity.

        Args:
            within: Only entities with these first levels, such as `["acme"]` for a tenant:
                `USER.of("acme")` and `USER.of("acme", "alice")`, but not `USER.of("acme2")`.

        Raises:
            TypeError: The provider is not a `FactStore`, as in every method here.
            StorageError: A place could not be read, as in every method here.
        """
        async with self._events.before(MemoryOperation.LIST):
            store = fact_store(self._provider)
            example = "within=['acme']"
            first = None if within is None else expect_all(within, str, "within", example)
            if first == ():
                raise ValueError(f"within must contain at least one level: {example}")
        found = await store.places()
        if first is None:
            return found
        return [info for info in found if info.subject.levels[: len(first)] == first]

    async def tree(self) -> MemoryTree:
        """Return all places as a tree: scopes, subjects, entities. `print` shows it.

        The tree of a view is a subtree: `memory.view(scopes=[...]).contents.tree()`.
        """
        found = await self.places()
        return branch_of(
            "memory",
            [((str(i.scope), i.subject.name, *i.subject.levels), i) for i in found],
        )

    async def concepts(self) -> list[ConceptInfo]:
        """Return the concepts that have current values, ordered by keyword."""
        counts = ConceptCounts()
        async for placed in self._all_facts():
            counts.add(placed)
        return counts.infos()

    async def definitions(self) -> list[ConceptDefinition]:
        """Return what all programs told the store about concepts, by keyword.

        `differs` names those that the memory declares in another way; `async with memory` reports
        them in an event. Compatible changes are taken over: more values, a type that accepts more,
        a concept with `read` or `was`. Empty for a provider with four methods.
        """
        from factmem.memory import _definitions  # needless for facts

        await _definitions.tell_definitions(self._parts)
        return await _definitions.compared_definitions(self._parts)

    async def stats(self) -> MemoryStats:
        """Return the number of places, entities and values, and their size.

        The facts are not loaded. In a view of `USER.every()` the numbers cover all entities.
        """
        return stats_of(await self.places())

    async def records(
        self,
        limit: int = 50,
        offset: int = 0,
        *,
        concepts: Iterable[Concept[Any, Any]] | None = None,
        metadata: Mapping[str, JsonValue] | None = None,
    ) -> RecordPage:
        """Return current facts of all places, last confirmed first.

        The result is a list. Its `total` is the number of all facts that meet the conditions,
        `is_last` is true on the last page, and `to_rows()` returns rows for a data frame.

        Values of the memory's `concepts` have their types if they fit; all others are plain JSON.
        Facts of several places are not resolved: a concept with facts in two places appears twice.
        The order of facts with the same time is stable.

        Args:
            limit: The maximum of facts to return.
            offset: The number of facts to skip.
            concepts: Only facts of these concepts.
            metadata: Only facts whose metadata has all of these keys, with equal values.

        Raises:
            TypeError: `limit` or `offset` is not an integer.
            ValueError: `limit` or `offset` is negative.
        """
        async with self._events.before(MemoryOperation.LIST):
            expect_within(limit, int, "limit", "limit=50", least=0)
            expect_within(offset, int, "offset", "offset=50", least=0)
            named = None if concepts is None else {c.keyword for c in checked_concepts(concepts)}
            wanted = {} if metadata is None else checked_metadata(metadata)
        newest = Newest(offset + limit)
        async for placed in self._all_facts():
            is_named = named is None or placed.fact.concept.keyword in named
            if is_named and includes(placed.fact.metadata, wanted):
                newest.add(placed)
        return RecordPage(newest.sorted()[offset:], offset=offset, total=newest.total)

    async def get(self, fact_id: str) -> PlacedFact | None:
        """Return the current fact with this id, from any place of the memory; or None."""
        async with aclosing(self._all_facts()) as found:
            async for placed in found:
                if placed.fact.id == fact_id:
                    return placed
        return None

    async def update(
        self,
        fact_id: str,
        *,
        value: Any = ...,
        values: Iterable[Any] | EllipsisType = ...,
        metadata: Mapping[str, JsonValue] | EllipsisType = ...,
        importance: float | EllipsisType = ...,
        expires_at: datetime | EllipsisType | None = ...,
        source: FactSource | EllipsisType | None = ...,
    ) -> PlacedFact | None:
        """Change a fact in one atomic step and return it; None if no current fact has the id.

        The fact keeps its id, and its history contains each version. Omitted fields do not change,
        but new values remove the old source, because it does not prove them.

        Args:
            fact_id: The id of the fact, as `records` returns it.
            value: The new value, for a concept with one value.
            values: The new values, for a concept with many values; all others are forgotten.
            metadata: The new metadata, which replaces the old; `{}` removes it.
            importance: From 0 to 1.
            expires_at: When the fact expires; None for never.
            source: The source of the new values.

        Raises:
            ValueError: A value does not fit the concept, or no change was passed.
            MemoryAccessError: The view is read-only.
        """
        async with self._events.before(MemoryOperation.SAVE):
            from factmem.memory._records import checked_changes, update_record  # needless for facts

            store = fact_store(self._provider)
            changes = checked_changes(
                value=value,
                values=values,
                metadata=metadata,
                importance=importance,
                expires_at=expires_at,
                source=source,
            )
        placed = await self.get(fact_id)
        if placed is None or not await update_record(store, placed, changes):
            return None
        return await self.get(fact_id)

    async def delete(self, *fact_ids: str, purge: Purge = False) -> Forgotten:
        """Forget facts by their ids, in all places of the memory.

        Returns the number of forgotten values. `purge` also removes them from history; see
        `forget`.
        """
        async with self._events.before(MemoryOperation.FORGET):
            store = fact_store(self._provider)
        places = await store.places() if fact_ids else []
        return Forgotten.total(
            [
                await store.forget(info.subject, info.scope, fact_ids=fact_ids, purge=purge)
                for info in places
            ]
        )

    async def history(self, fact_id: str) -> History:
        """Return the history of one record, oldest first; empty if no place ever had it.

        It contains saves and updates, confirmations of its values, and deletions. Values are plain
        JSON. A deleted record is found as long as its history is stored.
        """
        async with self._events.before(MemoryOperation.HISTORY):
            from factmem.memory._records import record_history  # needless for facts

            store = fact_store(self._provider)
        places = [info.place for info in await store.places()]
        return await record_history(store, places, fact_id)

    async def forget(
        self,
        *,
        purge: Purge = False,
        subjects: Iterable[MemorySubject] | None = None,
        scopes: Iterable[ScopeChoice] | None = None,
        **conditions: Unpack[ForgetConditions[T]],
    ) -> Forgotten:
        """Forget the current values that meet all conditions, and return their number; see `delete`.

        Without current ones, it forgets those of the concepts that have held before: then no
        question about another time finds them.

        It searches the places of `subjects` and `scopes`, by default the memory's own. Places are
        written in sequence: if one fails, the values forgotten in others stay forgotten, and the
        call can be repeated.

        Args:
            purge: Also remove the values from history. `quoting` of the result lists facts whose
                quotes contain them; `purge="quotes"` removes the values from these quotes.
                `mentioning` lists facts whose keyword, description or metadata contains them.
            subjects: The subjects to search; by default those of the memory.
            scopes: The scopes to search; by default all scopes of the memory.
            conditions: What selects the values, such as `concept` and `value`. `ForgetConditions` has
                all of them.

        Raises:
            UnboundSubjectError: A subject is per entity and has no entity. Nothing was forgotten.
            MemoryAccessError: One of the places is not writable in this view. Nothing was
                forgotten.
            ValueError: No condition was passed, `value` was passed without `concept`, or
                `older_than` is naive. Nothing was forgotten.
        """
        # All places are checked before the first write: a rejected call forgets nothing.
        async with self._events.before(MemoryOperation.FORGET) as operation:
            store = fact_store(self._provider)
            those = None if subjects is None else checked_subjects(subjects)
            where = None if scopes is None else self._selection.profile.scopes(scopes)
            operation.places = self._selection.requested(those, where)
            places = self._selection.writable_places(those, where)
        counts: list[int] = []
        for place in places:
            count = await store.forget(place.subject, place.scope, purge=purge, **conditions)
            counts.append(count)
        return Forgotten.total(counts)

    async def reset(self, *, confirm: bool = False, everything: bool = False) -> ResetReport:
        """Erase all places of a view, or of the whole store, with their history.

        Without `confirm` nothing is erased, and the report lists the places that would be. Places
        are erased physically, in sequence. If one fails, those before it are erased, and the call
        can be repeated. `memory.store.erase` erases a single place.

        Args:
            confirm: Whether to erase.
            everything: Whether to allow erasing the whole store, if the memory is not a view.

        Raises:
            ValueError: The memory is not a view, and `everything` is not set.
            MemoryAccessError: The view is read-only, and `confirm` is set. Nothing was read.
        """
        async with self._events.before(MemoryOperation.ERASE):
            store = fact_store(self._provider)
            self._check_erasable(confirm=confirm, everything=everything)
        found = await store.places()
        receipts: list[ErasureReceipt] = []
        if confirm:
            for info in found:
                receipts.append(await store.erase(info.subject, info.scope))  # noqa: PERF401
        return ResetReport(found, receipts)

    def _check_erasable(self, *, confirm: bool, everything: bool) -> None:
        if self._selection.boundary == UNBOUNDED and not everything:
            raise ValueError(
                "This would erase the whole store: create a view of the places to erase, as in "
                "memory.view(subjects=[USER.of('alice')]).contents.reset(confirm=True), or pass "
                "everything=True"
            )
        if confirm and self._selection.boundary.is_read_only:
            raise MemoryAccessError(
                "This view is read-only, so nothing in it can be erased: use the memory that the "
                "view was created from"
            )

    async def _all_facts(self) -> AsyncGenerator[PlacedFact]:
        """Yield all current facts; a fixed number of places is read at a time."""
        places = [info.place for info in await self.places()]
        for first in range(0, len(places), _AT_ONCE):
            for each in await self._parts.reader.as_stored(places[first : first + _AT_ONCE]):
                yield each
