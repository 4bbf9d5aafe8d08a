"""Events of memory operations. Each operation ends in one event.

Code that runs an operation enters `MemoryEvents.operation` and fills the `OperationInProgress` that
it yields. At the end of the block this becomes a `MemoryEvent` and is passed to the listeners. A
context variable gives nested operations the correlation id of the outer one.
"""

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterable, Sequence
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from inspect import isawaitable
from secrets import token_hex
from time import perf_counter
from typing import TypeAlias

from anyio import move_on_after

from factmem._arguments import expect
from factmem.errors import ChatModelError, ExtractionError
from factmem.models.facts import AnyFact
from factmem.models.places import Place, present_actor
from factmem.usage import Usage

__all__ = ["MemoryEvent", "MemoryOperation", "correlated"]

LISTENER_SECONDS = 5.0
"""The most seconds that an asynchronous listener may take before it is cancelled."""

_LOG = logging.getLogger(__name__)
_CORRELATION: ContextVar[str | None] = ContextVar("factmem_correlation", default=None)


class MemoryOperation(StrEnum):
    """The operations that events report."""

    SAVE = "save"
    LOAD = "load"
    """Facts of one place were read, by concept, by description or all of them."""
    HISTORY = "history"
    """The history of a concept in one place was read, or the whole ledger of a place."""
    LIST = "list"
    """The places of a store were listed."""
    FORGET = "forget"
    ERASE = "erase"
    DETECT = "detect"
    REMEMBER = "remember"
    RECALL = "recall"
    CONSOLIDATE = "consolidate"
    """Values of the same meaning were searched for, or merged."""
    DEFINE = "define"
    """A memory compared its concepts with the definitions in the store."""
    EMBED = "embed"
    """One request to an embedder, for a recall or a detection."""
    CHAT = "chat"
    """One extraction by a chat model, for a detection or a merge: its requests, repeated ones
    included."""


@dataclass(frozen=True, slots=True)
class MemoryEvent:
    """One operation that completed or failed. It contains no facts and no queries."""

    operation: MemoryOperation
    correlation_id: str
    """Shared by an operation, the operations that it caused, and all in one `correlated` block."""
    started_at: datetime
    milliseconds: float
    places: tuple[Place, ...] = ()
    """The places that it read or wrote; none for a listing."""
    count: int = 0
    """The number of values that were saved, found, forgotten or erased; of places for a listing; of
    strings for a request to an embedder."""
    erased: int = 0
    """The number of detected values that were not saved, because their place was erased
    meanwhile."""
    llm_calls: int = 0
    """The number of requests to a chat model."""
    input_tokens: int = 0
    """Tokens of their prompts, if the endpoint reports them."""
    output_tokens: int = 0
    """Tokens of their answers, if the endpoint reports them."""
    embedding_calls: int = 0
    """The number of requests to an embedder."""
    concepts: tuple[str, ...] = ()
    """The keywords that the store knows with another definition: see `contents.definitions`."""
    actor: str | None = None
    """Who was named as acting."""
    reason: str | None = None
    error_type: str | None = None
    """The class name of the exception that the operation raised; None if it completed."""

    @property
    def is_failed(self) -> bool:
        """Whether the operation raised an exception or was cancelled."""
        return self.error_type is not None


EventListener: TypeAlias = Callable[[MemoryEvent], Awaitable[object] | object]
"""A sync or async function of an event. A sync one runs on the event loop and must not block."""


@dataclass(slots=True)
class OperationInProgress:
    """The result of an operation so far, filled in by the code that runs it."""

    places: Sequence[Place] = ()
    count: int = 0
    erased: int = 0
    llm_calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    embedding_calls: int = 0
    concepts: tuple[str, ...] = ()
    is_handed_over: bool = False
    """Whether other code continues the operation and reports its end."""

    def spent(self, usage: Usage) -> None:
        """Add the cost of calls to a chat model."""
        self.llm_calls += usage.calls
        self.input_tokens += usage.input_tokens
        self.output_tokens += usage.output_tokens

    def found(self, facts: Iterable[AnyFact]) -> None:
        """Count the values of the facts that were read or will be written."""
        self.count = sum(len(fact.values) for fact in facts)


class MemoryEvents:
    """Reports operations to listeners.

    Listeners are called one after the other when an operation ends, before its caller continues. If
    one raises or takes longer than five seconds, the logger `factmem.events` gets its name and the
    class of the error, without a value, and nothing else is affected. Cancelled operations are
    reported too.

    Args:
        listeners: The functions that receive events.
    """

    def __init__(self, listeners: Iterable[EventListener] = ()) -> None:
        self.listeners: tuple[EventListener, ...] = tuple(listeners)

    @asynccontextmanager
    async def operation(
        self, operation: MemoryOperation, places: Sequence[Place] = ()
    ) -> AsyncGenerator[OperationInProgress]:
        """Report the operation in the block as one event when the block ends."""
        progress = OperationInProgress(places)
        if not self.listeners:
            yield progress
            return
        correlation = _CORRELATION.get() or token_hex(16)
        started_at, start, by = datetime.now(UTC), perf_counter(), present_actor()
        error: str | None = None
        token = _CORRELATION.set(correlation)
        try:
            yield progress
        except BaseException as exc:
            error = type(exc).__name__
            progress.is_handed_over = False
            if isinstance(exc, ChatModelError | ExtractionError):
                progress.spent(exc.usage)
            raise
        finally:
            _CORRELATION.reset(token)
            if not progress.is_handed_over:
                await self._notify(
                    MemoryEvent(
                        operation,
                        correlation,
                        started_at,
                        milliseconds=(perf_counter() - start) * 1000,
                        places=tuple(progress.places),
                        count=0 if error else progress.count,
                        erased=progress.erased,
                        llm_calls=progress.llm_calls,
                        input_tokens=progress.input_tokens,
                        output_tokens=progress.output_tokens,
                        embedding_calls=progress.embedding_calls,
                        concepts=progress.concepts,
                        actor=by.actor,
                        reason=by.reason,
                        error_type=error,
                    )
                )

    @asynccontextmanager
    async def before(
        self, operation: MemoryOperation, places: Sequence[Place] = ()
    ) -> AsyncGenerator[OperationInProgress]:
        """Report the operation in the block only if it fails or is cancelled there.

        Use it for the preparation of work that reports its own end.
        """
        async with self.operation(operation, places) as progress:
            yield progress
            progress.is_handed_over = True

    async def _notify(self, event: MemoryEvent) -> None:
        for listener in self.listeners:
            try:
                outcome = listener(event)
                if isawaitable(outcome):
                    with move_on_after(LISTENER_SECONDS, shield=True) as limit:
                        await outcome
                    if limit.cancelled_caught:
                        _LOG.warning("The listener %s took too long", _name(listener))
            except Exception as exc:  # noqa: BLE001 - a listener must not break the operation
                _LOG.warning("The listener %s raised %s", _name(listener), type(exc).__name__)


@contextmanager
def correlated(correlation_id: str) -> Generator[None]:
    """Give all operations in a block one correlation id, such as the id of a request.

    Raises:
        TypeError: It is not a string.
        ValueError: It is empty.
    """
    expect(correlation_id, str, "correlation_id", "with correlated(str(request_id)):")
    if not correlation_id:
        raise ValueError("correlation_id must not be empty: with correlated(str(request_id)):")
    token = _CORRELATION.set(correlation_id)
    try:
        yield
    finally:
        _CORRELATION.reset(token)


def _name(listener: EventListener) -> str:
    name = getattr(listener, "__qualname__", None)
    return name if isinstance(name, str) else type(listener).__qualname__
