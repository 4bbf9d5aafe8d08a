"""Guards: locks that stay while other code of this process opens and closes the database.

SQLite's locks are POSIX locks. `close` on any descriptor of the file, by any code of the process (a
copy by `shutil.copytree`, a hash of the folder), drops all of them without notice. Another process
then takes itself for the last user and removes the log that this one still writes, which destroys the
database. Open file description locks on the same bytes conflict with POSIX locks, and are not dropped.

Linux has them. Windows' locks have no such fault. On macOS Python offers none: there the documentation
says that a running store is copied by `factmem backup` only.
"""

import os
import struct
import threading
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import Any

try:
    import fcntl as _fcntl

    _SET: int = _fcntl.F_OFD_SETLK
    fcntl: Any = _fcntl
except (ImportError, AttributeError):
    fcntl = None

_SHARED = (0x40000000 + 2, 510)
"""The bytes of the database that a connection locks as long as it is open (os_unix.c of SQLite)."""

_IN_USE = (128, 1)
"""The byte of the log's index that a connection locks as long as it uses the log (wal.c)."""

_MARKS = (123, 5)
"""The bytes of the log's index by which readers keep the log from being overwritten (wal.c)."""

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
        self._pins: list[int] = []

    @classmethod
    def of(cls, path: Path) -> "Guard | None":
        """Lock a database that SQLite has just opened; None if the platform has no such locks."""
        if fcntl is None:
            return None
        release_abandoned()
        with _lock:
            found = path.stat()
            key = found.st_dev, found.st_ino
            guard = _guards.get(key)
            if guard is None:
                guard = _guards[key] = cls(key, f"{path}-shm")
                for name, span in ((str(path), _SHARED), (guard._index, _IN_USE)):
                    with suppress(OSError):  # read-only
                        fd = os.open(name, os.O_RDWR | os.O_CLOEXEC)
                        guard._files.append(fd)
                        _set(fd, fcntl.F_RDLCK, span)
            guard._count += 1
            return guard

    def take_pin(self) -> int:
        """Return a descriptor for `pin`; -1 in a folder that is read-only."""
        with _lock:
            if self._pins:
                return self._pins.pop()
            try:
                return os.open(self._index, os.O_RDWR | os.O_CLOEXEC)
            except OSError:
                return -1

    def return_pin(self, fd: int) -> None:
        """Take a descriptor back for other stores."""
        if fd >= 0:
            with _lock:
                self._pins.append(fd)

    def release(self) -> None:
        """Give the locks up before a store closes its connections, so that the last may clean up."""
        with _lock:
            self._count -= 1
            if not self._count:
                del _guards[self._key]
                for fd, span in zip(self._files, (_SHARED, _IN_USE), strict=False):
                    _set(fd, fcntl.F_UNLCK, span)

    def close(self) -> None:
        """Close the descriptors after the connections, if no other store uses them."""
        with _lock:
            if not self._count and self._key not in _guards:
                for fd in (*self._files, *self._pins):
                    os.close(fd)
                self._files, self._pins = [], []


_abandoned: "deque[tuple[Guard, int]]" = deque()


def abandon(guard: Guard, pin: int) -> None:
    """Leave the guard of a store that was dropped without being closed to the next opening.

    The garbage collector may call this inside any other function here, so it takes no lock.
    """
    _abandoned.append((guard, pin))


def release_abandoned() -> None:
    """Release the guards of dropped stores; a forked child would share their locks."""
    with suppress(IndexError):
        while True:
            guard, pin = _abandoned.popleft()
            guard.return_pin(pin)
            guard.release()
            guard.close()


def pin(fd: int) -> None:
    """Keep the log from being overwritten during a snapshot that has begun."""
    if fd >= 0:
        _set(fd, fcntl.F_RDLCK, _MARKS)


def unpin(fd: int) -> None:
    """End that."""
    if fd >= 0:
        _set(fd, fcntl.F_UNLCK, _MARKS)


def _set(fd: int, kind: int, span: tuple[int, int]) -> None:
    # Refused if another process is just cleaning up or changes the mode: SQLite's own locks decide.
    with suppress(OSError):
        fcntl.fcntl(fd, _SET, struct.pack("hhqqi4x", kind, os.SEEK_SET, *span, 0))
