"""Guard: the checks and the events of one operation of a `GuardedStore`.

`GuardedStore` and `GuardedConversations` extend it; checks and listings stand here. The event of an
operation begins before its checks, so that a refused write is reported as well. A read outside the
boundary is a checkpoint and returns nothing, as for a place that was never written. Without a
boundary nothing is refused here, and only the events remain.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from datetime import datetime
from typing import Any, TypeVar

from anyio.lowlevel import checkpoint
from typing_extensions import override

from factmem.errors import MemoryAccessError
from factmem.events import MemoryEvents, MemoryOperation, OperationInProgress
from factmem.ledger.proposals import Proposal
from factmem.models.boundary import UNBOUNDED, Boundary, check_writable
from factmem.models.concepts import ConceptDefinition
from factmem.models.facts import AnyFact, Concept
from factmem.models.places import Identity, MemoryScope, MemorySubject, Place, identity_of
from factmem.providers._place_lists import checked_page, in_order, page_of
from factmem.providers.base import FactStore
from factmem.providers.results import PlaceInfo

C = TypeVar("C")

_AT_ONCE = 500
"""Places of a listing that one call reads."""


class _Unobserved(OperationInProgress):
    """An operation whose result nobody gets: the values of 10,000 facts are not counted."""

    @override
    def found(self, facts: Iterable[AnyFact]) -> None: ...


class Guard:
    """Restricts the operations of a store to a boundary and reports each one as one event.

    Args:
        store: The guarded store.
        boundary: The places that may be read and written; None for all.
        events: The listeners, if any.
    """

    def __init__(self, store: FactStore, boundary: Boundary | None, events: MemoryEvents) -> None:
        self._store = store
        self._given = boundary
        self._is_view = boundary is not None
        self._boundary = _boundary_of(store) if boundary is None else boundary
        self._events = events
        self._is_closed = False

    @property
    def boundary(self) -> Boundary:
        """The places that may be read and written."""
        return self._boundary

    def _at(
        self, operation: MemoryOperation, subject: MemorySubject, scope: MemoryScope
    ) -> AbstractAsyncContextManager[OperationInProgress]:
        """Return a context that reports an operation in one place."""
        if not self._events:  # saves two generators in a view without listeners
            return nullcontext(_Unobserved())
        return self._observed(operation, subject, scope)

    @asynccontextmanager
    async def _observed(
        self, operation: MemoryOperation, subject: MemorySubject, scope: MemoryScope
    ) -> AsyncGenerator[OperationInProgress]:
        async with self._events.operation(operation) as progress:
            progress.places = [Place(scope, subject)]
            yield progress

    @asynccontextmanager
    async def _writing(
        self, operation: MemoryOperation, subject: MemorySubject, scope: MemoryScope
    ) -> AsyncGenerator[OperationInProgress]:
        """Report an operation that writes to one place; raise if the boundary forbids it."""
        async with self._at(operation, subject, scope) as progress:
            self._check_open()
            if self._is_view:
                check_writable(Place(scope, subject), self._boundary)
            yield progress

    async def _change(
        self,
        call: Callable[[C, MemorySubject, MemoryScope], Awaitable[int]],
        change: C,
        subject: MemorySubject,
        scope: MemoryScope,
    ) -> int:
        """Do an operation that writes entries to one place, and report how many."""
        async with self._writing(MemoryOperation.SAVE, subject, scope) as operation:
            operation.count = await call(change, subject, scope)
            return operation.count

    async def _is_outside(self, subject: MemorySubject, scope: MemoryScope) -> bool:
        self._check_open()
        if not self._is_view or self._boundary.allows(identity_of(subject, scope)):
            return False
        await checkpoint()
        return True

    def _is_inside(self, places: Sequence[Place]) -> bool:
        return not self._is_view or all(self._boundary.allows(each.identity) for each in places)

    async def _places_inside(
        self,
        subjects: Iterable[MemorySubject] | None,
        scopes: Iterable[MemoryScope] | None,
    ) -> list[PlaceInfo]:
        """Return the places inside the boundary, without reading others."""
        wanted = self._boundary.narrowed(subjects=subjects, scopes=scopes)
        if wanted.is_wide and wanted.places is None:
            return in_order(await self._places_of_entities(wanted))
        listings = wanted.listings()
        if not listings:
            await checkpoint()
        found: list[PlaceInfo] = []
        for those, where in listings:
            found += await self._store.places(subjects=those, scopes=where)
        inside = [info for info in found if wanted.allows(info.place.identity)]
        return inside if len(listings) == 1 else in_order(inside)

    async def _places_of_entities(self, wanted: Boundary) -> list[PlaceInfo]:
        """Return the places inside, for a subject that stands for many entities.

        A store finds their names by an index, such as those of a tenant, and reads no others.
        """
        subjects, scopes = wanted.listed()
        listed = await self._store.list_places(subjects=subjects, scopes=scopes)
        found: list[PlaceInfo] = []
        for first in range(0, len(listed), _AT_ONCE):
            part = {each.identity: each for each in listed[first : first + _AT_ONCE]}
            infos = await self._store.places(
                subjects={each.subject for each in part.values()},
                scopes={each.scope for each in part.values()},
            )
            found += [info for info in infos if info.place.identity in part]
        return found

    async def concepts(self) -> list[ConceptDefinition]:
        """Return the definitions of the whole store: they contain nothing of a user."""
        self._check_open()
        return await self._store.concepts()

    async def define(self, concepts: Iterable[Concept[Any, Any]]) -> None:
        """Tell the store the concepts of a program, unless this is a read-only view."""
        self._check_open()
        if self._boundary.is_read_only:
            raise MemoryAccessError("This view is read-only, so it cannot define concepts")
        await self._store.define(concepts)

    async def begin(self, operation: str) -> datetime:
        """Return when an operation over the whole store was begun."""
        self._check_open()
        return await self._store.begin(operation)

    async def list_places(
        self,
        *,
        subjects: Iterable[MemorySubject] | None = None,
        scopes: Iterable[MemoryScope] | None = None,
        after: Place | None = None,
        limit: int | None = None,
    ) -> list[Place]:
        """Return a page of the places inside the boundary."""
        async with self._events.operation(MemoryOperation.LIST) as operation:
            self._check_open()
            found = await self._listed(subjects, scopes, after, limit)
            operation.count = len(found)
            return found

    async def proposals(
        self,
        subject: MemorySubject,
        scope: MemoryScope,
        *,
        concepts: Iterable[Concept[Any, Any]] = (),
    ) -> list[Proposal]:
        """Return what waits for a decision in a place inside the boundary."""
        async with self._at(MemoryOperation.LOAD, subject, scope) as operation:
            if await self._is_outside(subject, scope):
                return []
            found = await self._store.proposals(subject, scope, concepts=concepts)
            operation.found(each.fact for each in found)
            return found

    async def _listed(
        self,
        subjects: Iterable[MemorySubject] | None,
        scopes: Iterable[MemoryScope] | None,
        after: Place | None,
        limit: int | None,
    ) -> list[Place]:
        wanted = self._boundary.narrowed(subjects=subjects, scopes=scopes)
        if wanted.places is None:
            about, where = wanted.listed()
            return await self._store.list_places(
                subjects=about, scopes=where, after=after, limit=limit
            )
        # Each listing has some of the places, so the page is cut from all of them.
        first, most = checked_page(after, limit)
        found: list[Identity] = []
        for about, where in wanted.listings():
            listed = await self._store.list_places(subjects=about, scopes=where)
            found += filter(wanted.allows, (place.identity for place in listed))
        return list(map(Place.of_identity, page_of(found, first, most)))

    def _check_open(self) -> None:
        if self._is_closed:
            raise ValueError("This view of a store is closed: create a new one")


def _boundary_of(store: FactStore) -> Boundary:
    """Return the boundary of a store; unbounded if it has none."""
    boundary = getattr(store, "boundary", UNBOUNDED)
    return boundary if isinstance(boundary, Boundary) else UNBOUNDED
