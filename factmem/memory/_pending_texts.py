"""PendingTexts: the queue of texts that an open memory processes in the background."""

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from types import TracebackType

import anyio
from anyio.lowlevel import checkpoint

from factmem._concurrency.background import (
    MAX_FAILURES,
    BackgroundWork,
    raise_if_cancelled_inside,
    within,
)
from factmem.models.boundary import UNBOUNDED, Boundary
from factmem.models.places import Identity, Place

__all__ = ["PendingTexts"]


_MOST_NAMED = 5
"""The maximum of places and of failures that an exception note lists."""


class _Text:
    """A queued or failed text, or several texts of one call."""

    def __init__(self, places: Sequence[Place], numbers: range, source: str | None) -> None:
        self.places = frozenset(place.identity for place in places)
        self.subjects = frozenset(identity[2:] for identity in self.places)
        self.numbers = numbers
        self.done = anyio.Event()
        self.failure: Exception | None = None
        self._names = [str(place) for place in places]
        self._source = source

    def is_wanted(self, boundary: Boundary) -> bool:
        """Return whether all places are inside a boundary."""
        return all(map(boundary.allows, self.places))

    def __str__(self) -> str:
        first, last = self.numbers[0], self.numbers[-1]
        which = f"text {first}" if first == last else f"texts {first} to {last}"
        source = "" if self._source is None else f", from {self._source!r}"
        more = len(self._names) - _MOST_NAMED
        where = ", ".join(self._names[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
        return f"{which}{source}, for {where}"


class PendingTexts:
    """The queue that a memory shares with its views.

    Texts about the same subjects are processed in sequence, in their order. An open queue belongs
    to its event loop. The first hundred failures and the first one of each set of places are kept
    until `drain` raises them; others are only counted.
    """

    def __init__(self) -> None:
        self._work = BackgroundWork()
        self._texts: dict[int, _Text] = {}
        """Texts in the queue, by their first number."""
        self._failed: list[_Text] = []
        self._uncounted: Counter[frozenset[Identity]] = Counter()
        """The number of failures that are only counted, by their places."""
        self._count = 0
        self._is_open = False

    def add(
        self,
        places: Sequence[Place],
        process: Callable[[], Awaitable[object]],
        *,
        count: int,
        source: str | None,
        waiting: Callable[[], AbstractAsyncContextManager[object]],
    ) -> None:
        """Queue texts.

        Args:
            places: The places where their facts may be saved.
            process: Processes them, all in one call.
            count: The number of texts.
            source: The application's name for the texts, for notes on failures.
            waiting: Creates a context that is entered while they wait for their turn.

        Raises:
            RuntimeError: The memory is not open, or was opened in another event loop.
        """
        if not self._is_open:
            raise RuntimeError(
                "A queued text needs an open memory: "
                "`async with memory: await memory.remember_later(text)`"
            )
        self._work.check_open()
        first = self._count + 1
        text = _Text(places, range(first, first + max(count, 1)), source)
        self._count = text.numbers[-1]
        self._texts[first] = text

        async def run() -> None:
            try:
                await raise_if_cancelled_inside(process)
            except Exception as exc:  # noqa: BLE001 - raised by `drain`, or at the end
                self._keep(text, exc)
            finally:
                self._texts.pop(first, None)
                text.done.set()

        line = tuple(sorted(text.subjects, key=str))
        self._work.start(run, line=line, waiting=waiting)

    async def wait(self, boundary: Boundary = UNBOUNDED, deadline: float | None = None) -> None:
        """Wait for the texts inside a boundary that were queued before this call."""
        await checkpoint()
        with within(deadline, lambda: self.count(boundary)):
            for text in self._queued(boundary):
                await text.done.wait()

    def count(self, boundary: Boundary) -> int:
        """Return the number of texts in the queue whose places are all inside a boundary."""
        return sum(len(text.numbers) for text in self._queued(boundary))

    async def drain(
        self,
        boundary: Boundary = UNBOUNDED,
        deadline: float | None = None,
    ) -> None:
        """Wait for queued texts, then raise each of their failures once.

        Args:
            boundary: Wait for a text if all its places are inside.
            deadline: The maximum time to wait, in seconds.

        Raises:
            ExceptionGroup: Texts failed.
            TimeoutError: Texts were in the queue at the deadline. They are processed later.
        """
        await self.wait(boundary, deadline)
        self._take_failures(boundary).raise_any()

    def _queued(self, boundary: Boundary) -> list[_Text]:
        return [text for text in self._texts.values() if text.is_wanted(boundary)]

    async def open(self) -> None:
        """Open the queue.

        Raises:
            RuntimeError: The memory is already open.
        """
        if self._is_open:
            raise RuntimeError("The memory is already open: enter `async with memory` once")
        await self._work.__aenter__()
        self._is_open = True

    async def close(
        self,
        exc_type: type[BaseException] | None = None,
        exc: BaseException | None = None,
        traceback: TracebackType | None = None,
    ) -> None:
        """Process the queued texts and close the queue; a cancellation stops the processing.

        Raises:
            ExceptionGroup: Failures that were not raised before, unless the block raised `exc`.
        """
        self._is_open = False
        try:
            await self._work.__aexit__(exc_type, exc, traceback)
        finally:
            # A text that was cancelled while it waited has not set its event.
            for text in self._texts.values():
                text.done.set()
            self._texts.clear()
            failures = self._take_failures(UNBOUNDED)
        if exc is None:
            failures.raise_any()
        elif failures.count:
            exc.add_note(f"{failures} as well: {failures.named()}")

    def _keep(self, text: _Text, failure: Exception) -> None:
        is_first = all(each.places != text.places for each in self._failed)
        if is_first or len(self._failed) < MAX_FAILURES:
            failure.add_note(f"In the background: {text}")
            text.failure = failure
            self._failed.append(text)
        else:
            self._uncounted[text.places] += len(text.numbers)

    def _take_failures(self, boundary: Boundary) -> "_Failures":
        """Remove and return the failures inside a boundary."""
        wanted = [text for text in self._failed if text.is_wanted(boundary)]
        self._failed = [text for text in self._failed if text not in wanted]
        besides = [places for places in self._uncounted if all(map(boundary.allows, places))]
        return _Failures(wanted, sum(map(self._uncounted.pop, besides)))


class _Failures:
    """Failed texts, and the number of those that were only counted."""

    def __init__(self, texts: Sequence[_Text], besides: int) -> None:
        self._texts = texts
        self._here = sum(len(text.numbers) for text in texts)
        self.count = self._here + besides

    def __str__(self) -> str:
        texts = "1 text" if self.count == 1 else f"{self.count} texts"
        beyond = f"; the first {self._here} are here" if self.count > self._here else ""
        return f"{texts} failed in the background{beyond}"

    def named(self) -> str:
        """Return the classes and texts of the first failures."""
        named = [f"{type(text.failure).__name__} of {text}" for text in self._texts[:_MOST_NAMED]]
        more = self.count - sum(len(text.numbers) for text in self._texts[:_MOST_NAMED])
        return "; ".join([*named, *([f"and {more} more"] if more else [])])

    def raise_any(self) -> None:
        """Raise the failures, if any, in an `ExceptionGroup`."""
        failures = [text.failure for text in self._texts if text.failure is not None]
        if failures:
            raise ExceptionGroup(str(self), failures)
