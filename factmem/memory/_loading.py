"""Loading of current facts, for a chat or for the application, and of their origins.

No call to a model. The functions behave like the methods of `AgentMemory` that call them.

Instructions: the facts that a model has to follow, apart from other facts.

A value is an instruction if the application saved it, or if it quotes the user's own message and is
in the place of one entity. Values from tools, documents, web pages and the assistant are never
instructions: otherwise a page could control every later run. In a place without an entity, which
users share, a quote could be from another user and is not an instruction either.
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from factmem._arguments import expect
from factmem.errors import InputValueError, StorageError
from factmem.events import MemoryOperation
from factmem.ledger.history import HistoryAction, HistoryEntry
from factmem.ledger.resolution import PlacedFact, Resolution
from factmem.llm.messages import MEMORY_MESSAGE, History, checked_history, own_text, put_own_text
from factmem.memory._parts import MemoryParts
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
    V,
    checked_concept,
)
from factmem.models.places import Place
from factmem.prompt.memory_message import LoadReport
from factmem.providers._four_methods import as_store
from factmem.providers._reader import MANY
from factmem.providers.store import FactStore, is_complete

_log = logging.getLogger("factmem.memory")

_MOST_LOOKED_AT = 1000
"""The most places whose scopes a memory without facts names: a page takes milliseconds."""


async def separated(
    parts: MemoryParts, resolution: Resolution[L]
) -> tuple[Resolution[L], list[PlacedFact]]:
    """Return the facts that are data, and the instructions."""
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
    """Put the facts of every concept, or of one, into a chat."""
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


async def current_value(parts: MemoryParts, concept: Concept[V, Any]) -> V | None:
    if checked_concept(concept).fact_type is FactType.MULTIPLE:
        raise InputValueError(
            f"The concept {concept.keyword!r} has many values: await memory.values(concept)"
        )
    facts = await current_facts_of(parts, concept)
    return facts[0].values[0] if facts else None


async def current_values(parts: MemoryParts, concept: Concept[V, Any]) -> list[V]:
    facts = await current_facts_of(parts, concept)
    return [value for fact in facts for value in fact.values]


async def current_facts(parts: MemoryParts) -> CurrentFacts:
    """Return the current facts of every concept, ordered by keyword."""
    resolution = await parts.reader.everything(await _places(parts))
    if not resolution.placed:
        await look_elsewhere(parts)
    return CurrentFacts(resolution.facts, resolution.unreadable)


async def look_elsewhere(parts: MemoryParts) -> None:
    """Log once if the store has facts, but none of the memory's subjects in its scopes.

    A program that opens the same folder with another product or subject would otherwise take it for
    an empty store. A new user among others is no such case. Names of users are not logged.
    """
    settings, selection = parts.settings, parts.selection
    if settings.is_looked or not is_complete(store := as_store(settings.provider)):
        return
    settings.is_looked, scopes = True, selection.profile.scopes()
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
                "The store has no facts of %s, where this memory looks, and has some of %s: pass the "
                "product, or scopes and subjects, of the program that saved them",
                ", ".join(f"{each.name} in {scope}" for each in own for scope in scopes),
                settings.elsewhere,
            )


async def origin_in(parts: MemoryParts, fact: AnyFact) -> FactOrigin | None:
    """Return the sources and history of a fact; None if no place has or had it."""
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

    The provider reports each load as an event. A call that is rejected before it reaches the
    provider is reported here; this is skipped if there are no listeners.
    """
    if not parts.events:
        check()
        return parts.selection.places()
    async with parts.events.before(operation):
        check()
        return parts.selection.places()
