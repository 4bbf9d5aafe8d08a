"""A store wrapper that enforces a boundary and reports operations to event listeners.

The parts of a memory, and of each of its views, get this and not the application's store, so that
none of their calls goes round the boundary. Each method checks, calls the method of the store with
the same name, and notes what the event needs. It keeps nothing that was read. A view never closes
the store, which the memory and other views use.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from datetime import datetime
from typing import Any, Self, TypeVar

from anyio.lowlevel import checkpoint
from typing_extensions import Unpack, override

from factmem.errors import MemoryAccessError
from factmem.events import MemoryEvents, MemoryOperation
from factmem.ledger._replay import CurrentChange
from factmem.ledger.entries import Amendment, Edit, Entry
from factmem.ledger.history import HistoryEntry
from factmem.models.boundary import Boundary
from factmem.models.facts import AnyFact, Concept, L
from factmem.models.places import MemoryScope, MemorySubject, Place
from factmem.models.when import WhenLike
from factmem.providers._conversations import GuardedConversations
from factmem.providers._four_methods import as_store
from factmem.providers._guard import Guard
from factmem.providers.base import AgentMemoryProvider, FactStore
from factmem.providers.conditions import ForgetConditions
from factmem.providers.erasures import erasing
from factmem.providers.results import (
    ErasureReceipt,
    Learned,
    Moment,
    PlaceChanges,
    PlaceInfo,
    Purge,
    RetractedFact,
    ShredReceipt,
)
from factmem.providers.searched import Describe, SearchAnswer, SearchQuestion, TextVectors

T = TypeVar("T")


def guarded(
    provider: AgentMemoryProvider, boundary: Boundary | None, events: MemoryEvents
) -> FactStore:
    """Restrict a provider to a boundary, and report its operations to listeners.

    Returns the provider itself if there are no boundary and no listeners, except for a store whose
    erasures running detections could not notice otherwise. A provider that is not a `FactStore`
    becomes one, so that no method of its own stays unguarded.
    """
    store = as_store(provider)
    # The erasures of a store with the default `moment` are only noticed if the wrapper announces
    # them. A wrapped provider of four methods cannot erase.
    is_noticed = getattr(type(store), "moment", None) is not FactStore.moment
    if boundary is None and not events and is_noticed:
        return store
    return GuardedStore(store, boundary, events)


class GuardedStore(Guard, FactStore):
    """A wrapper that restricts a `FactStore` to a boundary and reports each operation as one event.

    A read outside the boundary returns nothing, as for a place that was never written, and does not
    call the wrapped store. A write outside the boundary, or any write if the boundary is read-only,
    raises `MemoryAccessError` before the wrapped store is called. Places outside are not listed,
    counted or exported. A bundle with such a place is not imported: `import_facts` raises
    `MemoryAccessError` before it writes anything. Reading versions and indexes is not reported.

    Args:
        store: The wrapped store. A wrapper without a boundary closes it; one with a boundary does
            not.
        boundary: The places that may be read and written; None for all.
        events: The listeners, if any.
    """

    @property
    @override
    def small_provider(self) -> str | None:
        return self._store.small_provider

    @property
    @override
    def conversations(self) -> GuardedConversations:
        _ = self._store.conversations  # raises if it keeps none
        return GuardedConversations(self._store, self._given, self._events)

    @override
    async def save(self, fact: AnyFact, subject: MemorySubject, scope: MemoryScope) -> None:
        async with self._writing(MemoryOperation.SAVE, subject, scope) as operation:
            await self._store.save(fact, subject, scope)
            operation.found([fact])

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
        return await self._store.moment(subject, scope)

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
            learned = await self._store.learn(given, subject, scope, retracted=ended, since=since)
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
        valid_at: WhenLike | None = None,
    ) -> list[L]:
        async with self._at(MemoryOperation.LOAD, subject, scope) as operation:
            if await self._is_outside(subject, scope):
                return []
            facts = await self._store.load(concept, subject, scope, as_of=as_of, valid_at=valid_at)
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
        valid_at: WhenLike | None = None,
    ) -> list[AnyFact]:
        async with self._at(MemoryOperation.LOAD, subject, scope) as operation:
            if await self._is_outside(subject, scope):
                return []
            facts = await self._store.load_all(
                subject, scope, concepts=concepts, as_of=as_of, valid_at=valid_at
            )
            operation.found(facts)
            return facts

    @override
    async def load_by_description(
        self, description: str, subject: MemorySubject, scope: MemoryScope
    ) -> list[AnyFact]:
        async with self._at(MemoryOperation.LOAD, subject, scope) as operation:
            if await self._is_outside(subject, scope):
                return []
            facts = await self._store.load_by_description(description, subject, scope)
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
        purge: Purge = False,
        **conditions: Unpack[ForgetConditions[T]],
    ) -> int:
        async with (
            self._writing(MemoryOperation.FORGET, subject, scope) as operation,
            erasing(self._store, subject, scope) if purge else nullcontext(),
        ):
            count = await self._store.forget(subject, scope, purge=purge, **conditions)
            operation.count = int(count)
            return count

    @override
    async def erase(
        self, subject: MemorySubject, scope: MemoryScope, *, only_empty: bool = False
    ) -> ErasureReceipt:
        async with (
            self._writing(MemoryOperation.ERASE, subject, scope) as operation,
            erasing(self._store, subject, scope),
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

    @override
    async def entries(self, subject: MemorySubject, scope: MemoryScope) -> list[Entry]:
        async with self._at(MemoryOperation.HISTORY, subject, scope) as operation:
            if await self._is_outside(subject, scope):
                return []
            entries = await self._store.entries(subject, scope)
            operation.count = len(entries)
            return entries

    @override
    async def erased_at(self, subject: MemorySubject, scope: MemoryScope) -> datetime | None:
        if await self._is_outside(subject, scope):
            return None
        return await self._store.erased_at(subject, scope)

    @override
    async def replay(
        self, entries: Sequence[Entry], subject: MemorySubject, scope: MemoryScope
    ) -> int:
        return await self._change(self._store.replay, entries, subject, scope)

    @override
    async def amend(self, change: Amendment, subject: MemorySubject, scope: MemoryScope) -> int:
        return await self._change(self._store.amend, change, subject, scope)

    @override
    async def amend_current(
        self, change: CurrentChange, subject: MemorySubject, scope: MemoryScope
    ) -> int:
        return await self._change(self._store.amend_current, change, subject, scope)

    @override
    async def rewrite(self, edit: Edit, subject: MemorySubject, scope: MemoryScope) -> int:
        return await self._change(self._store.rewrite, edit, subject, scope)

    @override
    async def version(self, subject: MemorySubject, scope: MemoryScope) -> str | None:
        if await self._is_outside(subject, scope):
            return ""
        return await self._store.version(subject, scope)

    @override
    async def changes(
        self,
        subject: MemorySubject,
        scope: MemoryScope,
        *,
        since: str,
        concepts: Iterable[Concept[Any, Any]] = (),
    ) -> PlaceChanges | None:
        if await self._is_outside(subject, scope):
            return None
        async with self._at(MemoryOperation.LOAD, subject, scope) as operation:
            changes = await self._store.changes(subject, scope, since=since, concepts=concepts)
            if changes is None:
                operation.is_handed_over = True  # the caller now loads the whole place
                return None
            facts = (fact for found in changes.facts.values() for fact in found)
            operation.found(fact for fact in facts if not isinstance(fact, str))
            return changes

    @override
    async def read_index(self, subject: MemorySubject, scope: MemoryScope) -> bytes | None:
        if await self._is_outside(subject, scope):
            return None
        return await self._store.read_index(subject, scope)

    @override
    async def write_index(
        self, subject: MemorySubject, scope: MemoryScope, index: bytes, *, version: str
    ) -> bool:
        # Allowed in a read-only view, because an index is not a fact.
        if await self._is_outside(subject, scope):
            return False
        return await self._store.write_index(subject, scope, index, version=version)

    @override
    async def is_searched(self, places: Sequence[Place]) -> bool:
        self._check_open()
        if not self._is_inside(places):
            return False  # the recall reads the places instead
        return await self._store.is_searched(places)

    @override
    async def facts_to_embed(
        self, place: Place, *, model: str, dimensions: int, limit: int
    ) -> Mapping[bytes, AnyFact]:
        if await self._is_outside(place.subject, place.scope):
            return {}
        return await self._store.facts_to_embed(
            place, model=model, dimensions=dimensions, limit=limit
        )

    @override
    async def add_vectors(
        self, place: Place, vectors: TextVectors, *, model: str, dimensions: int
    ) -> None:
        # Allowed in a read-only view, because a vector is not a fact.
        if not await self._is_outside(place.subject, place.scope):
            await self._store.add_vectors(place, vectors, model=model, dimensions=dimensions)

    @override
    async def candidates(
        self, places: Sequence[Place], question: SearchQuestion, describe: Describe
    ) -> SearchAnswer:
        self._check_open()
        if not self._is_inside(places):
            await checkpoint()
            return SearchAnswer((), {})
        async with self._events.operation(MemoryOperation.LOAD, places) as operation:
            answer = await self._store.candidates(places, question, describe)
            operation.count = len(answer.candidates)
            return answer

    @override
    async def shred(self) -> ShredReceipt:
        self._check_open()
        if self._is_view:
            raise MemoryAccessError(
                "A view cannot destroy the keys of all places: call shred of the store itself"
            )
        return await self._store.shred()

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
