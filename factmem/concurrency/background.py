"""Work that goes on after the call that started it has returned, inside one task group."""

from collections.abc import Awaitable, Callable, Hashable
from contextlib import AbstractAsyncContextManager, nullcontext
from math import inf
from types import TracebackType

import anyio
from anyio.abc import TaskGroup
from anyio.lowlevel import checkpoint, current_token

__all__ = ["MAX_FAILURES", "BackgroundWork", "told_if_broken_off"]


MAX_FAILURES = 100
"""How many failures are kept until somebody takes them; further ones are only counted."""


async def told_if_broken_off(work: Callable[[], Awaitable[object]]) -> None:
    """Do work in a task of its own; a cancellation that nobody asked for is a failure of it.

    On asyncio anything may raise one, such as a client that shares a request among its callers, the
    first of whom gave up: a task group would be cancelled by it, with all else that is in it.

    Raises:
        RuntimeError: It was broken off.
    """
    try:
        await work()
    except anyio.get_cancelled_exc_class() as exc:
        if anyio.current_effective_deadline() == -inf:
            raise
        raise RuntimeError("Something broke it off, as if it had been cancelled") from exc


class BackgroundWork:
    """Runs work in a task group of its own, and reports every failure exactly once.

    Work that is started in the same line is done one after the other, in the order in which it
    was started; different lines run at once. A failure ends neither the other work nor the line.

    It belongs to the event loop in which it is open.

    Args:
        on_failure: Called with each failure, on the event loop, as soon as it happens; it must not
            block. Without it, and where it fails itself, failures are kept for `drain` and the end
            of `async with`, which raise them in an `ExceptionGroup`.
    """

    def __init__(self, on_failure: Callable[[Exception], None] | None = None) -> None:
        self._on_failure = on_failure
        self._tasks: TaskGroup | None = None
        self._token: object = None
        self._last: dict[Hashable, anyio.Event] = {}
        self._pending: set[anyio.Event] = set()
        self._failures: list[Exception] = []
        self._uncounted = 0

    async def __aenter__(self) -> None:
        """Begin to take work.

        Raises:
            RuntimeError: It is open already.
        """
        if self._tasks is not None:
            raise RuntimeError(
                "The agent is open already: `async with agent` once, around all of its runs"
            )
        tasks = anyio.create_task_group()
        await tasks.__aenter__()
        self._tasks, self._token = tasks, current_token()

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Wait for all work, and raise its failures.

        When an exception ends the block, the work is done nevertheless, and failures are told in a
        note on it; a cancellation cancels the work, and so does what ends the process, such as
        `SystemExit`.

        Raises:
            ExceptionGroup: What failed, and was not reported to `on_failure`.
        """
        tasks, self._tasks = self._tasks, None
        assert tasks is not None  # noqa: S101 - for type checkers: only an open one is left
        try:
            if isinstance(exc, anyio.get_cancelled_exc_class()):
                await tasks.__aexit__(exc_type, exc, traceback)
            else:
                if exc is not None and not isinstance(exc, Exception):
                    tasks.cancel_scope.cancel()  # given to the group, it would come back in one
                await tasks.__aexit__(None, None, None)
        finally:
            for done in self._pending:  # a task that was cancelled before it ran sets nothing
                done.set()
            self._pending.clear()
            self._last.clear()
        if exc is None:
            self._raise_failures()
        elif self._failures:
            names = ", ".join(sorted({type(failure).__name__ for failure in self._failures}))
            exc.add_note(f"In the background failed as well: {names}; `drain` raises it")

    def check_open(self) -> None:
        """Make sure that work can be started here.

        Raises:
            RuntimeError: It is not open, or in another event loop.
        """
        if self._tasks is None:
            raise RuntimeError(
                "Work in the background needs a place to run in: open the agent around its runs, "
                "as in `async with agent: await agent.run(...)`"
            )
        if current_token() != self._token:
            raise RuntimeError(
                "The agent was opened in another event loop, and its work in the background runs "
                "there: run it in that loop, or make an agent for each loop"
            )

    def start(
        self,
        work: Callable[[], Awaitable[None]],
        *,
        line: Hashable,
        waiting: Callable[[], AbstractAsyncContextManager[object]] = nullcontext,
    ) -> None:
        """Do work as soon as the work before it in its line is done.

        Args:
            work: What to do.
            line: What it waits in.
            waiting: Makes what is held while it waits for its turn: work that is cancelled there
                is never begun, and this is where that shows.

        Raises:
            RuntimeError: It is not open, or in another event loop.
        """
        self.check_open()
        assert self._tasks is not None  # noqa: S101 - for type checkers
        before, done = self._last.get(line), anyio.Event()
        self._last[line] = done
        self._pending.add(done)
        self._tasks.start_soon(self._do, work, line, waiting, before, done)

    async def drain(self) -> None:
        """Wait for all work that was started before this call, and raise its failures.

        Raises:
            ExceptionGroup: What failed since the last time, and was not reported to `on_failure`.
        """
        await checkpoint()
        for done in tuple(self._pending):
            await done.wait()
        self._raise_failures()

    async def _do(
        self,
        work: Callable[[], Awaitable[None]],
        line: Hashable,
        waiting: Callable[[], AbstractAsyncContextManager[object]],
        before: anyio.Event | None,
        done: anyio.Event,
    ) -> None:
        try:
            if before is not None:
                async with waiting():
                    await before.wait()
            await told_if_broken_off(work)
        except Exception as exc:  # noqa: BLE001 - one failure must not end the other work
            self._report(exc)
        finally:
            done.set()
            self._pending.discard(done)
            if self._last.get(line) is done:
                del self._last[line]

    def _report(self, failure: Exception) -> None:
        if self._on_failure is not None:
            try:
                self._on_failure(failure)
            except Exception as exc:  # noqa: BLE001 - it is kept instead, with what it was told
                self._keep(exc)
            else:
                return
        self._keep(failure)

    def _keep(self, failure: Exception) -> None:
        if len(self._failures) < MAX_FAILURES:
            self._failures.append(failure)
        else:
            self._uncounted += 1

    def _raise_failures(self) -> None:
        failures, self._failures = self._failures, []
        more, self._uncounted = self._uncounted, 0
        if failures:
            beyond = f", of which the first {len(failures)} are here" if more else ""
            message = f"{len(failures) + more} failed in the background{beyond}"
            raise ExceptionGroup(message, failures)
