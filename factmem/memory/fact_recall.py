"""FactRecall: searches over selected places, after queued texts, for callers and for prompts."""

from collections.abc import Sequence
from dataclasses import replace

from anyio.lowlevel import checkpoint

from factmem.events import OperationInProgress
from factmem.ledger.resolution import PlacedFact, Resolution
from factmem.llm.messages import History
from factmem.memory.instructions import Instructions
from factmem.memory.pending_texts import PendingTexts
from factmem.models.boundary import Boundary
from factmem.prompt.memory_message import MemoryMessage
from factmem.recall.lexical.analysis import sentences
from factmem.recall.match import RecallReport, RecallResult
from factmem.recall.query import Depth, RecallQuery, check_depth
from factmem.recall.search import FactSearch

__all__ = ["FactRecall"]


class FactRecall:
    """Runs checked queries and puts their matches into chats.

    Args:
        search: Searches the facts of places.
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
    ) -> None:
        self._search = search
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
        """Search the places of an operation, and record in it what was found.

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

    async def find_for_prompt(
        self, query: RecallQuery | None, depth: Depth, operation: OperationInProgress
    ) -> RecallResult:
        """Search sentence by sentence; None is a question without a word and finds nothing."""
        if query is None:
            operation.is_handed_over = True  # nothing is searched, so there is no event
            await checkpoint()
            return RecallResult()
        check_depth(depth)
        parts = [replace(query, text=part) for part in sentences(query.text)]
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
