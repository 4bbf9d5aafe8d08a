"""Group commit: many saves, from many tasks, threads and event loops, share one durable write.

Saves join one queue. A thread of the store commits it batch by batch, and wakes each event loop
once per batch. Two thread switches by `anyio.to_thread` took 31 microseconds a save, these take 11.
The first save starts the thread. It ends after ten idle seconds, when the store is closed, and when
the store is garbage collected. A forked child starts its own.
"""

import copy
import os
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from logging import getLogger
from math import inf
from typing import Any, Generic, TypeVar

from anyio import CancelScope, Event, current_effective_deadline
from anyio.lowlevel import cancel_shielded_checkpoint, checkpoint_if_cancelled, current_token

from factmem._concurrency import PerLoop, Workers, no_thread
from factmem.errors import StorageError

_logger = getLogger(__name__)

W = TypeVar("W")

LARGEST_BATCH = 256
"""The most saves per durable write: enough to make the cost of a write negligible, few enough to
hold the lock for milliseconds only."""

_ALONE = 4
"""The number of batches with one save each after which a save counts as alone."""

_IDLE = 10.0
"""Seconds without a save after which the committing thread ends."""


class EventLoop:
    """Wakes the tasks of an event loop from other threads; the loop may end before the store."""

    __slots__ = ("__weakref__", "_loop", "has_futures", "is_gathering")

    def __init__(self) -> None:
        loop: Any = current_token().native_token
        self._loop: weakref.ref[Any] = weakref.ref(loop)
        # Methods of asyncio loops: a future wakes a task a microsecond faster than anyio's event,
        # and a callback needs no task.
        self.has_futures = hasattr(loop, "create_future")
        self.is_gathering = False
        """Whether the bell will be rung as soon as the tasks that are ready now have run."""

    def create_future(self) -> Any:
        loop: Any = self._loop()
        return loop.create_future()

    def call_soon(self, call: Callable[..., object], *arguments: object) -> None:
        """Call a function once the tasks that are ready now have run, in an asyncio loop."""
        loop: Any = self._loop()
        loop.call_soon(call, *arguments)

    def wake(self, waiting: "Iterable[Pending[Any]]") -> None:
        loop: Any = self._loop()
        if loop is None:
            return
        call = loop.call_soon_threadsafe if self.has_futures else loop.run_sync_soon
        with suppress(RuntimeError):  # the loop is closed, so none of its tasks waits any more
            call(_finish_all, waiting)


def _finish_all(waiting: "Iterable[Pending[Any]]") -> None:
    for pending in waiting:
        pending.finish()


class Pending(Generic[W]):
    """A piece of work that waits for its commit."""

    __slots__ = ("_event", "_future", "error", "is_done", "loop", "work")

    def __init__(self, work: W, loop: EventLoop) -> None:
        self.work = work
        self.loop = loop
        self.is_done = False
        self.error: BaseException | None = None
        self._future: Any = None
        self._event: Event | None = None

    # `wait` and `finish` run in the loop's thread only, so nothing can happen between check and
    # wait.

    async def wait(self) -> None:
        if self.is_done:
            return
        if self.loop.has_futures:
            self._future = self.loop.create_future()
            await self._future
        else:
            self._event = Event()
            await self._event.wait()

    def finish(self) -> None:
        """Wake the task if it still waits."""
        self.is_done = True
        if self._event is not None:
            self._event.set()
        elif self._future is not None and not self._future.done():
            self._future.set_result(None)


class GroupCommit(Generic[W]):
    """Commits queued pieces of work in batches.

    A forked child must create a new one, because it has neither the thread nor the waiting tasks.

    Args:
        commit: Commits one batch at a time, in a thread, and sets `error` on the pieces that
            failed. An error that it raises is the error of the whole batch.
        workers: The threads that `close` uses.
        rest: Called in the committing thread after some idle seconds, with a function that returns
            whether work is queued; it must then return soon.
    """

    def __init__(
        self,
        commit: Callable[[Sequence[Pending[W]]], None],
        workers: Workers,
        rest: Callable[[Callable[[], bool]], None] = lambda _: None,
    ) -> None:
        self._pid = os.getpid()
        self._commit = commit
        self._rest = rest
        self._workers = workers
        self._queue: deque[Pending[W]] = deque()
        self._committing = threading.Lock()
        self._loops: PerLoop[EventLoop] = PerLoop(EventLoop)
        self._state = threading.Lock()
        """Guards the flags below; held for microseconds, also by event loops."""
        self._has_thread = self._is_rung = self._is_closed = False
        self._bell = threading.Lock()
        """Releasing it wakes the thread; it is rung once, however many tasks ask."""
        self._bell.acquire()
        self._until_alone = 1
        """The number of further batches with one save until no save waits for others.

        The thread writes it and event loops read it, without a lock: a stale value makes one batch
        smaller, or one save later by a turn of the loop.
        """

    async def submit(self, work: W) -> None:
        """Return when the work is committed, or raise the error that prevented it.

        If cancelled before its commit begins, the work is not done. If cancelled later, it is done,
        and the task waits for it. A task cancelled by asyncio itself (`Task.cancel`) does not wait,
        and either outcome is possible.
        """
        if current_effective_deadline() == -inf:  # three times as fast as the call
            await checkpoint_if_cancelled()
        if self._pid != os.getpid():
            raise StorageError(
                "This process was forked by C code with the store open, so the thread that commits "
                "is missing: fork by os.fork, or open the store in the child"
            )
        loop = self._loops.get()
        pending = Pending(work, loop)
        self._queue.append(pending)
        try:
            if not self._until_alone:
                self._ring(loop)
            elif not loop.is_gathering:
                await self._gather(loop)
            await pending.wait()
        except BaseException as exc:
            try:
                self._queue.remove(pending)
            except ValueError:  # its commit has begun
                # In a cancelled scope only: after Task.cancel the task is expected to end now, and
                # a collected coroutine has no loop.
                if not isinstance(exc, GeneratorExit) and current_effective_deadline() == -inf:
                    with CancelScope(shield=True):
                        await pending.wait()
            raise
        if pending.error is not None:
            # One error may fail many tasks: each raises a copy, or their tracebacks would mix.
            raise copy.copy(pending.error) from pending.error.__cause__

    async def close(self) -> None:
        with CancelScope(shield=True):
            await self._workers.run(self._close)

    def _close(self) -> None:
        self._commit_all(len(self._queue))  # even of none: it waits for the batch under way
        while self._queue:
            self._commit_all(len(self._queue))
        with self._state:
            self._is_closed = True
            if not self._has_thread or self._is_rung:
                return
            self._is_rung = True
        self._bell.release()

    async def _gather(self, loop: EventLoop) -> None:
        """Ring when all tasks that are ready now have queued their saves: these share a write."""
        loop.is_gathering = True
        if loop.has_futures:
            loop.call_soon(self._ring, loop)
            return
        try:
            await cancel_shielded_checkpoint()
        finally:
            self._ring(loop)

    def _ring(self, loop: EventLoop) -> None:
        """Make the thread commit what is queued; start it if it is not running."""
        loop.is_gathering = False
        with self._state:
            if self._is_rung:
                return
            self._is_rung = True
            has_thread, self._has_thread = self._has_thread, True
        self._bell.release()
        if not has_thread:
            # A daemon, so that the interpreter need not wait for it at exit. An interrupted save
            # was never acknowledged, and a torn write is repaired.
            arguments = (weakref.ref(self), self._bell)
            thread = threading.Thread(
                target=_serve, args=arguments, name="factmem commit", daemon=True
            )
            try:
                thread.start()
            except RuntimeError as exc:  # the system has no more threads, or Python is exiting
                self._refuse(exc)

    def _refuse(self, error: RuntimeError) -> None:
        self._bell.acquire()
        with self._state:
            self._has_thread = self._is_rung = False
        # Later saves try to start a thread again; these would never be committed.
        refused: list[Pending[W]] = []
        with suppress(IndexError):
            while True:
                refused.append(self._queue.popleft())
        for pending in refused:
            pending.error = no_thread()
            pending.error.__cause__ = error
        wake(refused)

    def serve(self, *, is_rung: bool) -> bool:
        """Commit what is queued, in the thread; return whether the thread continues."""
        if is_rung:
            self._is_rung = False  # before the queue is read: later saves ring again
            self._commit_all(len(self._queue))
        else:
            try:
                self._rest(lambda: bool(self._queue))
            except Exception as exc:  # noqa: BLE001 - saves would wait forever for an ended thread
                _logger.debug("The store did not rest: %s", type(exc).__name__)
        with self._state:
            self._has_thread = self._is_rung or (is_rung and not self._is_closed)
            return self._has_thread

    def _commit_all(self, count: int) -> None:
        """Commit `count` pieces of work, in batches.

        The tasks that a batch wakes queue their next saves one by one, and ring when all have. A
        batch of the first few would leave the others to a second write, and so on in every round.
        """
        with self._committing:
            for left in range(count, 0, -LARGEST_BATCH):
                self._commit_batch(min(left, LARGEST_BATCH))

    def _commit_batch(self, size: int) -> None:
        batch: list[Pending[W]] = []
        with suppress(IndexError):
            while len(batch) < size:
                batch.append(self._queue.popleft())
        if not batch:  # cancelled meanwhile
            return
        self._until_alone = _ALONE if len(batch) > 1 else max(0, self._until_alone - 1)
        try:
            self._commit(batch)
        except BaseException as exc:  # noqa: BLE001 - the tasks that wait for it raise it
            for pending in batch:
                pending.error = exc
        finally:
            wake(batch)


def wake(done: "Iterable[Pending[Any]]") -> None:
    by_loop: dict[EventLoop, list[Pending[Any]]] = {}
    for pending in done:
        by_loop.setdefault(pending.loop, []).append(pending)
    for loop, waiting in by_loop.items():
        loop.wake(waiting)


def _serve(reference: "weakref.ref[GroupCommit[Any]]", bell: threading.Lock) -> None:
    """Serve the queue; an idle thread references only the bell, so the store can be collected."""
    goes_on = True
    while goes_on:
        is_rung = bell.acquire(timeout=_IDLE)
        commits = reference()
        goes_on = commits is not None and commits.serve(is_rung=is_rung)
        del commits
