"""MemoryDatabase: an SQLite database without a file."""

import sqlite3
import threading
import weakref
from collections.abc import Callable
from contextlib import closing
from typing import TypeVar

from factmem.providers._backend import StoreClock
from factmem.providers._sql.database import View
from factmem.providers._sql.session import Session
from factmem.providers._sql.stored_places import StoredPlaces
from factmem.providers._sql.stores import Opening
from factmem.providers._sqlite import session as schema
from factmem.providers._sqlite.session import SqliteSession

R = TypeVar("R")


def memory_places(clock: StoreClock) -> StoredPlaces:
    return StoredPlaces(
        Opening("default", None, MemoryDatabase()),  # pyright: ignore[reportArgumentType]
        clock,
    )


class MemoryDatabase:
    has_checksums = True
    has_one_store = True
    version = schema.VERSION
    warm_places = 10_000
    is_inline = True
    shares_reads = False

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self.db: sqlite3.Connection | None = None

    def where(self, session: Session) -> str:
        return ""

    def check_mark(self, mark: bytes) -> None:
        """See `Database.check_mark`: nothing is encrypted."""

    def are_there(self, session: Session) -> bool:
        return not session.is_empty

    def make(self, session: Session) -> None:
        assert isinstance(session, SqliteSession)  # noqa: S101 - the only session of this dialect
        session.create()

    def _create(self) -> sqlite3.Connection:
        self.db = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        # Nobody needs to close a store in memory. Python 3.13 warns of a connection that is collected
        # open, and in a cycle it is collected before a `__del__` of this object could close it.
        weakref.finalize(self, self.db.close)
        schema.create(self.db)
        return self.db

    def read(self, work: Callable[[Session, int], R]) -> R:
        with self._lock:
            return work(SqliteSession(self.db, self._create), 0)

    apart = write = forget = write_soon = read

    def is_current(self, view: View, key: Callable[[], bytes | None]) -> bool:
        """See `Database.is_current`: each call is a checkpoint, so loops of loads let others run."""
        return False

    def has_extents(self, key: bytes, known: dict[bytes, tuple[int, ...]]) -> bool:
        return False

    def finish_erasure(self) -> bool:
        return False

    def rest(self, is_wanted: Callable[[], bool]) -> None:
        """See `Database.rest`: nothing waits."""

    def start_afresh(self) -> None:
        self._lock = threading.RLock()

    def close(self) -> None:
        if self.db is not None:
            with self._lock, closing(self.db):
                self.db = None
