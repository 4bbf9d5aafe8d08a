"""The origin of a fact: its place, its sources and its history."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from factmem.ledger.history import HistoryEntry
from factmem.models._display import Displayed
from factmem.models._values import Canonical, canonical
from factmem.models.facts import AnyConcept, AnyFact
from factmem.models.places import Place
from factmem.models.sources import FactSource
from factmem.providers.base import FactStore, is_complete

__all__ = ["FactOrigin"]


@dataclass(frozen=True, slots=True)
class FactOrigin(Displayed):
    """The place of a fact, its sources, and the history of its concept there."""

    place: Place
    sources: list[FactSource]
    """The sources, oldest first; empty if none was recorded."""
    history: list[HistoryEntry] | None = field(repr=False)
    """The saves, confirmations and deletions of the concept in that place, oldest first; None if
    the provider keeps no history."""

    @property
    def source(self) -> FactSource | None:
        """The first source."""
        return self.sources[0] if self.sources else None

    @property
    def quote(self) -> str | None:
        """The quote of the first source."""
        return self.source.quote if self.source else None


async def origin_of(fact: AnyFact, places: Sequence[Place], store: FactStore) -> FactOrigin | None:
    """Return the origin of a fact, or None if no place has or had it.

    Facts are compared by id. Superseded and forgotten facts are found through the history.
    """
    for place in places:
        history = await history_of(fact.concept, place, store)
        if history is None:
            held = await store.load(fact.concept, place.subject, place.scope)
            if any(each.id == fact.id for each in held):
                sources = [] if fact.source is None else [fact.source]
                return FactOrigin(place, sources, None)
        elif any(entry.fact is not None and entry.fact.id == fact.id for entry in history):
            return FactOrigin(place, _sources(fact, history), history)
    return None


async def history_of(
    concept: AnyConcept, place: Place, store: FactStore
) -> list[HistoryEntry] | None:
    """Return the history of a concept; None if not stored."""
    if not is_complete(store):
        return None
    return await store.history(concept, place.subject, place.scope)


def _sources(fact: AnyFact, history: Sequence[HistoryEntry]) -> list[FactSource]:
    """Return the sources of a fact: those of its save and of the confirmations of its values."""
    ours = _keys(fact)
    sources: dict[FactSource, None] = {}  # an ordered set
    for entry in history:
        saved = entry.fact
        if saved is None or saved.source is None:
            continue
        if saved.id == fact.id or ours & _keys(saved):
            sources[saved.source] = None
    return list(sources)


def _keys(fact: AnyFact) -> set[Canonical]:
    """Return the values of a fact in canonical form, for comparison."""
    codec = fact.concept.codec
    if codec.is_plain_text:
        return set(fact.values)
    return {canonical(codec.dump(value, fact.concept.keyword)) for value in fact.values}
