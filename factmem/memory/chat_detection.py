"""ChatDetection: detects facts in chats with the memory's chat model and saves them."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, get_args

from typing_extensions import TypedDict, Unpack

from factmem._arguments import expect_word
from factmem.detection.detector import FactDetector
from factmem.detection.prompts import question_about
from factmem.detection.report import DetectionReport
from factmem.detection.request import DetectionRequest, DoubtfulItems, Verification
from factmem.events import MemoryEvents, MemoryOperation, OperationInProgress
from factmem.llm.base import ChatModel
from factmem.llm.messages import QUESTION_MESSAGE, History, checked_history, is_instruction
from factmem.memory.selection import PlaceSelection, Scopes, Subjects
from factmem.models.checked import checked_concept, concepts_by_keyword
from factmem.models.clock import TimeProvider
from factmem.models.facts import AnyConcept
from factmem.models.places import Identity, MemorySubject, Place
from factmem.models.scopes import ScopeChoice
from factmem.models.sources import SourceKind
from factmem.prompt.transcript import CONTEXT, Transcript
from factmem.providers.learning import Moment

__all__ = ["ChatDetection", "ChatOptions", "check_options"]


class ChatOptions(TypedDict, total=False):
    """Options of `AgentMemory.auto_detect_facts` that also apply to a single concept; see there."""

    trust: Iterable[SourceKind]
    conversation: str | None
    since: int
    context: int | None
    said_at: datetime | None
    speaker: str | None
    doubtful: DoubtfulItems
    verify: Verification
    dry_run: bool


class ChatDetection:
    """Detects facts in chats with one chat model, and saves them.

    Args:
        detector: Calls the model and writes the facts.
        selection: The places where facts may be saved.
        events: Reports each detection.
        chat_model: The model. Without one, every detection raises `ValueError`.
        concepts: The declared concepts by keyword.
        clock: Returns the time of messages without a time.
    """

    def __init__(
        self,
        detector: FactDetector,
        selection: PlaceSelection,
        events: MemoryEvents,
        *,
        chat_model: ChatModel | None,
        concepts: Mapping[str, AnyConcept],
        clock: TimeProvider,
    ) -> None:
        self._detector = detector
        self._selection = selection
        self._events = events
        self._chat_model = chat_model
        self._concepts = concepts
        self._clock = clock

    async def find_all(
        self,
        messages: Sequence[History],
        subjects: Subjects,
        scopes: Scopes,
        *,
        concepts: Iterable[AnyConcept],
        only: Iterable[AnyConcept] | None,
        read_at: Mapping[Identity, Moment] | None,
        **options: Unpack[ChatOptions],
    ) -> DetectionReport:
        """See `AgentMemory.auto_detect_facts`."""
        async with self._events.operation(MemoryOperation.DETECT) as operation:
            places = self._selection.detection_places(subjects, scopes)
            declared = self._declared(concepts, only)
            request = self._request(
                messages, places, declared, is_closed=only is not None, read_at=read_at, **options
            )
            return await self.run(request, operation)

    async def find_one(
        self,
        messages: list[History],
        concept: AnyConcept,
        subject: MemorySubject,
        scope: ScopeChoice,
        *,
        preserve_questions: bool,
        **options: Unpack[ChatOptions],
    ) -> DetectionReport:
        """See `AgentMemory.save_facts_from_history`."""
        async with self._events.operation(MemoryOperation.DETECT) as operation:
            self._check_detected(concept)
            if preserve_questions:
                _check_question_fits(messages)
            self.require_model()
            places = [self._selection.place(subject, scope)]
            request = self._request(messages, places, [concept], is_closed=True, **options)
            report, answer = await self._detect(request, operation)
            if preserve_questions and request.transcript:
                _append_question(messages, concept, answer)
            return report

    def _declared(
        self, further: Iterable[AnyConcept], only: Iterable[AnyConcept] | None
    ) -> list[AnyConcept]:
        """Return the concepts to detect. A call cannot override the memory's `detect=False`."""
        if only is not None:
            wanted = list(concepts_by_keyword(only).values())
            for concept in wanted:
                self._check_detected(concept)
            return wanted
        owned = {key: concept for key, concept in self._concepts.items() if not concept.detect}
        return list({**self._concepts, **concepts_by_keyword(further), **owned}.values())

    def _check_detected(self, concept: AnyConcept) -> None:
        """Raise `ValueError` for a concept that no model may write, before the model is called."""
        checked_concept(concept)
        if not (concept.detect and self._concepts.get(concept.keyword, concept).detect):
            raise ValueError(
                f"{concept.keyword!r} has detect=False and cannot be written by a model: save it "
                "with memory.store.save(fact, subject, scope)"
            )

    def _request(
        self,
        messages: Sequence[History],
        places: Sequence[Place],
        declared: Sequence[AnyConcept],
        *,
        is_closed: bool,
        trust: Iterable[SourceKind] = (),
        conversation: str | None = None,
        since: int = 0,
        context: int | None = CONTEXT,
        said_at: datetime | None = None,
        speaker: str | None = None,
        doubtful: DoubtfulItems = "keep",
        verify: Verification = "off",
        dry_run: bool = False,
        read_at: Mapping[Identity, Moment] | None = None,
    ) -> DetectionRequest:
        return DetectionRequest(
            transcript=Transcript(
                messages,
                trust=trust,
                since=since,
                context=context,
                said_at=self._clock() if said_at is None else said_at,
                speaker=speaker,
            ),
            places=places,
            declared=declared,
            is_closed=is_closed,
            conversation=conversation,
            dry_run=dry_run,
            doubtful=doubtful,
            verify=verify,
            moments={} if read_at is None else read_at,
        )

    def require_model(self) -> ChatModel:
        """Return the chat model.

        Raises:
            ValueError: There is none.
        """
        if self._chat_model is None:
            raise ValueError("Detecting facts needs a chat model: AgentMemory(..., chat_model=...)")
        return self._chat_model

    async def moments(self, places: Sequence[Place]) -> dict[Identity, Moment]:
        """Return the current moments of places, for a request that runs later."""
        return await self._detector.moments(places)

    async def run(
        self, request: DetectionRequest, operation: OperationInProgress
    ) -> DetectionReport:
        """Run a request and record its outcome in an operation."""
        report, _ = await self._detect(request, operation)
        return report

    async def _detect(
        self, request: DetectionRequest, operation: OperationInProgress
    ) -> tuple[DetectionReport, str]:
        check_options(request.doubtful, request.verify)
        chat_model = self.require_model()
        operation.places = request.places
        report, answer = await self._detector.detect(chat_model, request)
        _record_outcome(report, operation)
        return report, answer


def check_options(doubtful: str, verify: str) -> None:
    """Check the options `doubtful` and `verify`.

    Raises:
        TypeError: An option is not a string.
        ValueError: An option is unknown.
    """
    expect_word(doubtful, get_args(DoubtfulItems), "doubtful", "doubtful='keep'")
    expect_word(verify, get_args(Verification), "verify", "verify='all'")


def _check_question_fits(messages: list[History]) -> None:
    """Check that a question can be appended to a chat.

    Raises:
        TypeError: The chat cannot be changed in place.
        ValueError: It ends with a tool call, and the question would separate it from its result.
    """
    checked_history(messages)
    if messages and _is_call(messages[-1]):
        raise ValueError(
            "preserve_questions would separate a tool call from its result: append the result first"
        )


def _append_question(messages: list[History], concept: AnyConcept, answer: str) -> None:
    history: list[Any] = messages
    question = {"role": "user", "content": question_about(concept)}
    history.append({**question, "name": QUESTION_MESSAGE})
    history.append({"role": "assistant", "content": answer, "name": QUESTION_MESSAGE})


def _is_call(message: Mapping[str, object]) -> bool:
    is_instruction(message)  # raises for values that are not messages
    return bool(message.get("tool_calls"))


def _record_outcome(report: DetectionReport, operation: OperationInProgress) -> None:
    written = [*report.superseded, *report.saved, *report.confirmed]
    operation.found(placed.fact for placed in written)
    operation.count += len(report.retracted)
    operation.erased = sum(len(placed.fact.values) for placed in report.erased)
    operation.spent(report.usage)
