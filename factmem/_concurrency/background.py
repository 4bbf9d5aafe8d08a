"""BackgroundWork: work in one task group that outlives the call that started it."""

from collections import Counter
from collections.abc import Awaitable, Callable, Hashable, Iterable
from dataclasses import dataclass
from math import inf
from types import TracebackType
from typing import TypeAlias

import anyio
from anyio.abc import TaskGroup
from anyio.lowlevel import checkpoint, current_token

__all__ = ["MAX_FAILURES", "BackgroundWork", "Topics", "any_of"]


MAX_FAILURES = 100
"""The most failures kept until `drain` raises them, and the first of each set of topics; further
ones are only counted."""

_MOST_NAMED = 5

Topics: TypeAlias = frozenset[Hashable]
"""What work is about, such as its subjects."""

_Wanted: TypeAlias = Callable[[Topics], bool] | None


def _anything(_: Topics) -> bool:
    return True


def any_of(topics: Iterable[Hashable] | None) -> _Wanted:
    """Return a function that selects work about any of these topics; None selects all work."""
    wanted = None if topics is None else frozenset(topics)
    return None if wanted is None else lambda about: not wanted.isdisjoint(about)


@dataclass(frozen=True, slots=True)
class _Work:
    run: Callable[[], Awaitable[object]]
    line: Hashable
    about: Topics
    name: str
    done: anyio.Event


async def _raise_if_cancelled_inside(work: Callable[[], Awaitable[object]]) -> None:
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
        owner: The name of the object that is opened, for errors: `agent`, `memory`.
        on_failure: Called with each failure, on the event loop, as soon as it happens; it must not
            block. Without it, or if it raises, failures are kept for `drain` and the end
            of `async with`, which raise them in an `ExceptionGroup`.
    """

    def __init__(self, owner: str, on_failure: Callable[[Exception], None] | None = None) -> None:
        self._owner = owner
        self._on_failure = on_failure
        self._tasks: TaskGroup | None = None
        self._token: object = None
        self._last: dict[Hashable, anyio.Event] = {}
        self._pending: dict[anyio.Event, _Work] = {}
        self._failures: list[tuple[_Work, Exception]] = []
        self._uncounted: Counter[Topics] = Counter()
        """The number of failures that are not kept."""

    async def __aenter__(self) -> None:
        """Open: work can be started from now on.

        Raises:
            RuntimeError: It is open already.
        """
        if self._tasks is not None:
            raise RuntimeError(
                f"The {self._owner} is already open: enter `async with {self._owner}` once, around "
                "all of its work"
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
            self._raise_failures(None)
            return
        failures, message = self._failed(None)
        if failures:
            named = [
                f"{type(failure).__name__}{f' of {work.name}' if work.name else ''}"
                for work, failure in failures[:_MOST_NAMED]
            ]
            exc.add_note(f"{message} as well: {'; '.join(named)}")

    def check_open(self) -> None:
        """Check that work can be started here.

        Raises:
            RuntimeError: It is not open, or in another event loop.
        """
        if self._tasks is None:
            raise RuntimeError(
                f"Work in the background needs an open {self._owner}: `async with {self._owner}`"
            )
        if current_token() != self._token:
            raise RuntimeError(
                f"The {self._owner} was opened in another event loop: use it there, or create one "
                "for each loop"
            )

    def start(
        self,
        work: Callable[[], Awaitable[object]],
        *,
        line: Hashable,
        about: Iterable[Hashable] = (),
        name: str = "",
    ) -> None:
        """Run work as soon as the work before it in its line is done.

        Args:
            work: The work.
            line: The line that it waits in.
            about: The topics by which `drain` and `count` select it, such as its subjects.
            name: What it does, for the note of a failure.

        Raises:
            RuntimeError: It is not open, or in another event loop.
        """
        self.check_open()
        assert self._tasks is not None  # noqa: S101 - for type checkers
        before = self._last.get(line)
        new = _Work(work, line, frozenset(about), name, anyio.Event())
        self._last[line] = new.done
        self._pending[new.done] = new
        self._tasks.start_soon(self._do, new, before)

    def count(self, is_wanted: _Wanted = None) -> int:
        """Return the number of pending works, or of those whose topics are wanted."""
        return len(self._waiting_for(is_wanted))

    async def wait(self, is_wanted: _Wanted = None) -> None:
        """Wait for work that was started before this call; see `drain`."""
        await checkpoint()
        for done in self._waiting_for(is_wanted):
            await done.wait()

    async def drain(self, is_wanted: _Wanted = None) -> None:
        """Wait for work that was started before this call, and raise its failures.

        Args:
            is_wanted: Selects work by its topics; all by default.

        Raises:
            ExceptionGroup: Failures since the last time that `on_failure` did not get.
        """
        await self.wait(is_wanted)
        self._raise_failures(is_wanted)

    def _waiting_for(self, is_wanted: _Wanted) -> list[anyio.Event]:
        return [
            work.done
            for work in self._pending.values()
            if is_wanted is None or is_wanted(work.about)
        ]

    async def _do(
        self,
        work: _Work,
        before: anyio.Event | None,
    ) -> None:
        try:
            if before is not None:
                await before.wait()
            await _raise_if_cancelled_inside(work.run)
        except Exception as exc:  # noqa: BLE001 - one failure must not end the other work
            if work.name:
                exc.add_note(f"In the background: {work.name}")
            self._report(work, exc)
        finally:
            work.done.set()
            self._pending.pop(work.done, None)
            if self._last.get(work.line) is work.done:
                del self._last[work.line]

    def _report(self, work: _Work, failure: Exception) -> None:
        if self._on_failure is not None:
            try:
                self._on_failure(failure)
            except Exception as exc:  # noqa: BLE001 - kept with the failure that it did not take
                self._keep(work, exc)
            else:
                return
        self._keep(work, failure)

    def _keep(self, work: _Work, failure: Exception) -> None:
        is_first = all(kept.about != work.about for kept, _ in self._failures)
        if is_first or len(self._failures) < MAX_FAILURES:
            self._failures.append((work, failure))
        else:
            self._uncounted[work.about] += 1

    def _failed(self, is_wanted: _Wanted) -> tuple[list[tuple[_Work, Exception]], str]:
        """Return the kept failures that are wanted, and a message with the number of all."""
        wants = is_wanted or _anything
        failures = [each for each in self._failures if wants(each[0].about)]
        more = sum(count for about, count in self._uncounted.items() if wants(about))
        beyond = f", of which the first {len(failures)} are here" if more else ""
        return failures, f"{len(failures) + more} failed in the background{beyond}"

    def _raise_failures(self, is_wanted: _Wanted) -> None:
        wants = is_wanted or _anything
        failures, message = self._failed(is_wanted)
        self._failures = [each for each in self._failures if not wants(each[0].about)]
        for about in [each for each in self._uncounted if wants(each)]:
            del self._uncounted[about]
        if failures:
            raise ExceptionGroup(message, [failure for _, failure in failures])
