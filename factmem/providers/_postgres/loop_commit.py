"""Group commits that begin on the event loop.

A switch to a thread and back takes as long as the server's answer to a small batch. So the first
task with work becomes the leader: it sends a batch and waits for the socket. A thread takes over if
there is no idle connection, after a failure, if the answer is late, and if the leader is cancelled.
"""

import copy
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from logging import getLogger
from math import inf
from typing import Any, Generic, Protocol, TypeVar

from anyio import CancelScope, current_effective_deadline, current_time, wait_readable
from anyio.lowlevel import cancel_shielded_checkpoint, checkpoint_if_cancelled
from typing_extensions import override

from factmem.concurrency.per_loop import PerLoop, Workers
from factmem.providers._group_commit import LARGEST_BATCH, EventLoop, GroupCommit, Pending, wake
from factmem.providers._postgres.exchanges import Exchange

_logger = getLogger(__name__)

W = TypeVar("W")

_PATIENCE = 1.0
"""Seconds until a thread waits for the answer instead, so that the loop can send the next batch."""


class Begun(Protocol):
    """A batch that was sent."""

    @property
    def exchange(self) -> Exchange:
        """The statement and its answer."""
        ...


class Attempts(Protocol[W]):
    """Sends batches and processes their answers."""

    def begin(self, batch: Sequence[Pending[W]]) -> Begun | None:
        """Send a batch without waiting; None if a thread must do all of it."""
        ...

    def end(self, batch: Sequence[Pending[W]], begun: Any) -> bool:
        """Process a complete answer without waiting; return whether nothing is left to do."""
        ...

    def finish(self, batch: Sequence[Pending[W]], begun: Any) -> None:
        """Do the rest in a thread: wait for the answer, repeat a failed batch, tidy up.

        It sets `error` on pieces that failed. If it raises, the whole batch fails.
        """
        ...


class _Turn(Pending[W]):
    """Work that waits for its commit, or for its task to become the leader."""

    __slots__ = ()

    def lead(self) -> None:
        """Wake the task, which is now the leader."""
        if self._event is not None:
            self._event.set()
        elif self._future is not None and not self._future.done():
            self._future.set_result(None)


class _Turns(Generic[W]):
    """The queue of one event loop. Only the thread of that loop uses it."""

    def __init__(self, loop: EventLoop) -> None:
        self.loop = loop
        self.queue: deque[_Turn[W]] = deque()
        self.leader: _Turn[W] | None = None


class LoopCommit(GroupCommit[W]):
    """A `GroupCommit` whose batches begin on the event loop, one at a time in each loop.

    Args:
        commit: Commits a batch, in a thread.
        workers: The threads that `close` uses.
        attempts: Sends batches and processes their answers.
        seconds: The longest time that `close` waits for calls.
    """

    def __init__(
        self,
        commit: Callable[[Sequence[Pending[W]]], None],
        workers: Workers,
        attempts: Attempts[W],
        seconds: float,
    ) -> None:
        super().__init__(commit, workers)
        self._attempts = attempts
        self._seconds = seconds
        loops = self._loops
        self._turns: PerLoop[_Turns[W]] = PerLoop(lambda: _Turns(loops.get()))
        self._calm = threading.Condition()
        self._under_way = 0
        """The number of calls, and of threads that finish their batches."""

    @override
    async def submit(self, work: W) -> None:
        await checkpoint_if_cancelled()
        turns = self._turns.get()
        turn = _Turn(work, turns.loop)
        turns.queue.append(turn)
        self._count(1)
        try:
            if turns.leader is None:
                turns.leader = turn
            else:
                await turn.wait()
            if turns.leader is turn:
                await cancel_shielded_checkpoint()  # lets ready tasks join the batch
                await self._lead(turns)
            await turn.wait()
        except BaseException:
            # In a cancelled scope only: whoever calls Task.cancel expects the task to end now.
            if not self._withdraw(turns, turn) and current_effective_deadline() == -inf:
                with CancelScope(shield=True):
                    await turn.wait()
            raise
        finally:
            if turns.leader is turn:
                _pass_on(turns)
            self._count(-1)
        if turn.error is not None:
            # One error may fail many tasks: each raises a copy, or their tracebacks would mix.
            raise copy.copy(turn.error) from turn.error.__cause__

    def _withdraw(self, turns: _Turns[W], turn: _Turn[W]) -> bool:
        """Remove work that was not sent yet; return whether it was removed."""
        for queue in (turns.queue, self._queue):
            try:
                queue.remove(turn)
            except ValueError:
                continue
            return True
        return False

    async def _lead(self, turns: _Turns[W]) -> None:
        """Send a batch and wait for the answer, or hand the batch to a thread."""
        batch = [turns.queue.popleft() for _ in range(min(len(turns.queue), LARGEST_BATCH))]
        begun: Begun | None = None
        is_done = False
        try:
            begun = self._attempts.begin(batch)
            if begun is not None and await _is_answered(begun.exchange):
                is_done = self._attempts.end(batch, begun)
        except Exception as exc:  # noqa: BLE001 - a thread does the rest, and all tasks raise its error
            _logger.debug("A batch was left to a thread: %s", type(exc).__name__)
        finally:  # also after `Task.cancel`, as other tasks wait for the answer
            if begun is None:
                self._queue.extend(batch)
                self._ring(turns.loop)
            elif is_done:
                for turn in batch:
                    turn.finish()
            else:
                self._finish_in_thread(batch, begun)
            _pass_on(turns)

    def _finish_in_thread(self, batch: Sequence[_Turn[W]], begun: Begun) -> None:
        def finish() -> None:
            try:
                self._attempts.finish(batch, begun)
            except BaseException as exc:  # noqa: BLE001 - the tasks that wait for it raise it
                for turn in batch:
                    turn.error = exc
            finally:
                wake(batch)
                self._count(-1)

        self._count(1)
        try:
            threading.Thread(target=finish, name="factmem commit", daemon=True).start()
        except RuntimeError:  # the system has no more threads; the batch needs its answer
            finish()

    def _count(self, calls: int) -> None:
        with self._calm:
            self._under_way += calls
            if not self._under_way:
                self._calm.notify_all()

    @override
    async def close(self) -> None:
        with CancelScope(shield=True):
            await self._workers.run(self._wait)
        await super().close()

    def _wait(self) -> None:
        with self._calm:
            self._calm.wait_for(lambda: not self._under_way, self._seconds)


async def _is_answered(exchange: Exchange) -> bool:
    """Wait for an answer, or an error, for some time; return whether it came."""
    if exchange.is_sent:
        try:
            with CancelScope(shield=True, deadline=current_time() + _PATIENCE):
                while True:
                    await wait_readable(exchange.socket)
                    if exchange.is_answered():
                        return True
        except Exception as exc:  # noqa: BLE001 - a socket that this loop cannot watch: a thread can
            _logger.debug("A socket was not watched: %s", type(exc).__name__)
    return False


def _pass_on(turns: _Turns[W]) -> None:
    """Make the task that has waited longest the next leader."""
    turns.leader = turns.queue[0] if turns.queue else None
    if turns.leader is not None:
        with suppress(RuntimeError):  # the loop is closed, and no task of it waits any more
            turns.leader.lead()
