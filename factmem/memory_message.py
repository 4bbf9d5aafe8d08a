"""The one message of a chat that says what is remembered."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic

from typing_extensions import TypeVar

from factmem.messages import MEMORY_MESSAGE, History, own_text, put_own_text
from factmem.models import MemorySubject, MultipleFacts, Place, SingleFact
from factmem.rendering import MEMORY, check_budget, render
from factmem.resolution import Resolution, UnreadableConcept
from factmem.tokens import TokenCounter

__all__ = ["LoadReport", "MemoryMessage"]

L = TypeVar("L", bound="SingleFact[Any] | MultipleFacts[Any]")
L_co = TypeVar(
    "L_co",
    bound="SingleFact[Any] | MultipleFacts[Any]",
    default="SingleFact[Any] | MultipleFacts[Any]",
    covariant=True,
)


@dataclass(frozen=True, slots=True)
class LoadReport(Generic[L_co]):
    """What was put into a chat: facts, and how many values had no room or do not fit their type."""

    facts: list[L_co]
    """What holds about the concepts that were asked for, with what had no room."""
    left_out: int
    """How many values the memory message could not hold, of these concepts and of earlier ones.
    The message says so as well."""
    unreadable: list[UnreadableConcept]
    """Concepts with a stored value that does not fit their type, each with its place and error.
    They are left out, and so is what is less specific about them; the values stay stored."""


class MemoryMessage:
    """Writes the memory message of chats, within a budget.

    Args:
        subjects: Those whose priority levels are known in advance, to rank what a chat holds.
        max_tokens: The most that the message may take; None sets no limit.
        count: Counts the tokens of a text.

    Raises:
        ValueError: `max_tokens` has no room for a fact.
    """

    def __init__(
        self, subjects: Iterable[MemorySubject], max_tokens: int | None, count: TokenCounter
    ) -> None:
        check_budget(max_tokens, MEMORY, count)
        self._levels = {subject.name: subject.priority_level for subject in subjects}
        self._max_tokens = max_tokens
        self._count = count

    def put(
        self,
        messages: list[History],
        resolution: Resolution[L],
        places: Sequence[Place],
        asked: Collection[str] | None,
        *,
        best_first: bool = False,
    ) -> LoadReport[L]:
        """Put what holds into a chat.

        Args:
            messages: The chat.
            resolution: What holds.
            places: Where it was looked up.
            asked: The concepts that were looked up; None means all.
            best_first: Whether what there is not room for is left out from the end.
        """
        levels = {place.subject.name: place.subject.priority_level for place in places}
        rendering = render(
            resolution.placed,
            before=own_text(messages, MEMORY_MESSAGE),
            asked=asked,
            best_first=best_first,
            priorities=self._levels | levels,
            max_tokens=self._max_tokens,
            count=self._count,
        )
        put_own_text(messages, MEMORY_MESSAGE, rendering.text)
        unreadable = [*resolution.unreadable, *rendering.unreadable]
        return LoadReport(resolution.facts, rendering.left_out, unreadable)
