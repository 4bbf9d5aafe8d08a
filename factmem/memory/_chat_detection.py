"""ChatDetection: detects facts in chats and texts with the memory's chat model and saves them."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

from factmem._arguments import expect, expect_all
from factmem.detection.report import DetectionReport
from factmem.detection.request import Detection, DetectionRequest
from factmem.events import MemoryEvents, MemoryOperation, OperationInProgress
from factmem.llm.base import ChatModel
from factmem.llm.messages import History
from factmem.memory._selection import PlaceSelection
from factmem.models._checked import concepts_by_keyword
from factmem.models.clock import TimeProvider
from factmem.models.facts import AnyConcept
from factmem.models.places import Identity, Place
from factmem.models.sources import FactSource, SourceKind
from factmem.prompt._transcript import Transcript
from factmem.providers.results import Moment

if TYPE_CHECKING:
    from factmem.detection._detector import FactDetector

__all__ = ["ChatDetection"]


class ChatDetection:
    """Detects facts in chats with one chat model, and saves them."""

    def __init__(
        self,
        detector: "Callable[[], FactDetector]",
        selection: PlaceSelection,
        events: MemoryEvents,
        *,
        chat_model: ChatModel | None,
        concepts: Mapping[str, AnyConcept],
        instructions: Iterable[str],
        clock: TimeProvider,
        detection: Detection,
    ) -> None:
        self._detector = detector
        self._selection = selection
        self._events = events
        self._chat_model = chat_model
        self._concepts = concepts
        self._instructions = frozenset(instructions)
        self._clock = clock
        self.detection = detection
        """The options of calls without their own."""

    async def find(
        self,
        messages: Sequence[History],
        *,
        since: int,
        conversation: str | None,
        said_at: datetime | None,
        detection: Detection | None,
        read_at: Mapping[Identity, Moment] | None,
        dry_run: bool,
        numbers: Sequence[int] | None = None,
        is_again: bool = False,
    ) -> DetectionReport:
        """See `AgentMemory.auto_detect_facts`; `numbers` are those of stored messages.

        `is_again` says that they may have been learnt before.
        """
        async with self._events.operation(MemoryOperation.DETECT) as operation:
            wanted = self.detection
            if detection is not None:
                wanted = expect(detection, Detection, "detection", "detection=Detection()")
            transcript = Transcript(
                messages,
                trust=wanted.trust,
                since=since,
                said_at=self._clock() if said_at is None else said_at,
                numbers=numbers,
                speaker=wanted.speaker,
            )
            request = self.request(
                transcript, self._selection.detection_places(), conversation, wanted
            )
            moments = {} if read_at is None else read_at
            return await self.run(
                replace(request, moments=moments, dry_run=dry_run, is_again=is_again), operation
            )

    async def find_in_texts(
        self,
        texts: str | Iterable[str],
        *,
        source: FactSource | str | None,
        said_at: datetime | None,
    ) -> DetectionReport:
        """See `AgentMemory.remember`."""
        async with self._events.operation(MemoryOperation.REMEMBER) as operation:
            example = "memory.remember('I like tea'), or memory.remember(['I like tea'])"
            given = [texts] if isinstance(texts, str) else texts
            checked, origin = expect_all(given, str, "text", example), _checked_source(source)
            self.require_model()
            transcript = Transcript(
                [{"role": "user", "content": text} for text in checked],
                written_by=origin.kind if origin else None,
                said_at=self._clock() if said_at is None else said_at,
            )
            places = self._selection.detection_places()
            conversation = origin.conversation if origin else None
            return await self.run(self.request(transcript, places, conversation), operation)

    def request(
        self,
        transcript: Transcript,
        places: Sequence[Place],
        conversation: str | None,
        detection: Detection | None = None,
    ) -> DetectionRequest:
        """Return the request to detect the facts of a transcript.

        Args:
            transcript: The messages.
            places: The places to save in.
            conversation: The name of the conversation.
            detection: The options; those of the memory by default.
        """
        wanted = self.detection if detection is None else detection
        only = () if wanted.only is None else concepts_by_keyword(wanted.only, "only").values()
        declared = list(self._concepts.values() if wanted.only is None else only)
        for concept in only:
            self._check_detected(concept)
        return DetectionRequest(
            transcript=transcript,
            places=places,
            declared=declared,
            is_closed=wanted.only is not None,
            followed=self._instructions,
            conversation=conversation,
            doubtful=wanted.doubtful,
        )

    def _check_detected(self, concept: AnyConcept) -> None:
        """Raise `ValueError` for a concept that no model may write, before the model is called."""
        if not (concept.detect and self._concepts.get(concept.keyword, concept).detect):
            raise ValueError(
                f"{concept.keyword!r} has detect=False and cannot be written by a model: save it "
                "with memory.store.save(fact, subject, scope)"
            )

    def require_model(self) -> ChatModel:
        """Return the chat model.

        Raises:
            ValueError: There is none.
        """
        if self._chat_model is None:
            raise ValueError("Detecting facts needs a chat model: AgentMemory(..., chat_model=...)")
        return self._chat_model

    async def moments(self) -> dict[Identity, Moment]:
        """Return the current moments of the places where facts may be saved."""
        self.require_model()
        return await self._detector().moments(self._selection.detection_places())

    async def run(
        self, request: DetectionRequest, operation: OperationInProgress
    ) -> DetectionReport:
        """Run a request and record its outcome in an operation."""
        chat_model = self.require_model()
        operation.places = request.places
        report = await self._detector().detect(chat_model, request)
        written = [*report.superseded, *report.saved, *report.confirmed]
        operation.found(placed.fact for placed in written)
        operation.count += len(report.retracted)
        operation.erased = sum(len(placed.fact.values) for placed in report.erased)
        operation.spent(report.usage)
        return report


def _checked_source(source: FactSource | str | None) -> FactSource | None:
    if isinstance(source, str):
        return FactSource(SourceKind.USER, source)
    if source is not None:
        expect(source, (FactSource, str), "source", "source='ticket-7'")
    return source
