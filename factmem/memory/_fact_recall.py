"""FactRecall: searches in selected places, for callers and for prompts."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from heapq import nlargest
from itertools import groupby
from typing import TYPE_CHECKING

from anyio.lowlevel import checkpoint

from factmem._concurrency.per_loop import Workers
from factmem.events import MemoryEvents, MemoryOperation, OperationInProgress
from factmem.ledger.resolution import PlacedFact, Resolution
from factmem.llm.messages import History, checked_history, last_said
from factmem.memory._instructions import Instructions
from factmem.memory._selection import PlaceSelection, Scopes, Subjects
from factmem.models.boundary import Boundary
from factmem.models.places import Place
from factmem.models.recall_filter import RecallFilter
from factmem.prompt.memory_message import MemoryMessage
from factmem.providers.base import FactStore, fact_store
from factmem.recall.match import Match, RecallReport, RecallResult
from factmem.recall.query import RecallQuery, RecallSettings, checked_question

if TYPE_CHECKING:
    from factmem.recall._search import FactSearch

__all__ = ["FactRecall"]

_AT_ONCE = 32
"""The number of places that a recall over every entity loads at a time."""
_MOST_NAMED = 100
_LONG = 20_000
"""Questions with at least this many characters are split in a worker thread."""


class FactRecall:
    """Validates and runs queries, and puts their matches into chats.

    Args:
        search: Returns the search over the memory's indexes.
        provider: The store, restricted to the boundary of `selection`.
        selection: The places that a call may read.
        events: Reports each recall.
        message: Writes the memory message.
        instructions: Finds the facts that the model has to follow, independently of the question.
        defaults: The weights.
        everywhere: Creates a search without a cache, for the places of every entity.
    """

    def __init__(
        self,
        search: "Callable[[], FactSearch]",
        provider: FactStore,
        selection: PlaceSelection,
        events: MemoryEvents,
        *,
        message: MemoryMessage,
        instructions: Instructions,
        defaults: RecallSettings,
        everywhere: "Callable[[], FactSearch]",
    ) -> None:
        self._search = search
        self._provider = provider
        self._selection = selection
        self._events = events
        self._message = message
        self._instructions = instructions
        self._defaults = defaults
        self._everywhere = everywhere
        self._workers = Workers()

    async def find(
        self,
        text: str,
        subjects: Subjects,
        scopes: Scopes,
        *,
        limit: int,
        where: RecallFilter | None,
    ) -> RecallResult:
        """See `AgentMemory.recall`."""
        async with self._events.operation(MemoryOperation.RECALL) as operation:
            query = RecallQuery.of_arguments(text, self._defaults, limit=limit, where=where)
            everywhere = self._selection.everywhere(subjects, scopes)
            if everywhere is not None:
                return await self._search_everywhere(query, operation, everywhere)
            operation.places = self._selection.places(subjects, scopes)
            return await self._search_places([query], operation)

    async def find_into(
        self,
        messages: list[History],
        text: str | None,
        subjects: Subjects,
        scopes: Scopes,
        *,
        limit: int,
        where: RecallFilter | None,
    ) -> RecallReport:
        """See `AgentMemory.recall_facts_to_agent`."""
        async with self._events.operation(MemoryOperation.RECALL) as operation:
            operation.places = self._selection.places(subjects, scopes)
            checked_history(messages)
            text = last_said(messages) if text is None else checked_question(text)
            query = None
            if text.strip():
                query = RecallQuery.of_arguments(text, self._defaults, limit=limit, where=where)
            found = await self._search_sentences(query, operation)
        return await self._put(messages, found, operation)

    async def _search_places(
        self, queries: Sequence[RecallQuery], operation: OperationInProgress
    ) -> RecallResult:
        """Search the places of an operation, and record the matches in it."""
        result = await self._search().recall(operation.places, queries, operation)
        operation.found(match.fact for match in result)
        return result

    async def _search_everywhere(
        self, query: RecallQuery, operation: OperationInProgress, boundary: Boundary
    ) -> RecallResult:
        """Search all places inside a boundary in batches, and return the most relevant matches."""
        places = await self._places_inside(boundary)
        best = RecallResult()
        for batch in _batches(places):
            found = await self._everywhere().recall(batch, [query], operation)
            best = RecallResult(
                nlargest(query.limit, [*best, *found], key=_relevance),
                is_semantic=best.is_semantic or found.is_semantic,
                failures=[*best.failures, *found.failures][:_MOST_NAMED],
                unreadable=[*best.unreadable, *found.unreadable][:_MOST_NAMED],
                embedding_calls=best.embedding_calls + found.embedding_calls,
                embedded_texts=best.embedded_texts + found.embedded_texts,
                refused_texts=best.refused_texts + found.refused_texts,
            )
        operation.found(match.fact for match in best)
        return best

    async def _places_inside(self, boundary: Boundary) -> list[Place]:
        store = fact_store(self._provider)
        if boundary.is_wide and boundary.places is None:
            about, where = boundary.listed()
            listed = await store.list_places(subjects=about, scopes=where)
            return sorted(listed, key=str)
        found: list[Place] = []
        for subjects, scopes in boundary.listings():
            found += [info.place for info in await store.places(subjects=subjects, scopes=scopes)]
        return [place for place in found if boundary.allows(place.identity)]

    async def _search_sentences(
        self, query: RecallQuery | None, operation: OperationInProgress
    ) -> RecallResult:
        """Search sentence by sentence; None, a question without words, finds nothing."""
        if query is None:
            operation.is_handed_over = True  # no search, no event
            await checkpoint()
            return RecallResult()
        from factmem.recall._lexical.analysis import sentences

        text = query.text
        is_long = len(text) > _LONG
        found = await self._workers.run(lambda: sentences(text)) if is_long else sentences(text)
        parts = [replace(query, text=part) for part in found]
        return await self._search_places(parts, operation)

    async def _put(
        self, messages: list[History], found: RecallResult, operation: OperationInProgress
    ) -> RecallReport:
        """Replace the memory message of a chat with the matches and the instructions."""
        placed = [PlacedFact(match.place, match.fact) for match in found]
        matched, _ = await self._instructions.separated(Resolution(placed, found.unreadable))
        followed = await self._instructions.current(operation.places)
        report = self._message.put(
            messages, matched, operation.places, None, best_first=True, instructions=followed
        )
        return RecallReport(
            report.facts, report.left_out, report.unreadable, found, text=report.text
        )


def _batches(places: Iterable[Place]) -> Iterator[list[Place]]:
    """Yield places in batches. Places of the same entity share a batch to be resolved together."""
    batch: list[Place] = []
    for _, group in groupby(sorted(places, key=_entity), key=_entity):
        batch += group
        if len(batch) >= _AT_ONCE:
            yield batch
            batch = []
    if batch:
        yield batch


def _entity(place: Place) -> tuple[str, ...]:
    return place.subject.levels


def _relevance(match: Match) -> tuple[float, float]:
    return match.relevance, match.score
