"""LocalFiles: all file calls of a local store.

Names are relative to the store's folder: `factmem.json`, `lock`, `journals/...`, `indexes/...`. The
lock file and the folders stay open until `release`; no other descriptor outlives the call that opened
it. Nothing is buffered, so a fork duplicates no writes.
`OSError` passes unchanged; the callers translate it. Only regular files in real folders are opened:
opening a pipe would block, and a link would lead out of the store.
"""

import contextlib
import errno
import fcntl
import os
import stat
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from mmap import ACCESS_READ, mmap

from factmem.errors import CorruptJournalError, StorageError
from factmem.storage import _lock
from factmem.storage._file_calls import OpenEnd
from factmem.storage._file_times import (
    Times,
    has_vouching_time,
    is_settled,
    times_of,
    vouching_time,
)
from factmem.storage._kernel_syncs import KernelSyncs
from factmem.storage._network import network_file_system
from factmem.storage._open import FOLDER, open_folder, open_ordinary, open_safely
from factmem.storage._sync_threads import SyncThreads

_WORTH_MAPPING = 4 * 2**20
"""The size in bytes from which a file is mapped. Reading would copy it three times: 30 ms for an index
of 10,000 facts. For smaller files a mapping costs more than it saves."""

_READ = os.O_RDONLY
_WRITE = os.O_RDWR | os.O_APPEND
_NEW = _WRITE | os.O_CREAT | os.O_EXCL

_FULL_SYNC: int | None = getattr(fcntl, "F_FULLFSYNC", None)
"""macOS: fsync alone leaves the data in the drive's cache."""


class _OpenFolder:
    """An open folder. It is closed when the last call that uses it has ended.

    Reference counting does that. A thread that finds another folder under the name discards this one
    while others may still open files in it; if it closed the descriptor, its number could be reused.
    A forked child inherits the descriptor, which is harmless: it only resolves names.
    """

    __slots__ = ("fd", "identity")

    def __init__(self, path: str) -> None:
        self.fd = -1
        self.fd = open_folder(path)
        found = os.fstat(self.fd)
        self.identity = (found.st_dev, found.st_ino)

    def __del__(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)


class LocalFiles:
    """A folder of the local file system, accessible to its owner only."""

    sector = 512

    def __init__(self, folder: str) -> None:
        self._folder = os.path.abspath(folder)
        self._lock = _lock.StoreLock(self.path("lock"), self._make_folders)
        self._folders: dict[str, _OpenFolder] = {}
        self._syncs = KernelSyncs(SyncThreads(self.sync))
        self._known: dict[str, tuple[Times, bytes]] = {}

    def path(self, name: str) -> str:
        return f"{self._folder}/{name}" if name else self._folder

    def release(self) -> None:
        self._lock.close()
        self._syncs.close()
        self._folders.clear()
        self._known.clear()

    def _make_folders(self) -> None:
        folder = self.path("journals")
        if os.path.isdir(folder):
            return
        try:
            os.makedirs(self._folder, 0o700, exist_ok=True)
        except (FileExistsError, NotADirectoryError) as exc:
            raise self._no_folder() from exc
        with contextlib.suppress(FileExistsError):
            os.mkdir(folder, 0o700)

    def _no_folder(self) -> ValueError:
        """Return the error for a path of the folder that is a file, or raise why it is unknown."""
        path = self._folder
        while path != os.path.dirname(path):
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                if stat.S_ISDIR(os.stat(path).st_mode):
                    raise OSError(errno.EIO, "It is a folder that cannot be opened", path)
                break
            path = os.path.dirname(path)
        return ValueError(f"{self._folder!r} is a file: pass the path of a folder for the facts")

    def network_file_system(self) -> str | None:
        return network_file_system(self._folder)

    def lock(self, timeout: float) -> AbstractContextManager[None]:
        return self._lock.held(timeout)

    def check_lock(self) -> None:
        self._lock.check()

    def check_named(self, fd: int) -> None:
        if not os.fstat(fd).st_nlink:
            raise StorageError(
                f"A file in {self.path('journals')!r} was replaced during a write: another program "
                f"ignores the lock. Nothing of this call is acknowledged"
            )

    def names_version(self, folder: str) -> object:
        try:
            found = os.lstat(self.path(folder))
        except OSError:
            return None
        return times_of(found) if is_settled(found) else None

    def vouch(self, fd: int, size: int) -> object:
        # Any later write changes the time by itself, so no failure can leave the mark in place.
        now = time.time_ns()
        mark = now - now % 1_000_000_000 + vouching_time(size)
        try:  # `suppress` takes longer than the call
            os.utime(fd, ns=(now, mark))
        except OSError:  # then the next writer creates a new file
            return None
        return mark

    def is_vouched(self, fd: int) -> bool:
        return has_vouching_time(os.fstat(fd))

    @contextmanager
    def _within(self, name: str) -> Generator[tuple[str, int | None]]:
        """Keep the folder of a file open, and yield the file's name in it.

        The store's own folder is not kept open, and may be a link: its owner has chosen it.
        """
        folder, _, file = name.rpartition("/")
        if not folder:
            yield self.path(name), None
            return
        opened = self._opened(folder)
        try:
            yield file, opened.fd
        except OSError as exc:
            exc.filename = self.path(name)
            raise

    def _opened(self, folder: str) -> _OpenFolder:
        """Return an open folder: the known one if it still has this path, else the new one."""
        path = self.path(folder)
        kept = self._folders.get(folder)
        if kept is not None:
            if _lock.identity_at(path) == kept.identity:
                return kept
            self._folders.pop(folder, None)
        opened = self._folders[folder] = _OpenFolder(path)
        return opened

    def _open(self, name: str, flags: int) -> int:
        return self._open_and_look(name, flags)[0]

    def _open_and_look(self, name: str, flags: int) -> tuple[int, os.stat_result]:
        folder, _, leaf = name.rpartition("/")
        if not folder:
            return open_ordinary(self.path(name), flags)
        opened = self._opened(folder)  # the name holds the folder open for the next line
        return open_ordinary(self.path(name), flags, within=(opened.fd, leaf))

    def open(self, name: str, *, write: bool = False) -> int:
        return self._open(name, _WRITE if write else _READ)

    def open_end(self, name: str) -> OpenEnd:
        fd, found = self._open_and_look(name, _WRITE)
        return OpenEnd(fd, found.st_size, has_vouching_time(found), found.st_mtime_ns)

    def open_ends(self, folder: str, names: Sequence[str]) -> list[OpenEnd | None]:
        ends: list[OpenEnd | None] = []
        try:
            # One check for the batch: the folder could be replaced after a check for each file, too.
            opened = self._opened(folder)
        except (OSError, CorruptJournalError):
            return [None] * len(names)
        path = self.path(folder)
        for name in names:
            try:
                fd, found = open_ordinary(f"{path}/{name}", _WRITE, within=(opened.fd, name))
            except (OSError, CorruptJournalError):
                ends.append(None)
            else:
                is_vouched = has_vouching_time(found)
                ends.append(OpenEnd(fd, found.st_size, is_vouched, found.st_mtime_ns))
        return ends

    def create(self, name: str) -> int:
        self.remove(name)
        try:
            return self._open(name, _NEW)
        except FileNotFoundError:
            with contextlib.suppress(FileExistsError):
                os.mkdir(os.path.dirname(self.path(name)), 0o700)
            return self._open(name, _NEW)

    def close(self, fd: int) -> None:
        os.close(fd)

    def close_all(self, fds: Sequence[int]) -> None:
        # Files that were opened one after the other have numbers in a row, unless another thread has
        # opened some meanwhile. Closing them takes one system call then.
        if fds and max(fds) - min(fds) == len(fds) - 1:
            os.closerange(min(fds), max(fds) + 1)
            return
        for fd in fds:
            os.close(fd)

    def size(self, fd: int) -> int:
        return os.fstat(fd).st_size

    def read(self, fd: int, count: int, offset: int) -> bytes:
        return os.pread(fd, count, offset)

    def append(self, fd: int, data: bytes) -> None:
        written = os.write(fd, data)
        while written < len(data):  # a disk that fills up writes in part
            written += os.write(fd, memoryview(data)[written:])

    def destroy(self, name: str, count: int) -> bool:
        fd = self._open(name, os.O_WRONLY)
        try:
            if os.fstat(fd).st_nlink > 1:
                return False
            os.pwrite(fd, bytes(count), 0)
            self.sync(fd)
        finally:
            os.close(fd)
        return True

    def sync(self, fd: int) -> None:
        if _FULL_SYNC is not None:
            fcntl.fcntl(fd, _FULL_SYNC)
        else:
            os.fsync(fd)

    def sync_all(self, fds: Sequence[int]) -> list[Exception | None]:
        return self._syncs.sync_all(fds)

    def sync_folder(self, name: str) -> None:
        self._sync(open_folder(self.path(name)) if name else os.open(self._folder, FOLDER))

    def sync_parents(self) -> None:
        folder = os.path.realpath(self._folder)
        device = os.stat(folder).st_dev
        while (above := os.path.dirname(folder)) != folder and os.stat(above).st_dev == device:
            with contextlib.suppress(PermissionError):  # then it was not created for this store
                self._sync(os.open(above, FOLDER))
            folder = above

    @staticmethod
    def _sync(fd: int) -> None:
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def rename(self, old: str, new: str) -> None:
        with self._within(old) as (source, there), self._within(new) as (target, here):
            os.replace(source, target, src_dir_fd=there, dst_dir_fd=here)

    def remove(self, name: str) -> None:
        with contextlib.suppress(FileNotFoundError), self._within(name) as (file, folder):
            os.unlink(file, dir_fd=folder)

    def names(self, folder: str = "journals") -> list[str]:
        try:
            fd = open_folder(self.path(folder))
        except FileNotFoundError:
            return []
        try:
            return sorted(os.listdir(fd))
        finally:
            os.close(fd)

    def each_name(self, folder: str) -> Iterator[str]:
        try:
            fd = open_folder(self.path(folder))
        except FileNotFoundError:
            return
        try:
            with os.scandir(fd) as found:
                for each in found:
                    yield each.name
        finally:
            os.close(fd)

    def content(self, name: str) -> bytes | None:
        try:
            fd = self._open(name, _READ)
        except FileNotFoundError:
            return None
        except NotADirectoryError:
            if "/" in name:  # the store has no such folder
                return None
            raise self._no_folder() from None
        try:
            return b"".join(_chunks(fd))
        finally:
            os.close(fd)

    def mapped(self, name: str) -> memoryview | None:
        if not os.path.exists(self.path(name)) or self.network_file_system() is not None:
            return None
        fd = self._open(name, _READ)
        try:
            is_large = self.size(fd) >= _WORTH_MAPPING
            return memoryview(mmap(fd, 0, access=ACCESS_READ)) if is_large else None
        finally:
            os.close(fd)

    def has_content(self, name: str, content: bytes) -> bool:
        try:
            found = os.lstat(self.path(name))
        except OSError:
            return self.content(name) == content
        times = times_of(found)
        # One call replaces an open, two reads and a close for every save. The bytes object is compared
        # by identity.
        known = self._known.get(name)
        if known is not None and known[0] == times and known[1] is content:
            return True
        if self.content(name) != content:
            return False
        if is_settled(found):
            self._known[name] = (times, content)
        return True

    def exists(self, name: str) -> bool:
        try:
            os.lstat(self.path(name))
        except FileNotFoundError:
            return False
        return True

    def is_unchanged(self, name: str, header: bytes, size: int) -> bool:
        try:
            fd = open_safely(self.path(name), _READ)
        except OSError:
            return False
        try:
            return os.pread(fd, len(header), 0) == header and not os.pread(fd, 1, size)
        except OSError:
            return False
        finally:
            os.close(fd)


def _chunks(fd: int) -> Iterator[bytes]:
    while chunk := os.read(fd, 1 << 16):
        yield chunk
