"""TextIntake: detects facts in texts, immediately or in the background."""

from collections.abc import Iterable
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import replace
from datetime import datetime
from typing import TypeAlias

from anyio.lowlevel import checkpoint
from typing_extensions import TypedDict, Unpack

from factmem._arguments import expect, expect_all
from factmem.detection.report import DetectionReport
from factmem.detection.request import DetectionRequest
from factmem.errors import MemoryAccessError
from factmem.events import MemoryEvents, MemoryOperation
from factmem.memory._chat_detection import ChatDetection
from factmem.memory._pending_texts import PendingTexts
from factmem.memory._selection import PlaceSelection
from factmem.memory.failed_texts import FailedText, KeptTexts, NewText
from factmem.models.clock import TimeProvider
from factmem.models.sources import FactSource, SourceKind
from factmem.prompt._transcript import Transcript
from factmem.usage import Usage

__all__ = ["TextOptions"]

Source: TypeAlias = FactSource | str | None
_Texts: TypeAlias = str | Iterable[str]


class TextOptions(TypedDict, total=False):
    """The options of `AgentMemory.remember` and `remember_later`; see there."""

    source: Source
    said_at: datetime | None
    keep_failed: bool


class TextIntake:
    """Treats texts as messages of the user and detects facts in them.

    Args:
        detection: Runs the requests.
        selection: The places where facts may be saved.
        pending: The queue of an open memory.
        kept: Stores failed texts, if a call requests it.
        events: Reports each run.
        clock: Returns the time of texts without a time.
    """

    def __init__(
        self,
        detection: ChatDetection,
        selection: PlaceSelection,
        pending: PendingTexts,
        events: MemoryEvents,
        *,
        kept: KeptTexts,
        clock: TimeProvider,
    ) -> None:
        self._detection = detection
        self._selection = selection
        self._pending = pending
        self._kept = kept
        self._events = events
        self._clock = clock

    async def run(self, texts: _Texts, **options: Unpack[TextOptions]) -> DetectionReport:
        """Detect and save the facts of texts. One call to the model."""
        async with self._events.operation(MemoryOperation.REMEMBER) as operation:
            new = self._new(texts, **options)
            request = self._request(new)
            async with await self._keeping(new, options.get("keep_failed", False)):
                return await self._detection.run(request, operation)

    async def run_again(self, text: FailedText) -> DetectionReport:
        """Detect and save the facts of a failed text again, in the places of the first call.

        Raises:
            MemoryAccessError: The memory has none of these places.
        """
        async with self._events.operation(MemoryOperation.REMEMBER) as operation:
            allowed = self._selection.detection_places()
            places = [place for place in allowed if place.identity in text.identities]
            if not places:
                raise MemoryAccessError(
                    f"The text {text.id!r} was stored for places that this memory does not have: "
                    "retry it with a memory of the same subjects and scopes"
                )
            # Read the moments first: facts erased after them stay erased, and a text erased before
            # them is no longer stored.
            moments = await self._detection.moments(places)
            if not await self._kept.holds(text):
                return DetectionReport([], [], [], [], Usage())
            new = NewText(text.texts, places, text.said_at, text.source)
            request = replace(self._request(new), moments=moments)
            return await self._detection.run(request, operation)

    async def queue(self, texts: _Texts, **options: Unpack[TextOptions]) -> None:
        """Queue texts. Wrong arguments raise immediately; later errors are raised by `flush`."""
        async with self._events.operation(MemoryOperation.REMEMBER) as operation:
            new = self._new(texts, **options)
            operation.places = new.places
            moments = await self._detection.moments(new.places)
            request = replace(self._request(new), moments=moments)
            keeping = await self._keeping(new, options.get("keep_failed", False))

            async def run_later() -> None:
                remember = MemoryOperation.REMEMBER
                async with self._events.operation(remember, new.places) as later, keeping:
                    await self._detection.run(request, later)

            self._pending.add(
                new.places,
                run_later,
                count=len(new.texts),
                source=request.conversation,
                waiting=lambda: self._events.before(MemoryOperation.REMEMBER, new.places),
            )
            operation.is_handed_over = True
        await checkpoint()

    async def _keeping(self, new: NewText, keep_failed: bool) -> AbstractAsyncContextManager[None]:
        """Return a context that stores the text if it fails, unless its user is erased."""
        if not keep_failed or not new.texts:
            return nullcontext()
        return self._kept.keeping(new, await self._kept.moment(new.places))

    def _new(
        self,
        texts: _Texts,
        *,
        source: Source = None,
        said_at: datetime | None = None,
        keep_failed: bool = False,
    ) -> NewText:
        checked, origin = _checked_texts(texts), _checked_source(source)
        expect(keep_failed, bool, "keep_failed", "keep_failed=True")
        self._detection.require_model()
        places = self._selection.detection_places()
        return NewText(checked, places, self._clock() if said_at is None else said_at, origin)

    def _request(self, new: NewText) -> DetectionRequest:
        transcript = Transcript(
            [{"role": "user", "content": text} for text in new.texts],
            written_by=new.source.kind if new.source else None,
            said_at=new.said_at,
        )
        conversation = new.source.conversation if new.source else None
        return self._detection.request(transcript, new.places, conversation)


def _checked_texts(texts: _Texts) -> list[str]:
    example = "memory.remember('I like tea'), or memory.remember(['I like tea'])"
    return list(expect_all([texts] if isinstance(texts, str) else texts, str, "text", example))


def _checked_source(source: Source) -> FactSource | None:
    if isinstance(source, str):
        return FactSource(SourceKind.USER, source)
    if source is not None:
        expect(source, (FactSource, str), "source", "source='ticket-7'")
    return source
