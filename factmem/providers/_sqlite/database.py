"""SqliteDatabase: the connections to the database of a folder, and what keeps its files sound.

    writing()   the writer's connection; its transactions hold the lock of the store
    snapshot()  the reader's connection, in a read transaction; used in worker threads
    warm()      a third connection, for event loops: it never waits

Rules that measurements forced; none may be dropped:

1. The three files are opened through SQLite only. `close` of any other descriptor of the database
   drops all of SQLite's locks in this process. A new one is made under another name and linked.
2. A `Guard` keeps the locks if other code of the process does that.
3. One `FileLock` around each write, truncation and close. It survives what rule 2 is about, and it
   serializes checkpoints with writers, as the WAL-reset fault of SQLite 3.7.0 to 3.51.2 needs.
4. All connections are closed before a fork: SQLite keeps the state of its locks per process, and a
   connection of the child would believe in the locks of its parent.
5. After an I/O error the connection is dropped, and the file counts as damaged only if some new
   connections in a row find so too: SQLite reports a read that failed as damage.
6. `data_version` counts per connection, so caches are keyed by (epoch, data_version), and the epoch
   changes with each connection.
"""

import atexit
import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager, suppress
from functools import cache, partial
from typing import TypeVar

from factmem._concurrency import FileLock
from factmem.errors import StorageError, StoreBusyError
from factmem.providers._sql.session import Database, Session, View
from factmem.providers._sqlite.files import (
    DAMAGED,
    LOCK,
    ODD_VALUES,
    REFUSED,
    DamagedError,
    DatabaseFiles,
    DiskFullError,
    Guard,
    abandon,
    closed_on_error,
    code_of,
    pin,
    release_abandoned,
    unpin,
)
from factmem.providers._sqlite.gaps import Gaps, begin_snapshot
from factmem.providers._sqlite.session import VERSION, SqliteSession, create

R = TypeVar("R")

_MUTEXES = range(2, 14)
"""SQLITE_MUTEX_STATIC_*"""


def free_mutexes() -> None:
    """Reset the global mutexes of SQLite in a forked child, as `malloc` and Python do with theirs.

    If another thread was inside SQLite, for whatever database and library, its mutex would stay
    locked in the child. To take them before the fork would be a deadlock: Python's `sqlite3` frees
    memory under the interpreter's lock. They guard counters of memory, random numbers, and the list
    of open files, which a child does not share. No effect where SQLite is part of the interpreter.
    """
    with suppress(ImportError, AttributeError, OSError):
        import _sqlite3
        from ctypes import CDLL, PyDLL, c_int, c_void_p

        library, system = PyDLL(_sqlite3.__file__), CDLL(None)
        alloc, attempt, leave = (
            getattr(library, f"sqlite3_mutex_{name}") for name in ("alloc", "try", "leave")
        )
        alloc.argtypes, alloc.restype = [c_int], c_void_p
        attempt.argtypes = leave.argtypes = [c_void_p]
        system.pthread_mutex_init.argtypes = [c_void_p, c_void_p]
        for number in _MUTEXES:
            mutex = alloc(number)
            if mutex and attempt(mutex):  # its first member is a mutex of the system
                system.pthread_mutex_init(mutex, None)
            elif mutex:
                leave(mutex)


_PATIENCE = 0.05
"""Seconds to wait for the lock to write an index: longer than a save holds it; recalls wait too."""


_STEPS = 10_000
"""The steps of SQLite, some 0.2 ms, after which `apart` checks whether a thread is forking."""
_INTERRUPTIONS = 5
"""How often forks restart `apart` before they wait for it."""

_LOOKS = 16
"""How many new connections in a row must find a file damaged until it counts as damaged."""

_FIND = "SELECT made, snapshot, last FROM places WHERE place = ?"

_FIND_OWNED = """
SELECT place, made, snapshot, last FROM places WHERE owner = ? AND place <> owner AND bytes > 0
"""

_FEW = 100
"""The most conversations of a place that an event loop compares, in 0.1 ms."""


class _Connections:
    """The connections of a database and their guard, closed when it is dropped.

    The garbage collector finalizes the objects of a cycle in any order, and since Python 3.13 a
    connection warns if it is collected open. So they are an object that is in no cycle.
    """

    writer: sqlite3.Connection | None = None
    reader: sqlite3.Connection | None = None
    warm: sqlite3.Connection | None = None
    guard: Guard | None = None
    pin = -1

    def close(self) -> None:
        for db in (self.warm, self.reader, self.writer):
            if db is not None:
                with suppress(sqlite3.Error):
                    db.close()
        self.warm = self.reader = self.writer = None

    def drop(self) -> None:
        """Close the connections of a garbage-collected store; the next close empties the log."""
        self.close()
        if self.guard is not None:
            abandon(self.guard, self.pin)


class SqliteDatabase(Database):
    """The database of one folder. Thread-safe."""

    version = VERSION
    warm_places = 1024

    def __init__(self, files: DatabaseFiles, busy_timeout: float) -> None:
        self.files = files
        self._timeout = busy_timeout
        self.root = root = files.root
        self.epoch = 0
        """Changes whenever a connection is opened or the file is replaced."""
        self._lock = FileLock(str(root / LOCK), busy_timeout, is_fair=not files.allow_network)
        self._until = 0.0
        """The deadline of the current call, on the monotonic clock."""
        self.forks = 0
        """How many forks have closed the connections; `apart` ends when this changes."""
        self.start()
        with _forks:
            _databases.add(self)

    def start(self) -> None:
        """Begin without connections, as a forked child does again."""
        self.epoch += 1
        self._writing = threading.RLock()
        # Reentrant, as a callback under any of them may fork.
        self._reading = threading.RLock()
        self._warming = threading.RLock()
        self._db = _Connections()
        weakref.finalize(self, self._db.drop)
        self._pid = os.getpid()
        self._inode: tuple[int, int] | None = None
        self._is_fixed = False
        """Whether the folder is read-only and has no log, so that the file cannot change."""
        self._gaps = Gaps(self.files)

    # Tables

    def where(self, session: Session) -> str:
        return repr(str(self.root.absolute()))

    def make(self, session: Session) -> None:
        assert isinstance(session, SqliteSession)  # noqa: S101 - the only session of this dialect
        session.create()

    def check_mark(self, mark: bytes) -> None:
        self.files.check_mark(mark)

    # Work

    def read(self, work: Callable[[Session, int], R]) -> R:
        """See `Database.read`; repeated on new connections if the file seems damaged."""
        return _steadily(lambda: self._read(work))

    def _read(self, work: Callable[[Session, int], R]) -> R:
        if self._db.reader is not None:  # a program that reads once needs no other connection
            self.prepare_warm()
        with self.snapshot() as session:
            return work(session, 0)

    def apart(self, work: Callable[[Session, int], R]) -> R:
        """See `Database.apart`: on a connection of its own, which a fork closes."""
        other = SqliteDatabase(self.files, self._timeout)

        def read(forks: int | None) -> R:
            def give_way() -> None:
                if other.forks != forks:
                    raise StorageError("A fork of this process ended the work again and again")

            with other.snapshot() as session:
                if session.db is not None and forks is not None:
                    session.give_way = give_way
                    session.db.set_progress_handler(lambda: other.forks != forks, _STEPS)
                return work(session, 0)

        try:
            for _ in range(_INTERRUPTIONS):
                forks = other.forks
                try:
                    return _steadily(partial(read, forks))
                except StorageError:
                    if other.forks == forks:
                        raise
            return _steadily(partial(read, None))
        finally:
            other.close()

    def write(self, work: Callable[[Session, int], R]) -> R:
        """See `Database.write`; repeated after the log was emptied if the disk is full."""
        try:
            return _steadily(lambda: self._written(work))
        except DiskFullError:
            if not self.truncate():
                raise
            return _steadily(lambda: self._written(work))

    def _written(self, work: Callable[[Session, int], R]) -> R:
        with self.writing() as session:
            return work(session, 0)

    def forget(self, work: Callable[[Session, int], R]) -> R:
        """See `Database.forget`; repeated in the space of the reserve if the disk is full."""
        try:
            return self.write(work)
        except DiskFullError:
            with self.reserve_given_up():
                return self.write(work)

    def write_soon(self, work: Callable[[Session, int], R]) -> R:
        """See `Database.write_soon`; creates no file."""
        if not self.files.exists():
            return work(SqliteSession(None), 0)
        with self.writing_soon():
            return self.write(work)

    # Sessions

    @contextmanager
    def writing(self) -> Generator[SqliteSession]:
        """Yield the writer's session, which creates a missing database at its first write."""
        until = time.monotonic() + self._timeout
        with self._lock.turn(self._writing):
            self._until = until
            self._check_process()
            try:
                self._close_replaced()
                if self._db.writer is None and self.files.exists():
                    self._db.writer = self._open_writer()
                yield SqliteSession(self._db.writer, self._create, self._locked, file=self._inode)
            except sqlite3.Error as exc:
                self._db.writer = self._dropped(self._db.writer, exc)
                raise self.files.error_of(exc) from exc
            except ODD_VALUES as exc:
                self.files.check_sound(exc)
                raise
            finally:
                self._end_transaction()

    @contextmanager
    def _locked(self) -> Generator[None]:
        """Hold the lock of the store, and limit SQLite's own waiting to the time that is left."""
        with self._lock.held(until=self._until):
            db, left = self._db.writer, max(self._until - time.monotonic(), 0.0)
            if db is None or left > 0.9 * self._timeout:
                yield
                return
            db.execute(f"PRAGMA busy_timeout = {int(left * 1000)}")
            try:
                yield
            finally:
                with suppress(sqlite3.Error):
                    db.execute(f"PRAGMA busy_timeout = {int(self._timeout * 1000)}")

    def _end_transaction(self) -> None:
        """Close a connection that failed to roll back, as it would keep SQLite's lock."""
        if self._db.writer is not None and self._db.writer.in_transaction:
            self.epoch += 1
            with suppress(sqlite3.Error):
                self._db.writer.close()
            self._db.writer = None

    @contextmanager
    def writing_soon(self) -> Generator[None]:
        """Hold the store's lock; raise `StoreBusyError` if others hold it longer than a save."""
        with self._writing, self._lock.held(_PATIENCE):
            yield

    @contextmanager
    def unused(self) -> Generator[None]:
        """Hold the store while no process has the database open; see `DatabaseFiles.unused`."""
        with self._lock.turn(self._writing), self._reading, self._warming:
            self._check_process()
            self._close()
            with self.files.readable():
                self.files.make_folder()
            with self._lock.held(), self.files.unused():
                yield

    def _create(self) -> tuple[sqlite3.Connection, object]:
        self._db.writer = self._open_writer()
        return self._db.writer, self._inode

    @contextmanager
    def snapshot(self) -> Generator[SqliteSession]:
        """Yield a session that reads one snapshot of the database."""
        self._close_replaced()
        with self._reading:
            self._check_process()
            try:
                if self._db.reader is None:
                    self._db.reader = self._open_reader()
                db = self._db.reader
                if db is None:
                    yield SqliteSession(None)
                    return
                with self._pinned(db):
                    yield SqliteSession(db, renew=lambda: begin_snapshot(db), file=self._inode)
            except sqlite3.Error as exc:
                self._db.reader = self._dropped(self._db.reader, exc)
                raise self.files.error_of(exc) from exc
            except ODD_VALUES as exc:
                self.files.check_sound(exc)
                raise

    # For event loops

    def is_current(self, view: View, key: Callable[[], bytes | None]) -> bool:
        """See `Database.is_current`: some microseconds."""
        db = self.warm()
        if db is None:
            return False
        try:
            # SQLite changes `data_version` with each commit of another connection.
            version = self.epoch, *db.execute("PRAGMA data_version").fetchone()
            if view.found == version:
                return True
            if (place := key()) is None:
                return False
            is_same: bool = db.execute(_FIND, (place,)).fetchone() == view.end
            view.found = version if is_same else None
        except sqlite3.Error:
            return False
        else:
            return is_same
        finally:
            self.cool()

    def has_extents(self, key: bytes, known: dict[bytes, tuple[int, ...]]) -> bool:
        db = self.warm() if len(known) <= _FEW else None
        if db is None:
            return False
        try:
            rows = db.execute(_FIND_OWNED, (key,)).fetchmany(_FEW + 1)
        except sqlite3.Error:
            return False
        finally:
            self.cool()
        return {place: tuple(extent) for place, *extent in rows} == known

    @contextmanager
    def _pinned(self, db: sqlite3.Connection) -> Generator[None]:
        begin_snapshot(db)
        try:
            if self._db.pin >= 0:
                pin(self._db.pin)
                # Before the pin, other code may have dropped SQLite's locks, see rule 1, and
                # another process overwritten the log. Now none can: begin at its present state.
                begin_snapshot(db)
                pin(self._db.pin)  # what was refused if the log was being emptied
            yield
        finally:
            unpin(self._db.pin)
            with suppress(sqlite3.Error):
                if db.in_transaction:
                    db.execute("COMMIT")
            if self._is_fixed:  # an immutable file is read without locks, and others may write it
                db.close()
                self._db.reader = None

    def warm(self) -> sqlite3.Connection | None:
        """Return the event loops' connection, locked until `cool`; None if it is not free."""
        db = self._db.warm
        if db is None or self.files.identity() != self._inode or self._pid != os.getpid():
            return None
        if not self._warming.acquire(blocking=False):
            return None
        if self._db.warm is not db:
            self._warming.release()
            return None
        return db

    def cool(self) -> None:
        self._warming.release()

    def prepare_warm(self) -> None:
        """Open the connection for event loops, in a worker thread."""
        self._close_replaced()
        with self._warming:
            if self._db.warm is None and not self._is_fixed:
                self._db.warm = self._open_warm()

    def _open_warm(self) -> sqlite3.Connection | None:
        self._check_process()
        try:
            db = self._open_reader()
            if db is not None and self._is_fixed:
                db.close()
                return None
            if db is not None:
                with closed_on_error(db):
                    db.execute("PRAGMA busy_timeout = 0")
        except sqlite3.Error as exc:
            raise self.files.error_of(exc) from exc
        except ODD_VALUES as exc:
            self.files.check_sound(exc)
            raise
        return db

    # Opening

    def _open_writer(self) -> sqlite3.Connection:
        with closed_on_error(self.files.create(self._lock, self._until)) as db:
            self._inode = self.files.identity()
            self._guarded()
        return db

    def _open_reader(self) -> sqlite3.Connection | None:
        opened = self.files.open()
        if opened is None:
            return None
        db, self._is_fixed = opened
        with closed_on_error(db):
            self._inode = self.files.identity()
            if not self._is_fixed and self.files.is_ahead(db):
                self._guarded()
        return db

    def _guarded(self) -> None:
        if self._db.guard is None:
            with self.files.readable():
                self._db.guard = Guard.of(self.files.path)
            self._db.pin = -1 if self._db.guard is None else self._db.guard.take_pin()

    def _check_process(self) -> None:
        if self._pid != os.getpid():
            raise StorageError(
                "This process was forked by C code with the store open, so the locks of its "
                "database would not hold: fork by os.fork, or open the store in the child"
            )

    # Closing

    def rest(self, is_wanted: Callable[[], bool]) -> None:
        """Finish erasures that a reader prevented earlier."""
        if not is_wanted() and self.has_remains():
            self.truncate(0.0)

    def close(self) -> None:
        """Close all connections; the last one of all processes empties and removes the log."""
        if self.has_remains():
            self.truncate(0.0)
        with self._writing, self._reading, self._warming:
            self.close_locked()

    def close_locked(self) -> None:
        if self._db.guard is not None or self._db.writer is not None:
            # The last connection writes the log to the database, which needs the writers' lock.
            with suppress(StoreBusyError, StorageError), self._lock.held(1.0):
                self._close()
        self._close()
        self._lock.close()

    def _close(self) -> None:
        self.epoch += 1
        self._inode = None
        guard, self._db.guard = self._db.guard, None
        if guard is not None:
            guard.return_pin(self._db.pin)
            self._db.pin = -1
            guard.release()
        self._db.close()
        if guard is not None:
            guard.close()

    def _close_replaced(self) -> None:
        """Close a file that was deleted or replaced, which SQLite would continue to use."""
        if self._inode is None or self.files.identity() == self._inode:
            return
        with self._writing, self._reading, self._warming:
            if self._pid == os.getpid():
                self._close()

    def lock_for_fork(self) -> None:
        """Wait for work under way and close all connections, before a fork."""
        self.forks += 1
        self._writing.acquire()
        self._reading.acquire()
        self._warming.acquire()
        self.close_locked()

    def unlock_in_parent(self) -> None:
        self._warming.release()
        self._reading.release()
        self._writing.release()

    # Errors

    def _dropped(
        self, db: sqlite3.Connection | None, exc: sqlite3.Error
    ) -> sqlite3.Connection | None:
        """Close a connection after a disk failure, as its cached pages may be wrong."""
        if code_of(exc) in REFUSED:  # reopen all connections: access may be granted now
            self._inode = (-1, -1)
        if db is None or code_of(exc) not in (*DAMAGED, *REFUSED, sqlite3.SQLITE_IOERR):
            return db
        self.epoch += 1
        with suppress(sqlite3.Error):
            db.close()
        return None

    # Erasures

    def finish_erasure(self) -> bool:
        """Empty the log, which has copies of erased values; return whether a reader prevents it."""
        return not self.truncate()

    def truncate(self, seconds: float = 1.0) -> bool:
        """Empty the log into the database and clear gaps; False while a reader prevents it."""
        with self._writing:
            db = self._db.writer
            if db is None:
                return True
            try:
                with self._lock.held(max(seconds, 0.001)):
                    db.execute(f"PRAGMA busy_timeout = {int(seconds * 1000)}")
                    try:
                        changed = self._gaps.changed(db)
                        (busy, _, _) = db.execute("PRAGMA wal_checkpoint(truncate)").fetchone()
                        ((remains,),) = db.execute("SELECT max(remains) FROM stores").fetchall()
                        if not busy and remains:
                            return self._gaps.clear(db, changed, self._db.guard, self._inode)
                        return not busy
                    finally:
                        db.execute(f"PRAGMA busy_timeout = {int(self._timeout * 1000)}")
            except (sqlite3.Error, StorageError, OSError, ValueError):
                return False
            finally:
                self._end_transaction()

    @contextmanager
    def reserve_given_up(self) -> Generator[None]:
        """Free the reserve for an erasure on a full disk, and fill it again afterwards."""
        with self._writing:
            self.files.give_up_reserve()
            try:
                yield
            finally:
                self.truncate()
                self.files.fill_reserve()

    def has_remains(self) -> bool:
        """Whether an erasure could not empty the log."""
        with self._writing:
            try:
                row = self._db.writer and self._db.writer.execute("SELECT max(remains) FROM stores")
                return bool(row and (row.fetchone() or (0,))[0])
            except sqlite3.Error:
                return False


@cache
def _empty() -> sqlite3.Connection:
    """Return a database with empty tables; copying it is ten times as fast as creating them."""
    db = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    atexit.register(db.close)  # Python 3.13 warns of a connection that is open at exit
    create(db)
    return db


class MemoryDatabase(Database):
    """A database without a file, which the first write creates."""

    version = VERSION
    is_inline = True

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self.db: sqlite3.Connection | None = None

    def make(self, session: Session) -> None:
        assert isinstance(session, SqliteSession)  # noqa: S101 - the only session of this dialect
        session.create()

    def _create(self) -> tuple[sqlite3.Connection, object]:
        self.db = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        # Python 3.13 warns if a connection is collected open, and in a cycle it may be collected
        # before a `__del__` of this object could close it. Callers need not close such a store.
        weakref.finalize(self, self.db.close)
        with _forks:  # no fork during the copy, which holds mutexes of SQLite
            _empty().backup(self.db)
        return self.db, None

    def read(self, work: Callable[[Session, int], R]) -> R:
        with self._lock:
            return work(SqliteSession(self.db, self._create), 0)

    apart = write = forget = write_soon = read

    # `is_current` stays False: each call is then a checkpoint, so loops of loads let others run.

    def start_afresh(self) -> None:
        self._lock = threading.RLock()

    def close(self) -> None:
        if self.db is not None:
            with self._lock, closing(self.db):
                self.db = None


def _steadily(call: Callable[[], R]) -> R:
    """Call a function, repeatedly on new connections if the file seems damaged.

    SQLite also reports a failed read of the disk as damage. Real damage stays.
    """
    for _ in range(_LOOKS - 1):
        try:
            return call()
        except DamagedError:
            time.sleep(0.001)
    return call()


_databases: "weakref.WeakSet[SqliteDatabase]" = weakref.WeakSet()
_forks = threading.Lock()
"""Held during a fork, which closes all databases, and while a database is added to them."""
_held: list[SqliteDatabase] = []


def _before_fork() -> None:
    _forks.acquire()
    for database in list(_databases):
        _held.append(database)
        database.lock_for_fork()
    release_abandoned()


def _after_in_parent() -> None:
    while _held:
        _held.pop().unlock_in_parent()
    _forks.release()


def _after_in_child() -> None:
    if _held:
        free_mutexes()
    while _held:
        _held.pop().start()
    _forks.release()


if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(
        before=_before_fork, after_in_parent=_after_in_parent, after_in_child=_after_in_child
    )
