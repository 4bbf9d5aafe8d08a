"""Free text into facts: at once, or in the background of an open memory."""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Sequence
from types import TracebackType
from typing import Literal, Self, overload

import anyio
from anyio.lowlevel import checkpoint

from factmem.background import BackgroundWork
from factmem.boundary import UNBOUNDED, Boundary
from factmem.detection import DetectionReport
from factmem.events import MemoryEvents, MemoryOperation, OperationInProgress
from factmem.models import FactSource, MemorySubject, Place, SourceKind
from factmem.scopes import ScopeChoice
from factmem.transcript import Transcript

__all__ = ["PendingTexts", "RemembersText", "noted"]


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


class RemembersText(ABC):
    """The part of a memory that takes free text.

    A text is treated as what somebody said: the rules are those of `auto_detect_facts`. What it
    states becomes facts with the text as their source, and each holds a quote of it.

    Open the memory with `async with` where texts are not to be waited for. No task outlives the
    block: at its end all texts are looked at, and what failed is raised. An open memory belongs to
    its event loop.
    """

    _events: MemoryEvents
    _pending: PendingTexts

    @property
    @abstractmethod
    def boundary(self) -> Boundary:
        """What the memory may touch."""

    @abstractmethod
    def _detection_in(
        self,
        transcript: Transcript,
        subjects: Sequence[MemorySubject] | None,
        scopes: Sequence[ScopeChoice] | None,
        conversation: str | None,
    ) -> tuple[list[Place], Callable[[], Awaitable[DetectionReport]]]:
        """Return where a detection may write, and the detection; raise what forbids it."""

    @overload
    async def remember(
        self,
        text: str,
        *,
        subject: MemorySubject | None = None,
        scope: ScopeChoice | None = None,
        source: FactSource | str | None = None,
        wait: Literal[True] = True,
    ) -> DetectionReport: ...
    @overload
    async def remember(
        self,
        text: str,
        *,
        subject: MemorySubject | None = None,
        scope: ScopeChoice | None = None,
        source: FactSource | str | None = None,
        wait: Literal[False],
    ) -> None: ...
    async def remember(
        self,
        text: str,
        *,
        subject: MemorySubject | None = None,
        scope: ScopeChoice | None = None,
        source: FactSource | str | None = None,
        wait: bool = True,
    ) -> DetectionReport | None:
        """Find the facts that a text states, and save them. One call to a model.

        No call when the text is empty. The facts of one place are saved in one durable write.

        Args:
            text: What somebody said or wrote. It is believed as a user's message is.
            subject: Whom it concerns; any of the memory's subjects by default.
            scope: Where its facts are saved; any scope of the memory by default.
            source: Where it comes from: the application's name for it, such as a ticket's number,
                or a `FactSource`, of which the kind and the conversation are noted.
            wait: Whether to wait for it. If not, the memory must be open; the text is looked at
                in the background, `flush` waits for that, and nothing is returned.

        Raises:
            TypeError: `text` is none.
            UnboundSubjectError: A subject is per entity and names none. No model was asked.
            MemoryAccessError: A view does not let this be written. No model was asked.
            ValueError: There is no chat model, or no place to save to. No model was asked.
            RuntimeError: `wait` is not set, and the memory is not open.
            ChatModelError: The model's endpoint failed. Nothing was saved.
            ExtractionError: The model's answer could not be used. Nothing was saved.
            StorageError: A place could not be read or written.
        """
        return await self._look([text], subject, scope, source, wait=wait)

    @overload
    async def remember_many(
        self,
        texts: Iterable[str],
        *,
        subject: MemorySubject | None = None,
        scope: ScopeChoice | None = None,
        source: FactSource | str | None = None,
        wait: Literal[True] = True,
    ) -> DetectionReport: ...
    @overload
    async def remember_many(
        self,
        texts: Iterable[str],
        *,
        subject: MemorySubject | None = None,
        scope: ScopeChoice | None = None,
        source: FactSource | str | None = None,
        wait: Literal[False],
    ) -> None: ...
    async def remember_many(
        self,
        texts: Iterable[str],
        *,
        subject: MemorySubject | None = None,
        scope: ScopeChoice | None = None,
        source: FactSource | str | None = None,
        wait: bool = True,
    ) -> DetectionReport | None:
        """Find the facts that several texts state, oldest first. One call to a model for all.

        A later text wins over an earlier one that it contradicts. The `message` in the source of a
        fact is the position of its text. Otherwise like `remember`.
        """
        if isinstance(texts, str):
            raise TypeError("remember_many takes several texts, and this is one: call remember")
        return await self._look(list(texts), subject, scope, source, wait=wait)

    async def flush(self) -> None:
        """Wait until every text that was queued before, here or in a view of it, was looked at.

        A view waits for the texts that concern no places but its own.

        Raises:
            ExceptionGroup: What failed since the last time.
        """
        await self._pending.drain(self.boundary)

    async def aclose(self) -> None:
        """Do what `flush` does. The store stays its maker's to close."""
        await self.flush()

    async def __aenter__(self) -> Self:
        """Open the memory, so that texts need not be waited for.

        Raises:
            RuntimeError: It is open already, or it is a view.
        """
        if self.boundary != UNBOUNDED:
            raise RuntimeError(
                "A view is not opened: open the memory that it was made of, and the texts of the "
                "view are looked at there"
            )
        await self._pending.open()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Look at all texts that are left, those of views included.

        When an exception ends the block they are looked at nevertheless; a cancellation ends that,
        and what was not saved then is not saved.

        Raises:
            ExceptionGroup: What failed, and was not raised by `flush`.
        """
        await self._pending.close(exc_type, exc, traceback)

    def _looking_at(
        self,
        texts: list[str],
        subject: MemorySubject | None,
        scope: ScopeChoice | None,
        source: FactSource | str | None,
    ) -> tuple[list[Place], Callable[[], Awaitable[DetectionReport]]]:
        for text in texts:
            if not isinstance(text, str):
                raise TypeError(f"What is to be remembered is a text, not {type(text).__name__}")
        told = FactSource(SourceKind.USER, source) if isinstance(source, str) else source
        transcript = Transcript(
            [{"role": "user", "content": text} for text in texts],
            written_by=told.kind if told else None,
        )
        return self._detection_in(
            transcript,
            None if subject is None else [subject],
            None if scope is None else [scope],
            told.conversation if told else None,
        )

    async def _look(
        self,
        texts: list[str],
        subject: MemorySubject | None,
        scope: ScopeChoice | None,
        source: FactSource | str | None,
        *,
        wait: bool,
    ) -> DetectionReport | None:
        async with self._events.operation(MemoryOperation.REMEMBER) as seen:
            seen.places, detect = self._looking_at(texts, subject, scope, source)
            if wait:
                return noted(await detect(), seen)
            places = seen.places

            async def look_later() -> None:
                async with self._events.operation(MemoryOperation.REMEMBER, places) as later:
                    noted(await detect(), later)

            self._pending.add(places, look_later)
            seen.is_handed_over = True
        await checkpoint()
        return None


def noted(report: DetectionReport, seen: OperationInProgress) -> DetectionReport:
    """Note in an operation what came of looking for facts, and return it."""
    told = [*report.saved, *report.confirmed]
    seen.found(placed.fact for placed in told)
    seen.count += len(report.retracted)
    seen.spent(report.usage)
    return report
