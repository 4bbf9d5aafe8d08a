"""Group commit: many saves, from many tasks, threads and event loops, share one durable write.

Each save joins a queue that all share. In each event loop one of the waiting tasks leads: it goes
to a worker thread and commits what is queued, its own save and others', until its own is done.
Then it wakes those whose saves are done too, and one of the others leads on. There is no
background task: who waits, works.
"""

import copy
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Generic, TypeVar

from anyio import CancelScope, CapacityLimiter, Event, to_thread
from anyio.lowlevel import checkpoint

from factmem._per_loop import PerLoop

__all__ = ["GroupCommit", "Pending", "Workers"]

W = TypeVar("W")
R = TypeVar("R")

_LARGEST_BATCH = 256
"""Saves per durable write: enough for the cost of a write to vanish in it, few enough to keep the
lock for milliseconds."""

_THREADS = 8


class Workers:
    """Worker threads of one store's own, for each event loop.

    On anyio's default limiter, as many threads as it has that wait for a save would deadlock.
    """

    def __init__(self) -> None:
        self._limiter = PerLoop(lambda: CapacityLimiter(_THREADS))

    async def run(self, work: Callable[[], R]) -> R:
        """Do blocking work in a thread; it is waited for, also when the caller is cancelled."""
        return await to_thread.run_sync(work, limiter=self._limiter.get())


class Pending(Generic[W]):
    """A piece of work that waits for its commit."""

    __slots__ = ("error", "is_done", "leads", "turn", "work")

    def __init__(self, work: W) -> None:
        self.work = work
        self.is_done = False
        self.error: BaseException | None = None
        self.turn: Event | None = None
        self.leads = False


class _Waiting(Generic[W]):
    """The tasks of one event loop that wait while another of them leads."""

    __slots__ = ("has_leader", "line")

    def __init__(self) -> None:
        self.has_leader = False
        self.line: deque[Pending[W]] = deque()

    def pass_on(self) -> None:
        """Wake those whose work is done, and let the first of the others lead."""
        line, self.line = self.line, deque()
        for pending in line:
            if pending.is_done and pending.turn is not None:
                pending.turn.set()
            else:
                self.line.append(pending)
        self.has_leader = bool(self.line)
        if self.line:
            following = self.line.popleft()
            following.leads = True
            if following.turn is not None:
                following.turn.set()


class GroupCommit(Generic[W]):
    """Commits queued pieces of work in batches.

    Args:
        commit: Commits a batch, in a worker thread, one batch at a time; sets `error` on the
            pieces that failed. What it raises befalls the whole batch.
        workers: The threads to use.
    """

    def __init__(self, commit: Callable[[Sequence[Pending[W]]], None], workers: Workers) -> None:
        self._commit = commit
        self._workers = workers
        self._queue: deque[Pending[W]] = deque()
        self._mutex = threading.Lock()
        self._waiting: PerLoop[_Waiting[W]] = PerLoop(_Waiting)

    async def submit(self, work: W) -> None:
        """Return when the work is committed, or raise what kept it from being.

        Cancelled before its commit has begun, the work is not done; cancelled later, it is. A
        cancellation that asyncio's `Task.cancel` makes is not waited for: it may be either.
        """
        pending = Pending(work)
        here = self._waiting.get()
        self._queue.append(pending)
        try:
            if here.has_leader:
                pending.turn = Event()
                here.line.append(pending)
                await pending.turn.wait()
            else:
                here.has_leader = pending.leads = True
                await checkpoint()  # whoever is ready to save shares this write
            if pending.leads and not pending.is_done:
                with CancelScope(shield=True):
                    await self._workers.run(lambda: self._commit_until(pending))
        except BaseException:
            with suppress(ValueError):  # already taken by somebody who commits
                self._queue.remove(pending)
                # asyncio's own cancellation leaves the thread at work: it is to look no longer.
                pending.is_done = True
            with suppress(ValueError):
                here.line.remove(pending)
            raise
        finally:
            if pending.leads:
                here.pass_on()
        if pending.error is not None:
            # One error befalls many tasks: each raises its own, or their tracebacks would mix.
            raise copy.copy(pending.error) from pending.error.__cause__

    async def drain(self) -> None:
        """Commit what is queued."""
        with CancelScope(shield=True):
            await self._workers.run(lambda: self._commit_until(None))

    def _commit_until(self, wanted: Pending[W] | None) -> None:
        with self._mutex:
            while self._queue if wanted is None else not wanted.is_done:
                self._commit_batch()

    def _commit_batch(self) -> None:
        batch: list[Pending[W]] = []
        with suppress(IndexError):
            while len(batch) < _LARGEST_BATCH:
                batch.append(self._queue.popleft())
        try:
            self._commit(batch)
        except BaseException as exc:  # noqa: BLE001 - it belongs to those who wait, and goes there
            for pending in batch:
                pending.error = exc
        finally:
            for pending in batch:
                pending.is_done = True
