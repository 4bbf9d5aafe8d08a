"""A store in memory, for tests and short-lived agents: an SQLite database without a file.

NoMemory: the store of an agent without memory. It stores nothing.
"""

import sqlite3
import threading
from collections.abc import Callable, Iterable
from contextlib import closing
from datetime import datetime
from logging import getLogger
from pathlib import Path
from typing import Any, TypeVar

import orjson
from anyio.lowlevel import checkpoint
from typing_extensions import override

from factmem.ledger.entries import Entry
from factmem.ledger.ledger import Ledger
from factmem.models._checked import checked_concepts
from factmem.models.facts import Concept
from factmem.models.places import Identity, Place
from factmem.models.when import TimeProvider, system_clock
from factmem.providers._backend import Decision, Erased, Extension, Present, StoreClock
from factmem.providers._group_commit import EventLoop, Pending
from factmem.providers._sql.conversations import StoredConversations
from factmem.providers._sql.session import Session
from factmem.providers._sql.store import SqlBackend
from factmem.providers._sql.stored_places import StoredPlaces
from factmem.providers._sql.stores import Opening
from factmem.providers._sql.writing import Moment, Save
from factmem.providers._sqlite import session as schema
from factmem.providers._sqlite.places import SqliteTables
from factmem.providers._sqlite.session import SqliteSession
from factmem.providers.conversation_store import ConversationStore
from factmem.providers.results import PlaceLimit
from factmem.providers.store import FactStore

__all__ = ["InMemoryProvider", "NoMemory"]


R = TypeVar("R")

_WARM_PLACES = 10_000


class InMemoryProvider(FactStore):
    """A `FactStore` in memory. Its facts are lost with the instance.

    Safe for any number of tasks and threads, each with its own event loop. Every call is one
    checkpoint followed by one uninterrupted step, so a save that is cancelled at the checkpoint is
    not stored at all. The size of a place is that of its entries, `erase` has no key to destroy, and
    the function passed to `amend` runs on the event loop.

    Args:
        clock: Returns the time, as an aware datetime; the system clock by default.
        limit: The limit of each place; a save beyond it raises `PlaceFullError`.
    """

    def __init__(
        self, *, clock: TimeProvider = system_clock, limit: PlaceLimit | None = None
    ) -> None:
        times = StoreClock(clock)
        backend = InlineBackend(MemoryPlaces(times), times)
        super().__init__(backend, limit)
        self._conversations = ConversationStore(backend, self._enter_place, limit)


class InlineBackend(SqlBackend):
    """A backend whose operations need no threads, because they do no I/O."""

    @override
    async def append(self, identity: Identity, body: bytes, *, since: object = None) -> None:
        moment = since if isinstance(since, Moment) else None
        save = Pending(Save(identity, body, moment), EventLoop())
        await self.work(lambda: self.blocking.commit([save]))
        if save.error is not None:
            raise save.error

    @override
    async def close(self) -> None:
        await self.work(self.blocking.close)

    @override
    async def work(self, work: Callable[[], R]) -> R:
        await checkpoint()
        return work()


class _NoFile(SqliteTables):
    @override
    def where(self, session: Session) -> str:
        return ""


class MemoryPlaces(StoredPlaces):
    """The places of a database in memory, which is created by the first write."""

    copies_remain = False

    def __init__(self, clock: StoreClock) -> None:
        self._lock = threading.RLock()
        self.db: sqlite3.Connection | None = None
        opening = Opening("default", None, _NoFile(Path("memory")))
        super().__init__(opening, clock, warm_places=_WARM_PLACES, keep_history=None)

    @override
    def _run(self, work: Callable[[Session, int], R]) -> R:
        with self._lock:
            return work(SqliteSession(self.db, self._create), 0)

    _write = _run

    def _create(self) -> sqlite3.Connection:
        self.db = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        schema.create(self.db)
        return self.db

    @override
    def warm(self, identity: Identity, present: Present[R | None]) -> R | None:
        return None  # each call is a checkpoint: a loop of loads must let other tasks run

    @override
    def rest(self, is_wanted: Callable[[], bool]) -> None: ...

    @override
    def close(self) -> None:
        if self.db is not None:
            with self._lock, closing(self.db):
                self.db = None

    __del__ = close


_logger = getLogger(__name__)


class NoMemory(FactStore):
    """A `FactStore` that stores nothing and returns nothing.

    It raises the same exceptions for wrong calls as every other store, so an application that works
    with it also works with memory. At debug level it logs each call with the names of the place and
    of the saved concepts. Safe for any number of tasks and threads.

    Args:
        clock: Returns the time for the receipts of `erase`; the system clock by default.
    """

    def __init__(self, *, clock: TimeProvider = system_clock) -> None:
        times = StoreClock(clock)
        backend = _Nothing(MemoryPlaces(times), times)
        super().__init__(backend)
        self._conversations = ConversationStore(backend, self._enter_place, None)
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

    _nothing = Ledger()

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
        return present(self._nothing, self._clock.now())

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
