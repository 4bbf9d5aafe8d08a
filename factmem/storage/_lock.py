"""StoreLock: one advisory lock against all other processes and threads.

It uses `flock`, because locks of the other kind (`fcntl`, `lockf`) are released when any descriptor of
the file is closed, and do not exclude threads. The lock file is never deleted and never written: a lock
on a deleted file excludes no process.
"""

import fcntl
import os
import threading
import time
import weakref
from collections.abc import Callable
from queue import SimpleQueue
from typing import NamedTuple

from factmem._arguments import expect
from factmem.errors import StorageError, StoreBusyError
from factmem.storage._open import open_ordinary


def check_timeout(seconds: float) -> None:
    """Check how many seconds to wait for a lock.

    Raises:
        TypeError: It is not a number.
        ValueError: It is negative, NaN, or longer than a thread can wait.
    """
    expect(float(seconds) if type(seconds) is int else seconds, float, *_TIMEOUT)
    if not 0 <= seconds <= threading.TIMEOUT_MAX:
        raise ValueError(f"busy_timeout must be a number of seconds from 0 on: {_TIMEOUT[1]}")


_TIMEOUT = ("busy_timeout", "busy_timeout=5.0")


class StoreLock:
    """The lock file of a store, created if it is missing; `prepare` is called before it is opened.

    It stays open between two locks, because opening takes longer than locking. A thread that locks
    takes the open file and returns it; meanwhile another thread opens one of its own. The file is
    closed in forked children.
    """

    def __init__(self, path: str, prepare: Callable[[], None] = lambda: None) -> None:
        self._path = path
        self._prepare = prepare
        self._kept: _OpenLock | None = None
        self._given_up: _Wait | None = None
        self.times_closed = 0
        self.held_now: _OpenLock | None = None
        _locks.add(self)

    def held(self, timeout: float) -> "_Held":
        """Return a context that holds the lock.

        Entering it raises:
            StoreBusyError: Another thread or process held it for `timeout` seconds.
            CorruptJournalError: It is not a regular file.
        """
        return _Held(self, timeout)

    def acquire(self, timeout: float) -> "_OpenLock":
        """Return the file with the lock on it; see `held`."""
        deadline = time.monotonic() + timeout
        while True:
            lock = self._taken()
            left = max(0.0, deadline - time.monotonic())
            taken = lock if _try_lock(lock.fd) else self._waited_for(lock, left)
            if taken is None:
                raise StoreBusyError(
                    f"Another process or thread held the lock of the store for {timeout:g} s: "
                    f"{self._path!r}. Nothing was written; try again, or allow more time with "
                    f"busy_timeout"
                )
            # A lock on a file that was deleted or replaced excludes no process.
            if taken.identity == identity_at(self._path):
                return taken
            _close(taken.fd)

    def _waited_for(self, lock: "_OpenLock", timeout: float) -> "_OpenLock | None":
        """Wait for the lock, and return the file that has it; None if it was not free in time.

        After a timeout the wait continues in its thread, because nothing can interrupt it. The next
        call takes it over, so that timeouts do not accumulate threads and descriptors.
        """
        if timeout <= 0:
            _close(lock.fd)
            return None
        with _registry:
            wait, self._given_up = self._given_up, None
        if wait is not None and wait.take_over():
            _close(lock.fd)
        else:
            wait = _begun(lock)
        if wait.outcome(timeout):
            return wait.lock
        with _registry:
            if self._given_up is None:
                self._given_up = wait
        return None

    def check(self) -> None:
        """Raise `StorageError` unless the lock that is held still excludes others.

        It excludes no process once its file was deleted or replaced.
        """
        held = self.held_now
        if held is None or held.identity != identity_at(self._path):
            raise StorageError(
                f"The lock file {self._path!r} was deleted or replaced while it was held, so another "
                f"process may write at the same time. Nothing of this call is acknowledged: call "
                f"again, and never delete that file"
            )

    def _taken(self) -> "_OpenLock":
        with _registry:
            lock, self._kept = self._kept, None
        if lock is None:
            self._prepare()
            lock = _open(self._path)
        return lock

    def release(self, lock: "_OpenLock", times_closed: int) -> None:
        """Unlock, and keep the file open unless `close` was called since the lock was acquired."""
        with _registry:
            if lock.fd not in _descriptors:
                return  # a forked child, where it was closed
            if self._kept is not None or self.times_closed != times_closed:
                _close(lock.fd)
                return
            try:
                fcntl.flock(lock.fd, fcntl.LOCK_UN)
            except BaseException:
                _close(lock.fd)
                raise
            self._kept = lock

    def close(self) -> None:
        """Close the file, or let the thread that holds the lock close it when it unlocks."""
        with _registry:
            self.times_closed += 1
            lock, self._kept = self._kept, None
            if lock is not None:
                _close(lock.fd)

    def start_in_child(self) -> None:
        """Discard the file, which was closed in the forked child."""
        self._kept = self._given_up = None

    def __del__(self) -> None:
        self.close()


class _Held:
    """Holds the lock. Not a generator, which would take a microsecond per save."""

    __slots__ = ("_held", "_lock", "_timeout", "_times_closed")

    def __init__(self, lock: StoreLock, timeout: float) -> None:
        self._lock = lock
        self._timeout = timeout

    def __enter__(self) -> None:
        self._times_closed = self._lock.times_closed
        self._held = self._lock.held_now = self._lock.acquire(self._timeout)

    def __exit__(self, *exc_info: object) -> None:
        self._lock.held_now = None
        self._lock.release(self._held, self._times_closed)


class _OpenLock(NamedTuple):
    """A lock file that is open."""

    fd: int
    identity: tuple[int, int]
    """Its device and inode number, which no other file has while this one is open."""


def identity_at(path: str) -> tuple[int, int] | None:
    """Return the device and inode number at a path; None if they cannot be read."""
    try:
        found = os.lstat(path)
    except OSError:  # opening it again raises the error
        return None
    return found.st_dev, found.st_ino


def _try_lock(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except BaseException:
        _close(fd)
        raise
    return True


class _Wait:
    """A wait for one lock, shared by the waiting thread and the one that may cancel it."""

    __slots__ = ("error", "fd", "is_given_up", "is_over", "lock", "mutex", "signal")

    def __init__(self, lock: _OpenLock) -> None:
        self.lock = lock
        self.fd = lock.fd
        self.mutex = threading.Lock()
        self.signal = threading.Lock()
        self.signal.acquire()
        self.is_over = self.is_given_up = False
        self.error: OSError | None = None

    def work(self) -> None:
        """Wait for the lock; release it if no call needs it any more."""
        try:
            fcntl.flock(self.fd, fcntl.LOCK_EX)
        except OSError as exc:
            self.error = exc
        with self.mutex:
            self.is_over = True
            if self.is_given_up:
                _close(self.fd)

    def take_over(self) -> bool:
        """Resume a wait that timed out; return False if it has ended."""
        with self.mutex:
            if self.is_over:
                return False
            self.is_given_up = False
            return True

    def outcome(self, timeout: float) -> bool:
        """Return whether the lock was acquired in time; if not, it is closed now or later."""
        self.signal.acquire(timeout=timeout)
        with self.mutex:
            self.is_given_up = not self.is_over
        if self.error is not None:
            _close(self.fd)
            raise self.error
        return self.is_over


def _begun(lock: _OpenLock) -> _Wait:
    """Start a wait in a thread, and return it."""
    wait = _Wait(lock)
    try:
        inbox = _idle.pop()
    except IndexError:
        inbox = SimpleQueue()
        threading.Thread(target=_work, args=(inbox,), name="factmem lock", daemon=True).start()
    inbox.put(wait)
    return wait


def _work(inbox: "SimpleQueue[_Wait]") -> None:
    while True:
        wait = inbox.get()
        wait.work()
        _idle.append(inbox)
        wait.signal.release()


_idle: "list[SimpleQueue[_Wait]]" = []
"""The inboxes of idle threads: as many as ever waited at the same time."""


def _open(path: str) -> _OpenLock:
    with _registry:
        fd, found = open_ordinary(path, os.O_RDWR | os.O_CREAT)
        _descriptors.add(fd)
    return _OpenLock(fd, (found.st_dev, found.st_ino))


def _close(fd: int) -> None:
    with _registry:
        _descriptors.discard(fd)
        try:
            fcntl.flock(fd, fcntl.LOCK_UN)  # explicit: a child may have inherited the descriptor
        finally:
            os.close(fd)


_locks: "weakref.WeakSet[StoreLock]" = weakref.WeakSet()
_descriptors: set[int] = set()

_registry = threading.RLock()
"""Held while a lock file is opened or closed, and while the process forks."""


def _before_fork() -> None:
    _registry.acquire()


def _after_fork() -> None:
    _registry.release()


def _start_in_child() -> None:
    global _registry  # noqa: PLW0603 - the inherited one belongs to a thread of the parent's
    _registry = threading.RLock()
    for fd in _descriptors:
        os.close(fd)
    _descriptors.clear()
    for lock in list(_locks):
        lock.start_in_child()
    _idle.clear()


os.register_at_fork(
    before=_before_fork, after_in_parent=_after_fork, after_in_child=_start_in_child
)
