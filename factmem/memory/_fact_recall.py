"""FactRecall: searches in selected places, for callers and for prompts."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from heapq import nlargest
from itertools import groupby, zip_longest
from typing import TYPE_CHECKING

from anyio.lowlevel import checkpoint

from factmem._concurrency.per_loop import Workers
from factmem.events import MemoryEvents, MemoryOperation, OperationInProgress
from factmem.ledger.resolution import PlacedFact, Resolution
from factmem.llm.messages import History, checked_history, content_text, last_said
from factmem.memory._instructions import Instructions
from factmem.memory._selection import PlaceSelection, Scopes, Subjects
from factmem.models.boundary import Boundary
from factmem.models.facts import FactType
from factmem.models.places import Place
from factmem.models.recall_filter import RecallFilter
from factmem.prompt._memory_text import Quoted
from factmem.prompt.memory_message import MemoryMessage
from factmem.providers._reader import FactReader
from factmem.providers.base import FactStore, fact_store
from factmem.recall.match import Match, RecallReport, RecallResult
from factmem.recall.query import RecallQuery, RecallSettings, checked_question

if TYPE_CHECKING:
    from factmem.recall._search import FactSearch
    from factmem.recall._turn_search import TurnSearch

__all__ = ["FactRecall"]

_BEST = 3
"""The matches whose concepts get further values."""

_FIRST = 5
"""The facts before these further values."""

_MOST_FURTHER = 20
"""The most further values of a concept."""

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
        reader: A reader of the same store.
        message: Writes the memory message.
        instructions: Finds the facts that the model has to follow, independently of the question.
        defaults: The weights.
        turns: Returns the search over messages.
        everywhere: Creates a search without a cache, for the places of every entity.
    """

    def __init__(
        self,
        search: "Callable[[], FactSearch]",
        provider: FactStore,
        selection: PlaceSelection,
        events: MemoryEvents,
        *,
        reader: FactReader,
        message: MemoryMessage,
        instructions: Instructions,
        defaults: RecallSettings,
        turns: "Callable[[], TurnSearch]",
        everywhere: "Callable[[], FactSearch]",
    ) -> None:
        self._search = search
        self._provider = provider
        self._selection = selection
        self._events = events
        self._reader = reader
        self._message = message
        self._instructions = instructions
        self._defaults = defaults
        self._turns = turns
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
        max_tokens: int | None = None,
    ) -> RecallReport:
        """See `AgentMemory.recall_facts_to_agent`."""
        async with self._events.operation(MemoryOperation.RECALL) as operation:
            operation.places = self._selection.places(subjects, scopes)
            checked_history(messages)
            text = last_said(messages) if text is None else checked_question(text)
            query = None
            if text.strip():
                query = RecallQuery.of_arguments(text, self._defaults, limit=limit, where=where)
            present = [content_text(each) for each in messages]
            found = await self._search_sentences(query, operation, present)
        further = await self._further(found) if where is None else []
        places = operation.places
        return await self._put(messages, found, further, places, limit=limit, max_tokens=max_tokens)

    async def _search_places(
        self,
        queries: Sequence[RecallQuery],
        operation: OperationInProgress,
        present: Sequence[str] = (),
    ) -> RecallResult:
        """Search the places of an operation, and record the matches in it.

        Args:
            queries: The question, or each sentence of it.
            operation: The operation.
            present: The texts of the messages in the chat, which are not to be found again.
        """
        # First, because an embedder may take long and the store may be closed meanwhile.
        turns = await self._turns().find(operation.places, queries, present)
        result = await self._search().recall(operation.places, queries, operation)
        result.turns = turns
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
        self,
        query: RecallQuery | None,
        operation: OperationInProgress,
        present: Sequence[str],
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
        return await self._search_places(parts, operation, present)

    async def _further(self, found: RecallResult) -> list[PlacedFact]:
        """Return the other values of the concepts of the best three matches, the newest first.

        A question for a list has its answers in many facts, of which few have its words.
        """
        known = {(match.place.identity, match.fact.id) for match in found}
        asked = {
            (match.place.identity, match.fact.concept.keyword): match
            for match in reversed(found[:_BEST])
            if match.fact.concept.fact_type is FactType.MULTIPLE
        }
        further: list[PlacedFact] = []
        for match in reversed(asked.values()):
            resolution = await self._reader.concept(match.fact.concept, [match.place])
            others = [
                placed
                for placed in resolution.placed
                if (placed.place.identity, placed.fact.id) not in known
            ]
            others.sort(key=lambda placed: placed.fact.timestamp, reverse=True)
            further += others[:_MOST_FURTHER]
        return further

    async def _put(
        self,
        messages: list[History],
        found: RecallResult,
        further: Sequence[PlacedFact],
        places: Sequence[Place],
        *,
        limit: int,
        max_tokens: int | None,
    ) -> RecallReport:
        """Replace the memory message of a chat with facts, quotes and the instructions."""
        placed: list[PlacedFact] = [PlacedFact(match.place, match.fact) for match in found]
        placed[_FIRST:_FIRST] = further
        matched, _ = await self._instructions.separated(Resolution(placed, found.unreadable))
        quotes = self._quotes(found)
        shown = _in_turn(matched.placed, quotes)[:limit]
        facts = [each for each in shown if isinstance(each, PlacedFact)]
        followed = await self._instructions.current(places)
        report = self._message.put(
            messages,
            Resolution(facts, matched.unreadable),
            places,
            None,
            best_first=shown,
            instructions=followed,
            max_tokens=max_tokens,
        )
        return RecallReport(
            report.facts, report.left_out, report.unreadable, found, text=report.text
        )

    def _quotes(self, found: RecallResult) -> list[Quoted]:
        subjects = {match.place.subject for match in (*found, *found.turns)}
        is_one = len(subjects) < 2
        return [
            Quoted(
                match.turn.name
                or (match.turn.role if is_one else self._message.speaker(match.place.subject)),
                match.quote,
                match.turn.said_at,
                match.turn.number,
            )
            for match in found.turns
        ]


def _in_turn(facts: Sequence[PlacedFact], quotes: Sequence[Quoted]) -> list[PlacedFact | Quoted]:
    """Return one fact, one quote, one fact ..., best first.

    In `benchmarks/recall/both.py` no other mixture had more evidence in 800 tokens: neither other
    ratios nor one order by scores or by relevance.
    """
    both = zip_longest(facts, quotes)
    return [each for pair in both for each in pair if each is not None]


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
