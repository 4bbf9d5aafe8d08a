"""A store in memory, for tests and short-lived agents: an SQLite database without a file."""

import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TypeVar

from anyio.lowlevel import checkpoint
from typing_extensions import override

from factmem.models.clock import TimeProvider, system_clock
from factmem.models.places import Identity
from factmem.providers._backend import Present
from factmem.providers._clock import StoreClock
from factmem.providers._conversations import ConversingStore
from factmem.providers._group_commit import EventLoop, Pending
from factmem.providers._sql.backend import SqlBackend
from factmem.providers._sql.erasures import Moment
from factmem.providers._sql.session import Session
from factmem.providers._sql.stored_places import StoredPlaces
from factmem.providers._sql.stores import Opening
from factmem.providers._sql.writing import Save
from factmem.providers._sqlite import schema
from factmem.providers._sqlite.places import SqliteTables
from factmem.providers._sqlite.session import SqliteSession
from factmem.providers.limits import PlaceLimit

__all__ = ["InMemoryProvider"]


R = TypeVar("R")

_WARM_PLACES = 10_000


class InMemoryProvider(ConversingStore):
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
        super().__init__(InlineBackend(MemoryPlaces(times), times), limit)


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


class MemoryPlaces(StoredPlaces):
    """The places of a database in memory, which is created by the first write."""

    copies_remain = False

    def __init__(self, clock: StoreClock) -> None:
        self._lock = threading.RLock()
        self.db: sqlite3.Connection | None = None
        opening = Opening("default", None, SqliteTables(Path("memory")))
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
