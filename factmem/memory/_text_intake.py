"""TextIntake: detects facts in texts."""

from collections.abc import Iterable
from datetime import datetime
from typing import TypeAlias

from factmem._arguments import expect, expect_all
from factmem.detection.report import DetectionReport
from factmem.events import MemoryEvents, MemoryOperation
from factmem.memory._chat_detection import ChatDetection
from factmem.memory._selection import PlaceSelection
from factmem.models.clock import TimeProvider
from factmem.models.sources import FactSource, SourceKind
from factmem.prompt._transcript import Transcript

Source: TypeAlias = FactSource | str | None
_Texts: TypeAlias = str | Iterable[str]


class TextIntake:
    """Treats texts as messages of the user and detects facts in them.

    Args:
        detection: Runs the requests.
        selection: The places where facts may be saved.
        events: Reports each run.
        clock: Returns the time of texts without a time.
    """

    def __init__(
        self,
        detection: ChatDetection,
        selection: PlaceSelection,
        events: MemoryEvents,
        clock: TimeProvider,
    ) -> None:
        self._detection = detection
        self._selection = selection
        self._events = events
        self._clock = clock

    async def run(
        self, texts: _Texts, *, source: Source = None, said_at: datetime | None = None
    ) -> DetectionReport:
        """Detect and save the facts of texts. One call to the model."""
        async with self._events.operation(MemoryOperation.REMEMBER) as operation:
            checked, origin = _checked_texts(texts), _checked_source(source)
            self._detection.require_model()
            transcript = Transcript(
                [{"role": "user", "content": text} for text in checked],
                written_by=origin.kind if origin else None,
                said_at=self._clock() if said_at is None else said_at,
            )
            places = self._selection.detection_places()
            conversation = origin.conversation if origin else None
            request = self._detection.request(transcript, places, conversation)
            return await self._detection.run(request, operation)


def _checked_texts(texts: _Texts) -> list[str]:
    example = "memory.remember('I like tea'), or memory.remember(['I like tea'])"
    return list(expect_all([texts] if isinstance(texts, str) else texts, str, "text", example))


def _checked_source(source: Source) -> FactSource | None:
    if isinstance(source, str):
        return FactSource(SourceKind.USER, source)
    if source is not None:
        expect(source, (FactSource, str), "source", "source='ticket-7'")
    return source
