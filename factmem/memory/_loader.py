"""FactLoader: loads current facts for a chat or for the application, and their origins."""

from collections.abc import Callable
from typing import Any

from factmem._arguments import expect
from factmem._concurrency.per_loop import Workers
from factmem.events import MemoryEvents, MemoryOperation
from factmem.llm.messages import MEMORY_MESSAGE, History, checked_history, own_text
from factmem.memory._instructions import Instructions
from factmem.memory._selection import PlaceSelection
from factmem.memory.listing import CurrentFacts
from factmem.memory.origin import FactOrigin, origin_of
from factmem.models._checked import checked_concept
from factmem.models.facts import AnyFact, Concept, L, MultipleFacts, SingleFact
from factmem.models.places import Place
from factmem.prompt.memory_message import LoadReport, MemoryMessage
from factmem.providers._reader import MANY, FactReader
from factmem.providers.base import FactStore

__all__ = ["FactLoader"]


class FactLoader:
    """Loads the current facts of selected places. No call to a model.

    The methods behave like those of `AgentMemory` with the same names.
    """

    def __init__(
        self,
        provider: FactStore,
        reader: FactReader,
        selection: PlaceSelection,
        events: MemoryEvents,
        message: MemoryMessage,
        *,
        instructions: Instructions,
    ) -> None:
        self._provider = provider
        self._reader = reader
        self._selection = selection
        self._events = events
        self._message = message
        self._instructions = instructions
        self._workers = Workers()

    async def load_into(
        self, messages: list[History], concept: Concept[Any, Any] | None
    ) -> LoadReport[Any]:
        """Put the facts of every concept, or of one, into a chat."""
        if concept is None:
            places = await self._places(lambda: checked_history(messages))
            resolution = await self._reader.everything(places)
            asked = None
        else:
            places = await self._places(
                lambda: (checked_history(messages), checked_concept(concept))
            )
            resolution = await self._reader.concept(concept, places)
            asked = {concept.keyword}
        facts, followed = await self._instructions.separated(resolution)
        if len(facts.placed) <= MANY:
            return self._message.put(messages, facts, places, asked, instructions=followed)
        before = own_text(messages, MEMORY_MESSAGE)
        rendering = await self._workers.run(
            lambda: self._message.rendered(before, facts, places, asked, instructions=followed)
        )
        return self._message.placed(messages, facts, followed, rendering)

    async def current(self, concept: Concept[Any, L]) -> list[L]:
        """Return the current facts of one concept."""
        places = await self._places(lambda: checked_concept(concept))
        resolution = await self._reader.concept(concept, places)
        if resolution.unreadable:
            raise resolution.unreadable[0].error
        return resolution.facts

    async def current_all(self) -> CurrentFacts:
        """Return the current facts of every concept, ordered by keyword."""
        resolution = await self._reader.everything(await self._places())
        return CurrentFacts(resolution.facts, resolution.unreadable)

    async def origin(self, fact: AnyFact) -> FactOrigin | None:
        """Return the sources and history of a fact; None if no place has or had it."""
        places = await self._places(
            lambda: expect(fact, (SingleFact, MultipleFacts), "fact", "memory.why(facts[0])"),
            MemoryOperation.HISTORY,
        )
        return await origin_of(fact, places, self._provider)

    async def _places(
        self,
        check: Callable[[], object] | None = None,
        operation: MemoryOperation = MemoryOperation.LOAD,
    ) -> list[Place]:
        """Return the places of a load, after `check`.

        The provider reports each load as an event. A call that is rejected before it reaches the
        provider is reported here; this is skipped if there are no listeners.
        """
        if not self._events:
            if check is not None:
                check()
            return self._selection.places()
        async with self._events.before(operation):
            if check is not None:
                check()
            return self._selection.places()
