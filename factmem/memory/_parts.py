"""MemoryParts: what the methods of a memory or a view work with."""

from functools import cached_property
from typing import TYPE_CHECKING

from factmem._concurrency.per_loop import Workers
from factmem.events import MemoryEvents
from factmem.llm.base import ChatModel
from factmem.memory._selection import PlaceSelection
from factmem.memory._settings import MemorySettings
from factmem.models.boundary import Boundary
from factmem.models.clock import TimeProvider
from factmem.providers._guarded import guarded
from factmem.providers._reader import FactReader
from factmem.providers.base import FactStore
from factmem.recall._index_cache import IndexCache

if TYPE_CHECKING:
    from factmem.detection._detector import FactDetector
    from factmem.recall._search import FactSearch
    from factmem.recall._turn_search import TurnSearch


class MemoryParts:
    """What the methods of a memory or a view work with, all with one guarded provider.

    `provider` is restricted to the boundary of the view and reports its operations, `reader` reads from
    it, `selection` has the places of calls, and `events` reports what the provider does not: calls that
    are refused, detections and recalls.

    Args:
        settings: The settings of the memory.
        selection: The default places of calls.
        boundary: The places of a view; None for a memory that may access everything.
    """

    def __init__(
        self, settings: MemorySettings, selection: PlaceSelection, boundary: Boundary | None
    ) -> None:
        self.settings: MemorySettings = settings
        self.selection: PlaceSelection = selection
        self.events: MemoryEvents = settings.events
        self.clock: TimeProvider = settings.clock
        self.provider: FactStore = guarded(settings.provider, boundary, settings.events)
        self.reader: FactReader = FactReader(self.provider, settings.concepts.values())
        self.workers: Workers = Workers()

    # What a program that only loads facts does not need is imported with its first use: it is half of
    # the package.

    @cached_property
    def chat_model(self) -> ChatModel | None:
        """The chat model, whose extractions are reported."""
        from factmem.memory._observed_model import observed

        return observed(self.settings.chat_model, self.events)

    def required_model(self) -> ChatModel:
        """Return the chat model.

        Raises:
            ValueError: The memory has no chat model.
        """
        if self.chat_model is None:
            raise ValueError("Detecting facts needs a chat model: AgentMemory(..., chat_model=...)")
        return self.chat_model

    @cached_property
    def detector(self) -> "FactDetector":
        """What finds facts in chats, and saves them."""
        from factmem.detection._detector import FactDetector

        return FactDetector(self.provider, self.reader, self.settings.synonyms)

    @cached_property
    def search(self) -> "FactSearch":
        """The search for facts, with the indexes of the memory."""
        return self.searching(self.settings.indexes)

    @cached_property
    def turn_search(self) -> "TurnSearch":
        """The search for messages of conversations."""
        from factmem.recall._turn_search import TurnSearch

        return TurnSearch(self.provider, self.settings.indexes, self.clock)

    def searching(self, indexes: IndexCache) -> "FactSearch":
        """Return a search for facts with other indexes."""
        from factmem.recall._search import FactSearch

        return FactSearch(
            self.provider,
            self.reader,
            indexes,
            self.events,
            embedder=self.settings.embedder,
            clock=self.clock,
        )
