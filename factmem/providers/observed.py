"""A provider whose operations are told to listeners."""

from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Any, Self, TypeVar

from factmem.events import (
    MemoryEvents,
    MemoryOperation,
    OperationInProgress,
)
from factmem.ledger.entries import Amendment, Entry
from factmem.ledger.history import HistoryEntry
from factmem.models.boundary import UNBOUNDED, Boundary
from factmem.models.facts import (
    AnyFact,
    Concept,
    MultipleFacts,
    SingleFact,
)
from factmem.models.places import (
    MemoryScope,
    MemorySubject,
    Place,
)
from factmem.models.sources import FactSource
from factmem.providers.base import (
    AgentMemoryProvider,
    ErasureReceipt,
    FactStore,
    PlaceInfo,
)
from factmem.providers.indexed import FollowedStore, PlaceChanges

__all__ = ["ObservedProvider", "ObservedStore", "observed"]


L = TypeVar("L", bound="SingleFact[Any] | MultipleFacts[Any]")


def observed(provider: AgentMemoryProvider, events: MemoryEvents) -> AgentMemoryProvider:
    """Return a provider that tells of what it does; the same one where nobody listens.

    Of a backend that is no `FactStore`, only the four methods of `AgentMemoryProvider` are there.
    """
    if not events:
        return provider
    if isinstance(provider, FactStore):
        return ObservedStore(provider, events)
    return ObservedProvider(provider, events)


class ObservedProvider:
    """An `AgentMemoryProvider` that ends every operation in one event.

    Args:
        provider: What does the work. It stays its maker's to close.
        events: Who is told.
    """

    def __init__(self, provider: AgentMemoryProvider, events: MemoryEvents) -> None:
        self._provider = provider
        self._events = events

    @property
    def boundary(self) -> Boundary:
        """What is there: of a view its part, of any other provider everything."""
        boundary = getattr(self._provider, "boundary", UNBOUNDED)
        return boundary if isinstance(boundary, Boundary) else UNBOUNDED

    @asynccontextmanager
    async def _at(
        self, operation: MemoryOperation, subject: MemorySubject, scope: MemoryScope
    ) -> AsyncGenerator[OperationInProgress]:
        """Hold an operation in one place; that there is no such place ends it as well."""
        async with self._events.operation(operation) as seen:
            seen.places = [Place(scope, subject)]
            yield seen

    async def save(self, fact: AnyFact, subject: MemorySubject, scope: MemoryScope) -> None:
        """See `AgentMemoryProvider.save`."""
        async with self._at(MemoryOperation.SAVE, subject, scope) as seen:
            await self._provider.save(fact, subject, scope)
            seen.found([fact])

    async def load(
        self, concept: Concept[Any, L], subject: MemorySubject, scope: MemoryScope
    ) -> list[L]:
        """See `AgentMemoryProvider.load`."""
        async with self._at(MemoryOperation.LOAD, subject, scope) as seen:
            facts = await self._provider.load(concept, subject, scope)
            seen.found(facts)
            return facts

    async def load_all(self, subject: MemorySubject, scope: MemoryScope) -> list[AnyFact]:
        """See `AgentMemoryProvider.load_all`."""
        async with self._at(MemoryOperation.LOAD, subject, scope) as seen:
            facts = await self._provider.load_all(subject, scope)
            seen.found(facts)
            return facts

    async def load_by_description(
        self, description: str, subject: MemorySubject, scope: MemoryScope
    ) -> list[AnyFact]:
        """See `AgentMemoryProvider.load_by_description`."""
        async with self._at(MemoryOperation.LOAD, subject, scope) as seen:
            seen.text = description
            facts = await self._provider.load_by_description(description, subject, scope)
            seen.found(facts)
            return facts


class ObservedStore(ObservedProvider):
    """A `FactStore` that ends every operation in one event; see `ObservedProvider`.

    Args:
        store: What does the work. Closing this closes it.
        events: Who is told.
    """

    def __init__(self, store: FactStore, events: MemoryEvents) -> None:
        super().__init__(store, events)
        self._store = store
        self._followed = store if isinstance(store, FollowedStore) else None

    async def save_many(
        self, facts: Iterable[AnyFact], subject: MemorySubject, scope: MemoryScope
    ) -> None:
        """See `FactStore.save_many`."""
        async with self._at(MemoryOperation.SAVE, subject, scope) as seen:
            is_several = isinstance(facts, Iterable)  # what is not, the store refuses
            given = list(facts) if is_several else facts
            await self._store.save_many(given, subject, scope)
            seen.found(given)

    async def load(
        self,
        concept: Concept[Any, L],
        subject: MemorySubject,
        scope: MemoryScope,
        *,
        as_of: datetime | None = None,
    ) -> list[L]:
        """See `FactStore.load`."""
        async with self._at(MemoryOperation.LOAD, subject, scope) as seen:
            facts = await self._store.load(concept, subject, scope, as_of=as_of)
            seen.found(facts)
            return facts

    async def load_all(
        self,
        subject: MemorySubject,
        scope: MemoryScope,
        *,
        concepts: Iterable[Concept[Any, Any]] = (),
        as_of: datetime | None = None,
    ) -> list[AnyFact]:
        """See `FactStore.load_all`."""
        async with self._at(MemoryOperation.LOAD, subject, scope) as seen:
            facts = await self._store.load_all(subject, scope, concepts=concepts, as_of=as_of)
            seen.found(facts)
            return facts

    async def changes(
        self,
        subject: MemorySubject,
        scope: MemoryScope,
        *,
        since: str,
        concepts: Iterable[Concept[Any, Any]] = (),
    ) -> PlaceChanges | None:
        """See `FollowedStore.changes`: a load of what has changed; no event where none can tell."""
        if self._followed is None:
            return None
        async with self._at(MemoryOperation.LOAD, subject, scope) as seen:
            changes = await self._followed.changes(subject, scope, since=since, concepts=concepts)
            if changes is None:
                seen.is_handed_over = True  # to the reading of the whole place
                return None
            facts = (fact for found in changes.facts.values() for fact in found)
            seen.found(fact for fact in facts if not isinstance(fact, str))
            return changes

    async def history(
        self, concept: Concept[Any, Any], subject: MemorySubject, scope: MemoryScope
    ) -> list[HistoryEntry]:
        """See `FactStore.history`."""
        async with self._at(MemoryOperation.HISTORY, subject, scope) as seen:
            entries = await self._store.history(concept, subject, scope)
            seen.found(entry.fact for entry in entries if entry.fact is not None)
            return entries

    async def forget(
        self,
        subject: MemorySubject,
        scope: MemoryScope,
        *,
        concept: Concept[Any, Any] | None = None,
        value: object = ...,
        fact_id: str | None = None,
        source: FactSource | None = None,
        older_than: datetime | timedelta | None = None,
        purge: bool = False,
    ) -> int:
        """See `FactStore.forget`."""
        async with self._at(MemoryOperation.FORGET, subject, scope) as seen:
            seen.count = await self._store.forget(
                subject,
                scope,
                concept=concept,
                value=value,
                fact_id=fact_id,
                source=source,
                older_than=older_than,
                purge=purge,
            )
            return seen.count

    async def erase(self, subject: MemorySubject, scope: MemoryScope) -> ErasureReceipt:
        """See `FactStore.erase`."""
        async with self._at(MemoryOperation.ERASE, subject, scope) as seen:
            receipt = await self._store.erase(subject, scope)
            seen.count = receipt.count or 0
            return receipt

    async def places(
        self,
        *,
        subjects: Iterable[MemorySubject] | None = None,
        scopes: Iterable[MemoryScope] | None = None,
    ) -> list[PlaceInfo]:
        """See `FactStore.places`."""
        async with self._events.operation(MemoryOperation.LIST) as seen:
            found = await self._store.places(subjects=subjects, scopes=scopes)
            seen.count = len(found)
            return found

    async def entries(self, subject: MemorySubject, scope: MemoryScope) -> list[Entry]:
        """See `FactStore.entries`."""
        async with self._at(MemoryOperation.HISTORY, subject, scope) as seen:
            entries = await self._store.entries(subject, scope)
            seen.count = len(entries)
            return entries

    async def replay(
        self, entries: Sequence[Entry], subject: MemorySubject, scope: MemoryScope
    ) -> int:
        """See `FactStore.replay`."""
        async with self._at(MemoryOperation.SAVE, subject, scope) as seen:
            seen.count = await self._store.replay(entries, subject, scope)
            return seen.count

    async def amend(self, change: Amendment, subject: MemorySubject, scope: MemoryScope) -> int:
        """See `FactStore.amend`."""
        async with self._at(MemoryOperation.SAVE, subject, scope) as seen:
            seen.count = await self._store.amend(change, subject, scope)
            return seen.count

    async def aclose(self) -> None:
        """Close the store; that is no operation on facts, and no event."""
        await self._store.aclose()

    async def __aenter__(self) -> Self:
        await self._store.__aenter__()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self._store.__aexit__(*exc_info)
