"""Loading of current facts, their origins, and recalls, for a chat or for the application.

A value is an instruction if the application saved it, or if it quotes the user's own message and is
in the place of one entity. Values from tools, documents, web pages and the assistant are never
instructions: otherwise a page could control every later run. In a place without an entity, which
users share, a quote could be from another user and is not an instruction either.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from heapq import nlargest
from itertools import groupby, zip_longest
from typing import Any

from anyio.lowlevel import checkpoint

from factmem._arguments import expect
from factmem.errors import StorageError
from factmem.events import MemoryOperation, OperationInProgress
from factmem.ledger.history import HistoryAction, HistoryEntry
from factmem.ledger.resolution import PlacedFact, Resolution
from factmem.llm.base import (
    MEMORY_MESSAGE,
    History,
    checked_history,
    content_text,
    last_said,
    own_text,
    put_own_text,
)
from factmem.memory._parts import MemoryParts
from factmem.memory._selection import Scopes, Subjects
from factmem.memory.listing import CurrentFacts, FactOrigin, history_of, keys_of, origin_of
from factmem.models._values import Canonical
from factmem.models.facts import (
    AnyFact,
    Concept,
    FactSource,
    FactType,
    L,
    MultipleFacts,
    SingleFact,
    SourceKind,
    checked_concept,
)
from factmem.models.places import Place
from factmem.models.recall_filter import RecallFilter
from factmem.prompt.memory_message import LoadReport, MemoryMessage, Quoted
from factmem.providers._view import MANY
from factmem.providers.provider import as_store, fact_store, is_complete
from factmem.providers.store import FactStore
from factmem.recall._place_cache import IndexCache
from factmem.recall.match import RecallQuery, RecallReport, RecallResult, checked_question

_log = logging.getLogger("factmem.memory")

_MOST_LOOKED_AT = 1000
"""The most places to list when a memory finds no facts, to log where the store has some."""


async def separated(
    parts: MemoryParts, resolution: Resolution[L]
) -> tuple[Resolution[L], list[PlacedFact]]:
    concepts = parts.settings.instructions
    if not concepts:
        return resolution, []
    facts: list[PlacedFact[L]] = []
    followed: list[PlacedFact] = []
    for placed in resolution.placed:
        if placed.fact.concept.keyword not in concepts:
            facts.append(placed)
            continue
        qualified = await _qualified(placed.fact, placed.place, parts.provider)
        facts += _part(placed, [not each for each in qualified])
        followed += _part(placed, qualified)
    return Resolution(facts, resolution.unreadable), followed


async def current_instructions(parts: MemoryParts, places: Sequence[Place]) -> list[PlacedFact]:
    """Return the instructions in some places, independently of a question."""
    followed: list[PlacedFact] = []
    for concept in parts.settings.instructions.values():
        resolution = await parts.reader.concept(concept, places)
        followed += (await separated(parts, resolution))[1]
    return followed


async def _qualified(fact: AnyFact, place: Place, store: FactStore) -> list[bool]:
    """Return for each value whether a model may follow it."""
    if len(fact.values) == 1 and _qualifies(fact.source, place):
        return [True]
    # A fact has only its first source. Later sources are in the history, for each value.
    history = await history_of(fact.concept, place, store)
    if history is None:
        return [_qualifies(fact.source, place)] * len(fact.values)
    return [
        any(_qualifies(source, place) for source in _sources(fact.id, key, history))
        for key in keys_of(fact)
    ]


def _qualifies(source: FactSource | None, place: Place) -> bool:
    if source is None or source.kind is SourceKind.CODE:
        return True
    return source.kind is SourceKind.USER and place.subject.entity is not None


def _sources(
    fact_id: str, key: Canonical, history: Iterable[HistoryEntry]
) -> list[FactSource | None]:
    """Return the sources of a value since the save of the fact."""
    found: list[FactSource | None] = []
    is_there = False
    for entry in history:
        said = entry.fact
        if said is None or entry.action is HistoryAction.SUPERSEDED or key not in keys_of(said):
            continue
        is_there = is_there or said.id == fact_id
        if is_there:
            found.append(said.source)
    return found


def _part(placed: PlacedFact[L], wanted: Sequence[bool]) -> list[PlacedFact[L]]:
    """Return a fact with its wanted values only; empty if there are none."""
    if all(wanted):
        return [placed]
    fact: Any = placed.fact
    if not any(wanted) or not isinstance(fact, MultipleFacts):
        return []
    values = [value for value, keep in zip(fact.values, wanted, strict=True) if keep]
    fewer: Any = replace(fact, values=tuple(values))
    return [PlacedFact(placed.place, fewer)]


async def load_into(
    parts: MemoryParts, messages: list[History], concept: Concept[Any, Any] | None
) -> LoadReport[Any]:
    if concept is None:
        places = await _places(parts, lambda: checked_history(messages))
        resolution = await parts.reader.everything(places)
        asked = None
    else:
        places = await _places(parts, lambda: (checked_history(messages), checked_concept(concept)))
        resolution = await parts.reader.concept(concept, places)
        asked = {concept.keyword}
    facts, followed = await separated(parts, resolution)
    before = own_text(messages, MEMORY_MESSAGE)

    if not facts.placed and not followed:
        await look_elsewhere(parts)

    def ask() -> LoadReport[Any]:
        message = parts.settings.message
        return message.report(before, facts, places, asked, instructions=followed)

    report = ask() if len(facts.placed) <= MANY else await parts.workers.run(ask)
    put_own_text(messages, MEMORY_MESSAGE, report.text)
    return report


async def current_facts_of(parts: MemoryParts, concept: Concept[Any, L]) -> list[L]:
    places = await _places(parts, lambda: checked_concept(concept))
    resolution = await parts.reader.concept(concept, places)
    if resolution.unreadable:
        raise resolution.unreadable[0].error
    if not resolution.placed:
        await look_elsewhere(parts)
    return resolution.facts


async def current_facts(parts: MemoryParts) -> CurrentFacts:
    resolution = await parts.reader.everything(await _places(parts))
    if not resolution.placed:
        await look_elsewhere(parts)
    return CurrentFacts(resolution.facts, resolution.unreadable)


async def look_elsewhere(parts: MemoryParts) -> None:
    """Log once if the store has facts, but none of the memory's subjects in its scopes.

    The product or a subject of the memory is then probably wrong. For a new user nothing is logged.
    """
    settings, selection = parts.settings, parts.selection
    scopes = selection.profile.scopes()
    if settings.is_looked or not (selection.subjects and scopes):
        return
    if not is_complete(store := as_store(settings.provider)):
        return
    settings.is_looked = True
    with suppress(StorageError):
        own = [each.every() if each.per_entity else each for each in selection.subjects]
        if await store.list_places(subjects=own, scopes=scopes, limit=1):
            return
        places = await store.list_places(limit=_MOST_LOOKED_AT)
        facts = [each for each in places if each.scope not in settings.aside]
        found = sorted({f"{each.subject.name} in {each.scope}" for each in facts})
        if found:
            settings.elsewhere = ", ".join(found[:3]) + (", ..." if len(found) > 3 else "")
            _log.warning(
                "The store has no facts of %s, where this memory looks, and has some of %s: pass "
                "the product, or scopes and subjects, of the program that saved them",
                ", ".join(f"{each.name} in {scope}" for each in own for scope in scopes),
                settings.elsewhere,
            )


async def origin_in(parts: MemoryParts, fact: AnyFact) -> FactOrigin | None:
    places = await _places(
        parts,
        lambda: expect(fact, (SingleFact, MultipleFacts), "fact", "memory.why(facts[0])"),
        MemoryOperation.HISTORY,
    )
    declared = parts.settings.concepts.get(fact.concept.keyword)
    is_same = declared is not None and declared.value_type == fact.concept.value_type
    concept = declared if is_same else None  # it has the `read` of older values
    return await origin_of(fact, places, parts.provider, concept)


async def _places(
    parts: MemoryParts,
    check: Callable[[], object] = bool,
    operation: MemoryOperation = MemoryOperation.LOAD,
) -> list[Place]:
    """Return the places of a load, after `check`.

    The provider reports loads; one that is rejected before is reported here.
    """
    if not parts.events.listeners:
        check()
        return parts.selection.places()
    async with parts.events.before(operation):
        check()
        return parts.selection.places()


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
        if (everywhere := parts.selection.everywhere(subjects, scopes)) is not None:
            about, named = everywhere
            places = await fact_store(parts.provider).list_places(subjects=about, scopes=named)
            return await _search_everywhere(parts, query, operation, places)
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
    """Search the places of an operation by the sentences of a question, and record the matches.

    Texts that are `present` in the chat already are left out.
    """
    # Before the facts, whose embedder may take long: the store may be closed meanwhile.
    turns = await parts.turn_search.find(operation.places, queries, present)
    result = await parts.search.recall(operation.places, queries, operation)
    result.turns = turns
    if parts.events.listeners:
        operation.found(match.fact for match in result)
    return result


async def _search_everywhere(
    parts: MemoryParts, query: RecallQuery, operation: OperationInProgress, places: Iterable[Place]
) -> RecallResult:
    """Search any number of places in batches, and return the most relevant matches."""
    best = RecallResult()
    for batch in _batches(sorted(places, key=str)):
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


async def _further(parts: MemoryParts, found: RecallResult) -> list[PlacedFact]:
    """Return other values of the concepts of the best three matches, the newest first.

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
