"""Profiles: loads them from the places of a memory, and writes what changed in them."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from factmem._arguments import kind_of
from factmem.errors import StoredFactError
from factmem.memory._notes import stated, writing_place
from factmem.memory._parts import MemoryParts
from factmem.memory.contents import MemoryContents
from factmem.models.facts import AnyConcept, AnyFact, FactType
from factmem.models.profile import P, Profile, loaded_profile, values_of


async def load_profile(parts: MemoryParts, profile: type[P]) -> P:
    """Return an instance with the current values."""
    places = parts.selection.places()
    facts: dict[str, tuple[AnyFact, ...]] = {}
    unreadable: dict[str, StoredFactError] = {}
    for name, concept in checked_profile(profile).profile_concepts().items():
        resolution = await parts.reader.concept(concept, places)
        facts[name] = tuple(resolution.facts)
        if resolution.unreadable:
            unreadable[name] = resolution.unreadable[0].error
    return loaded_profile(profile, facts, unreadable)


async def save_profile(parts: MemoryParts, profile: Profile) -> None:
    """Save the fields that were set, in one write."""
    concepts = profile.profile_concepts()
    values = values_of(profile, only_set=True)
    await _save(parts, [(concepts[name], given) for name, given in values.items() if given])


@asynccontextmanager
async def edited_profile(parts: MemoryParts, profile: type[P]) -> AsyncGenerator[P]:
    """Write what changed in a block."""
    me = await load_profile(parts, profile)
    before = values_of(me.model_copy(deep=True))
    yield me
    after = values_of(me)
    new: list[tuple[AnyConcept, list[Any]]] = []
    gone: list[tuple[AnyConcept, list[Any]]] = []
    for name, concept in me.profile_concepts().items():
        was, now = before[name], after[name]
        if concept.fact_type is FactType.SINGLE:
            if now and now != was:
                new.append((concept, now))
            elif not now and me.profile_facts(name):
                gone.append((concept, was))
        else:
            if added := [value for value in now if value not in was]:
                new.append((concept, added))
            if removed := [value for value in was if value not in now]:
                gone.append((concept, removed))
    await _save(parts, new)
    for concept, values in gone:
        for value in values:
            await MemoryContents(parts).forget(concept=concept, value=value)


async def _save(parts: MemoryParts, found: list[tuple[AnyConcept, list[Any]]]) -> None:
    if found:
        now = parts.clock()
        facts = [
            stated(concept, given if concept.fact_type is FactType.MULTIPLE else given[0], now)
            for concept, given in found
        ]
        place = writing_place(parts.selection)
        await parts.provider.save_many(facts, place.subject, place.scope)


def checked_profile(profile: type[P]) -> type[P]:
    """Return a class of `Profile`, or raise `TypeError`."""
    given: object = profile
    if isinstance(given, type) and issubclass(given, Profile):
        return profile
    raise TypeError(
        f"The profile must be a class of Profile, not {kind_of(profile)}: "
        "await memory.current(Traveller)"
    )
