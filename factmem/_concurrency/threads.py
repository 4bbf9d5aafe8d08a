"""Objects for each event loop, worker threads, and pauses of the garbage collector.

The objects of a place live as long as the place is in memory. The collector scans new objects every
700 allocations, scans all of them again as they grow, and finds nothing. Without a pause that takes
half of the time of reading 100,000 facts.
"""

import gc
import os
import threading
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Generic, TypeVar
from weakref import WeakKeyDictionary

import anyio
from anyio import CapacityLimiter, to_thread
from anyio.lowlevel import RunVar, current_token

from factmem.errors import StorageError

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
