"""What a memory does, told to listeners: one event at the end of every operation."""

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterable, Sequence
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from inspect import isawaitable
from time import perf_counter
from typing import Any, TypeAlias
from uuid import uuid4

from anyio import move_on_after

from factmem._arguments import expect
from factmem.errors import ChatModelError, ExtractionError
from factmem.models.facts import AnyFact
from factmem.models.places import Place
from factmem.usage import Usage

__all__ = [
    "LISTENER_SECONDS",
    "EventListener",
    "MemoryEvent",
    "MemoryEvents",
    "MemoryOperation",
    "OperationInProgress",
    "correlated",
]


LISTENER_SECONDS = 5.0
"""How long an asynchronous listener may take; then it is cancelled, and the operation goes on."""

_LOG = logging.getLogger(__name__)
_CORRELATION: ContextVar[str | None] = ContextVar("factmem_correlation", default=None)


class MemoryOperation(StrEnum):
    """What a memory can do."""

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
    """Values that mean the same were looked for, or merged."""
    RESTORE = "restore"
    """What was merged was brought back."""
    EMBED = "embed"
    """An embedder was asked once, on behalf of a recall."""


@dataclass(frozen=True, slots=True)
class MemoryEvent:
    """The end of one operation, by which it was completed or failed."""

    operation: MemoryOperation
    correlation_id: str
    """The same for an operation and all that it caused, and for all in one `correlated` block."""
    started_at: datetime
    milliseconds: float
    places: tuple[Place, ...] = ()
    """Where it wrote or looked; a listing names none."""
    count: int = 0
    """How many values were saved, found, forgotten or erased; for a listing, how many places, and
    for a request to an embedder, how many texts."""
    erased: int = 0
    """How many values were found and not recorded, as their place was erased meanwhile."""
    llm_calls: int = 0
    """How many requests to a chat model it took."""
    input_tokens: int = 0
    """Tokens of their prompts, where the endpoint says."""
    output_tokens: int = 0
    """Tokens of their answers, where the endpoint says."""
    embedding_calls: int = 0
    """How many requests to an embedder it took."""
    error_type: str | None = None
    """The name of the exception's class that ended it; None when it was completed."""
    facts: tuple[AnyFact, ...] | None = field(default=None, repr=False)
    """What was saved or found; None unless values were asked for."""
    text: str | None = field(default=None, repr=False)
    """What was searched for; None unless values were asked for."""

    @property
    def is_failed(self) -> bool:
        """Whether it was ended by an exception, a cancellation included."""
        return self.error_type is not None


EventListener: TypeAlias = Callable[[MemoryEvent], Awaitable[object] | object]
"""A function of an event, sync or async. A sync one runs on the event loop and must not block."""


@dataclass(slots=True)
class OperationInProgress:
    """What is known so far of an operation: what does it fills it in."""

    places: Sequence[Place] = ()
    count: int = 0
    erased: int = 0
    llm_calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    embedding_calls: int = 0
    facts: list[AnyFact] = field(default_factory=list[AnyFact])
    text: str | None = None
    is_handed_over: bool = False
    """Whether it goes on elsewhere, and ends there: then its end here is no event."""

    def spent(self, usage: Usage) -> None:
        """Note what calls to a chat model cost, besides what is noted already."""
        self.llm_calls += usage.calls
        self.input_tokens += usage.input_tokens
        self.output_tokens += usage.output_tokens

    def found(self, facts: Iterable[AnyFact]) -> None:
        """Note facts that were read or are to be written; each of their values counts."""
        self.facts = list(facts)
        self.count = sum(len(fact.values) for fact in self.facts)


class MemoryEvents:
    """Tells listeners of operations.

    Listeners are called one after the other when an operation has ended, before its caller goes
    on. One that raises, or takes longer than five seconds, is reported to the log of
    `factmem.events` by its name and the kind of error, without a value, and harms nothing else. A
    cancelled operation is told as well.

    Args:
        listeners: Who is told.
        include_values: Whether events hold facts and queries.
    """

    def __init__(
        self, listeners: Iterable[EventListener] = (), *, include_values: bool = False
    ) -> None:
        self._listeners = tuple(listeners)
        self._include_values = include_values

    def __bool__(self) -> bool:
        """Whether anybody listens."""
        return bool(self._listeners)

    @asynccontextmanager
    async def operation(
        self, operation: MemoryOperation, places: Sequence[Place] = ()
    ) -> AsyncGenerator[OperationInProgress]:
        """Hold an operation: the end of the block is its end, and one event."""
        seen = OperationInProgress(places)
        if not self._listeners:
            yield seen
            return
        correlation = _CORRELATION.get() or uuid4().hex
        started_at, start = datetime.now(UTC), perf_counter()
        error: str | None = None
        token = _CORRELATION.set(correlation)
        try:
            yield seen
        except BaseException as exc:
            error = type(exc).__name__
            seen.is_handed_over = False
            if isinstance(exc, ChatModelError | ExtractionError):
                seen.spent(exc.usage)
            raise
        finally:
            _CORRELATION.reset(token)
            if not seen.is_handed_over:
                values: dict[str, Any] = {}
                if self._include_values:
                    values = {"facts": tuple(seen.facts), "text": seen.text}
                await self._tell(
                    MemoryEvent(
                        operation,
                        correlation,
                        started_at,
                        milliseconds=(perf_counter() - start) * 1000,
                        places=tuple(seen.places),
                        count=0 if error else seen.count,
                        erased=seen.erased,
                        llm_calls=seen.llm_calls,
                        input_tokens=seen.input_tokens,
                        output_tokens=seen.output_tokens,
                        embedding_calls=seen.embedding_calls,
                        error_type=error,
                        **values,
                    )
                )

    @asynccontextmanager
    async def before(
        self, operation: MemoryOperation, places: Sequence[Place] = ()
    ) -> AsyncGenerator[OperationInProgress]:
        """Hold what comes before operations that are told of where they are done.

        What fails or is cancelled in the block is the end of the operation, and one event.
        """
        async with self.operation(operation, places) as seen:
            yield seen
            seen.is_handed_over = True

    async def _tell(self, event: MemoryEvent) -> None:
        for listener in self._listeners:
            try:
                told = listener(event)
                if isawaitable(told):
                    with move_on_after(LISTENER_SECONDS, shield=True) as limit:
                        await told
                    if limit.cancelled_caught:
                        _LOG.warning("The listener %s took too long", _name(listener))
            except Exception as exc:  # noqa: BLE001 - a listener must not break what it listens to
                _LOG.warning("The listener %s raised %s", _name(listener), type(exc).__name__)


@contextmanager
def correlated(correlation_id: str) -> Generator[None]:
    """Give all operations in a block one correlation id, such as that of a request.

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
