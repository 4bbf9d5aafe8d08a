"""ChatDetection: detection requests with the memory's chat model, and their outcome as events."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any

from typing_extensions import TypedDict

from factmem._arguments import expect_member
from factmem.detection.detector import FactDetector
from factmem.detection.prompts import question_about
from factmem.detection.report import DetectionReport
from factmem.detection.request import DetectionRequest, DoubtfulItems, Verification
from factmem.events import OperationInProgress
from factmem.llm.base import ChatModel
from factmem.llm.messages import QUESTION_MESSAGE, History, checked_history, is_instruction
from factmem.models.clock import TimeProvider
from factmem.models.facts import AnyConcept
from factmem.models.places import Identity, Place
from factmem.models.sources import SourceKind
from factmem.prompt.transcript import CONTEXT, Transcript
from factmem.providers.learning import Moment

__all__ = ["ChatDetection", "ChatOptions", "check_options", "check_question_fits"]


class ChatOptions(TypedDict, total=False):
    """Options of `AgentMemory.auto_detect_facts` that hold for one concept as well; see there."""

    trust: Iterable[SourceKind]
    conversation: str | None
    since: int
    context: int | None
    said_at: datetime | None
    speaker: str | None
    doubtful: DoubtfulItems
    verify: Verification
    dry_run: bool


class _Doubtful(StrEnum):
    KEEP = "keep"
    REJECT = "reject"


class _Verify(StrEnum):
    OFF = "off"
    DOUBTFUL = "doubtful"
    ALL = "all"


class ChatDetection:
    """Runs detection requests with one chat model.

    Args:
        detector: Asks the model and writes what was found.
        chat_model: The model. Without one, every request raises `ValueError`.
        clock: Returns the time of messages that carry none.
    """

    def __init__(
        self, detector: FactDetector, chat_model: ChatModel | None, clock: TimeProvider
    ) -> None:
        self._detector = detector
        self._chat_model = chat_model
        self._clock = clock

    def request(
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
        """Return the request of a call of `AgentMemory.auto_detect_facts`."""
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
            raise ValueError("Finding facts needs a chat model: AgentMemory(..., chat_model=...)")
        return self._chat_model

    async def moments(self, places: Sequence[Place]) -> dict[Identity, Moment]:
        """Return the present moments of places, for a request that runs later."""
        return await self._detector.moments(places)

    async def run(
        self, request: DetectionRequest, operation: OperationInProgress
    ) -> DetectionReport:
        """Run a request and record its outcome in an operation."""
        report, _ = await self._detect(request, operation)
        return report

    async def run_with_question(
        self,
        request: DetectionRequest,
        operation: OperationInProgress,
        messages: list[History],
    ) -> DetectionReport:
        """Run a request about one concept, and append question and answer to the chat."""
        report, answer = await self._detect(request, operation)
        if request.transcript:
            history: list[Any] = messages
            question = {"role": "user", "content": question_about(request.declared[0])}
            history.append({**question, "name": QUESTION_MESSAGE})
            history.append({"role": "assistant", "content": answer, "name": QUESTION_MESSAGE})
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
    """Check the two options that are words.

    Raises:
        TypeError: One is not a string.
        ValueError: One is another word.
    """
    expect_member(doubtful, _Doubtful, "doubtful")
    expect_member(verify, _Verify, "verify")


def check_question_fits(messages: list[History]) -> None:
    """Check that a question can be appended to a chat.

    Raises:
        TypeError: The chat cannot be changed in place.
        ValueError: It ends with a tool call, which the question would separate from its result.
    """
    checked_history(messages)
    if messages and _is_call(messages[-1]):
        raise ValueError(
            "preserve_questions would separate a tool call from its result: append the result first"
        )


def _is_call(message: Mapping[str, object]) -> bool:
    is_instruction(message)  # raises for values that are not messages
    return bool(message.get("tool_calls"))


def _record_outcome(report: DetectionReport, operation: OperationInProgress) -> None:
    written = [*report.superseded, *report.saved, *report.confirmed]
    operation.found(placed.fact for placed in written)
    operation.count += len(report.retracted)
    operation.erased = sum(len(placed.fact.values) for placed in report.erased)
    operation.spent(report.usage)
