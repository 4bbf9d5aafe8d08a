"""FactRecall: searches over selected places, after queued texts, for callers and for prompts."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from heapq import nlargest
from itertools import groupby

from anyio.lowlevel import checkpoint

from factmem.concurrency.per_loop import Workers
from factmem.events import OperationInProgress
from factmem.ledger.resolution import PlacedFact, Resolution
from factmem.llm.messages import History
from factmem.memory.instructions import Instructions
from factmem.memory.pending_texts import PendingTexts
from factmem.models.boundary import Boundary
from factmem.models.places import Place
from factmem.prompt.memory_message import MemoryMessage
from factmem.recall.lexical.analysis import sentences
from factmem.recall.match import Match, RecallReport, RecallResult
from factmem.recall.query import Depth, RecallQuery, check_depth
from factmem.recall.search import FactSearch

__all__ = ["FactRecall"]

_AT_ONCE = 32
"""How many places of a recall over every entity are in memory at a time."""
_MOST_NAMED = 100
_LONG = 20_000
"""From so many characters on, a question is split outside of the event loop's thread."""


class FactRecall:
    """Runs checked queries and puts their matches into chats.

    Args:
        search: Searches the facts of places.
        everywhere: Makes a search that keeps nothing, for places of every entity.
        pending: Queued texts, which a search waits for.
        boundary: The places whose queued texts matter.
        message: Writes the memory message.
        instructions: Finds the facts that the model is to follow, whatever the question is.
    """

    def __init__(
        self,
        search: FactSearch,
        pending: PendingTexts,
        boundary: Boundary,
        message: MemoryMessage,
        *,
        instructions: Instructions,
        everywhere: Callable[[], FactSearch],
    ) -> None:
        self._search = search
        self._everywhere = everywhere
        self._workers = Workers()
        self._pending = pending
        self._boundary = boundary
        self._message = message
        self._instructions = instructions

    async def find(
        self,
        query: RecallQuery,
        depth: Depth,
        operation: OperationInProgress,
        parts: Sequence[RecallQuery] = (),
    ) -> RecallResult:
        """Search the places of an operation, and record the matches in it.

        Args:
            query: The question.
            depth: Whether the chat model splits it.
            operation: The operation; its places are searched.
            parts: The sentences of the question, which are searched in its place.
        """
        operation.text = query.text
        await self._pending.wait(self._boundary)
        result = await self._search.recall(operation.places, query, depth, parts, operation)
        operation.found(match.fact for match in result)
        return result

    async def find_everywhere(
        self,
        query: RecallQuery,
        depth: Depth,
        operation: OperationInProgress,
        places: Iterable[Place],
    ) -> RecallResult:
        """Search any number of places in batches, and return the most relevant matches.

        Raises:
            ValueError: `depth` is not "shallow": each batch would split the question again.
        """
        if depth != "shallow":
            raise ValueError("depth must be 'shallow' in a recall over every entity")
        operation.text = query.text
        await self._pending.wait(self._boundary)
        best = RecallResult()
        for batch in _batches(places):
            found = await self._everywhere().recall(batch, query, depth, (), operation)
            best = RecallResult(
                nlargest(query.limit, [*best, *found], key=_relevance),
                is_semantic=best.is_semantic or found.is_semantic,
                queries=[query.text],
                failures=[*best.failures, *found.failures][:_MOST_NAMED],
                unreadable=[*best.unreadable, *found.unreadable][:_MOST_NAMED],
                usage=best.usage + found.usage,
                embedding_calls=best.embedding_calls + found.embedding_calls,
                embedded_texts=best.embedded_texts + found.embedded_texts,
                refused_texts=best.refused_texts + found.refused_texts,
            )
        operation.found(match.fact for match in best)
        return best

    async def find_for_prompt(
        self, query: RecallQuery | None, depth: Depth, operation: OperationInProgress
    ) -> RecallResult:
        """Search sentence by sentence; None is a question without a word and finds nothing."""
        if query is None:
            operation.is_handed_over = True  # nothing is searched, so there is no event
            await checkpoint()
            return RecallResult()
        check_depth(depth)
        text = query.text
        is_long = len(text) > _LONG
        found = await self._workers.run(lambda: sentences(text)) if is_long else sentences(text)
        parts = [replace(query, text=part) for part in found]
        return await self.find(query, depth, operation, parts)

    async def put(
        self, messages: list[History], found: RecallResult, operation: OperationInProgress
    ) -> RecallReport:
        """Replace the memory message of a chat by the matches and the instructions."""
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
    """Yield places in batches, all places of one entity in one, as they are resolved together."""
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
