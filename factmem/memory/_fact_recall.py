"""Recalls: searches in selected places, for callers and for prompts."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from heapq import nlargest
from itertools import groupby, zip_longest

from anyio.lowlevel import checkpoint

from factmem.events import MemoryOperation, OperationInProgress
from factmem.ledger.resolution import PlacedFact, Resolution
from factmem.llm.messages import (
    MEMORY_MESSAGE,
    History,
    checked_history,
    content_text,
    last_said,
    own_text,
    put_own_text,
)
from factmem.memory._loading import current_instructions, look_elsewhere, separated
from factmem.memory._parts import MemoryParts
from factmem.memory._selection import Scopes, Subjects
from factmem.models.facts import FactType
from factmem.models.places import Boundary, Place
from factmem.models.recall_filter import RecallFilter
from factmem.prompt.memory_message import MemoryMessage, Quoted
from factmem.providers.store import FactStore, fact_store
from factmem.recall._place_cache import IndexCache
from factmem.recall.match import RecallQuery, RecallReport, RecallResult, checked_question

_BEST = 3
"""The matches whose concepts get further values."""

_FIRST = 5
"""The facts before these further values."""

_MOST_FURTHER = 20
"""The most further values of a concept. Of one with more, only the matches are shown."""

_AT_ONCE = 32
"""The number of places that a recall over every entity loads at a time."""
_MOST_NAMED = 100
_LONG = 20_000
"""Questions with at least this many characters are split in a worker thread."""


async def recall_facts(
    parts: MemoryParts,
    text: str,
    subjects: Subjects,
    scopes: Scopes,
    *,
    limit: int,
    where: RecallFilter | None,
) -> RecallResult:
    async with parts.events.operation(MemoryOperation.RECALL) as operation:
        query = RecallQuery.of_arguments(text, parts.settings.recall, limit=limit, where=where)
        everywhere = parts.selection.everywhere(subjects, scopes)
        if everywhere is not None:
            return await _search_everywhere(parts, query, operation, everywhere)
        operation.places = parts.selection.places(subjects, scopes)
        found = await _search_places(parts, [query], operation)
    if not found:
        await look_elsewhere(parts)
    return found


async def recall_into(
    parts: MemoryParts,
    messages: list[History],
    text: str | None,
    subjects: Subjects,
    scopes: Scopes,
    *,
    limit: int,
    where: RecallFilter | None,
    max_tokens: int | None = None,
) -> RecallReport:
    async with parts.events.operation(MemoryOperation.RECALL) as operation:
        operation.places = places = parts.selection.places(subjects, scopes)
        checked_history(messages)
        text = last_said(messages) if text is None else checked_question(text)
        queries: list[RecallQuery] = []
        if text.strip():
            defaults = parts.settings.recall
            query = RecallQuery.of_arguments(text, defaults, limit=limit, where=where)
            queries = [replace(query, text=part) for part in await _sentences(parts, text)]
            present = [content_text(each) for each in messages]
            found = await _search_places(parts, queries, operation, present)
        else:
            operation.is_handed_over = True  # no search, no event
            await checkpoint()
            found = RecallResult()
    further = await _further(parts, found) if where is None else []
    return await _put(parts, messages, found, further, places, limit=limit, max_tokens=max_tokens)


async def _sentences(parts: MemoryParts, text: str) -> list[str]:
    from factmem._text.analysis import sentences

    return (
        await parts.workers.run(lambda: sentences(text)) if len(text) > _LONG else sentences(text)
    )


async def _search_places(
    parts: MemoryParts,
    queries: Sequence[RecallQuery],
    operation: OperationInProgress,
    present: Sequence[str] = (),
) -> RecallResult:
    """Search the places of an operation, and record the matches in it.

    Args:
        parts: The memory.
        queries: The question, or each sentence of it.
        operation: The operation.
        present: The texts of the messages in the chat, which are not to be found again.
    """
    # First, because an embedder may take long and the store may be closed meanwhile.
    turns = await parts.turn_search.find(operation.places, queries, present)
    result = await parts.search.recall(operation.places, queries, operation)
    result.turns = turns
    if parts.events:
        operation.found(match.fact for match in result)
    return result


async def _search_everywhere(
    parts: MemoryParts, query: RecallQuery, operation: OperationInProgress, boundary: Boundary
) -> RecallResult:
    """Search all places inside a boundary in batches, and return the most relevant matches."""
    best = RecallResult()
    for batch in _batches(await _places_inside(fact_store(parts.provider), boundary)):
        # Without the cached indexes: one for each batch of a large store would push out all others.
        found = await parts.searching(IndexCache()).recall(batch, [query], operation)
        best = RecallResult(
            nlargest(
                query.limit, [*best, *found], key=lambda match: (match.relevance, match.score)
            ),
            is_semantic=best.is_semantic or found.is_semantic,
            failures=[*best.failures, *found.failures][:_MOST_NAMED],
            unreadable=[*best.unreadable, *found.unreadable][:_MOST_NAMED],
            embedding_calls=best.embedding_calls + found.embedding_calls,
            embedded_texts=best.embedded_texts + found.embedded_texts,
            refused_texts=best.refused_texts + found.refused_texts,
        )
    operation.found(match.fact for match in best)
    return best


async def _places_inside(store: FactStore, boundary: Boundary) -> list[Place]:
    if boundary.is_wide and boundary.places is None:
        about, where = boundary.listed()
        return sorted(await store.list_places(subjects=about, scopes=where), key=str)
    found: list[Place] = []
    for subjects, scopes in boundary.listings():
        found += [info.place for info in await store.places(subjects=subjects, scopes=scopes)]
    return [place for place in found if boundary.allows(place.identity)]


async def _further(parts: MemoryParts, found: RecallResult) -> list[PlacedFact]:
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
        resolution = await parts.reader.concept(match.fact.concept, [match.place])
        others = [
            placed
            for placed in resolution.placed
            if (placed.place.identity, placed.fact.id) not in known
        ]
        others.sort(key=lambda placed: placed.fact.timestamp, reverse=True)
        if len(others) <= _MOST_FURTHER:
            further += others
    return further


async def _put(
    parts: MemoryParts,
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
    matched, _ = await separated(parts, Resolution(placed, found.unreadable))
    message = parts.settings.message
    shown = _in_turn(matched.placed, _quotes(message, found))[:limit]
    facts = [each for each in shown if isinstance(each, PlacedFact)]
    report = message.report(
        own_text(messages, MEMORY_MESSAGE),
        Resolution(facts, matched.unreadable),
        places,
        None,
        best_first=shown,
        instructions=await current_instructions(parts, places),
        max_tokens=max_tokens,
    )
    put_own_text(messages, MEMORY_MESSAGE, report.text)
    return RecallReport(report.facts, report.left_out, report.unreadable, found, text=report.text)


def _quotes(message: MemoryMessage, found: RecallResult) -> list[Quoted]:
    is_one = len({match.place.subject for match in (*found, *found.turns)}) < 2
    return [
        Quoted(
            match.turn.name
            or (match.turn.role if is_one else message.form.name(match.place.subject)),
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
