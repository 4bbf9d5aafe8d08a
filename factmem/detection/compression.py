"""RetrieveFactsFromHistory: replaces old messages of a chat by the facts in them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from factmem._arguments import expect_methods
from factmem.detection._candidates import Rules
from factmem.detection._question import (
    OfferedConcept,
    answer_type,
    compression_messages,
    compression_schema,
)
from factmem.detection._reconciliation import CurrentValues, read_items, reconcile
from factmem.detection.report import DetectionRequest, RejectedItem
from factmem.errors import InputValueError
from factmem.ledger.resolution import PlacedFact
from factmem.llm.base import (
    HISTORY_MESSAGE,
    OWN_MESSAGES,
    STEP_MESSAGE,
    ChatModel,
    History,
    answered_id,
    called_ids,
    checked_history,
    is_instruction,
    is_result,
    own_text,
    put_own_text,
)
from factmem.models._display import Displayed
from factmem.models.facts import AnyConcept, AnyFact, FactType, SourceKind, concepts_by_keyword
from factmem.models.places import MemoryScope, MemorySubject, Place
from factmem.prompt._transcript import Transcript
from factmem.prompt.memory_message import HISTORY, render
from factmem.usage import Usage

__all__ = ["RetrieveFactsFromHistory"]

_SCOPE = MemoryScope.Feature("conversation")
_SPEAKERS = {
    kind: Place(_SCOPE, MemorySubject(kind.value, f"What the {kind.value} said", 1))
    for kind in SourceKind
}


@dataclass(frozen=True, slots=True)
class CompressionReport(Displayed):
    """The result of a compression."""

    facts: list[AnyFact]
    """The facts about the concepts in the removed messages."""
    removed: int
    """The number of removed messages; 0 if the chat is unchanged."""
    rejected: list[RejectedItem]
    """Rejected items of the model's answer, each with the reason."""
    usage: Usage
    """The tokens and calls of the model call."""


class RetrieveFactsFromHistory:
    """Replaces the messages of a long chat by what they state about some concepts.

    Instructions, memory and the last exchange stay: the last message of the user and everything
    after it. A tool call stays with its result. One message named `factmem_history` replaces the
    others. Compressing a chat again adds the facts of the messages since; a concept that holds one
    value takes the new one.

    Nothing is written to any store. The removed messages are lost, so keep the whole chat elsewhere
    if you need it.

    Args:
        concepts: What to retrieve; at least one, each with its own keyword.

    Raises:
        ValueError: There is no concept, or two different ones have the same keyword.
        TypeError: An argument is of the wrong kind, such as a list of concepts.
    """

    def __init__(self, *concepts: AnyConcept) -> None:
        if not concepts:
            raise InputValueError(
                "Name the concepts to retrieve: RetrieveFactsFromHistory(CONCEPT, ...)"
            )
        self._concepts = tuple(concepts_by_keyword(concepts).values())

    async def compress(
        self, messages: list[History], chat_model: ChatModel, *, said_at: datetime | None = None
    ) -> CompressionReport:
        """Shorten a chat in place. One call to the model; none if there is nothing to remove.

        Statements of all speakers count, and each is shown with its speaker; each value must be
        quoted from its message. If no fact is found, or on an error or a cancellation, the chat
        stays as it was: an empty message in its place would lose all of it.

        Args:
            messages: The chat; changed in place.
            chat_model: The model that reads it.
            said_at: The time of messages that carry none themselves; now by default. Its day is
                shown with each value.

        Raises:
            ChatModelError: The model's endpoint failed.
            ExtractionError: The model's answer could not be used.
            RuntimeError: Another task changed the chat meanwhile.
            TypeError: `messages` cannot be changed in place, or `chat_model` is not a chat model.
        """
        before = list(checked_history(messages))
        expect_methods(chat_model, ("extract",), "chat_model", "OpenAIChatModel(name)")
        for message in before:
            is_instruction(message)  # raises for values that are not messages
        start = _last_exchange(before)
        trust = (SourceKind.ASSISTANT, SourceKind.TOOL)
        transcript = Transcript(before[:start], trust=trust, said_at=said_at)
        if not transcript:
            return CompressionReport([], 0, [], Usage())
        offered = [OfferedConcept(concept, has_type=True) for concept in self._concepts]
        extraction = await chat_model.extract(
            compression_messages(transcript.lines(), offered),
            answer_type(compression_schema(offered)),
        )
        here = _SPEAKERS[SourceKind.USER]
        rules = Rules(
            DetectionRequest(
                transcript=transcript,
                places=[here],
                declared=self._concepts,
                is_closed=True,
                is_about_user=False,
            )
        )
        read = read_items(extraction.value.facts, rules)
        found = reconcile(read, CurrentValues([]), can_forget=False).report
        facts = [placed.fact for placed in found.saved]
        if not facts:
            return CompressionReport([], 0, found.rejected, extraction.usage)
        if messages[: len(before)] != before:
            raise RuntimeError("The chat was changed during its compression; nothing was removed")
        text = _text(facts, before=own_text(messages, HISTORY_MESSAGE))
        removed = _removable(before[:start])
        for index in reversed(removed):
            del messages[index]
        put_own_text(messages, HISTORY_MESSAGE, text)
        return CompressionReport(facts, len(removed), found.rejected, extraction.usage)


def _text(facts: Sequence[AnyFact], before: str) -> str:
    """Return the message of facts together with those of an earlier compression."""
    return render(
        [
            PlacedFact(_SPEAKERS[fact.source.kind if fact.source else SourceKind.USER], fact)
            for fact in facts
        ],
        frame=HISTORY,
        before=before,
        asked={fact.concept.keyword for fact in facts if fact.concept.fact_type is FactType.SINGLE},
    ).text


def _removable(messages: Sequence[Mapping[str, object]]) -> list[int]:
    """Return the indexes of the messages that are neither instructions nor factmem's own.

    Questions that steps of a run asked are removed like the rest of that run.
    """
    return [
        index
        for index, message in enumerate(messages)
        if not is_instruction(message) and message.get("name") not in OWN_MESSAGES - {STEP_MESSAGE}
    ]


def _last_exchange(messages: Sequence[Mapping[str, object]]) -> int:
    """Return the index at which the last exchange begins."""
    indexes = range(len(messages))
    start = next((i for i in reversed(indexes) if _is_asked(messages[i])), None)
    if start is None:
        start = next((i for i in reversed(indexes) if not is_result(messages[i])), 0)
    calls: dict[str, int] = {}
    called_at: list[int] = []  # the index of the call that a message answers, or its own
    for index, message in enumerate(messages):
        calls |= dict.fromkeys(called_ids(message), index)
        call_id = answered_id(message)
        called_at.append(calls.get(call_id, index) if is_result(message) else index)
    while (earliest := min(called_at[start:], default=start)) < start:
        start = earliest
    return start


def _is_asked(message: Mapping[str, object]) -> bool:
    return message.get("role") == "user" and message.get("name") not in OWN_MESSAGES
