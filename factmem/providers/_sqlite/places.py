"""SqlitePlaces: the places of a folder's database, with the part that differs from other databases.

`StoredPlaces` has the operations; here is what a file needs. A read that finds damage is repeated
on new connections. If the file was deleted or replaced, what was read before is forgotten. On a
full disk a write first empties the log, and what forgets also gives up the reserve. `warm` and
`has_extents` are for event loops: they use a connection of their own, and give up instead of
waiting.
"""

import sqlite3
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import TypeVar

from typing_extensions import override

from factmem.encryption.aes256gcm import Encryption
from factmem.models.places import Identity
from factmem.providers._backend import Decision, Erased, Present, StoreClock
from factmem.providers._sql.places import PlaceReader, View
from factmem.providers._sql.session import Session
from factmem.providers._sql.stored_places import StoredPlaces
from factmem.providers._sql.stores import Opening
from factmem.providers._sqlite import session as schema
from factmem.providers._sqlite.database import Database
from factmem.providers._sqlite.files import DamagedError, DiskFullError
from factmem.providers._sqlite.session import SqliteSession

R = TypeVar("R")

_LOOKS = 16
"""How often a file must seem damaged in a row until it counts as that."""

_WARM_PLACES = 1024
"""The places that are kept in memory."""

_FIND = "SELECT made, snapshot, last FROM places WHERE place = ?"

_FIND_OWNED = """
SELECT place, made, snapshot, last FROM places WHERE owner = ? AND place <> owner AND bytes > 0
"""

_FEW = 100
"""The conversations of a place that an event loop compares, in 0.1 ms."""


class SqliteTables:
    """The tables of a folder's database; see `Tables`."""

    has_checksums = True
    has_one_store = True
    version = schema.VERSION

    def __init__(self, root: Path) -> None:
        self._root = root

    def where(self, session: Session) -> str:
        """See `Tables.where`."""
        return repr(str(self._root.absolute()))

    def are_there(self, session: Session) -> bool:
        """See `Tables.are_there`: opening a connection has checked their version."""
        assert isinstance(session, SqliteSession)  # noqa: S101 - the only session of this dialect
        return session.db is not None

    def make(self, session: Session) -> None:
        """See `Tables.make`."""
        assert isinstance(session, SqliteSession)  # noqa: S101 - the only session of this dialect
        session.create()


class SqlitePlaces(StoredPlaces):
    """The places of one folder. Every method blocks, but `warm`; all are thread-safe.

    Args:
        database: The database of the folder.
        encryption: What wraps the key ring; None for a plain store.
        clock: The clock of the store.
        keep_history: How long older history is kept; None keeps it forever.
        must_exist: Whether a missing store is an error.
    """

    def __init__(
        self,
        database: Database,
        encryption: Encryption | None,
        clock: StoreClock,
        keep_history: timedelta | None,
        *,
        must_exist: bool = False,
    ) -> None:
        self.database = database
        self._file: tuple[int, int] | None = None
        """The file that was read last."""
        tables = SqliteTables(database.root)
        opening = Opening("default", encryption, tables, must_exist=must_exist)
        super().__init__(opening, clock, warm_places=_WARM_PLACES, keep_history=keep_history)

    @override
    def reading(self, session: Session) -> PlaceReader | None:
        """See `StoredPlaces.reading`; None if the session began before the store was made."""
        is_known = self.opening.known is not None
        is_late = is_known and not self.opening.tables.are_there(session)
        return None if is_late else super().reading(session)

    def _run(self, work: Callable[[Session, int], R]) -> R:
        return _steadily(lambda: self._read(work))

    def _read(self, work: Callable[[Session, int], R]) -> R:
        with self.database.snapshot() as session:
            self._check_file()
            return work(session, 0)

    def _write(self, work: Callable[[Session, int], R]) -> R:
        try:
            return _steadily(lambda: self._written(work))
        except DiskFullError:
            if not self.database.truncate():
                raise
            return _steadily(lambda: self._written(work))  # in the room of the log

    def _written(self, work: Callable[[Session, int], R]) -> R:
        with self.database.writing() as session:
            self._check_file()
            return work(session, 0)

    def _check_file(self) -> None:
        """Forget what was read from a file that was deleted or replaced since."""
        found = self.database.file
        if found != self._file:
            if self._file is not None:
                self.opening.reload()
                self._views.clear()
            self._file = found

    def present(self, identity: Identity, present: Present[R], keyword: str | None = None) -> R:
        # Opens the connection of `warm` here, as that takes I/O.
        _steadily(self.database.prepare_warm)
        return super().present(identity, present, keyword)

    def warm(self, identity: Identity, present: Present[R | None]) -> R | None:
        """See `StoredPlaces.warm`: it only compares the end of the place, in some microseconds."""
        view = self._views.known(identity)
        if view is None or not view.is_warm or not view.lock.acquire(blocking=False):
            return None
        try:
            if not self._is_current(identity, view):
                return None
            return present(view.ledger, self.now(view.ledger))
        finally:
            view.lock.release()

    def _is_current(self, identity: Identity, view: View) -> bool:
        """Whether a view has all that the database has of its place."""
        db, reader = self.database.warm(), self._reader
        if db is None:
            return False
        try:
            # Changes with each commit of another connection.
            version = self.database.epoch, *db.execute("PRAGMA data_version").fetchone()
            if view.found == version:
                return True
            if reader is None or reader.store is not self.opening.known:
                return False
            row = db.execute(_FIND, (reader.key(identity),)).fetchone()
            extent = None if view.position is None else view.position.extent
            is_same: bool = row == extent
            view.found = version if is_same else None
        except sqlite3.Error:
            return False
        else:
            return is_same
        finally:
            self.database.cool()

    @override
    def has_extents(self, identity: Identity, known: dict[bytes, tuple[int, ...]]) -> bool:
        """See `StoredPlaces.has_extents`."""
        reader = self._reader
        if reader is None or reader.store is not self.opening.known or len(known) > _FEW:
            return False
        db = self.database.warm()
        if db is None:
            return False
        try:
            rows = db.execute(_FIND_OWNED, (reader.key(identity),)).fetchmany(_FEW + 1)
        except sqlite3.Error:
            return False
        finally:
            self.database.cool()
        return {key: tuple(extent) for key, *extent in rows} == known

    @override
    def change(self, identity: Identity, decide: Decision) -> int:
        return self._on_full_disk(lambda: super(SqlitePlaces, self).change(identity, decide))

    @override
    def erase(self, identity: Identity, *, only_empty: bool = False) -> Erased:
        return self._on_full_disk(
            lambda: super(SqlitePlaces, self).erase(identity, only_empty=only_empty)
        )

    def _on_full_disk(self, call: Callable[[], R]) -> R:
        """Call a function that forgets; again with the room of the reserve if the disk is full."""
        try:
            return call()
        except DiskFullError:
            with self.database.reserve_given_up():
                return call()

    @override
    def keep_index(self, identity: Identity, index: bytes, version: str) -> bool:
        """See `StoredPlaces.keep_index`; an index that a busy store refuses is written later."""
        if not self.database.files.exists():
            return False
        with self.database.writing_soon():
            return super().keep_index(identity, index, version)

    def finish_erasure(self) -> bool:
        """Empty the log, which has copies of erased values; return whether a reader prevents that."""
        return not self.database.truncate()

    def rest(self, is_wanted: Callable[[], bool]) -> None:
        """Finish erasures that a reader had prevented."""
        if not is_wanted() and self.database.has_remains():
            self.database.truncate(0.0)

    def close(self) -> None:
        """Close the database; the last process that does so removes the log."""
        if self.database.has_remains():
            self.database.truncate(0.0)
        self.database.close()


def _steadily(call: Callable[[], R]) -> R:
    """Call a function; again on a new connection if the file seems damaged.

    SQLite reports a read that the disk refused as damage. A damaged file stays damaged.
    """
    for _ in range(_LOOKS - 1):
        try:
            return call()
        except DamagedError:
            time.sleep(0.001)
    return call()
