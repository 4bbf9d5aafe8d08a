"""NoMemory: the store of an agent without memory. It stores nothing."""

from collections.abc import Callable, Iterable
from datetime import datetime
from logging import getLogger
from typing import Any, TypeVar

import orjson
from anyio.lowlevel import checkpoint
from typing_extensions import override

from factmem.ledger.entries import Entry
from factmem.models._checked import checked_concepts
from factmem.models.clock import TimeProvider, system_clock
from factmem.models.facts import Concept
from factmem.models.places import Identity, Place
from factmem.providers._backend import Decision, Erased, Extension, Present
from factmem.providers._clock import StoreClock
from factmem.providers._conversations import ConversingStore
from factmem.providers._sql.conversations import StoredConversations
from factmem.providers.in_memory import InlineBackend, MemoryPlaces

__all__ = ["NoMemory"]


R = TypeVar("R")

_logger = getLogger(__name__)


class NoMemory(ConversingStore):
    """A `FactStore` that stores nothing and returns nothing.

    It raises the same exceptions for wrong calls as every other store, so an application that works
    with it also works with memory. At debug level it logs each call with the names of the place and
    of the saved concepts. Safe for any number of tasks and threads.

    Args:
        clock: Returns the time for the receipts of `erase`; the system clock by default.
    """

    def __init__(self, *, clock: TimeProvider = system_clock) -> None:
        times = StoreClock(clock)
        super().__init__(_Nothing(MemoryPlaces(times), times))
        self._clock = clock

    @override
    async def define(self, concepts: Iterable[Concept[Any, Any]]) -> None:
        checked_concepts(concepts)
        await checkpoint()

    @override
    async def begin(self, operation: str) -> datetime:
        await checkpoint()
        return self._clock()


class _Nothing(InlineBackend):
    """A backend to which nothing is ever added."""

    @override
    async def present(
        self,
        identity: Identity,
        present: Present[R],
        *,
        until: str | None = None,
        keyword: str | None = None,
    ) -> R:
        await _called("load", identity)
        return await super().present(identity, present, until=until)

    @override
    async def entries(self, identity: Identity, use: Callable[[list[Entry]], R]) -> R:
        await _called("entries", identity)
        return use([])

    @override
    async def append(self, identity: Identity, body: bytes, *, since: object = None) -> None:
        await _called("save", identity, *(fact["keyword"] for fact in orjson.loads(body)["facts"]))

    @override
    async def change(self, identity: Identity, decide: Decision) -> int:
        await _called("forget", identity)
        return 0

    @override
    async def extend(self, identity: Identity, extend: Extension) -> int:
        extend([], self._clock.recording())  # this checks the entries
        await _called("append", identity)
        return 0

    @override
    async def erase(self, identity: Identity, *, only_empty: bool = False) -> Erased:
        await _called("erase", identity)
        return Erased(self._clock.now(), 0, 0)

    @override
    async def converse(self, call: Callable[[StoredConversations], R]) -> R:
        await checkpoint()
        return call(InlineBackend(MemoryPlaces(self._clock), self._clock).conversations)


async def _called(action: str, identity: Identity, *keywords: str) -> None:
    await checkpoint()
    if _logger.isEnabledFor(10):
        place = Place.of_identity(identity)
        _logger.debug("NoMemory: %s", " ".join((action, str(place), *keywords)))
