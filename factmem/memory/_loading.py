"""The part of a memory that tells what holds, and puts it into chats."""

from collections.abc import Iterable
from typing import Any, TypeVar

from factmem.events import MemoryOperation
from factmem.ledger.resolution import Resolution
from factmem.llm.messages import History, checked_history
from factmem.memory._core import MemoryCore
from factmem.memory.origin import FactOrigin, origin_of
from factmem.models.checked import checked_concept
from factmem.models.facts import (
    AnyFact,
    Concept,
    MultipleFacts,
    SingleFact,
)
from factmem.models.places import MemorySubject
from factmem.models.scopes import ScopeChoice
from factmem.prompt.memory_message import LoadReport

L = TypeVar("L", bound="SingleFact[Any] | MultipleFacts[Any]")


class PresentsFacts(MemoryCore):
    """Facts that hold: into the prompt, to the application, and where they come from."""

    async def load_facts_to_agent(
        self,
        messages: list[History],
        concept: Concept[Any, L],
        *,
        scopes: Iterable[ScopeChoice] | None = None,
        subjects: Iterable[MemorySubject] | None = None,
    ) -> LoadReport[L]:
        """Put what holds about a concept into a chat. No call to a model.

        What the memory message says about the concept is replaced, what it says about others stays
        as long as there is room. When nothing is known nothing is said, and a message that would
        say nothing is removed. On an error or a cancellation `messages` is as it was.

        Args:
            messages: The chat; changed in place.
            concept: What to look up.
            scopes: Where to look; all scopes of the profile by default. A type of scope without
                a name is passed over.
            subjects: Whom to look for; those of the memory by default.

        Raises:
            TypeError: `messages` cannot be changed in place, or an argument is of the wrong kind.
            UnboundSubjectError: A subject is per entity and names none.
            StorageError: A place could not be read.
        """
        places = await self._places_for(
            MemoryOperation.LOAD,
            subjects,
            scopes,
            check=lambda: (checked_history(messages), checked_concept(concept)),
        )
        resolution = await self._reader.concept(concept, places)
        return self._message.put(messages, resolution, places, {concept.keyword})

    async def load_all_facts_to_agent(
        self,
        messages: list[History],
        *,
        scopes: Iterable[ScopeChoice] | None = None,
        subjects: Iterable[MemorySubject] | None = None,
    ) -> LoadReport:
        """Put what holds about every concept into a chat. No call to a model.

        The whole memory message is replaced. Otherwise like `load_facts_to_agent`.

        Args:
            messages: The chat; changed in place.
            scopes: Where to look; all scopes of the profile by default.
            subjects: Whom to look for; those of the memory by default.

        Raises:
            TypeError: `messages` cannot be changed in place, or an argument is of the wrong kind.
            UnboundSubjectError: A subject is per entity and names none.
            StorageError: A place could not be read.
        """
        places = await self._places_for(
            MemoryOperation.LOAD, subjects, scopes, check=lambda: checked_history(messages)
        )
        resolution = await self._reader.everything(places)
        return self._message.put(messages, resolution, places, None)

    async def current(
        self,
        concept: Concept[Any, L],
        *,
        scopes: Iterable[ScopeChoice] | None = None,
        subjects: Iterable[MemorySubject] | None = None,
    ) -> list[L]:
        """Return what holds about a concept. No call to a model.

        One `SingleFact` at most for a concept that holds one value. For one that holds many, a
        `MultipleFacts` for each save, those of the most specific place first.

        Args:
            concept: What to look up.
            scopes: Where to look; all scopes of the profile by default.
            subjects: Whom to look for; those of the memory by default.

        Raises:
            StoredFactError: A stored value does not fit the concept's `value_type`.
            UnboundSubjectError: A subject is per entity and names none.
            StorageError: A place could not be read.
        """
        places = await self._places_for(
            MemoryOperation.LOAD, subjects, scopes, check=lambda: checked_concept(concept)
        )
        return _readable(await self._reader.concept(concept, places))

    async def current_all(
        self,
        *,
        scopes: Iterable[ScopeChoice] | None = None,
        subjects: Iterable[MemorySubject] | None = None,
    ) -> list[AnyFact]:
        """Return what holds about every concept, ordered by keyword. No call to a model.

        Values of the memory's `concepts` have their types, all others are plain JSON.

        Raises:
            StoredFactError: A stored value does not fit the type of one of the memory's `concepts`.
            UnboundSubjectError: A subject is per entity and names none.
            StorageError: A place could not be read.
        """
        places = await self._places_for(MemoryOperation.LOAD, subjects, scopes)
        return _readable(await self._reader.everything(places))

    async def why(
        self,
        fact: AnyFact,
        *,
        scopes: Iterable[ScopeChoice] | None = None,
        subjects: Iterable[MemorySubject] | None = None,
    ) -> FactOrigin | None:
        """Return who said a fact, in which words, and what happened to its concept since.

        No call to a model. None when none of the places has, or had, a fact of its id.

        Args:
            fact: What to explain, such as one that `current` or `recall` gave.
            scopes: Where to look for it; all scopes of the profile by default.
            subjects: Whom it may concern; those of the memory by default.

        Raises:
            TypeError: `fact` is none.
            UnboundSubjectError: A subject is per entity and names none.
            StorageError: A place could not be read.
        """
        async with self._events.before(MemoryOperation.HISTORY):
            if not isinstance(fact, SingleFact | MultipleFacts):
                raise TypeError(
                    f"why takes a fact, such as `current` and `recall` return, not "
                    f"{type(fact).__name__}"
                )
            places = self._places(subjects, scopes)
        return await origin_of(fact, places, self._provider)


def _readable(resolution: Resolution[L]) -> list[L]:
    if resolution.unreadable:
        raise resolution.unreadable[0].error
    return resolution.facts
