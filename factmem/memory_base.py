"""What all parts of a memory share: where its facts are, and what it may touch."""

from collections.abc import Iterable
from typing import Any

from factmem.boundary import Boundary
from factmem.events import MemoryEvents
from factmem.llm.base import ChatModel
from factmem.loading import FactReader
from factmem.memory_message import MemoryMessage
from factmem.models import Concept, MemorySubject, Place
from factmem.pending_texts import PendingTexts
from factmem.provider import AgentMemoryProvider
from factmem.reach import Reach
from factmem.scopes import ScopeChoice

__all__ = ["MemoryBase", "by_keyword"]


class MemoryBase:
    """The state of a memory, and the ways to its places: every part goes through them."""

    _provider: AgentMemoryProvider
    """Held to the boundary, and observed."""
    _reader: FactReader
    _events: MemoryEvents
    _reach: Reach
    _message: MemoryMessage
    _pending: PendingTexts
    _chat_model: ChatModel | None
    _concepts: dict[str, Concept[Any, Any]]
    """Those of which the application knows the type, by keyword."""

    @property
    def boundary(self) -> Boundary:
        """What the memory may touch: everything, unless it is a view."""
        return self._reach.boundary

    def _places(
        self, subjects: Iterable[MemorySubject] | None, scopes: Iterable[ScopeChoice] | None
    ) -> list[Place]:
        """Return the places that a call may touch; everything goes through here or `_place`."""
        return self._reach.places(subjects, scopes)

    def _place(self, subject: MemorySubject, scope: ScopeChoice) -> Place:
        """Return the one place that a call writes to."""
        return self._reach.place(subject, scope)

    async def _caught_up(self) -> None:
        """Wait until what is being written in the background is written."""
        await self._pending.wait(self.boundary)

    def _model(self) -> ChatModel:
        if self._chat_model is None:
            raise ValueError(
                "Finding facts in a chat takes a model: AgentMemory(..., chat_model=...)"
            )
        return self._chat_model


def by_keyword(concepts: Iterable[Concept[Any, Any]]) -> dict[str, Concept[Any, Any]]:
    """Return concepts by their keywords.

    Raises:
        ValueError: Two have one keyword, and are not the same.
    """
    found: dict[str, Concept[Any, Any]] = {}
    for concept in concepts:
        if found.setdefault(concept.keyword, concept) != concept:
            raise ValueError(f"Two concepts have the keyword {concept.keyword!r}: keep one")
    return found
