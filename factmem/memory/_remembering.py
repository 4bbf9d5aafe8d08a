"""Free text into facts: at once, or in the background of an open memory."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from types import TracebackType
from typing import Literal, Self, overload

from anyio.lowlevel import checkpoint

from factmem.detection.reconciliation import DetectionReport
from factmem.events import MemoryOperation
from factmem.memory._detecting import DetectsFacts, noted
from factmem.models.boundary import UNBOUNDED
from factmem.models.places import MemorySubject, Place
from factmem.models.scopes import ScopeChoice
from factmem.models.sources import FactSource, SourceKind
from factmem.prompt.transcript import Transcript


class RemembersText(DetectsFacts):
    """The part of a memory that takes free text.

    A text is treated as what somebody said: the rules are those of `auto_detect_facts`. What it
    states becomes facts with the text as their source, and each holds a quote of it.

    Open the memory with `async with` where texts are not to be waited for. No task outlives the
    block: at its end all texts are looked at, and what failed is raised. An open memory belongs to
    its event loop.
    """

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
                in the background, `flush` waits for that, and nothing is returned. What fails then
                has a note with the text's number, counted in the order of such calls from 1 on,
                with the name of its source and with its places.

        Raises:
            TypeError: `text` is none, or another argument is of the wrong kind. No model was asked.
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
        return await self._look(texts, subject, scope, source, wait=wait)

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

        When an exception ends the block they are looked at nevertheless, and what failed is in a
        note on it; a cancellation ends that, and what was not saved then is not saved. Each text
        is one event all the same.

        Raises:
            ExceptionGroup: What failed, and was not raised by `flush`.
        """
        await self._pending.close(exc_type, exc, traceback)

    def _looking_at(
        self,
        texts: Sequence[str],
        subject: MemorySubject | None,
        scope: ScopeChoice | None,
        told: FactSource | None,
    ) -> tuple[list[Place], Callable[[], Awaitable[DetectionReport]]]:
        if subject is not None and not isinstance(subject, MemorySubject):
            raise TypeError(
                f"subject is one MemorySubject, not {type(subject).__name__}: "
                f"subject=USER.of('alice')"
            )
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
        texts: Iterable[str],
        subject: MemorySubject | None,
        scope: ScopeChoice | None,
        source: FactSource | str | None,
        *,
        wait: bool,
    ) -> DetectionReport | None:
        async with self._events.operation(MemoryOperation.REMEMBER) as seen:
            given, told = _checked_texts(texts), _told_by(source)
            seen.places, detect = self._looking_at(given, subject, scope, told)
            if wait:
                return noted(await detect(), seen)
            places = seen.places

            async def look_later() -> None:
                async with self._events.operation(MemoryOperation.REMEMBER, places) as later:
                    noted(await detect(), later)

            self._pending.add(
                places,
                look_later,
                count=len(given),
                source=told.conversation if told else None,
                waiting=lambda: self._events.before(MemoryOperation.REMEMBER, places),
            )
            seen.is_handed_over = True
        await checkpoint()
        return None


def _checked_texts(texts: Iterable[str]) -> list[str]:
    if isinstance(texts, str):
        raise TypeError("remember_many takes several texts, and this is one: call remember")
    if not isinstance(texts, Iterable):
        raise TypeError(f"remember_many takes several texts, not {type(texts).__name__}")
    given = list(texts)
    for text in given:
        if not isinstance(text, str):
            raise TypeError(f"What is to be remembered is a text, not {type(text).__name__}")
    return given


def _told_by(source: FactSource | str | None) -> FactSource | None:
    if isinstance(source, str):
        return FactSource(SourceKind.USER, source)
    if source is not None and not isinstance(source, FactSource):
        raise TypeError(
            f"source is the application's name for where a text comes from, or a FactSource, not "
            f"{type(source).__name__}: source='ticket-7'"
        )
    return source
