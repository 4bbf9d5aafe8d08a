"""DatabaseFiles: the files of a folder's database, and the errors of SQLite about them.

    facts.db        the database; `facts.db-wal` and `facts.db-shm` are its log and the log's index
    lock            the lock of the store
    reserve         room for erasures on a full disk

Guards: locks that stay while other code of this process opens and closes the database.

SQLite's locks are POSIX locks. `close` on any descriptor of the file, by any code of the process (a
copy by `shutil.copytree`, a hash of the folder), drops all of them without notice. Another process
then takes itself for the last user and removes the log that this one still writes, which destroys
the database. Open file description locks on the same bytes conflict with POSIX locks, and are not
dropped. Linux has them. Windows' locks have no such fault. On macOS Python offers none: there a
running store is copied by `factmem backup` only, and a guard only keeps a descriptor.
"""

import os
import re
import sqlite3
import stat
import struct
import threading
import time
from collections import deque
from collections.abc import Generator, Iterable
from contextlib import closing, contextmanager, suppress
from importlib import import_module
from importlib.util import find_spec
from io import FileIO
from pathlib import Path
from typing import Any

from factmem._concurrency import ORDINARY, FileLock, refusal, sync_folder
from factmem.errors import CorruptJournalError, StorageError, StoreBusyError, TamperedError
from factmem.providers._sqlite import session as schema

_NETWORK = frozenset(
    {
        *(
            "nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "auristorfs", "coda", "ncp",
            "ncpfs",
        ),
        *("ceph", "lustre", "glusterfs", "beegfs", "gpfs", "gfs", "gfs2", "ocfs2", "panfs"),
        *("orangefs", "pvfs2", "wekafs", "davfs"),
        # of FUSE: the kernel adds the prefix "fuse."
        *("sshfs", "curlftpfs", "rclone", "gvfsd-fuse", "davfs2", "ceph-fuse", "mfs", "moosefs"),
        *("lizardfs", "seaweedfs", "juicefs", "s3fs", "goofys", "mountpoint-s3", "gcsfuse"),
        *("blobfuse", "blobfuse2"),
        # shared by a virtual machine with its host, where SQLite's shared memory is not coherent
        *(
            "virtiofs", "virtio-fs", "grpcfuse", "osxfs", "fakeowner", "vboxsf", "prl_fs",
            "prl_fs_fuse",
        ),
        *("drvfs", "hgfs", "vmhgfs", "vmhgfs-fuse", "lima", "mutagen", "smb", "plan9", "9pfs"),
    }
)  # fmt: skip
"""Their names in Linux. Another machine, or several, can write to these file systems."""

_ESCAPE = re.compile(r"\\([0-7]{3})")


def network_file_system(path: str) -> str | None:
    """Return the network file system that holds `path`; None for a local one, and not on Linux."""
    try:
        with open("/proc/self/mounts", encoding="utf-8", errors="surrogateescape") as mounts:
            return network_mount(os.path.realpath(path), mounts)
    except OSError:
        return None


def network_mount(path: str, mounts: Iterable[str]) -> str | None:
    """Return the network file system of a real path, given the lines of a mount table."""
    best, kind = "", ""
    for line in mounts:
        _, escaped, name, *_ = line.split(" ")
        point = _ESCAPE.sub(lambda octal: chr(int(octal[1], 8)), escaped)
        is_inside = path == point or path.startswith(point.rstrip("/") + "/")
        if is_inside and len(point) >= len(best):  # at one mount point the later mount is on top
            best, kind = point, name
    return kind if kind.removeprefix("fuse.") in _NETWORK else None


NAME, LOCK = "facts.db", "lock"
_UNLINKED = ".facts-"
"""The names of databases that are not complete yet begin so."""

_PRAGMAS = (
    "synchronous = full",
    "fullfsync = on",  # macOS: fsync alone does not reach the disk there
    "checkpoint_fullfsync = on",
    "secure_delete = on",
    "cache_size = -4000",
    "trusted_schema = off",
    "cell_size_check = on",
)

_SIDES = tuple(f"{NAME}-{side}" for side in ("wal", "shm", "journal"))
_RESERVE = "reserve"
_RESERVED = 1 << 20
"""The size of a file that is deleted on a full disk, because erasing needs room in the log."""
_STEP = 1 << 16
"""The bytes of the reserve that are freed to open a store, for the log's index, on a full disk."""

DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_ENDS_EARLY = "SQLITE_IOERR_SHORT_READ"
"""The log is shorter than its index says: cut off, or emptied while SQLite's locks were dropped."""
REFUSED = (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM)
ODD_VALUES = (TypeError, UnicodeDecodeError, struct.error, OverflowError)
"""Python's errors for damaged rows: NULL instead of a number or bytes, text that is not UTF-8, or
a number that is too large."""

_REMEDIES = {
    sqlite3.SQLITE_CANTOPEN: "give this user the right to its files, or raise the limit of files",
    sqlite3.SQLITE_PERM: "give this user the right to its files",
    sqlite3.SQLITE_READONLY: "mount it writable, or give this user the right to write",
    sqlite3.SQLITE_IOERR: "check the disk, and call again",
}

_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


class DiskFullError(StorageError):
    """There is no room for a write. Nothing was written."""


class DamagedError(CorruptJournalError):
    """SQLite found the file damaged, or could not read it: both have the same code."""


@contextmanager
def closed_on_error(db: sqlite3.Connection) -> Generator[sqlite3.Connection]:
    """Yield a new connection, and close it if its first use fails."""
    try:
        yield db
    except BaseException:
        db.close()
        raise


class DatabaseFiles:
    """The files of one folder, which gets the permissions `mode`; they get it without execution."""

    def __init__(
        self, root: Path, busy_timeout: float, *, allow_network: bool, mode: int = 0o700
    ) -> None:
        self.root, self.path = root, root / NAME
        self._name = str(self.path)  # `lstat` of a path object takes twice the time
        self._timeout = busy_timeout
        self.allow_network = allow_network
        self._mode = mode
        self.file_mode = mode & 0o666
        """The permissions of new files. SQLite gives the log and its index those of the
        database."""

    def exists(self) -> bool:
        """Whether there is a database; raise if that cannot be determined."""
        try:
            os.lstat(self.path)
        except FileNotFoundError:
            return False
        except NotADirectoryError:
            raise ValueError(f"{str(self.root)!r} is a file: pass the path of a folder") from None
        except OSError as exc:
            raise StorageError(f"{str(self.path)!r} cannot be reached: {refusal(exc)}") from exc
        return True

    @contextmanager
    def unused(self) -> Generator[None]:
        """Switch the log off, so that the database is one file; the caller holds the lock."""
        if not self.exists():
            self._remove_rest()
            yield
            return
        try:
            with closing(self.connect("rw")) as db:
                db.execute("PRAGMA busy_timeout = 0")
                db.execute("PRAGMA journal_mode = delete")  # refused while others are connected
        except sqlite3.Error as exc:
            if code_of(exc) not in _BUSY:
                raise self.error_of(exc) from exc
            raise StoreBusyError(
                f"Other processes have {str(self.path)!r} open: stop them. Nothing was changed"
            ) from exc
        try:
            yield
        finally:
            with suppress(sqlite3.Error, StorageError), closing(self.connect("rw")) as db:
                _set_wal(db)

    def create(self, lock: FileLock, until: float) -> sqlite3.Connection:
        """Open the database for writing before a deadline, and create what is missing."""
        kind = None if self.allow_network else network_file_system(str(self.root))
        if kind is not None:
            raise StorageError(
                f"The folder {str(self.root)!r} is on a network file system ({kind}), where locks "
                f"between machines may not work: use a local folder, or pass "
                f"allow_network_folder=True if only one machine uses it"
            )
        try:
            made = self.make_folder()
            # In a child forked without hooks, SQLite may hang, which must not happen while locked.
            sqlite3.connect(":memory:").close()
            with lock.held(until=until):
                is_new = self._link_new()
                with closed_on_error(self.connect("rw")) as db:
                    is_there = schema.is_there(db, self.path)
                    if not is_there:
                        self._check_not_emptied(self._had_tables())
                    _set_wal(db, until)
                    if not is_there:
                        schema.create(db, self.path)
                    self.fill_reserve()
                    if is_new or made:
                        # A new file is durable only when the folders that name it are.
                        for folder in (self.root, *(each.parent for each in made)):
                            sync_folder(folder)
        except OSError as exc:
            raise StorageError(
                f"The store {str(self.root)!r} cannot be opened for writing: {refusal(exc)}. "
                f"Nothing was written"
            ) from exc
        return db

    def make_folder(self) -> list[Path]:
        """Create the folder and the lock if they are missing; return the folders that were made."""
        made = [each for each in (self.root, *self.root.parents) if not each.exists()]
        self.root.mkdir(parents=True, exist_ok=True, mode=0o700)
        if made:  # keep the set-group-ID bit inherited from the parent; ignore the umask
            self.root.chmod(self.root.stat().st_mode & 0o2000 | self._mode)
        with suppress(FileExistsError):
            os.close(self._new(self.root / LOCK))
        return made

    def _new(self, path: Path) -> int:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        path.chmod(self.file_mode)
        return fd

    def _link_new(self) -> bool:
        """Create a database under another name and link it; return whether it was missing.

        During its creation only SQLite's locks, which are not guarded yet, would keep a reader from
        undoing a change. The log and its index get the permissions of the database.
        """
        if self.path.is_symlink() or (self.path.exists() and not self.path.is_file()):
            raise CorruptJournalError(
                f"{str(self.path)!r} is not a regular file: remove it, or use another folder"
            )
        if self.path.exists():
            return False
        self._remove_unlinked()  # left by a process that was killed here
        self._remove_rest()
        made = self.root / f"{_UNLINKED}{os.getpid()}-{threading.get_ident()}"
        # SQLite would create it with the permissions of the umask.
        os.close(self._new(made))
        try:
            with closing(self.connect("rw", made)) as db:
                db.execute("PRAGMA auto_vacuum = incremental")
                _set_wal(db)
                schema.create(db)
                # The log does not move with the link. `close` would ignore a failing disk.
                ((busy, _, _),) = db.execute("PRAGMA wal_checkpoint(truncate)")
                if busy:
                    raise StorageError("The new database could not be written: try again")
            try:
                os.link(made, self.path)
            except FileExistsError:
                return False
            except OSError:  # no hard links; the lock of the store excludes other writers
                made.replace(self.path)
        finally:
            self._remove_unlinked()
        return True

    def _remove_rest(self) -> None:
        """Remove files that a deleted database left: a new one would apply an old log."""
        with self.readable():
            for name in (*_SIDES, _RESERVE):
                (self.root / name).unlink(missing_ok=True)

    def _check_sides(self) -> None:
        """Raise if a file beside the database is a link: SQLite would write to its target."""
        for name in _SIDES:
            with self.readable(), suppress(FileNotFoundError):
                found = os.lstat(self.root / name)
                if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:
                    raise CorruptJournalError(
                        f"{str(self.root / name)!r} is a link, or no regular file: remove it. "
                        f"Nothing was written"
                    )

    def check_mark(self, mark: bytes) -> None:
        """Raise unless the database is of the store that was opened in this folder before.

        The reserve contains the mark, so no `backup` has it. Writes the mark if there is none.
        """
        with suppress(OSError), self._reserve() as (file, _):
            known = file.read(len(mark))
            if known == bytes(len(known)):
                file.seek(0)
                file.write(mark)
            elif known != mark:
                raise TamperedError(
                    f"{str(self.path)!r} is the database of another store than this folder had: "
                    f"put its own back, or remove the file 'reserve' if that was meant"
                )

    def _remove_unlinked(self) -> None:
        for path in self.root.glob(f"{_UNLINKED}*"):
            path.unlink(missing_ok=True)

    def open(self) -> tuple[sqlite3.Connection, bool] | None:
        """Open the database for reading; return None if nothing was saved yet.

        Also returns whether the file cannot change: the folder is read-only and has no log.
        """
        with self.readable():
            try:
                return self._open() if self.exists() else None
            except sqlite3.Error as exc:
                if not is_full(exc) or not self._shorten_reserve():
                    raise
                return self._open()  # the index of the log, 32 KiB, now has room

    @contextmanager
    def readable(self) -> Generator[None]:
        """Raise `StorageError` if the operating system refuses access to the files."""
        try:
            yield
        except OSError as exc:
            raise StorageError(f"{str(self.path)!r} cannot be read: {refusal(exc)}") from exc

    def _open(self) -> tuple[sqlite3.Connection, bool] | None:
        if self.path.is_symlink() or not self.path.is_file():
            raise CorruptJournalError(f"{str(self.path)!r} is not a regular file: remove it")
        is_fixed = False
        if os.access(self.path, os.W_OK) and os.access(self.root, os.W_OK):
            mode = "rw"
        elif self.has_log():
            mode = "ro"
        else:
            # The log cannot be created, and if there is none, the file does not change.
            mode, is_fixed = "ro&immutable=1", True
        had_tables = self._had_tables()  # read first: another process may be creating them
        with closed_on_error(self.connect(mode)) as db:
            if schema.is_there(db, self.path):
                return db, is_fixed
        db.close()
        self._check_not_emptied(had_tables)
        return None

    @staticmethod
    def is_ahead(db: sqlite3.Connection) -> bool:
        """Whether a database has a log; it has none if a restoration was killed.

        Then it gets no guard: the guard's locks would keep all connections from starting a log.
        """
        return bool(db.execute("PRAGMA journal_mode").fetchone() == ("wal",))

    def _had_tables(self) -> bool:
        """Whether the database had tables: the reserve is created after them."""
        return (self.root / _RESERVE).exists()

    def _check_not_emptied(self, had_tables: bool) -> None:
        if had_tables:
            raise CorruptJournalError(
                f"{str(self.path)!r} is empty: it was overwritten. Restore it from a backup, or "
                "delete the folder to start with an empty store"
            )

    def has_log(self) -> bool:
        with suppress(FileNotFoundError):
            return self.path.with_name(f"{NAME}-wal").stat().st_size > 0
        return False

    def connect(self, mode: str, path: Path | None = None) -> sqlite3.Connection:
        if path is None:
            self._check_sides()
        db = sqlite3.connect(
            f"{(path or self.path).absolute().as_uri()}?mode={mode}",
            uri=True,
            # Transactions are explicit, and the locks of `Database` serialize the threads.
            isolation_level=None,
            check_same_thread=False,
            timeout=self._timeout,
            cached_statements=64,
        )
        with closed_on_error(db):
            for pragma in _PRAGMAS:
                db.execute(f"PRAGMA {pragma}")
        return db

    def identity(self) -> tuple[int, int] | None:
        """Return the device and inode of the database; None if it does not exist."""
        try:
            found = os.lstat(self._name)
        except OSError:
            return None
        return found.st_dev, found.st_ino

    def error_of(self, exc: sqlite3.Error) -> Exception:
        name = getattr(exc, "sqlite_errorname", type(exc).__name__)
        if code_of(exc) in _BUSY:
            return StoreBusyError(
                f"Another process held the database for {self._timeout:g} s: {str(self.path)!r}. "
                f"Nothing was written; try again, or allow more time with busy_timeout"
            )
        if code_of(exc) in DAMAGED or name == _ENDS_EARLY:
            return self._damaged(name)
        if is_full(exc):
            return DiskFullError(
                f"The disk is full ({name}): {str(self.path)!r}. "
                "Nothing was written: free some room"
            )
        remedy = _REMEDIES.get(code_of(exc))
        return StorageError(
            f"The database failed ({name}): {str(self.path)!r}{f': {remedy}' if remedy else ''}"
        )

    def check_sound(self, exc: Exception) -> None:
        """Raise `DamagedError` unless a check on a new connection finds the file sound."""
        with suppress(sqlite3.Error, UnicodeDecodeError), closing(self.connect("ro")) as db:
            if db.execute("PRAGMA quick_check(1)").fetchone() == ("ok",):
                if isinstance(exc, struct.error | OverflowError):  # a number is at its maximum
                    raise CorruptJournalError(
                        f"{str(self.path)!r} has a row with a number that no place has: restore it "
                        f"from a backup"
                    ) from None
                return
        raise self._damaged(type(exc).__name__) from exc

    def _damaged(self, name: str) -> CorruptJournalError:
        return DamagedError(
            f"{str(self.path)!r} is damaged ({name}). Nothing was changed: restore it from a "
            f"backup, or save its readable places with `factmem salvage`"
        )

    def fill_reserve(self) -> None:
        """Fill the reserve as far as the disk has room; the next opening tries again."""
        with suppress(OSError):
            os.close(self._new(self.root / _RESERVE))
        with suppress(OSError), self._reserve() as (file, size):
            file.seek(size)
            file.write(bytes(max(0, _RESERVED - size)))

    def _shorten_reserve(self) -> bool:
        """Free room to open the database on a full disk; leave at least half for erasures."""
        with suppress(OSError), self._reserve() as (file, size):
            file.truncate(max(size - _STEP, _RESERVED // 2))
            return size > _RESERVED // 2
        return False

    @contextmanager
    def _reserve(self) -> Generator[tuple[FileIO, int]]:
        """Yield the reserve and its size; raise `OSError` if it is a link."""
        fd = os.open(self.root / _RESERVE, os.O_RDWR | ORDINARY)
        with open(fd, "r+b", buffering=0) as file:
            found = os.fstat(fd)
            if found.st_nlink > 1 or not stat.S_ISREG(found.st_mode):
                raise OSError("The reserve is a link")
            yield file, found.st_size

    def give_up_reserve(self) -> None:
        (self.root / _RESERVE).unlink(missing_ok=True)


def code_of(exc: sqlite3.Error) -> int:
    return getattr(exc, "sqlite_errorcode", 0) & 0xFF


def is_full(exc: sqlite3.Error) -> bool:
    """Whether the disk has no room for a write, or for the log's index that all access needs."""
    codes = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_SHMSIZE)
    return getattr(exc, "sqlite_errorcode", 0) in codes


def _set_wal(db: sqlite3.Connection, until: float | None = None) -> None:
    """Switch to a write-ahead log, which SQLite itself does not always wait for readers to do."""
    ((patience,),) = db.execute("PRAGMA busy_timeout")
    end: float = time.monotonic() + patience / 1000 if until is None else until
    db.execute("PRAGMA busy_timeout = 0")
    while True:
        try:
            ((mode,),) = db.execute("PRAGMA journal_mode = wal")
        except sqlite3.OperationalError as exc:
            # Any other error is a failing disk; do not hold the lock of the store any longer.
            if code_of(exc) not in _BUSY or time.monotonic() > end:
                raise
            time.sleep(0.01)
            continue
        if mode != "wal":
            # If the disk fails now, SQLite silently uses a rollback journal. Its commits need an
            # exclusive lock on the file, and would wait for our own guard.
            raise StorageError(
                "The log of the store could not be begun. Nothing was written; try again"
            )
        break
    db.execute(f"PRAGMA busy_timeout = {patience}")


fcntl: Any = import_module("fcntl") if find_spec("fcntl") else None
if not hasattr(fcntl, "F_OFD_SETLK"):  # Windows has no `fcntl`, macOS not these locks
    fcntl = None

_SHARED = (0x40000000 + 2, 510)
"""The bytes of the database that a connection locks as long as it is open (os_unix.c of SQLite)."""

_IN_USE = (128, 1)
"""The byte of the log's index that a connection locks as long as it uses the log (wal.c)."""

_MARKS = ((123, 1), (124, 4))
"""The bytes of the log's index by which readers keep the log from being overwritten (wal.c): of
those that need the database alone, which others lock as they copy the log into it, and of those
that need the log, which others lock as they empty it. A reader needs one of the two."""

_lock = threading.Lock()
_guards: "dict[tuple[int, int], Guard]" = {}


class Guard:
    """The locks of one database in this process, shared by all stores that have it open.

    A descriptor is closed only after the last connection, because closing it drops SQLite's locks.
    """

    def __init__(self, key: tuple[int, int], index: str) -> None:
        self._key = key
        self._index = index
        self._count = 0
        self._files: list[int] = []
        self._database = -1
        self._pins: list[int] = []

    @classmethod
    def of(cls, path: Path) -> "Guard | None":
        """Lock a database that SQLite has just opened; None on Windows."""
        if os.name == "nt":
            return None
        release_abandoned()
        with _lock:
            found = path.stat()
            key = found.st_dev, found.st_ino
            guard = _guards.get(key)
            if guard is None:
                guard = _guards[key] = cls(key, f"{path}-shm")
                for name, span in ((str(path), _SHARED), (guard._index, _IN_USE)):
                    if fcntl is None and name == guard._index:
                        continue
                    with suppress(OSError):  # read-only
                        fd = os.open(name, os.O_RDWR | os.O_CLOEXEC)
                        guard._files.append(fd)
                        if name != guard._index:
                            guard._database = fd
                        _set(fd, "F_RDLCK", span)
            guard._count += 1
            return guard

    @property
    def descriptor(self) -> int:
        """The descriptor of the database; it stays open as long as any connection."""
        if self._database < 0:
            raise PermissionError("the database is read-only")
        return self._database

    def take_pin(self) -> int:
        """Return a descriptor for `pin`; -1 if the folder is read-only."""
        if fcntl is None:
            return -1
        with _lock:
            if self._pins:
                return self._pins.pop()
            try:
                return os.open(self._index, os.O_RDWR | os.O_CLOEXEC)
            except OSError:
                return -1

    def return_pin(self, fd: int) -> None:
        if fd >= 0:
            with _lock:
                self._pins.append(fd)

    def release(self) -> None:
        """Release the locks before a store closes its connections, as the last one cleans up."""
        with _lock:
            self._count -= 1
            if not self._count:
                del _guards[self._key]
                for fd, span in zip(self._files, (_SHARED, _IN_USE), strict=False):
                    _set(fd, "F_UNLCK", span)

    def close(self) -> None:
        with _lock:
            if not self._count and self._key not in _guards:  # it would drop locks of a new guard
                for fd in (*self._files, *self._pins):
                    with suppress(OSError):  # the descriptor is closed even after an error
                        os.close(fd)
                self._files, self._pins = [], []


_abandoned: "deque[tuple[Guard, int]]" = deque()


def abandon(guard: Guard, pin: int) -> None:
    """Let the next opening release a collected store's guard: the collector must take no lock."""
    _abandoned.append((guard, pin))


def release_abandoned() -> None:
    """Release the guards of collected stores; otherwise a forked child would share their locks."""
    with suppress(IndexError):
        while True:
            guard, pin = _abandoned.popleft()
            guard.return_pin(pin)
            guard.release()
            guard.close()


def pin(fd: int) -> None:
    """Keep SQLite from overwriting the log during a snapshot that has begun."""
    if fd >= 0:
        for marks in _MARKS:
            _set(fd, "F_RDLCK", marks)


def unpin(fd: int) -> None:
    if fd >= 0:
        for marks in _MARKS:
            _set(fd, "F_UNLCK", marks)


def _set(fd: int, kind: str, span: tuple[int, int]) -> None:
    if fcntl is None:
        return
    # Refused while another process cleans up or changes the mode; then SQLite's locks suffice.
    with suppress(OSError):
        fcntl.fcntl(
            fd,
            fcntl.F_OFD_SETLK,
            struct.pack("hhqqi4x", getattr(fcntl, kind), os.SEEK_SET, *span, 0),
        )
