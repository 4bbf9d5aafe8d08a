"""Texts that are looked at in the background of an open memory."""

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from types import TracebackType

import anyio
from anyio.lowlevel import checkpoint

from factmem.concurrency.background import (
    MAX_FAILURES,
    BackgroundWork,
    told_if_broken_off,
)
from factmem.models.boundary import UNBOUNDED, Boundary
from factmem.models.places import Identity, Place

__all__ = ["PendingTexts"]


_MOST_NAMED = 5
"""How many places, and how many failures, a note names."""


class _Text:
    """A text that is to be looked at, or was and could not be; or several that go together."""

    def __init__(self, places: Sequence[Place], numbers: range, source: str | None) -> None:
        self.places = frozenset(place.identity for place in places)
        self.subjects = frozenset(identity[2:] for identity in self.places)
        self.numbers = numbers
        self.done = anyio.Event()
        self.failure: Exception | None = None
        self._names = [str(place) for place in places]
        self._source = source

    def is_within(self, boundary: Boundary) -> bool:
        return all(map(boundary.allows, self.places))

    def __str__(self) -> str:
        first, last = self.numbers[0], self.numbers[-1]
        which = f"text {first}" if first == last else f"texts {first} to {last}"
        told = "" if self._source is None else f", from {self._source!r}"
        more = len(self._names) - _MOST_NAMED
        where = ", ".join(self._names[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
        return f"{which}{told}, for {where}"


class PendingTexts:
    """The texts that a memory, and the views that were made of it, have yet to look at.

    Those about the same subjects are looked at one after the other, in the order in which they
    came. It belongs to the event loop in which it is open. Of what fails the first hundred are kept
    until somebody takes them, and the first of all places; further ones are counted.
    """

    def __init__(self) -> None:
        self._work = BackgroundWork()
        self._texts: dict[int, _Text] = {}
        """Those that are not looked at yet, by their first number."""
        self._failed: list[_Text] = []
        self._uncounted: Counter[frozenset[Identity]] = Counter()
        """How many failed besides, by their places."""
        self._count = 0
        self._is_open = False

    def add(
        self,
        places: Sequence[Place],
        look: Callable[[], Awaitable[object]],
        *,
        count: int,
        source: str | None,
        waiting: Callable[[], AbstractAsyncContextManager[object]],
    ) -> None:
        """Have texts looked at soon.

        Args:
            places: Where their facts may be saved.
            look: Looks at them, all at once.
            count: How many there are.
            source: The application's name for where they come from, to name them by when it fails.
            waiting: Makes what is held while they wait for others; a cancellation may end that.

        Raises:
            RuntimeError: The memory is not open, or in another event loop.
        """
        if not self._is_open:
            raise RuntimeError(
                "A text that is not waited for needs a place to be looked at in: open the memory "
                "around it, as in `async with memory: await memory.remember(text, wait=False)`"
            )
        self._work.check_open()
        first = self._count + 1
        text = _Text(places, range(first, first + max(count, 1)), source)
        self._count = text.numbers[-1]
        self._texts[first] = text

        async def run() -> None:
            try:
                await told_if_broken_off(look)
            except Exception as exc:  # noqa: BLE001 - raised by `drain`, or at the end
                self._keep(text, exc)
            finally:
                self._texts.pop(first, None)
                text.done.set()

        line = tuple(sorted(text.subjects, key=str))
        self._work.start(run, line=line, waiting=waiting)

    async def wait(self, boundary: Boundary = UNBOUNDED) -> None:
        """Wait until every text that came before, and lies inside a boundary, was looked at."""
        await checkpoint()
        for text in [each for each in self._texts.values() if each.is_within(boundary)]:
            await text.done.wait()

    async def drain(self, boundary: Boundary = UNBOUNDED) -> None:
        """Wait, and raise what failed inside a boundary; each failure is raised once.

        Raises:
            ExceptionGroup: What failed.
        """
        await self.wait(boundary)
        self._taken(boundary).raise_any()

    async def open(self) -> None:
        """Begin to take texts.

        Raises:
            RuntimeError: It is open already.
        """
        if self._is_open:
            raise RuntimeError("The memory is open already: `async with memory` once")
        await self._work.__aenter__()
        self._is_open = True

    async def close(
        self,
        exc_type: type[BaseException] | None = None,
        exc: BaseException | None = None,
        traceback: TracebackType | None = None,
    ) -> None:
        """Take no more texts, and look at those that came; a cancellation ends that.

        Raises:
            ExceptionGroup: What failed and was not raised yet, where nothing else was raised.
        """
        self._is_open = False
        try:
            await self._work.__aexit__(exc_type, exc, traceback)
        finally:
            for text in self._texts.values():  # one that was cancelled in its line has set nothing
                text.done.set()
            self._texts.clear()
            failures = self._taken(UNBOUNDED)
        if exc is None:
            failures.raise_any()
        elif failures.count:
            exc.add_note(f"{failures} as well: {failures.named()}")

    def _keep(self, text: _Text, failure: Exception) -> None:
        is_first = all(each.places != text.places for each in self._failed)
        if is_first or len(self._failed) < MAX_FAILURES:
            failure.add_note(f"Not waited for: {text}")
            text.failure = failure
            self._failed.append(text)
        else:
            self._uncounted[text.places] += len(text.numbers)

    def _taken(self, boundary: Boundary) -> "_Failures":
        """Return what failed inside a boundary, which is not kept any longer."""
        inside = [text for text in self._failed if text.is_within(boundary)]
        self._failed = [text for text in self._failed if not text.is_within(boundary)]
        besides = [places for places in self._uncounted if all(map(boundary.allows, places))]
        return _Failures(inside, sum(map(self._uncounted.pop, besides)))


class _Failures:
    """Texts that could not be looked at, and how many there were besides them."""

    def __init__(self, texts: Sequence[_Text], besides: int) -> None:
        self._texts = texts
        self._here = sum(len(text.numbers) for text in texts)
        self.count = self._here + besides

    def __str__(self) -> str:
        texts = "1 text" if self.count == 1 else f"{self.count} texts"
        beyond = f", {self._here} of them told here" if self.count > self._here else ""
        return f"{texts} could not be looked at{beyond}"

    def named(self) -> str:
        """Name some of them, each with the class of what it failed with."""
        named = [f"{type(text.failure).__name__} of {text}" for text in self._texts[:_MOST_NAMED]]
        more = self.count - sum(len(text.numbers) for text in self._texts[:_MOST_NAMED])
        return "; ".join([*named, *([f"and {more} more"] if more else [])])

    def raise_any(self) -> None:
        """Raise what they failed with, where there is any.

        Raises:
            ExceptionGroup: There is.
        """
        failures = [text.failure for text in self._texts if text.failure is not None]
        if failures:
            raise ExceptionGroup(str(self), failures)
