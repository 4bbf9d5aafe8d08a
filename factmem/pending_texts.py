"""Texts that are looked at in the background of an open memory."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from types import TracebackType

import anyio
from anyio.lowlevel import checkpoint

from factmem.background import BackgroundWork
from factmem.boundary import UNBOUNDED, Boundary
from factmem.models import Place

__all__ = ["PendingTexts"]


class _Text:
    """A text that is to be looked at, or was and could not be."""

    def __init__(self, places: Iterable[Place]) -> None:
        self.places = frozenset(place.identity for place in places)
        self.subjects = frozenset(identity[2:] for identity in self.places)
        self.done = anyio.Event()
        self.failure: Exception | None = None

    def is_within(self, boundary: Boundary) -> bool:
        return all(map(boundary.allows, self.places))


class PendingTexts:
    """The texts that a memory, and the views that were made of it, have yet to look at.

    Those about the same subjects are looked at one after the other, in the order in which they
    came. It belongs to the event loop in which it is open.
    """

    def __init__(self) -> None:
        self._work = BackgroundWork()
        self._texts: list[_Text] = []
        self._is_open = False

    def add(self, places: Sequence[Place], look: Callable[[], Awaitable[object]]) -> None:
        """Have a text looked at soon.

        Raises:
            RuntimeError: The memory is not open, or in another event loop.
        """
        if not self._is_open:
            raise RuntimeError(
                "A text that is not waited for needs a place to be looked at in: open the memory "
                "around it, as in `async with memory: await memory.remember(text, wait=False)`"
            )
        text = _Text(places)

        async def run() -> None:
            try:
                await look()
            except Exception as exc:  # noqa: BLE001 - raised by `drain`, or at the end
                text.failure = exc
            finally:
                text.done.set()

        line = tuple(sorted(text.subjects, key=str))
        self._work.start(run, line=line)
        self._texts.append(text)

    async def wait(self, boundary: Boundary = UNBOUNDED) -> None:
        """Wait until every text that came before, and lies inside a boundary, was looked at."""
        await checkpoint()
        for text in [each for each in self._texts if each.is_within(boundary)]:
            await text.done.wait()
            if text.failure is None and text in self._texts:
                self._texts.remove(text)

    async def drain(self, boundary: Boundary = UNBOUNDED) -> None:
        """Wait, and raise what failed inside a boundary; each failure is raised once.

        Raises:
            ExceptionGroup: What failed.
        """
        await self.wait(boundary)
        self._raise(self._taken(boundary))

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
            for text in self._texts:  # one that was cancelled before it began has set nothing
                text.done.set()
            failures = self._taken(UNBOUNDED)
            self._texts.clear()
        if exc is None:
            self._raise(failures)
        elif failures:
            exc.add_note(f"{len(failures)} texts could not be looked at in the background as well")

    def _taken(self, boundary: Boundary) -> list[Exception]:
        """Return the failures inside a boundary, which are not kept any longer."""
        failed = [each for each in self._texts if each.failure and each.is_within(boundary)]
        self._texts = [each for each in self._texts if each not in failed]
        return [each.failure for each in failed if each.failure is not None]

    def _raise(self, failures: list[Exception]) -> None:
        if failures:
            raise ExceptionGroup(f"{len(failures)} texts could not be looked at", failures)
