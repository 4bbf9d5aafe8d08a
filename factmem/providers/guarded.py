"""A provider of which only a part is there: the one place where views are enforced."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any, Self, TypeVar

from anyio.lowlevel import checkpoint

from factmem.ledger.entries import Amendment, Entry
from factmem.ledger.history import HistoryEntry
from factmem.models.boundary import Boundary, check_writable
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
    identity_of,
)
from factmem.models.sources import FactSource
from factmem.providers.base import (
    AgentMemoryProvider,
    ErasureReceipt,
    FactStore,
    PlaceInfo,
)
from factmem.providers.indexed import (
    FollowedStore,
    IndexedStore,
    PlaceChanges,
)

__all__ = ["ViewedProvider", "ViewedStore", "viewed"]


L = TypeVar("L", bound="SingleFact[Any] | MultipleFacts[Any]")


def viewed(provider: AgentMemoryProvider, boundary: Boundary) -> AgentMemoryProvider:
    """Return a provider of which only what lies inside a boundary is there.

    A `FactStore` gives a `ViewedStore`. Of a backend that is none, only the four methods of
    `AgentMemoryProvider` are there, whatever else it has: what is not known cannot be guarded.
    """
    if isinstance(provider, FactStore):
        return ViewedStore(provider, boundary)
    return ViewedProvider(provider, boundary)


class ViewedProvider:
    """An `AgentMemoryProvider` that holds nothing but what lies inside a boundary.

    Reading outside gives nothing, exactly as a place does that was never written; the provider
    behind is not asked. Writing outside, or at all when the boundary is read-only, raises
    `MemoryAccessError` before the provider behind is asked.

    Args:
        provider: Where facts are. It stays its maker's to close.
        boundary: What is there.
    """

    def __init__(self, provider: AgentMemoryProvider, boundary: Boundary) -> None:
        self._provider = provider
        self._boundary = boundary

    @property
    def boundary(self) -> Boundary:
        """What is there."""
        return self._boundary

    async def save(self, fact: AnyFact, subject: MemorySubject, scope: MemoryScope) -> None:
        """See `AgentMemoryProvider.save`.

        Raises:
            MemoryAccessError: The place cannot be written through this view.
        """
        check_writable(Place(scope, subject), self._boundary)
        await self._provider.save(fact, subject, scope)

    async def load(
        self, concept: Concept[Any, L], subject: MemorySubject, scope: MemoryScope
    ) -> list[L]:
        """See `AgentMemoryProvider.load`."""
        if await self._is_outside(subject, scope):
            return []
        return await self._provider.load(concept, subject, scope)

    async def load_all(self, subject: MemorySubject, scope: MemoryScope) -> list[AnyFact]:
        """See `AgentMemoryProvider.load_all`."""
        if await self._is_outside(subject, scope):
            return []
        return await self._provider.load_all(subject, scope)

    async def load_by_description(
        self, description: str, subject: MemorySubject, scope: MemoryScope
    ) -> list[AnyFact]:
        """See `AgentMemoryProvider.load_by_description`."""
        if await self._is_outside(subject, scope):
            return []
        return await self._provider.load_by_description(description, subject, scope)

    async def _is_outside(self, subject: MemorySubject, scope: MemoryScope) -> bool:
        if self._boundary.allows(identity_of(subject, scope)):
            return False
        await checkpoint()
        return True


class ViewedStore(ViewedProvider):
    """A `FactStore` that holds nothing but what lies inside a boundary; see `ViewedProvider`.

    Places outside are not listed, not counted and not exported. A bundle that has one is not
    imported: `import_facts` raises `MemoryAccessError` before it writes anything.

    Args:
        store: Where facts are. Closing the view does not close it.
        boundary: What is there.
    """

    def __init__(self, store: FactStore, boundary: Boundary) -> None:
        super().__init__(store, boundary)
        self._store = store
        self._indexed = store if isinstance(store, IndexedStore) else None
        self._followed = store if isinstance(store, FollowedStore) else None
        self._is_closed = False

    async def save(self, fact: AnyFact, subject: MemorySubject, scope: MemoryScope) -> None:
        """See `ViewedProvider.save`."""
        await self._writing(subject, scope).save(fact, subject, scope)

    async def save_many(
        self, facts: Iterable[AnyFact], subject: MemorySubject, scope: MemoryScope
    ) -> None:
        """See `FactStore.save_many`; raises `MemoryAccessError` as `save` does."""
        await self._writing(subject, scope).save_many(facts, subject, scope)

    async def load(
        self,
        concept: Concept[Any, L],
        subject: MemorySubject,
        scope: MemoryScope,
        *,
        as_of: datetime | None = None,
    ) -> list[L]:
        """See `FactStore.load`."""
        if await self._is_outside(subject, scope):
            return []
        return await self._store.load(concept, subject, scope, as_of=as_of)

    async def load_all(
        self,
        subject: MemorySubject,
        scope: MemoryScope,
        *,
        concepts: Iterable[Concept[Any, Any]] = (),
        as_of: datetime | None = None,
    ) -> list[AnyFact]:
        """See `FactStore.load_all`."""
        if await self._is_outside(subject, scope):
            return []
        return await self._store.load_all(subject, scope, concepts=concepts, as_of=as_of)

    async def history(
        self, concept: Concept[Any, Any], subject: MemorySubject, scope: MemoryScope
    ) -> list[HistoryEntry]:
        """See `FactStore.history`."""
        if await self._is_outside(subject, scope):
            return []
        return await self._store.history(concept, subject, scope)

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
        """See `FactStore.forget`; raises `MemoryAccessError` as `save` does."""
        return await self._writing(subject, scope).forget(
            subject,
            scope,
            concept=concept,
            value=value,
            fact_id=fact_id,
            source=source,
            older_than=older_than,
            purge=purge,
        )

    async def erase(self, subject: MemorySubject, scope: MemoryScope) -> ErasureReceipt:
        """See `FactStore.erase`; raises `MemoryAccessError` as `save` does."""
        return await self._writing(subject, scope).erase(subject, scope)

    async def places(
        self,
        *,
        subjects: Iterable[MemorySubject] | None = None,
        scopes: Iterable[MemoryScope] | None = None,
    ) -> list[PlaceInfo]:
        """See `FactStore.places`; only those inside, and no others are read."""
        self._check_open()
        wanted = self._boundary.narrowed(subjects=subjects, scopes=scopes)
        listings = wanted.listings()
        if not listings:
            await checkpoint()
        found: list[PlaceInfo] = []
        for those, where in listings:
            found += await self._store.places(subjects=those, scopes=where)
        inside = [info for info in found if wanted.allows(info.place.identity)]
        return inside if len(listings) == 1 else sorted(inside, key=_by_identity)

    async def entries(self, subject: MemorySubject, scope: MemoryScope) -> list[Entry]:
        """See `FactStore.entries`."""
        if await self._is_outside(subject, scope):
            return []
        return await self._store.entries(subject, scope)

    async def replay(
        self, entries: Sequence[Entry], subject: MemorySubject, scope: MemoryScope
    ) -> int:
        """See `FactStore.replay`; raises `MemoryAccessError` as `save` does."""
        return await self._writing(subject, scope).replay(entries, subject, scope)

    async def amend(self, change: Amendment, subject: MemorySubject, scope: MemoryScope) -> int:
        """See `FactStore.amend`; raises `MemoryAccessError` as `save` does."""
        return await self._writing(subject, scope).amend(change, subject, scope)

    async def version(self, subject: MemorySubject, scope: MemoryScope) -> str | None:
        """See `IndexedStore.version`; None where the store behind cannot tell."""
        if await self._is_outside(subject, scope):
            return ""
        return None if self._indexed is None else await self._indexed.version(subject, scope)

    async def changes(
        self,
        subject: MemorySubject,
        scope: MemoryScope,
        *,
        since: str,
        concepts: Iterable[Concept[Any, Any]] = (),
    ) -> PlaceChanges | None:
        """See `FollowedStore.changes`; None where the store behind cannot tell."""
        if self._followed is None or await self._is_outside(subject, scope):
            return None
        return await self._followed.changes(subject, scope, since=since, concepts=concepts)

    async def read_index(self, subject: MemorySubject, scope: MemoryScope) -> bytes | None:
        """See `IndexedStore.read_index`."""
        if self._indexed is None or await self._is_outside(subject, scope):
            return None
        return await self._indexed.read_index(subject, scope)

    async def write_index(
        self, subject: MemorySubject, scope: MemoryScope, index: bytes, *, version: str
    ) -> bool:
        """See `IndexedStore.write_index`. An index is no fact: a read-only view keeps one too."""
        if self._indexed is None or await self._is_outside(subject, scope):
            return False
        return await self._indexed.write_index(subject, scope, index, version=version)

    async def aclose(self) -> None:
        """Close the view: later calls raise `ValueError`. The store behind it stays open."""
        await checkpoint()
        self._is_closed = True

    async def __aenter__(self) -> Self:
        self._check_open()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.aclose()

    async def _is_outside(self, subject: MemorySubject, scope: MemoryScope) -> bool:
        self._check_open()
        return await super()._is_outside(subject, scope)

    def _writing(self, subject: MemorySubject, scope: MemoryScope) -> FactStore:
        """Return the store behind, once it is sure that the place may be written."""
        self._check_open()
        check_writable(Place(scope, subject), self._boundary)
        return self._store

    def _check_open(self) -> None:
        if self._is_closed:
            raise ValueError("This view of a store is closed: make a new one")


def _by_identity(info: PlaceInfo) -> tuple[str, str, str, str]:
    kind, scope, subject, entity = info.place.identity
    return kind, scope, subject, entity or ""
