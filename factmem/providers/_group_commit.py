"""Group commit: many saves, from many tasks, threads and event loops, share one durable write.

Saves join one queue. A thread of the store's own commits it batch by batch, and wakes each event
loop once per batch. Two hops through `anyio.to_thread` took 31 microseconds a save, these take 11.
The first save starts the thread. It ends after ten idle seconds, when the store is closed, and when
the store is garbage; a forked child starts its own.
"""

import copy
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

from factmem.concurrency.per_loop import PerLoop, Workers

_logger = getLogger(__name__)

W = TypeVar("W")

LARGEST_BATCH = 256
"""Saves per durable write: enough for the cost of a write to vanish in it, few enough to keep the
lock for milliseconds."""

_THREADS = 8

_ALONE = 4
"""After how many batches of one save each a save counts as alone."""

_IDLE = 10.0
"""Seconds without a save after which the committing thread ends."""


class EventLoop:
    """An event loop, and how other threads wake its tasks."""

    __slots__ = ("__weakref__", "_call_from_thread", "call_soon", "create_future", "is_gathering")

    def __init__(self) -> None:
        loop: Any = current_token().native_token
        self._call_from_thread: Callable[..., object] = (
            getattr(loop, "call_soon_threadsafe", None) or loop.run_sync_soon
        )
        # asyncio's own means, where the loop has them: a bare future wakes a task for a microsecond
        # less than anyio's event, and a callback costs the loop no step of a task.
        self.call_soon: Callable[..., object] | None = getattr(loop, "call_soon", None)
        self.create_future: Callable[[], Any] | None = getattr(loop, "create_future", None)
        self.is_gathering = False
        """Whether the queue is announced already, as soon as the tasks that are ready have run."""

    def wake(self, waiting: "Iterable[Pending[Any]]") -> None:
        """Wake the tasks whose work is done; from any thread."""
        with suppress(RuntimeError):  # the loop is closed, and no task of it waits any more
            self._call_from_thread(_finish_all, waiting)


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

    # `wait` and `finish` run in the loop's thread alone, so nothing comes between check and wait.

    async def wait(self) -> None:
        """Wait until the work is done."""
        if self.is_done:
            return
        if self.loop.create_future is not None:
            self._future = self.loop.create_future()
            await self._future
        else:
            self._event = Event()
            await self._event.wait()

    def finish(self) -> None:
        """Wake the task that waits, if it still does."""
        self.is_done = True
        if self._event is not None:
            self._event.set()
        elif self._future is not None and not self._future.done():
            self._future.set_result(None)


def _do_nothing(is_wanted: Callable[[], bool]) -> None:
    """Do nothing while nothing is queued."""


class GroupCommit(Generic[W]):
    """Commits queued pieces of work in batches.

    A forked child must make a new one: it has neither the thread nor the tasks that wait.

    Args:
        commit: Commits a batch, in a thread, one batch at a time; sets `error` on the pieces that
            failed. An error that it raises is the error of the whole batch.
        workers: The threads that `close` uses.
        rest: Called in the committing thread when nothing was queued for some seconds, with a
            function that returns whether something is: then it ends soon.
    """

    def __init__(
        self,
        commit: Callable[[Sequence[Pending[W]]], None],
        workers: Workers,
        rest: Callable[[Callable[[], bool]], None] = _do_nothing,
    ) -> None:
        self._commit = commit
        self._rest = rest
        self._workers = workers
        self._queue: deque[Pending[W]] = deque()
        self._committing = threading.Lock()
        self._loops: PerLoop[EventLoop] = PerLoop(EventLoop)
        self._state = threading.Lock()
        """Guards the flags below; held for moments, also by event loops."""
        self._has_thread = self._is_rung = self._is_closed = False
        self._bell = threading.Lock()
        """Wakes the thread when it is released; it is rung once however many ask."""
        self._bell.acquire()
        self._until_alone = 1
        """How many more batches of one save there must be until no save waits for others.

        It is written by the thread and read by event loops, without a lock: a wrong guess makes one
        batch smaller, or one save later, by a turn of the loop.
        """

    async def submit(self, work: W) -> None:
        """Return when the work is committed, or raise the error that prevented it.

        Cancelled before its commit has begun, the work is not done. Cancelled later, it is done and
        waited for. A task that asyncio itself cancels (`Task.cancel`) does not wait: either may be.
        """
        await checkpoint_if_cancelled()
        loop = self._loops.get()
        pending = Pending(work, loop)
        self._queue.append(pending)
        try:
            if not self._until_alone:
                self._ring(loop)
            elif not loop.is_gathering:
                await self._gather(loop)
            await pending.wait()
        except BaseException:
            try:
                self._queue.remove(pending)
            except ValueError:  # its commit has begun
                # In a cancelled scope only: whoever calls Task.cancel expects the task to end now.
                if current_effective_deadline() == -inf:
                    with CancelScope(shield=True):
                        await pending.wait()
            raise
        if pending.error is not None:
            # One error may fail many tasks: each raises a copy, or their tracebacks would mix.
            raise copy.copy(pending.error) from pending.error.__cause__

    async def close(self) -> None:
        """Commit what is queued, and let the thread end."""
        with CancelScope(shield=True):
            await self._workers.run(self._close)

    def _close(self) -> None:
        while self._queue:
            self._commit_all(len(self._queue))
        with self._state:
            self._is_closed = True
            if not self._has_thread or self._is_rung:
                return
            self._is_rung = True
        self._bell.release()

    async def _gather(self, loop: EventLoop) -> None:
        """Ring when the tasks that are ready now have queued their saves: they share the write."""
        loop.is_gathering = True
        if loop.call_soon is not None:
            loop.call_soon(self._ring, loop)
            return
        try:
            await cancel_shielded_checkpoint()
        finally:
            self._ring(loop)

    def _ring(self, loop: EventLoop) -> None:
        """Have the thread commit what is queued; start it if there is none."""
        loop.is_gathering = False
        with self._state:
            if self._is_rung:
                return
            self._is_rung = True
            has_thread, self._has_thread = self._has_thread, True
        self._bell.release()
        if not has_thread:
            # A daemon: an interpreter that exits need not wait for it. What it may break off was
            # never acknowledged, and a torn write is repaired.
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
        # Later saves try to start a thread again; only these would never be committed.
        refused: list[Pending[W]] = []
        with suppress(IndexError):
            while True:
                refused.append(self._queue.popleft())
        for pending in refused:
            pending.error = error
        wake(refused)

    def serve(self, *, is_rung: bool) -> bool:
        """Commit what is queued, in the thread; return whether the thread goes on."""
        if is_rung:
            self._is_rung = False  # before looking: who queues later rings again
            self._commit_all(len(self._queue))
        else:
            try:
                self._rest(lambda: bool(self._queue))
            except Exception as exc:  # noqa: BLE001 - saves would wait for a dead thread for ever
                _logger.debug("The store did not rest: %s", type(exc).__name__)
        with self._state:
            self._has_thread = self._is_rung or (is_rung and not self._is_closed)
            return self._has_thread

    def _commit_all(self, count: int) -> None:
        """Commit so many pieces of work, in batches.

        The tasks that a batch wakes queue their next saves one by one, and ring when all have. A
        batch of the first few would leave the others to one more write, for as long as they save.
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
    """Wake the tasks whose work is done, each event loop once."""
    by_loop: dict[EventLoop, list[Pending[Any]]] = {}
    for pending in done:
        by_loop.setdefault(pending.loop, []).append(pending)
    for loop, waiting in by_loop.items():
        loop.wake(waiting)


def _serve(reference: "weakref.ref[GroupCommit[Any]]", bell: threading.Lock) -> None:
    """Serve the queue; hold only its bell while idle, so that a dropped store is collected."""
    goes_on = True
    while goes_on:
        is_rung = bell.acquire(timeout=_IDLE)
        commits = reference()
        goes_on = commits is not None and commits.serve(is_rung=is_rung)
        del commits
