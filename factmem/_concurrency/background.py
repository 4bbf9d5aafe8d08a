"""BackgroundWork: work in one task group that outlives the call that started it."""

from collections import Counter
from collections.abc import Awaitable, Callable, Generator, Hashable, Iterable
from contextlib import AbstractAsyncContextManager, contextmanager, nullcontext
from math import inf
from types import TracebackType

import anyio
from anyio.abc import TaskGroup
from anyio.lowlevel import checkpoint, current_token

from factmem._arguments import expect_within

__all__ = [
    "MAX_FAILURES",
    "BackgroundWork",
    "check_deadline",
    "raise_if_cancelled_inside",
    "within",
]


MAX_FAILURES = 100
"""The most failures kept until `drain` raises them; further ones are only counted."""


def check_deadline(deadline: float | None) -> None:
    """Check a deadline in seconds.

    Raises:
        TypeError: It is not a number.
        ValueError: It is negative.
    """
    if deadline is not None:
        expect_within(deadline, float, "deadline", "deadline=5.0", least=0)


@contextmanager
def within(deadline: float | None, pending: Callable[[], int]) -> Generator[None]:
    """Limit the time of a block to `deadline` seconds.

    Raises:
        TimeoutError: Work was pending at the deadline; `pending` counts it. It continues.
    """
    check_deadline(deadline)
    with anyio.move_on_after(deadline) as limit:
        yield
    if limit.cancelled_caught:
        raise TimeoutError(
            f"{pending()} still pending in the background after {deadline:g} s; the work continues"
        )


async def raise_if_cancelled_inside(work: Callable[[], Awaitable[object]]) -> None:
    """Run work; an unexpected cancellation from inside it becomes an error.

    On asyncio any library may raise one, such as a client that shares a request among its callers
    when the first of them gives up. Without this the whole task group would be cancelled.

    Raises:
        RuntimeError: The work was cancelled from inside.
    """
    try:
        await work()
    except anyio.get_cancelled_exc_class() as exc:
        if anyio.current_effective_deadline() == -inf:
            raise
        raise RuntimeError("The work was cancelled from inside; nothing was saved") from exc


class BackgroundWork:
    """Runs work in its own task group, and reports every failure exactly once.

    Work of one line runs in the order in which it was started; different lines run concurrently. A
    failure stops neither other work nor its line.

    It belongs to the event loop in which it is open.

    Args:
        on_failure: Called with each failure, on the event loop, as soon as it happens; it must not
            block. Without it, or if it raises, failures are kept for `drain` and the end
            of `async with`, which raise them in an `ExceptionGroup`.
    """

    def __init__(self, on_failure: Callable[[Exception], None] | None = None) -> None:
        self._on_failure = on_failure
        self._tasks: TaskGroup | None = None
        self._token: object = None
        self._last: dict[Hashable, anyio.Event] = {}
        self._pending: dict[anyio.Event, frozenset[Hashable]] = {}
        """Pending work, each with its topics."""
        self._failures: list[tuple[frozenset[Hashable], Exception]] = []
        self._uncounted: Counter[frozenset[Hashable]] = Counter()
        """The number of failures that are not kept."""

    async def __aenter__(self) -> None:
        """Open: work can be started from now on.

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

        When an exception ends the block, the work is done nevertheless, and a note on the exception
        names the failures. A cancellation cancels the work, and so does an exception that ends the
        process, such as `SystemExit`.

        Raises:
            ExceptionGroup: Failures that `on_failure` did not get.
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
            names = ", ".join(sorted({type(failure).__name__ for _, failure in self._failures}))
            exc.add_note(f"Background work failed too: {names}; `drain` raises it")

    def check_open(self) -> None:
        """Check that work can be started here.

        Raises:
            RuntimeError: It is not open, or in another event loop.
        """
        if self._tasks is None:
            raise RuntimeError(
                "Background work needs an open agent: `async with agent: await agent.run(...)`"
            )
        if current_token() != self._token:
            raise RuntimeError(
                "The agent was opened in another event loop: run it there, or create an agent for "
                "each loop"
            )

    def start(
        self,
        work: Callable[[], Awaitable[None]],
        *,
        line: Hashable,
        about: Iterable[Hashable] = (),
        waiting: Callable[[], AbstractAsyncContextManager[object]] = nullcontext,
    ) -> None:
        """Run work as soon as the work before it in its line is done.

        Args:
            work: The work.
            line: The line that it waits in.
            about: The topics by which `drain` and `count` select it, such as its subjects.
            waiting: Returns a context that is entered while the work waits for its turn. Work that
                is cancelled there never begins.

        Raises:
            RuntimeError: It is not open, or in another event loop.
        """
        self.check_open()
        assert self._tasks is not None  # noqa: S101 - for type checkers
        before, done = self._last.get(line), anyio.Event()
        self._last[line] = done
        self._pending[done] = frozenset(about)
        self._tasks.start_soon(self._do, work, line, waiting, before, done)

    def count(self, about: Iterable[Hashable] | None = None) -> int:
        """Return the number of pending works, or of those about any of these topics."""
        return len(self._waiting_for(about))

    async def drain(
        self, about: Iterable[Hashable] | None = None, *, deadline: float | None = None
    ) -> None:
        """Wait for work that was started before this call, and raise its failures.

        Args:
            about: Only work about any of these topics.
            deadline: The most seconds to wait.

        Raises:
            ExceptionGroup: Failures since the last time that `on_failure` did not get.
            TimeoutError: Work was pending at the deadline. It continues.
        """
        wanted = None if about is None else frozenset(about)
        await checkpoint()
        with within(deadline, lambda: self.count(wanted)):
            for done in self._waiting_for(wanted):
                await done.wait()
        self._raise_failures(wanted)

    def _waiting_for(self, about: Iterable[Hashable] | None) -> list[anyio.Event]:
        wanted = None if about is None else frozenset(about)
        return [
            done
            for done, mine in self._pending.items()
            if wanted is None or not wanted.isdisjoint(mine)
        ]

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
            await raise_if_cancelled_inside(work)
        except Exception as exc:  # noqa: BLE001 - one failure must not end the other work
            self._report(self._pending.get(done, frozenset()), exc)
        finally:
            done.set()
            self._pending.pop(done, None)
            if self._last.get(line) is done:
                del self._last[line]

    def _report(self, about: frozenset[Hashable], failure: Exception) -> None:
        if self._on_failure is not None:
            try:
                self._on_failure(failure)
            except Exception as exc:  # noqa: BLE001 - kept in its place; its context is the failure
                self._keep(about, exc)
            else:
                return
        self._keep(about, failure)

    def _keep(self, about: frozenset[Hashable], failure: Exception) -> None:
        if len(self._failures) < MAX_FAILURES:
            self._failures.append((about, failure))
        else:
            self._uncounted[about] += 1

    def _raise_failures(self, about: frozenset[Hashable] | None = None) -> None:
        def is_wanted(mine: frozenset[Hashable]) -> bool:
            return about is None or not about.isdisjoint(mine)

        failures = [failure for mine, failure in self._failures if is_wanted(mine)]
        self._failures = [each for each in self._failures if not is_wanted(each[0])]
        besides = [mine for mine in self._uncounted if is_wanted(mine)]
        more = sum(map(self._uncounted.pop, besides))
        if failures:
            beyond = f", of which the first {len(failures)} are here" if more else ""
            message = f"{len(failures) + more} failed in the background{beyond}"
            raise ExceptionGroup(message, failures)
