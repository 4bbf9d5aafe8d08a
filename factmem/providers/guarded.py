"""A store wrapper that enforces a boundary and reports operations to event listeners."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from datetime import datetime, timedelta
from types import EllipsisType
from typing import Any, Self, TypeVar

from anyio.lowlevel import checkpoint
from typing_extensions import override

from factmem.events import MemoryEvents, MemoryOperation
from factmem.ledger.entries import Amendment, Edit, Entry
from factmem.ledger.history import HistoryEntry
from factmem.ledger.replay import CurrentChange
from factmem.models.boundary import Boundary
from factmem.models.facts import AnyFact, Concept, L
from factmem.models.places import MemoryScope, MemorySubject, Place
from factmem.models.sources import FactSource
from factmem.models.values import JsonValue
from factmem.providers._place_lists import in_order
from factmem.providers.base import AgentMemoryProvider, FactStore
from factmem.providers.erasures import erasing
from factmem.providers.guarded_provider import GuardedProvider
from factmem.providers.indexed import FollowedStore, IndexedStore, PlaceChanges
from factmem.providers.learning import Learned, LearningStore, Moment, RetractedFact, learn, moment
from factmem.providers.results import ErasureReceipt, PlaceInfo, Purge
from factmem.providers.searched import Describe, SearchAnswer, SearchedStore, SearchQuestion

__all__ = ["GuardedStore", "guarded"]


T = TypeVar("T")


def guarded(
    provider: AgentMemoryProvider, boundary: Boundary | None, events: MemoryEvents
) -> AgentMemoryProvider:
    """Restrict a provider to a boundary, and report its operations to listeners.

    Returns the provider itself if there are no boundary and no listeners, except for a store whose
    erasures running detections could not notice otherwise. The wrapper of a provider that is not a
    `FactStore` has only the four methods of `AgentMemoryProvider`, because other methods cannot be
    guarded.
    """
    is_store = isinstance(provider, FactStore)
    # A store that is not a LearningStore is always wrapped, so that its erasures are noticed.
    if boundary is None and not events and (isinstance(provider, LearningStore) or not is_store):
        return provider
    if isinstance(provider, FactStore):
        return GuardedStore(provider, boundary, events)
    return GuardedProvider(provider, boundary, events)


class GuardedStore(
    GuardedProvider, FactStore, IndexedStore, FollowedStore, LearningStore, SearchedStore
):
    """A wrapper that restricts a `FactStore` to a boundary and reports each operation as one event.

    See `GuardedProvider`. Places outside the boundary are not listed, counted or exported. A bundle
    with such a place is not imported: `import_facts` raises `MemoryAccessError` before it writes
    anything. Reading versions and indexes is not reported.

    Args:
        store: The wrapped store. A wrapper without a boundary closes it; one with a boundary does
            not.
        boundary: The places that may be read and written; None for all.
        events: The listeners, if any.
    """

    def __init__(self, store: FactStore, boundary: Boundary | None, events: MemoryEvents) -> None:
        super().__init__(store, boundary, events)
        self._store = store
        self._indexed = store if isinstance(store, IndexedStore) else None
        self._followed = store if isinstance(store, FollowedStore) else None
        self._searched = store if isinstance(store, SearchedStore) else None
        self._is_closed = False

    @override
    async def save_many(
        self, facts: Iterable[AnyFact], subject: MemorySubject, scope: MemoryScope
    ) -> None:
        async with self._writing(MemoryOperation.SAVE, subject, scope) as operation:
            is_several = isinstance(facts, Iterable)  # the store raises for anything else
            given = list(facts) if is_several else facts
            await self._store.save_many(given, subject, scope)
            operation.found(given)

    @override
    async def moment(self, subject: MemorySubject, scope: MemoryScope) -> Moment:
        if await self._is_outside(subject, scope):
            return Moment(None)
        return await moment(self._store, subject, scope)

    @override
    async def learn(
        self,
        facts: Iterable[AnyFact],
        subject: MemorySubject,
        scope: MemoryScope,
        *,
        retracted: Iterable[RetractedFact] = (),
        since: Moment | None = None,
    ) -> Learned:
        async with self._writing(MemoryOperation.SAVE, subject, scope) as operation:
            given, ended = list(facts), list(retracted)
            learned = await learn(self._store, given, subject, scope, retracted=ended, since=since)
            operation.found([] if learned.is_erased else given)
            return learned

    @override
    async def load(
        self,
        concept: Concept[Any, L],
        subject: MemorySubject,
        scope: MemoryScope,
        *,
        as_of: datetime | None = None,
    ) -> list[L]:
        async with self._at(MemoryOperation.LOAD, subject, scope) as operation:
            if await self._is_outside(subject, scope):
                return []
            facts = await self._store.load(concept, subject, scope, as_of=as_of)
            operation.found(facts)
            return facts

    @override
    async def load_all(
        self,
        subject: MemorySubject,
        scope: MemoryScope,
        *,
        concepts: Iterable[Concept[Any, Any]] = (),
        as_of: datetime | None = None,
    ) -> list[AnyFact]:
        async with self._at(MemoryOperation.LOAD, subject, scope) as operation:
            if await self._is_outside(subject, scope):
                return []
            facts = await self._store.load_all(subject, scope, concepts=concepts, as_of=as_of)
            operation.found(facts)
            return facts

    @override
    async def history(
        self, concept: Concept[Any, Any], subject: MemorySubject, scope: MemoryScope
    ) -> list[HistoryEntry]:
        async with self._at(MemoryOperation.HISTORY, subject, scope) as operation:
            if await self._is_outside(subject, scope):
                return []
            entries = await self._store.history(concept, subject, scope)
            operation.found(entry.fact for entry in entries if entry.fact is not None)
            return entries

    @override
    async def forget(
        self,
        subject: MemorySubject,
        scope: MemoryScope,
        *,
        concept: Concept[T, Any] | None = None,
        value: T | EllipsisType = ...,
        fact_id: str | None = None,
        source: FactSource | None = None,
        older_than: datetime | timedelta | None = None,
        concepts: Iterable[Concept[Any, Any]] | None = None,
        fact_ids: Iterable[str] | None = None,
        metadata: Mapping[str, JsonValue] | None = None,
        purge: Purge = False,
    ) -> int:
        async with (
            self._writing(MemoryOperation.FORGET, subject, scope) as operation,
            self._erasing(subject, scope, is_erasure=bool(purge)),
        ):
            count = await self._store.forget(
                subject,
                scope,
                concept=concept,
                value=value,
                fact_id=fact_id,
                source=source,
                older_than=older_than,
                concepts=concepts,
                fact_ids=fact_ids,
                metadata=metadata,
                purge=purge,
            )
            operation.count = int(count)
            return count

    @override
    async def erase(
        self, subject: MemorySubject, scope: MemoryScope, *, only_empty: bool = False
    ) -> ErasureReceipt:
        async with (
            self._writing(MemoryOperation.ERASE, subject, scope) as operation,
            self._erasing(subject, scope),
        ):
            receipt = await self._store.erase(subject, scope, only_empty=only_empty)
            operation.count = receipt.count or 0
            return receipt

    @override
    async def places(
        self,
        *,
        subjects: Iterable[MemorySubject] | None = None,
        scopes: Iterable[MemoryScope] | None = None,
    ) -> list[PlaceInfo]:
        async with self._events.operation(MemoryOperation.LIST) as operation:
            self._check_open()
            if self._is_view:
                found = await self._places_inside(subjects, scopes)
            else:
                found = await self._store.places(subjects=subjects, scopes=scopes)
            operation.count = len(found)
            return found

    async def _places_inside(
        self,
        subjects: Iterable[MemorySubject] | None,
        scopes: Iterable[MemoryScope] | None,
    ) -> list[PlaceInfo]:
        """Return the places inside the boundary, without reading others."""
        wanted = self._boundary.narrowed(subjects=subjects, scopes=scopes)
        listings = wanted.listings()
        if not listings:
            await checkpoint()
        found: list[PlaceInfo] = []
        for those, where in listings:
            found += await self._store.places(subjects=those, scopes=where)
        inside = [info for info in found if wanted.allows(info.place.identity)]
        return inside if len(listings) == 1 else in_order(inside)

    @override
    async def entries(self, subject: MemorySubject, scope: MemoryScope) -> list[Entry]:
        async with self._at(MemoryOperation.HISTORY, subject, scope) as operation:
            if await self._is_outside(subject, scope):
                return []
            entries = await self._store.entries(subject, scope)
            operation.count = len(entries)
            return entries

    @override
    async def replay(
        self, entries: Sequence[Entry], subject: MemorySubject, scope: MemoryScope
    ) -> int:
        async with self._writing(MemoryOperation.SAVE, subject, scope) as operation:
            operation.count = await self._store.replay(entries, subject, scope)
            return operation.count

    @override
    async def amend(self, change: Amendment, subject: MemorySubject, scope: MemoryScope) -> int:
        async with self._writing(MemoryOperation.SAVE, subject, scope) as operation:
            operation.count = await self._store.amend(change, subject, scope)
            return operation.count

    @override
    async def amend_current(
        self, change: CurrentChange, subject: MemorySubject, scope: MemoryScope
    ) -> int:
        async with self._writing(MemoryOperation.SAVE, subject, scope) as operation:
            operation.count = await self._store.amend_current(change, subject, scope)
            return operation.count

    @override
    async def rewrite(self, edit: Edit, subject: MemorySubject, scope: MemoryScope) -> int:
        async with self._writing(MemoryOperation.SAVE, subject, scope) as operation:
            operation.count = await self._store.rewrite(edit, subject, scope)
            return operation.count

    @override
    async def version(self, subject: MemorySubject, scope: MemoryScope) -> str | None:
        if await self._is_outside(subject, scope):
            return ""
        return None if self._indexed is None else await self._indexed.version(subject, scope)

    @override
    async def changes(
        self,
        subject: MemorySubject,
        scope: MemoryScope,
        *,
        since: str,
        concepts: Iterable[Concept[Any, Any]] = (),
    ) -> PlaceChanges | None:
        if self._followed is None or await self._is_outside(subject, scope):
            return None
        async with self._at(MemoryOperation.LOAD, subject, scope) as operation:
            changes = await self._followed.changes(subject, scope, since=since, concepts=concepts)
            if changes is None:
                operation.is_handed_over = True  # the caller now loads the whole place
                return None
            facts = (fact for found in changes.facts.values() for fact in found)
            operation.found(fact for fact in facts if not isinstance(fact, str))
            return changes

    @override
    async def read_index(self, subject: MemorySubject, scope: MemoryScope) -> bytes | None:
        if self._indexed is None or await self._is_outside(subject, scope):
            return None
        return await self._indexed.read_index(subject, scope)

    @override
    async def write_index(
        self, subject: MemorySubject, scope: MemoryScope, index: bytes, *, version: str
    ) -> bool:
        # Allowed in a read-only view, because an index is not a fact.
        if self._indexed is None or await self._is_outside(subject, scope):
            return False
        return await self._indexed.write_index(subject, scope, index, version=version)

    @override
    async def is_searched(self, places: Sequence[Place]) -> bool:
        self._check_open()
        if self._searched is None or not self._is_inside(places):
            return False  # the recall reads the places instead
        return await self._searched.is_searched(places)

    @override
    async def facts_to_embed(
        self,
        subject: MemorySubject,
        scope: MemoryScope,
        *,
        model: str,
        dimensions: int,
        limit: int,
    ) -> Mapping[bytes, AnyFact]:
        if self._searched is None or await self._is_outside(subject, scope):
            return {}
        return await self._searched.facts_to_embed(
            subject, scope, model=model, dimensions=dimensions, limit=limit
        )

    @override
    async def add_vectors(
        self,
        subject: MemorySubject,
        scope: MemoryScope,
        vectors: Mapping[bytes, Sequence[float] | None],
        *,
        model: str,
        dimensions: int,
    ) -> None:
        # Allowed in a read-only view, because a vector is not a fact.
        if self._searched is not None and not await self._is_outside(subject, scope):
            await self._searched.add_vectors(
                subject, scope, vectors, model=model, dimensions=dimensions
            )

    @override
    async def candidates(
        self, places: Sequence[Place], question: SearchQuestion, describe: Describe
    ) -> SearchAnswer:
        self._check_open()
        if self._searched is None or not self._is_inside(places):
            await checkpoint()
            return SearchAnswer((), {})
        async with self._events.operation(MemoryOperation.LOAD, places) as operation:
            answer = await self._searched.candidates(places, question, describe)
            operation.count = len(answer.candidates)
            return answer

    def _is_inside(self, places: Sequence[Place]) -> bool:
        return not self._is_view or all(self._boundary.allows(each.identity) for each in places)

    @override
    async def aclose(self) -> None:
        if self._is_view:
            await checkpoint()
            self._is_closed = True
        else:
            await self._store.aclose()

    async def __aenter__(self) -> Self:
        self._check_open()
        if not self._is_view:
            await self._store.__aenter__()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.aclose()

    def _erasing(
        self, subject: MemorySubject, scope: MemoryScope, *, is_erasure: bool = True
    ) -> AbstractAsyncContextManager[None]:
        """Announce an erasure to detections in this process if the store does not record it."""
        if not is_erasure or isinstance(self._store, LearningStore):
            return nullcontext()
        return erasing(self._store, subject, scope)

    def _check_open(self) -> None:
        if self._is_closed:
            raise ValueError("This view of a store is closed: create a new one")
