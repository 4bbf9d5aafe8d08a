"""What all parts of a memory share: where its facts are, and what it may touch."""

from collections.abc import Callable, Iterable
from typing import Any

from factmem.events import MemoryEvents, MemoryOperation
from factmem.llm.base import ChatModel
from factmem.memory.pending_texts import PendingTexts
from factmem.memory.selection import Reach
from factmem.models.boundary import Boundary
from factmem.models.checked import checked_concepts
from factmem.models.facts import Concept
from factmem.models.places import MemorySubject, Place
from factmem.models.scopes import ScopeChoice
from factmem.prompt.memory_message import MemoryMessage
from factmem.providers.base import AgentMemoryProvider, FactStore
from factmem.providers.reader import FactReader


def _refuse_nothing() -> None:
    """Check a call that has nothing to check but its places."""


class MemoryCore:
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

    @property
    def provider(self) -> AgentMemoryProvider:
        """Where facts are; of a view, a provider that holds no more than the view shows.

        It has the four methods that every provider has, and what is done through it is told to
        listeners. `store` is the same as a `FactStore`.
        """
        return self._provider

    @property
    def store(self) -> FactStore:
        """The provider, where it is a `FactStore`; of a view, no more of it than the view shows.

        It is what code forgets, erases and reads histories through, and what `export_facts` takes.

        Raises:
            TypeError: The provider is no `FactStore`: it has `save` and three ways to load.
        """
        return store_of(self._provider)

    def _places(
        self, subjects: Iterable[MemorySubject] | None, scopes: Iterable[ScopeChoice] | None
    ) -> list[Place]:
        """Return the places that a call may touch; everything goes through here or `_place`."""
        return self._reach.places(subjects, scopes)

    def _place(self, subject: MemorySubject, scope: ScopeChoice) -> Place:
        """Return the one place that a call writes to."""
        return self._reach.place(subject, scope)

    async def _places_for(
        self,
        operation: MemoryOperation,
        subjects: Iterable[MemorySubject] | None,
        scopes: Iterable[ScopeChoice] | None,
        *,
        check: Callable[[], object] = _refuse_nothing,
    ) -> list[Place]:
        """Return the places of operations that the provider tells of; a refusal is told here.

        `check` raises for what else the call is refused for.
        """
        if not self._events:
            check()
            return self._places(subjects, scopes)
        async with self._events.before(operation):
            check()
            return self._places(subjects, scopes)

    async def _caught_up(self) -> None:
        """Wait until what is being written in the background is written."""
        await self._pending.wait(self.boundary)

    def _model(self) -> ChatModel:
        if self._chat_model is None:
            raise ValueError(
                "Finding facts in a chat takes a model: AgentMemory(..., chat_model=...)"
            )
        return self._chat_model


def store_of(provider: AgentMemoryProvider) -> FactStore:
    """Return a provider as the `FactStore` that it is.

    Raises:
        TypeError: It is none.
    """
    if not isinstance(provider, FactStore):
        raise TypeError(
            f"{type(provider).__name__} is no FactStore: to list what a memory holds, to forget, "
            f"erase, merge or export it, and to give a model tools, takes a provider with the "
            f"methods of FactStore, as those of factmem have"
        )
    return provider


def by_keyword(concepts: Iterable[Concept[Any, Any]]) -> dict[str, Concept[Any, Any]]:
    """Return concepts by their keywords.

    Raises:
        TypeError: They are no list of concepts.
        ValueError: Two have one keyword, and are not the same.
    """
    found: dict[str, Concept[Any, Any]] = {}
    for concept in checked_concepts(concepts, "concepts=[AGE]"):
        if found.setdefault(concept.keyword, concept) != concept:
            raise ValueError(f"Two concepts have the keyword {concept.keyword!r}: keep one")
    return found
