"""The part of a memory that finds facts in chats."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any

from factmem.detection.detector import FactDetector
from factmem.detection.prompts import question_about
from factmem.detection.reconciliation import DetectionReport
from factmem.detection.request import DetectionRequest
from factmem.events import MemoryOperation, OperationInProgress
from factmem.llm.messages import (
    QUESTION_MESSAGE,
    History,
    checked_history,
    is_instruction,
)
from factmem.memory._core import MemoryCore, by_keyword
from factmem.memory.selection import check_distinct
from factmem.models.checked import checked_concept
from factmem.models.facts import Concept
from factmem.models.places import MemorySubject, Place
from factmem.models.scopes import ScopeChoice
from factmem.models.sources import SourceKind
from factmem.prompt.transcript import Transcript


class DetectsFacts(MemoryCore):
    """What a chat states becomes facts, item by item, as far as the chat bears it out."""

    _detector: FactDetector

    async def save_facts_from_history(
        self,
        messages: list[History],
        concept: Concept[Any, Any],
        subject: MemorySubject,
        scope: ScopeChoice,
        *,
        preserve_questions: bool = False,
        trust: Iterable[SourceKind] = (),
        conversation: str | None = None,
        since: int = 0,
        dry_run: bool = False,
    ) -> DetectionReport:
        """Ask the model what a chat states about one concept, and save it. One call to a model.

        Nothing is saved when the chat does not say. Otherwise like `auto_detect_facts`.

        Args:
            messages: The chat; not changed unless `preserve_questions` is set.
            concept: What to look for.
            subject: Whom it concerns.
            scope: Where to save it.
            preserve_questions: Append the question and the model's answer to `messages`. No facts
                are ever taken from them.
            trust: See `auto_detect_facts`, as for the rest.
            conversation: The application's name for the chat.
            since: The index of the first message that may be cited.
            dry_run: Save nothing, only report.

        Raises:
            TypeError: An argument is of the wrong kind, such as a text for `messages`. No model was
                asked.
            MemoryAccessError: A view does not let this be written. No model was asked.
            ValueError: There is no chat model, the scope has no name, or `preserve_questions` is
                set while a tool call waits for its result.
        """
        async with self._events.operation(MemoryOperation.DETECT) as seen:
            checked_concept(concept)
            if preserve_questions:
                checked_history(messages)
            if preserve_questions and messages and _is_call(messages[-1]):
                raise ValueError(
                    "preserve_questions would tear a tool call from its result: append the result "
                    "first"
                )
            chat_model = self._model()
            seen.places = [self._place(subject, scope)]
            transcript = Transcript(messages, trust=trust, since=since)
            report, answer = await self._detector.detect(
                chat_model,
                DetectionRequest(
                    transcript=transcript,
                    places=seen.places,
                    declared=[concept],
                    is_closed=True,
                    conversation=conversation,
                    dry_run=dry_run,
                ),
            )
            noted(report, seen)
        if preserve_questions and transcript:
            history: list[Any] = messages
            question = {"role": "user", "content": question_about(concept)}
            history.append({**question, "name": QUESTION_MESSAGE})
            history.append({"role": "assistant", "content": answer, "name": QUESTION_MESSAGE})
        return report

    async def auto_detect_facts(
        self,
        messages: Sequence[History],
        *,
        subjects: Iterable[MemorySubject] | None = None,
        scopes: Iterable[ScopeChoice] | None = None,
        concepts: Iterable[Concept[Any, Any]] = (),
        trust: Iterable[SourceKind] = (),
        conversation: str | None = None,
        since: int = 0,
        dry_run: bool = False,
    ) -> DetectionReport:
        """Find the facts that a chat states, about all subjects at once, and save them.

        One call to a model; none when no message may be cited. Each item of its answer is judged
        alone, and what is not taken is in the report with the reason. The facts of one place are
        saved in one durable write, all or none; places are written one after the other. A second
        run over the same chat saves nothing new.

        Facts come from the user's messages only, unless `trust` says otherwise: what a tool or a
        web page says never becomes a fact about the user. What factmem put into the chat itself
        is never taken for something that was said.

        Args:
            messages: The chat; not changed.
            subjects: Whom facts may concern; those of the memory by default.
            scopes: Where they may be saved; all scopes of the profile by default.
            concepts: Concepts with types, besides those of the memory.
            trust: Who besides the user is believed: `SourceKind.ASSISTANT`, `SourceKind.TOOL`.
            conversation: The application's name for the chat, for the source of each fact. It
                should be given: messages of two chats without a name cannot be told apart.
            since: The index of the first message that may be cited. Earlier ones only help to
                understand; pass the number of messages that an earlier run has seen.
            dry_run: Save nothing, only report.

        Raises:
            TypeError: An argument is of the wrong kind, such as a text for `messages`, of which
                `remember` finds the facts. No model was asked.
            UnboundSubjectError: A subject is per entity and names none. No model was asked.
            MemoryAccessError: A view does not let this be written. No model was asked.
            ValueError: There is no chat model, no scope has a name, or two of the places would
                look the same to a model. No model was asked.
            ChatModelError: The model's endpoint failed. Nothing was saved.
            ExtractionError: The model's answer could not be used. Nothing was saved.
            StorageError: A place could not be read, or one was not written; what was written
                before stays.
        """
        async with self._events.operation(MemoryOperation.DETECT) as seen:
            seen.places, detect = self._detection_in(
                Transcript(messages, trust=trust, since=since),
                subjects,
                scopes,
                conversation,
                concepts=concepts,
                dry_run=dry_run,
            )
            return noted(await detect(), seen)

    def _detection_in(
        self,
        transcript: Transcript,
        subjects: Iterable[MemorySubject] | None,
        scopes: Iterable[ScopeChoice] | None,
        conversation: str | None,
        *,
        concepts: Iterable[Concept[Any, Any]] = (),
        dry_run: bool = False,
    ) -> tuple[list[Place], Callable[[], Awaitable[DetectionReport]]]:
        """Return where a detection may write, and the detection; raise what forbids it."""
        places = self._reach.writable_places(subjects, scopes)
        check_distinct(places)
        chat_model = self._model()
        declared = list((self._concepts | by_keyword(concepts)).values())

        async def detect() -> DetectionReport:
            report, _ = await self._detector.detect(
                chat_model,
                DetectionRequest(
                    transcript=transcript,
                    places=places,
                    declared=declared,
                    conversation=conversation,
                    dry_run=dry_run,
                ),
            )
            return report

        return places, detect


def _is_call(message: Mapping[str, object]) -> bool:
    is_instruction(message)  # raises for what is no message
    return bool(message.get("tool_calls"))


def noted(report: DetectionReport, seen: OperationInProgress) -> DetectionReport:
    """Note in an operation what came of looking for facts, and return it."""
    told = [*report.saved, *report.confirmed]
    seen.found(placed.fact for placed in told)
    seen.count += len(report.retracted)
    seen.spent(report.usage)
    return report
