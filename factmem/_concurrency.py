"""Objects for each event loop, worker threads, pauses of the garbage collector, locks of files.

The objects of a place live as long as the place is in memory. The collector scans new objects every
700 allocations, scans all of them again as they grow, and finds nothing. Without a pause that takes
half of the time of reading 100,000 facts.

`FileLock` is an advisory lock against other processes and threads. On POSIX systems it is `flock`,
because locks of the other kind (`fcntl`, `lockf`) are released when any descriptor of the file is
closed. On Windows it is `msvcrt.locking`. The file is never deleted and never written: a lock on a
deleted file excludes no process.

On Linux waiters take turns: who finds another one waiting goes to the end of a queue of rungs,
bytes of the same file, and locks one rung after the other. Without it a process that saves again
and again would take the lock back before those that sleep between two attempts.
"""

import errno
import gc
import os
import stat
import struct
import threading
import time
import weakref
from collections.abc import Awaitable, Callable, Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from typing import Generic, TypeVar
from weakref import WeakKeyDictionary

import anyio
from anyio import CapacityLimiter, to_thread
from anyio.lowlevel import RunVar, current_token

from factmem.errors import CorruptJournalError, StorageError, StoreBusyError

R = TypeVar("R")
T = TypeVar("T")


class _Slot(Generic[T]):
    __slots__ = ("lock", "value")

    def __init__(self) -> None:
        self.lock = anyio.Lock()
        self.value: T | None = None


class PerLoopResource(Generic[T]):
    """Opens a resource on first use in each event loop, and keeps it until it is closed there."""

    def __init__(self, opened: Callable[[], T], close: Callable[[T], Awaitable[None]]) -> None:
        self._opened = opened
        self._close = close
        self._slot: RunVar[_Slot[T]] = RunVar("slot")

    async def get(self) -> T:
        """Return the resource of the running loop; it is opened in a worker thread."""
        slot = self._slot.get(None)
        if slot is None:
            slot = _Slot()
            self._slot.set(slot)
        async with slot.lock:
            if slot.value is None:
                slot.value = await to_thread.run_sync(self._opened)
            return slot.value

    async def aclose(self) -> None:
        """Close the resource of the running loop, if it is open; the next `get` opens another."""
        slot = self._slot.get(None)
        if slot is None:
            return
        async with slot.lock:
            value, slot.value = slot.value, None
            if value is not None:
                await self._close(value)


class PerLoop(Generic[T]):
    """Creates one object for each event loop, on first use. It lives as long as the loop and this.

    The object must not reference the loop, or no closed loop would be collected while this exists:
    a program may call `asyncio.run` a million times with one store.
    """

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._made: WeakKeyDictionary[object, T] = WeakKeyDictionary()

    def get(self) -> T:
        """Return the object of the running loop."""
        loop = current_token().native_token
        mine = self._made.get(loop)
        if mine is None:
            mine = self._made[loop] = self._make()
        return mine


_THREADS = 40
"""The number of anyio's default limiter."""


class Workers:
    """Runs blocking work in worker threads with its own limiter.

    With anyio's default limiter, forty threads that wait for a save would deadlock, and hanging
    calls would block the threads that other code needs.

    Args:
        abandon: Whether a cancelled caller returns at once; the work finishes in its thread and its
            result is discarded. Otherwise the caller waits for it.
    """

    def __init__(self, *, abandon: bool = False) -> None:
        self._limiter = PerLoop(lambda: CapacityLimiter(_THREADS))
        self._abandon = abandon

    async def run(self, work: Callable[[], R]) -> R:
        """Run `work` in a worker thread; `StorageError`, without a call, if none is left."""
        has_begun = False

        def begun() -> R:
            nonlocal has_begun
            has_begun = True
            return work()

        try:
            return await to_thread.run_sync(
                begun, limiter=self._limiter.get(), abandon_on_cancel=self._abandon
            )
        except RuntimeError as exc:
            if has_begun:
                raise
            raise no_thread() from exc


def no_thread() -> StorageError:
    """Return the error of a thread that cannot be started."""
    return StorageError(
        "No thread could be started, so nothing was done: this process has too many, or Python is "
        "exiting. Close what you no longer use, or raise the limit of processes (ulimit -u)"
    )


_MANY = 1000
"""The number of facts or keywords from which a pause pays; for fewer the collector hardly runs."""


class _Pause:
    """Pauses automatic collection in the process while a thread is inside. Pauses may overlap.

    It sets the threshold of the youngest generation to zero. It does not call `gc.disable` and
    `gc.enable`, which the program may call at the same time. `gc.freeze` would hide the program's
    own garbage from the collector, and `gc.unfreeze` would undo a freeze of the program.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._thresholds = gc.get_threshold()

    def __enter__(self) -> None:
        with self._lock:
            self._inside += 1
            if self._inside == 1:
                self._thresholds = gc.get_threshold()
                gc.set_threshold(0, *self._thresholds[1:])

    def __exit__(self, *exc_info: object) -> None:
        with self._lock:
            self._inside = max(0, self._inside - 1)  # 0 in a child forked by a thread inside
            if not self._inside:
                self._resume()

    def _resume(self) -> None:
        if gc.get_threshold()[0] == 0:  # otherwise the program has set its own thresholds meanwhile
            gc.set_threshold(*self._thresholds)

    def start_in_child(self) -> None:
        """Resume in a forked child, in which the threads that were inside do not exist."""
        self._lock = threading.Lock()
        if self._inside:
            self._inside = 0
            self._resume()


_pause = _Pause()
if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(after_in_child=_pause.start_in_child)


def paused_collection(count: int) -> AbstractContextManager[None]:
    """Return a context in which the garbage collector does not start by itself.

    Use it only for work of bounded length: nothing in the process is collected meanwhile.
    There is no pause for a small `count` of facts or keywords.
    """
    return _pause if count >= _MANY else nullcontext()


ORDINARY = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
"""Flags to open only what is a file: no link, and no wait for the writer of a pipe."""

try:
    import fcntl

    def try_lock(fd: int) -> None:
        """Lock an open file, or raise."""
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def _unlock(fd: int) -> None:
        fcntl.flock(fd, fcntl.LOCK_UN)

except ImportError:  # Windows
    import msvcrt

    def try_lock(fd: int) -> None:
        """Lock an open file, or raise."""
        os.lseek(fd, 0, os.SEEK_SET)
        msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined,unused-ignore]

    def _unlock(fd: int) -> None:
        os.lseek(fd, 0, os.SEEK_SET)
        msvcrt.locking(fd, msvcrt.LK_UNLCK, 1)  # type: ignore[attr-defined,unused-ignore]


try:
    from fcntl import F_OFD_SETLK, F_UNLCK, F_WRLCK
    from fcntl import fcntl as _control

    def _set_rung(fd: int, rung: int, *, is_held: bool) -> None:
        """Take a rung, or raise; or give it up. It belongs to the open file, as the lock does."""
        kind = F_WRLCK if is_held else F_UNLCK
        _control(fd, F_OFD_SETLK, struct.pack("hhqqi4x", kind, os.SEEK_SET, rung, 1, 0))

    _RUNGS = 64
    """The waiters that are in order. More of them wait for the last rung."""

except ImportError:  # elsewhere waiters have no order

    def _set_rung(fd: int, rung: int, *, is_held: bool) -> None:
        """Do nothing."""

    _RUNGS = 1  # pyright: ignore[reportConstantRedefinition]

_FIRST_PAUSE, _LONGEST_PAUSE = 0.0001, 0.002
"""Seconds between two attempts. A thread that blocks in `flock` could not time out."""

_REMEDIES = {
    errno.EACCES: "give this user the right, or run as its owner",
    errno.EPERM: "give this user the right, or run as its owner",
    errno.EROFS: "mount it writable",
    errno.ENOSPC: "free some room",
    errno.EDQUOT: "free some room, or raise the quota",
    errno.EMFILE: "raise the limit of open files of this process",
    errno.ENFILE: "raise the limit of open files of this machine",
    errno.EIO: "check the disk",
    errno.ESTALE: "mount it again",
}


def refusal(exc: OSError) -> str:
    """Return the reason of the operating system, and what to do about it."""
    remedy = _REMEDIES.get(exc.errno or 0, "")
    return f"{exc.strerror}{f' ({remedy})' if remedy else ''}"


def sync_folder(folder: str | os.PathLike[str]) -> None:
    """Make the names in a folder durable."""
    if os.name == "nt":  # which has no descriptors of folders
        return
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


class FileLock:
    """A lock on a file, which is created if it is missing. The file stays open between two locks.

    A thread that holds the lock may take it again. With `is_fair`, waiters take turns, which
    network file systems cannot have.
    """

    def __init__(self, path: str, timeout: float, *, is_fair: bool = True) -> None:
        self._path = path
        self._timeout = timeout
        self._is_fair = is_fair
        self._start()
        _locks.add(self)

    def _start(self) -> None:
        self._thread = threading.RLock()
        self._fd, self._depth = -1, 0

    @contextmanager
    def held(self, timeout: float | None = None, *, until: float | None = None) -> Generator[None]:
        """Hold the lock; wait for some seconds, or until a monotonic time.

        `StoreBusyError` if that is not enough.
        """
        seconds = self._timeout if timeout is None else timeout
        deadline = time.monotonic() + seconds if until is None else until
        with self.turn(self._thread, seconds):
            if not self._depth:
                self._acquire(deadline, seconds)
            self._depth += 1
            try:
                yield
            finally:
                self._depth -= 1
                if not self._depth:
                    self._release()

    @contextmanager
    def turn(self, lock: "threading.RLock", timeout: float | None = None) -> Generator[None]:
        """Hold another lock of this process, waiting no longer than for this one."""
        seconds = self._timeout if timeout is None else timeout
        if not lock.acquire(timeout=seconds):
            raise self._busy(seconds)
        try:
            yield
        finally:
            lock.release()

    def close(self) -> None:
        """Close the file; the next lock opens it again."""
        with self._thread:
            self._close()

    def __del__(self) -> None:
        """Close the file of a lock that was dropped."""
        self._close()

    def _close(self) -> None:
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            with suppress(OSError):  # it is closed all the same
                os.close(fd)

    def _acquire(self, deadline: float, seconds: float) -> None:
        pause, turn = _FIRST_PAUSE, _Turn() if self._is_fair else None
        while True:
            try:
                if self._fd < 0:
                    self._fd = self._open()
                if turn is None:
                    try_lock(self._fd)
                else:
                    turn.take(self._fd)
                if self._is_current():
                    return
            except (BlockingIOError, PermissionError):  # held; Windows says permission denied
                if time.monotonic() > deadline:
                    self._close()
                    raise self._busy(seconds) from None
                time.sleep(pause)
                # The next in turn polls often, because the lock is idle until it does.
                is_next = turn is not None and turn.is_next
                pause = _FIRST_PAUSE if is_next else min(2 * pause, _LONGEST_PAUSE)
                continue
            except OSError as exc:
                self._close()
                raise StorageError(
                    f"{self._path!r} cannot be locked: {refusal(exc)}. Nothing was written"
                ) from exc
            self._close()  # deleted or replaced: a lock on it excludes no process
            turn = turn and _Turn()

    def _release(self) -> None:
        try:
            _unlock(self._fd)
        except OSError:  # closing it unlocks it too
            self._close()

    def _open(self) -> int:
        try:
            fd = os.open(self._path, os.O_RDWR | os.O_CREAT | ORDINARY, 0o600)
        except PermissionError as exc:
            raise StorageError(
                f"{self._path!r} cannot be opened for writing: {refusal(exc)}. Nothing was written"
            ) from exc
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            os.close(fd)
            raise CorruptJournalError(
                f"{self._path!r} is not a regular file: remove it. Nothing was written"
            )
        return fd

    def _is_current(self) -> bool:
        try:
            return os.path.samestat(os.fstat(self._fd), os.stat(self._path, follow_symlinks=False))
        except FileNotFoundError:
            return False

    def _busy(self, seconds: float) -> StoreBusyError:
        return StoreBusyError(
            f"Another process or thread held the lock {self._path!r} for {seconds:g} s. Nothing "
            "was written; try again, or allow a store more time with busy_timeout"
        )

    def start_in_child(self) -> None:
        """Close the file in a forked child, which would share the lock of its parent."""
        fd = self._fd
        self._start()
        if fd >= 0:
            with suppress(OSError):
                os.close(fd)


class _Turn:
    """The place of a waiter among others."""

    def __init__(self) -> None:
        self._rung = 0
        self._is_held = False

    @property
    def is_next(self) -> bool:
        return self._is_held and not self._rung

    def take(self, fd: int) -> None:
        """Lock a file if it is this waiter's turn, or raise."""
        if not self._is_held:
            try:
                _set_rung(fd, self._rung, is_held=True)
            except BlockingIOError:  # another one waits: behind it
                self._rung = _RUNGS - 1
                raise
            self._is_held = True
        while self._rung:
            _set_rung(fd, self._rung - 1, is_held=True)
            _set_rung(fd, self._rung, is_held=False)
            self._rung -= 1
        try_lock(fd)
        self._is_held = False
        _set_rung(fd, 0, is_held=False)


_locks: "weakref.WeakSet[FileLock]" = weakref.WeakSet()


def _start_in_child() -> None:
    for lock in list(_locks):
        lock.start_in_child()


if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(after_in_child=_start_in_child)
