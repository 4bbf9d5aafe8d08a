"""Database: the connections to the database of a folder, and what keeps its files sound.

    writing()   the writer's connection; its transactions hold the lock of the store
    snapshot()  the reader's connection, in a read transaction; used in worker threads
    warm()      a third connection, for event loops: it never waits

Rules that measurements forced; none may be dropped:

1. The three files are opened through SQLite only. `close` of any other descriptor of the database drops
   all of SQLite's locks in this process. A new database is made under another name and linked.
2. Guards (`guards.py`) keep the locks if other code of the process does that.
3. One `FileLock` around each write, truncation and close. It survives what rule 2 is about, and it
   serializes checkpoints with writers, as the WAL-reset fault of SQLite 3.7.0 to 3.51.2 needs.
4. All connections are closed before a fork: SQLite keeps the state of its locks per process, and a
   connection of the child would believe in the locks of its parent.
5. After an I/O error the connection is dropped, and the file counts as damaged only if a new
   connection finds so too.
6. `data_version` counts per connection, so caches are keyed by (epoch, data_version), and the epoch
   changes with each connection.
"""

import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from factmem.concurrency.file_lock import FileLock
from factmem.errors import CorruptJournalError, StorageError, StoreBusyError
from factmem.providers._sqlite import schema
from factmem.providers._sqlite.guards import Guard, pin, unpin
from factmem.providers._sqlite.network import network_file_system
from factmem.providers._sqlite.session import SqliteSession

NAME = "facts.db"

_PRAGMAS = (
    "synchronous = full",
    "fullfsync = on",  # macOS: fsync alone does not reach the disk there
    "checkpoint_fullfsync = on",
    "secure_delete = on",
    "cache_size = -16000",
    "trusted_schema = off",
    "cell_size_check = on",
)

_RESERVE = "reserve"
_RESERVED = 1 << 20
"""The bytes of a file that is given up on a full disk, because erasing needs room in the log."""

_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


class DiskFullError(StorageError):
    """There is no room for a write. Nothing was written."""


class Database:
    """The database of one folder. Thread-safe.

    Args:
        root: The folder.
        busy_timeout: How many seconds a write waits for the lock of the store.
        allow_network: Whether the folder may be on a network file system.
    """

    def __init__(self, root: Path, busy_timeout: float, *, allow_network: bool) -> None:
        self.root, self.path = root, root / NAME
        self._name = str(self.path)
        self._timeout = busy_timeout
        self._allow_network = allow_network
        self.epoch = 0
        """Changes with the connections, and with the file itself."""
        self._lock = FileLock(str(root / "lock"), busy_timeout)
        self._start()
        _databases.add(self)

    def _start(self) -> None:
        self.epoch += 1
        self._writing = threading.RLock()
        self._reading = threading.Lock()
        self._warming = threading.Lock()
        self._writer: sqlite3.Connection | None = None
        self._reader: sqlite3.Connection | None = None
        self._warm: sqlite3.Connection | None = None
        self._guard: Guard | None = None
        self._pin = -1
        self._pid = os.getpid()
        self._inode: tuple[int, int] | None = None
        self._is_fixed = False
        """Whether the folder is read-only and has no log, so that the file cannot change."""

    @property
    def file(self) -> tuple[int, int] | None:
        """What identifies the file that is open."""
        return self._inode

    # Sessions

    @contextmanager
    def writing(self) -> Generator[SqliteSession]:
        """Give the writer's session; a database that does not exist is created on demand."""
        self._close_replaced()
        with self._writing:
            self._check_process()
            try:
                self._close_replaced()
                if self._writer is None and self._exists():
                    self._writer = self._made()
                yield SqliteSession(self._writer, self._create, self._lock.held)
            except sqlite3.Error as exc:
                self._writer = self._dropped(self._writer, exc)
                raise self._verdict(exc) from exc

    def _create(self) -> sqlite3.Connection:
        self._writer = self._made()
        return self._writer

    @contextmanager
    def snapshot(self) -> Generator[SqliteSession]:
        """Give a session that reads one state of the database."""
        self._close_replaced()
        with self._reading:
            self._check_process()
            try:
                if self._reader is None:
                    self._reader = self._opened()
                db = self._reader
                if db is None:
                    yield SqliteSession(None)
                    return
                with self._pinned(db):
                    yield SqliteSession(db)
            except sqlite3.Error as exc:
                self._reader = self._dropped(self._reader, exc)
                raise self._verdict(exc) from exc

    @contextmanager
    def _pinned(self, db: sqlite3.Connection) -> Generator[None]:
        db.execute("BEGIN")
        try:
            db.execute("SELECT 1 FROM stores").fetchone()  # the snapshot begins with the first read
            pin(self._pin)
            yield
        finally:
            unpin(self._pin)
            with suppress(sqlite3.Error):
                if db.in_transaction:
                    db.execute("COMMIT")
            if self._is_fixed:  # the next writer may be another user's process
                db.close()
                self._reader = None

    def warm(self) -> "_Warm | None":
        """Return the connection for event loops, locked; None if that needs waiting.

        The caller releases it.
        """
        db = self._warm
        if db is None or self._found_inode() != self._inode or self._pid != os.getpid():
            return None
        if not self._warming.acquire(blocking=False):
            return None
        if self._warm is not db:
            self._warming.release()
            return None
        return _Warm(db, self._warming, self.epoch)

    def prepare_warm(self) -> None:
        """Open the connection for event loops, in a worker thread."""
        self._close_replaced()
        with self._warming:
            if self._warm is None and not self._is_fixed:
                self._warm = self._opened_warm()

    def _opened_warm(self) -> sqlite3.Connection | None:
        self._check_process()
        try:
            db = self._opened()
            if db is not None and self._is_fixed:
                db.close()
                return None
            if db is not None:
                db.execute("PRAGMA busy_timeout = 0")
        except sqlite3.Error as exc:
            raise self._verdict(exc) from exc
        return db

    # Opening

    def _exists(self) -> bool:
        """Whether there is a database. One that cannot be reached is not a missing one."""
        try:
            os.lstat(self.path)
        except FileNotFoundError:
            return False
        except NotADirectoryError:
            raise ValueError(f"{str(self.root)!r} is a file: pass the path of a folder") from None
        except OSError as exc:
            raise StorageError(f"{str(self.path)!r} cannot be reached: {exc.strerror}") from exc
        return True

    def _made(self) -> sqlite3.Connection:
        """Open the database for writing; create what is missing, readable by the owner only."""
        kind = None if self._allow_network else network_file_system(str(self.root))
        if kind is not None:
            raise StorageError(
                f"The folder {str(self.root)!r} is on a network file system ({kind}), where locks "
                f"between machines may not work: use a local folder, or pass "
                f"allow_network_folder=True if only one machine uses it"
            )
        try:
            made = [each for each in (self.root, *self.root.parents) if not each.exists()]
            self.root.mkdir(parents=True, exist_ok=True, mode=0o700)
            with self._lock.held():
                is_new = self._link_empty()
                db = self._connected("rw")
                try:
                    if is_new:
                        db.execute("PRAGMA auto_vacuum = incremental")
                    _set_wal(db)
                    schema.create(db)
                except BaseException:
                    db.close()
                    raise
                self._inode = self._found_inode()
                self._guarded()
                self._fill_reserve()
            if is_new or made:
                for folder in (self.root, *(each.parent for each in made)):
                    sync_folder(folder)
        except OSError as exc:
            raise StorageError(
                f"The store cannot be opened for writing: {exc.strerror}: {str(self.root)!r}. "
                f"Nothing was written"
            ) from exc
        return db

    def _link_empty(self) -> bool:
        """Create an empty database under another name, and link it; return whether it was missing.

        SQLite gives the log and its index the permissions of the database.
        """
        if self.path.is_symlink() or (self.path.exists() and not self.path.is_file()):
            raise CorruptJournalError(
                f"{str(self.path)!r} is not a regular file: remove it, or use another folder"
            )
        if self.path.exists():
            if not self.path.stat().st_size:
                self._check_not_emptied()
            return False
        made = self.root / f".facts-{os.getpid()}-{threading.get_ident()}"
        os.close(os.open(made, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        try:
            os.link(made, self.path)
        except FileExistsError:
            return False
        except OSError:  # no hard links; the lock of the store excludes other writers
            made.replace(self.path)
            return True
        finally:
            made.unlink(missing_ok=True)
        return True

    def _opened(self) -> sqlite3.Connection | None:
        """Open the database for reading; return None if nothing was saved yet."""
        if not self._exists():
            return None
        if self.path.is_symlink() or not self.path.is_file():
            raise CorruptJournalError(f"{str(self.path)!r} is not a regular file: remove it")
        self._is_fixed = False
        if os.access(self.path, os.W_OK) and os.access(self.root, os.W_OK):
            mode = "rw"
        elif self._has_log():
            mode = "ro"
        else:
            # The log cannot be created, and if there is none, the file does not change.
            mode, self._is_fixed = "ro&immutable=1", True
        db = self._connected(mode)
        if not schema.is_there(db, self.path):
            db.close()
            self._check_not_emptied()
            return None
        self._inode = self._found_inode()
        if mode == "rw":
            self._guarded()
        return db

    def _check_not_emptied(self) -> None:
        """Raise if an empty database had tables: the reserve is created after them."""
        if (self.root / _RESERVE).exists():
            raise CorruptJournalError(
                f"{str(self.path)!r} is empty: it was overwritten. Restore it from a backup, or delete "
                f"the folder to start with an empty store"
            )

    def _has_log(self) -> bool:
        with suppress(FileNotFoundError):
            return self.path.with_name(f"{NAME}-wal").stat().st_size > 0
        return False

    def _connected(self, mode: str) -> sqlite3.Connection:
        db = sqlite3.connect(
            f"{self.path.absolute().as_uri()}?mode={mode}",
            uri=True,
            isolation_level=None,
            check_same_thread=False,
            timeout=self._timeout,
            cached_statements=64,
        )
        for pragma in _PRAGMAS:
            db.execute(f"PRAGMA {pragma}")
        return db

    def _guarded(self) -> None:
        if self._guard is None:
            self._guard = Guard.of(self.path)
            self._pin = -1 if self._guard is None else self._guard.take_pin()

    def _found_inode(self) -> tuple[int, int] | None:
        try:
            found = os.lstat(self._name)
        except OSError:
            return None
        return found.st_dev, found.st_ino

    def _check_process(self) -> None:
        if self._pid != os.getpid():
            raise StorageError(
                "This process was forked by C code with the store open, so the locks of its database "
                "would not hold: fork by os.fork, or open the store in the child"
            )

    # Closing

    def close(self) -> None:
        """Close all connections; the last one of all processes empties and removes the log."""
        with self._writing, self._reading, self._warming:
            self.close_locked()

    def close_locked(self) -> None:
        """Close all connections; the caller holds the three locks."""
        if self._guard is not None or self._writer is not None:
            # The lock serializes the checkpoint of the last connection with writers.
            with suppress(StoreBusyError, StorageError), self._lock.held(1.0):
                self._close()
        self._close()
        self._lock.close()

    def _close(self) -> None:
        self.epoch += 1
        self._inode = None
        guard, self._guard = self._guard, None
        if guard is not None:
            guard.return_pin(self._pin)
            self._pin = -1
            guard.release()
        for db in (self._warm, self._reader, self._writer):
            if db is not None:
                with suppress(sqlite3.Error):
                    db.close()
        self._warm = self._reader = self._writer = None
        if guard is not None:
            guard.close()

    def _close_replaced(self) -> None:
        """Close a file that was deleted or replaced: SQLite would go on with the old one."""
        if self._inode is None or self._found_inode() == self._inode:
            return
        with self._writing, self._reading, self._warming:
            if self._pid == os.getpid():
                self._close()

    def lock_for_fork(self) -> None:
        """Wait for work under way and close all connections, before a fork."""
        self._writing.acquire()
        self._reading.acquire()
        self._warming.acquire()
        self.close_locked()

    def unlock_in_parent(self) -> None:
        """Go on in the parent; connections are opened again on demand."""
        self._warming.release()
        self._reading.release()
        self._writing.release()

    def start_in_child(self) -> None:
        """Go on in the child, which has no connections and only its own locks."""
        self._start()

    # Errors

    def _dropped(
        self, db: sqlite3.Connection | None, exc: sqlite3.Error
    ) -> sqlite3.Connection | None:
        """Close a connection after a failure of the disk: what it has in memory may be wrong."""
        if db is None or _code(exc) not in (*_DAMAGED, sqlite3.SQLITE_IOERR):
            return db
        self.epoch += 1
        with suppress(sqlite3.Error):
            db.close()
        return None

    def _verdict(self, exc: sqlite3.Error) -> Exception:
        """Return the error for one of SQLite's; it says "damaged" only if a new connection agrees."""
        name = getattr(exc, "sqlite_errorname", type(exc).__name__)
        if _code(exc) in _BUSY:
            return StoreBusyError(
                f"Another process held the database for {self._timeout:g} s: {str(self.path)!r}. "
                f"Nothing was written; try again, or allow more time with busy_timeout"
            )
        if _code(exc) in _DAMAGED:
            with suppress(sqlite3.Error):
                db = self._connected("ro")
                try:
                    if db.execute("PRAGMA quick_check(1)").fetchone() == ("ok",):
                        return StorageError(
                            f"{str(self.path)!r} could not be read, and is sound ({name}): try again"
                        )
                finally:
                    db.close()
            return CorruptJournalError(
                f"{str(self.path)!r} is damaged ({name}). Nothing was changed: restore it from a "
                f"backup, or save its readable places with `factmem salvage`"
            )
        if _code(exc) == sqlite3.SQLITE_FULL:
            return DiskFullError(
                f"The disk is full ({name}): {str(self.path)!r}. Nothing was written: free some room"
            )
        return StorageError(f"The database failed ({name}): {str(self.path)!r}")

    # Erasures

    def truncate(self, seconds: float = 1.0) -> bool:
        """Copy the log into the database and empty it; return False while a reader prevents it."""
        with self._writing:
            db = self._writer
            if db is None:
                return True
            try:
                with self._lock.held(max(seconds, 0.001)):
                    db.execute(f"PRAGMA busy_timeout = {int(seconds * 1000)}")
                    try:
                        (busy, _, _) = db.execute("PRAGMA wal_checkpoint(truncate)").fetchone()
                        if not busy:
                            # In the log again, and without any value.
                            db.execute("UPDATE stores SET remains = 0 WHERE remains = 1")
                    finally:
                        db.execute(f"PRAGMA busy_timeout = {int(self._timeout * 1000)}")
                    return not busy
            except (sqlite3.Error, StoreBusyError):
                return False

    @contextmanager
    def reserve_given_up(self) -> Generator[None]:
        """Free the reserve for an erasure on a full disk, and fill it again if there is room."""
        with self._writing:
            (self.root / _RESERVE).unlink(missing_ok=True)
            try:
                yield
            finally:
                self.truncate()
                self._fill_reserve()

    def _fill_reserve(self) -> None:
        path = self.root / _RESERVE
        if path.exists():
            return
        try:
            with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(bytes(_RESERVED))
        except OSError:  # the disk is full: the next opening tries again
            with suppress(OSError):
                path.unlink(missing_ok=True)

    def has_remains(self) -> bool:
        """Whether an erasure could not empty the log."""
        with self._writing:
            try:
                row = self._writer and self._writer.execute("SELECT max(remains) FROM stores")
                return bool(row and (row.fetchone() or (0,))[0])
            except sqlite3.Error:
                return False


class _Warm:
    """The connection for event loops, locked until `release`."""

    __slots__ = ("_epoch", "_lock", "db")

    def __init__(self, db: sqlite3.Connection, lock: threading.Lock, epoch: int) -> None:
        self.db = db
        self._lock = lock
        self._epoch = epoch

    def version(self) -> tuple[int, int]:
        """Return a mark that changes with each commit of another connection."""
        (version,) = self.db.execute("PRAGMA data_version").fetchone()
        return self._epoch, version

    def release(self) -> None:
        """Unlock the connection."""
        self._lock.release()


def _code(exc: sqlite3.Error) -> int:
    """Return the primary result code of an error."""
    return getattr(exc, "sqlite_errorcode", 0) & 0xFF


def _set_wal(db: sqlite3.Connection) -> None:
    """Make a database write ahead; SQLite itself does not wait for readers here."""
    for _ in range(100):
        with suppress(sqlite3.OperationalError):
            db.execute("PRAGMA journal_mode = wal")
            return
        time.sleep(0.02)
    db.execute("PRAGMA journal_mode = wal")


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    if os.name == "nt":  # which has no descriptors of folders
        return
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


_databases: "weakref.WeakSet[Database]" = weakref.WeakSet()
_held: list[Database] = []


def _before_fork() -> None:
    for database in list(_databases):
        database.lock_for_fork()
        _held.append(database)


def _after_in_parent() -> None:
    while _held:
        _held.pop().unlock_in_parent()


def _after_in_child() -> None:
    while _held:
        _held.pop().start_in_child()


if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(
        before=_before_fork,
        after_in_parent=_after_in_parent,
        after_in_child=_after_in_child,
    )
