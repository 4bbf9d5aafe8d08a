"""Proposals of a place: what models found and a person or the application has to decide."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from factmem.ledger._items import KeywordItems
from factmem.ledger._presentation import as_far_as_readable, concept_of
from factmem.ledger.entries import source_of
from factmem.models.clock import moment
from factmem.models.facts import AnyFact, Concept, FactType
from factmem.models.sources import FactSource

__all__ = ["Proposal"]


@dataclass(frozen=True, slots=True)
class Proposal:
    """What a model found, and a person or the application has to decide."""

    fact: AnyFact
    """The proposed fact, or the current one whose end is proposed."""
    source: FactSource | None
    """Where it was said; for an end without the words."""
    actor: str | None
    """Who proposes it."""
    current: AnyFact | None = None
    """The current fact that it contradicts; None if it contradicts none."""
    is_ending: bool = False
    """Whether it says that `current` is no longer true."""
    proposed_at: datetime | None = None


def proposed(
    by_keyword: dict[str, KeywordItems], named: dict[str, Concept[Any, Any]], now: str
) -> list[Proposal]:
    """Return what waits for a decision; values that do not fit a type are plain JSON."""
    found: list[Proposal] = []
    for keyword, held in by_keyword.items():
        if not held.proposals:
            continue
        alive = held.alive(now)
        waits = [item for item in held.proposals.values.values() if item.is_alive(now)]
        concept = named.get(keyword) or concept_of(keyword, held, [*alive, *waits])
        current = None
        if concept.fact_type is FactType.SINGLE and alive:
            current = as_far_as_readable(concept, alive)[0]
        for item in waits:
            (fact,) = as_far_as_readable(concept, [item])
            when = moment(item.confirmed_at)
            found.append(Proposal(fact, fact.source, item.by.actor, current, proposed_at=when))
        for key, (retracted, at, by) in held.proposals.endings.items():
            ending = held.get(key)
            if ending is not None and ending.is_alive(now):
                (fact,) = as_far_as_readable(concept, [ending])
                source = source_of(retracted.get("source"))
                found.append(Proposal(fact, source, by.actor, fact, True, moment(at)))
    return found
