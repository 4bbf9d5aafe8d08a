"""Where a fact comes from."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from pydantic import JsonValue

from factmem.errors import StoredFactError
from factmem.ledger.history import HistoryEntry
from factmem.models.display import Displayed
from factmem.models.facts import AnyConcept, AnyFact, Concept
from factmem.models.places import MemoryScope, MemorySubject, Place
from factmem.models.sources import FactSource
from factmem.models.values import Canonical, canonical
from factmem.providers.base import AgentMemoryProvider

__all__ = ["FactOrigin", "history_of", "origin_of"]


@runtime_checkable
class _KeepsHistory(Protocol):
    async def history(
        self, concept: AnyConcept, subject: MemorySubject, scope: MemoryScope
    ) -> list[HistoryEntry]: ...


@dataclass(frozen=True, slots=True)
class FactOrigin(Displayed):
    """Where a fact is, who said it, and what happened to its concept there."""

    place: Place
    sources: list[FactSource]
    """The sources, the first one first; empty if none was recorded."""
    history: list[HistoryEntry] | None = field(repr=False)
    """What was saved, confirmed and forgotten about the concept in that place, oldest first; None
    where the provider keeps no history."""

    @property
    def source(self) -> FactSource | None:
        """Who said it first."""
        return self.sources[0] if self.sources else None

    @property
    def quote(self) -> str | None:
        """The words that said so first."""
        return self.source.quote if self.source else None


async def origin_of(
    fact: AnyFact, places: Sequence[Place], provider: AgentMemoryProvider
) -> FactOrigin | None:
    """Return where a fact comes from, or None when none of the places has or had it.

    A fact is known by its id. Of a superseded or forgotten one the history still tells.
    """
    for place in places:
        history = await history_of(fact.concept, place, provider)
        if history is None:
            held = await provider.load(fact.concept, place.subject, place.scope)
            if any(each.id == fact.id for each in held):
                sources = [] if fact.source is None else [fact.source]
                return FactOrigin(place, sources, None)
        elif any(entry.fact is not None and entry.fact.id == fact.id for entry in history):
            return FactOrigin(place, _sources(fact, history), history)
    return None


async def history_of(
    concept: AnyConcept, place: Place, provider: AgentMemoryProvider
) -> list[HistoryEntry] | None:
    """Return the history of a concept, in plain JSON if values do not fit; None if not kept."""
    if not isinstance(provider, _KeepsHistory):
        return None
    try:
        return await provider.history(concept, place.subject, place.scope)
    except StoredFactError:  # values of another type: the concept had one before
        plain: AnyConcept = Concept(
            concept.keyword, concept.description, concept.fact_type, value_type=JsonValue
        )
        return await provider.history(plain, place.subject, place.scope)


def _sources(fact: AnyFact, history: Sequence[HistoryEntry]) -> list[FactSource]:
    """Return who said a fact, in its own save and in the confirmations of its values."""
    ours = _keys(fact)
    sources: dict[FactSource, None] = {}  # in their order, and looked up by their hash
    for entry in history:
        told = entry.fact
        if told is None or told.source is None or told.source in sources:
            continue
        if told.id == fact.id or ours & _keys(told):
            sources[told.source] = None
    return list(sources)


def _keys(fact: AnyFact) -> set[Canonical]:
    """Return the values of a fact in the form by which they are compared."""
    codec = fact.concept.codec
    return {canonical(codec.dump(value, fact.concept.keyword)) for value in fact.values}
