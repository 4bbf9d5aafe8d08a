"""Collaborators: the objects that implement the methods of AgentMemory."""

from functools import cached_property
from typing import TYPE_CHECKING

from factmem.memory._chat_detection import ChatDetection
from factmem.memory._fact_recall import FactRecall
from factmem.memory._instructions import Instructions
from factmem.memory._loader import FactLoader
from factmem.memory._observed_model import observed
from factmem.memory._profiles import MemoryProfiles
from factmem.memory._selection import PlaceSelection
from factmem.memory._settings import MemorySettings
from factmem.memory.contents import MemoryContents
from factmem.models.boundary import Boundary
from factmem.providers._guarded import guarded
from factmem.providers._reader import FactReader
from factmem.providers.base import FactStore
from factmem.recall._index_cache import IndexCache

if TYPE_CHECKING:
    from factmem.detection._detector import FactDetector
    from factmem.memory._definitions import MemoryDefinitions
    from factmem.memory.consolidator import MemoryConsolidation
    from factmem.memory.review import MemoryReview
    from factmem.recall._search import FactSearch
    from factmem.recall._turn_search import TurnSearch

__all__ = ["Collaborators"]


class Collaborators:
    """The objects that read and write facts for a memory or a view, all with one guarded provider.

    Each gets what it needs of the same parts: `provider` is restricted to the boundary of the view and
    reports its operations, `reader` reads from it, `selection` has the places of calls, and `events`
    reports what the provider does not: calls that are refused, detections and recalls.

    Args:
        settings: The settings of the memory.
        selection: The default places of calls.
        boundary: The places of a view; None for a memory that may access everything.
    """

    def __init__(
        self, settings: MemorySettings, selection: PlaceSelection, boundary: Boundary | None
    ) -> None:
        self._settings = settings
        self.selection: PlaceSelection = selection
        events = settings.events
        self._chat_model = observed(settings.chat_model, events)
        self.provider: FactStore = guarded(settings.provider, boundary, events)
        self.reader: FactReader = FactReader(self.provider, settings.concepts.values())
        self.contents: MemoryContents = MemoryContents(
            self.provider,
            self.reader,
            selection,
            events,
            clock=settings.clock,
            definitions=lambda: self.definitions,
        )
        self.profiles: MemoryProfiles = MemoryProfiles(
            self.provider, self.reader, selection, self.contents, settings.clock
        )
        followed = Instructions(settings.instructions, self.provider, self.reader)
        self.loader: FactLoader = FactLoader(
            self.provider, self.reader, selection, events, settings.message, instructions=followed
        )
        self.detection: ChatDetection = ChatDetection(
            lambda: self._detector,
            selection,
            events,
            chat_model=self._chat_model,
            concepts=settings.concepts,
            instructions=settings.instructions,
            clock=settings.clock,
            detection=settings.detection,
        )
        self.recall: FactRecall = FactRecall(
            lambda: self._search,
            self.provider,
            selection,
            events,
            reader=self.reader,
            message=settings.message,
            instructions=followed,
            defaults=settings.recall,
            turns=lambda: self._turn_search,
            everywhere=lambda: self._searching(IndexCache()),
        )

    # What a program that only loads facts does not need is imported with its first use: it is half of
    # the package.

    @cached_property
    def consolidation(self) -> "MemoryConsolidation":
        from factmem.memory.consolidator import MemoryConsolidation

        settings = self._settings
        return MemoryConsolidation(
            self.provider,
            self.selection,
            settings.events,
            self._chat_model,
            instructions=settings.instructions,
        )

    @cached_property
    def review(self) -> "MemoryReview":
        from factmem.memory.review import MemoryReview

        settings = self._settings
        return MemoryReview(self.provider, self.reader, settings.events, settings.clock)

    @cached_property
    def _detector(self) -> "FactDetector":
        from factmem.detection._detector import FactDetector

        return FactDetector(self.provider, self.reader, self._settings.synonyms)

    @cached_property
    def _search(self) -> "FactSearch":
        return self._searching(self._settings.indexes)

    @cached_property
    def definitions(self) -> "MemoryDefinitions":
        """The definitions of concepts in the store."""
        from factmem.memory._definitions import MemoryDefinitions  # needless for facts

        settings = self._settings
        return MemoryDefinitions(self.provider, settings.concepts, settings.told, settings.events)

    @cached_property
    def _turn_search(self) -> "TurnSearch":
        from factmem.recall._turn_search import TurnSearch

        settings = self._settings
        return TurnSearch(self.provider, settings.indexes, settings.clock)

    async def keep_vectors(self) -> None:
        """Write vectors that the store does not have yet; see `FactSearch.keep_vectors`."""
        if self._settings.embedder is not None:
            await self._search.keep_vectors(self.selection.boundary.allows)

    def _searching(self, indexes: IndexCache) -> "FactSearch":
        from factmem.recall._search import FactSearch

        settings = self._settings
        return FactSearch(
            self.provider,
            self.reader,
            indexes,
            settings.events,
            embedder=settings.embedder,
            clock=settings.clock,
        )
