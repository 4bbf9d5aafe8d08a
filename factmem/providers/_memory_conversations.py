"""The conversations of an `InMemoryProvider`, in an SQLite database without a file."""

import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TypeVar

from factmem.ledger.entries import Edit
from factmem.models.boundary import UNBOUNDED
from factmem.models.places import Identity
from factmem.providers._backend import Present
from factmem.providers._clock import StoreClock
from factmem.providers._sql.conversations import StoredConversations
from factmem.providers._sql.rewriting import PlaceRewriter
from factmem.providers._sql.session import Session
from factmem.providers._sql.stored_places import StoredPlaces
from factmem.providers._sql.stores import Opening
from factmem.providers._sqlite import schema
from factmem.providers._sqlite.places import SqliteTables
from factmem.providers._sqlite.session import SqliteSession

R = TypeVar("R")

_WARM_PLACES = 1


class _MemoryPlaces(StoredPlaces):
    """The places of a database in memory, which is created by the first message."""

    copies_remain = False

    def __init__(self, clock: StoreClock) -> None:
        self._lock = threading.RLock()
        self.db: sqlite3.Connection | None = None
        opening = Opening("default", None, SqliteTables(Path("memory")))
        super().__init__(opening, clock, warm_places=_WARM_PLACES, keep_history=None)

    def _run(self, work: Callable[[Session, int], R]) -> R:
        with self._lock:
            return work(SqliteSession(self.db, self._create), 0)

    _write = _run

    def _create(self) -> sqlite3.Connection:
        self.db = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        schema.create(self.db)
        return self.db

    def warm(self, identity: Identity, present: Present[R | None]) -> R | None:
        """See `StoredPlaces.warm`: nobody asks for facts here."""
        return None

    def rest(self, is_wanted: Callable[[], bool]) -> None:
        """See `StoredPlaces.rest`: nothing waits."""

    def close(self) -> None:
        """See `StoredPlaces.close`."""
        if self.db is not None:
            with self._lock, closing(self.db):
                self.db = None

    __del__ = close


class MemoryConversations(StoredConversations):
    """The conversations of one store in memory. Thread-safe.

    Args:
        clock: The clock of the store.
    """

    def __init__(self, clock: StoreClock) -> None:
        self._memory = _MemoryPlaces(clock)
        super().__init__(self._memory, clock.recording)

    def edit(self, place: Identity, edit: Edit) -> None:
        """Apply an edit to all messages of a place."""

        def write(session: Session, _: int) -> None:
            reader = self._memory.reading(session)
            if reader is not None:
                writer = PlaceRewriter(reader, self._memory.opening)
                with session.transaction():
                    writer.edit_conversations(session, place, lambda _: edit)

        self._memory.write(write)

    def places(self) -> dict[Identity, tuple[int, int]]:
        """Return the places that have conversations, with their number and size."""
        infos = self._memory.places(UNBOUNDED)
        return {info.place.identity: (info.conversations, info.bytes) for info in infos}

    def erase(self, place: Identity) -> None:
        """Remove all conversations of a place."""
        self._memory.erase(place)
