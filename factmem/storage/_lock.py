"""The lock of a store: one advisory lock against every other process and thread.

`flock` on purpose: the other kind (`fcntl`, `lockf`) is dropped when any descriptor of the file is
closed and does not exclude threads. The lock file is never deleted and never written: a lock on a
deleted file excludes nobody.
"""

import fcntl
import os
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from queue import SimpleQueue

from factmem.errors import StoreBusyError
from factmem.storage._ordinary import open_ordinary

__all__ = ["check_timeout", "held"]


def check_timeout(seconds: float) -> None:
    """Make sure that one can wait that long for a lock.

    Raises:
        TypeError: It is no number.
        ValueError: It is negative, no number after all, or longer than anybody can wait.
    """
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        raise TypeError(
            f"busy_timeout is a number of seconds, not {type(seconds).__name__}: busy_timeout=5"
        )
    if not 0 <= seconds <= threading.TIMEOUT_MAX:
        raise ValueError("busy_timeout is how many seconds to wait for the lock, from 0 on")


@contextmanager
def held(path: str, timeout: float) -> Generator[None]:
    """Hold the lock file `path`, made if it is not there; it is closed in forked children.

    Raises:
        StoreBusyError: Somebody else held it for `timeout` seconds.
        CorruptJournalError: It is no ordinary file.
    """
    fd = _locked(path, timeout)
    try:
        yield
    finally:
        _close(fd)


def _locked(path: str, timeout: float) -> int:
    deadline = time.monotonic() + timeout
    while True:
        fd = _open(path)
        if not _try_lock(fd) and not _wait(fd, max(0.0, deadline - time.monotonic())):
            raise StoreBusyError(
                f"Another process or thread held the lock of the store for {timeout:g} s: "
                f"{path!r}. Nothing was written; try again, or allow more time with busy_timeout"
            )
        if _is_same_file(fd, path):
            return fd
        _close(fd)


def _try_lock(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except BaseException:
        _close(fd)
        raise
    return True


def _is_same_file(fd: int, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(fd), os.stat(path))
    except FileNotFoundError:
        return False
    except BaseException:
        _close(fd)
        raise


# Waiting. `flock` waits for ever or not at all, and trying again and again is unfair: whoever has
# just let go is back before those who sleep have woken. So a thread that can be abandoned waits.


class _Wait:
    """A wait for one lock, shared by the thread that waits and the one that may give up."""

    __slots__ = ("error", "fd", "is_given_up", "is_over", "mutex", "signal")

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.mutex = threading.Lock()
        self.signal = threading.Lock()
        self.signal.acquire()
        self.is_over = self.is_given_up = False
        self.error: OSError | None = None

    def work(self) -> None:
        """Wait for the lock; let it go if nobody wants it any more."""
        try:
            fcntl.flock(self.fd, fcntl.LOCK_EX)
        except OSError as exc:
            self.error = exc
        with self.mutex:
            self.is_over = True
            if self.is_given_up:
                _close(self.fd)

    def outcome(self, timeout: float) -> bool:
        """Return whether the lock was obtained in time; if not, it is closed or will be."""
        self.signal.acquire(timeout=timeout)
        with self.mutex:
            self.is_given_up = not self.is_over
        if self.error is not None:
            _close(self.fd)
            raise self.error
        return self.is_over


def _wait(fd: int, timeout: float) -> bool:
    wait = _Wait(fd)
    try:
        inbox = _idle.pop()
    except IndexError:
        inbox = SimpleQueue()
        threading.Thread(target=_work, args=(inbox,), name="factmem lock", daemon=True).start()
    inbox.put(wait)
    return wait.outcome(timeout)


def _work(inbox: "SimpleQueue[_Wait]") -> None:
    while True:
        wait = inbox.get()
        wait.work()
        _idle.append(inbox)
        wait.signal.release()


_idle: "list[SimpleQueue[_Wait]]" = []
"""The inboxes of threads that have nothing to wait for: as many as ever waited at one time."""


# Forking. A child shares its parent's locks, and would hold on to them when the parent is killed.


def _open(path: str) -> int:
    with _registry:
        fd = open_ordinary(path, os.O_RDWR | os.O_CREAT)
        _descriptors.add(fd)
    return fd


def _close(fd: int) -> None:
    with _registry:
        _descriptors.discard(fd)
        try:
            fcntl.flock(fd, fcntl.LOCK_UN)  # said aloud: a child that runs another program has it
        finally:
            os.close(fd)


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
    _idle.clear()


os.register_at_fork(
    before=_before_fork, after_in_parent=_after_fork, after_in_child=_start_in_child
)
