"""GuardedProvider: a provider wrapper that enforces a boundary and reports operations."""

from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from typing import Any

from anyio.lowlevel import checkpoint
from typing_extensions import override

from factmem.events import MemoryEvents, MemoryOperation, OperationInProgress
from factmem.models.boundary import UNBOUNDED, Boundary, check_writable
from factmem.models.facts import AnyFact, Concept, L
from factmem.models.places import MemoryScope, MemorySubject, Place, identity_of
from factmem.providers.base import AgentMemoryProvider

__all__ = ["GuardedProvider"]


class GuardedProvider(AgentMemoryProvider):
    """A wrapper that restricts a provider to a boundary and reports each operation as one event.

    A read outside the boundary returns nothing, as for a place that was never written, and does not
    call the wrapped provider. A write outside the boundary, or any write if the boundary is
    read-only, raises `MemoryAccessError` before the wrapped provider is called.

    Args:
        provider: The wrapped provider. The wrapper does not close it.
        boundary: The places that may be read and written; None for all.
        events: The listeners, if any.
    """

    def __init__(
        self, provider: AgentMemoryProvider, boundary: Boundary | None, events: MemoryEvents
    ) -> None:
        self._provider = provider
        self._is_view = boundary is not None
        self._boundary = _boundary_of(provider) if boundary is None else boundary
        self._events = events

    @property
    def boundary(self) -> Boundary:
        """The places that may be read and written."""
        return self._boundary

    @override
    async def save(self, fact: AnyFact, subject: MemorySubject, scope: MemoryScope) -> None:
        async with self._writing(MemoryOperation.SAVE, subject, scope) as operation:
            await self._provider.save(fact, subject, scope)
            operation.found([fact])

    @override
    async def load(
        self, concept: Concept[Any, L], subject: MemorySubject, scope: MemoryScope
    ) -> list[L]:
        async with self._at(MemoryOperation.LOAD, subject, scope) as operation:
            if await self._is_outside(subject, scope):
                return []
            facts = await self._provider.load(concept, subject, scope)
            operation.found(facts)
            return facts

    @override
    async def load_all(self, subject: MemorySubject, scope: MemoryScope) -> list[AnyFact]:
        async with self._at(MemoryOperation.LOAD, subject, scope) as operation:
            if await self._is_outside(subject, scope):
                return []
            facts = await self._provider.load_all(subject, scope)
            operation.found(facts)
            return facts

    @override
    async def load_by_description(
        self, description: str, subject: MemorySubject, scope: MemoryScope
    ) -> list[AnyFact]:
        async with self._at(MemoryOperation.LOAD, subject, scope) as operation:
            if await self._is_outside(subject, scope):
                return []
            facts = await self._provider.load_by_description(description, subject, scope)
            operation.found(facts)
            return facts

    def _at(
        self, operation: MemoryOperation, subject: MemorySubject, scope: MemoryScope
    ) -> AbstractAsyncContextManager[OperationInProgress]:
        """Return a context that reports an operation in one place."""
        if not self._events:  # saves two generators in a view without listeners
            return nullcontext(OperationInProgress())
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

    async def _is_outside(self, subject: MemorySubject, scope: MemoryScope) -> bool:
        self._check_open()
        if not self._is_view or self._boundary.allows(identity_of(subject, scope)):
            return False
        await checkpoint()
        return True

    def _check_open(self) -> None:
        """Raise if the view was closed. A provider without `aclose` is never closed."""


def _boundary_of(provider: AgentMemoryProvider) -> Boundary:
    """Return the boundary of a provider; unbounded if it has none."""
    boundary = getattr(provider, "boundary", UNBOUNDED)
    return boundary if isinstance(boundary, Boundary) else UNBOUNDED
