"""Profiles of a memory: loads them from its places, and writes what changed in them."""

from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from factmem._arguments import kind_of
from factmem.errors import InputTypeError, StoredFactError
from factmem.ledger._items import name_of
from factmem.ledger.entries import Entry, stored
from factmem.ledger.ledger import Ledger
from factmem.memory._loading import look_elsewhere
from factmem.memory._parts import MemoryParts
from factmem.memory._statements import stated, writing_place
from factmem.memory.contents import MemoryContents, clear_in
from factmem.models._values import canonical
from factmem.models.facts import AnyConcept, AnyFact, FactType, MultipleFacts
from factmem.models.profile import POSITIONS, P, Profile, is_ordered, loaded_profile, values_of


async def load_profile(parts: MemoryParts, profile: type[P]) -> P:
    places = parts.selection.places()
    facts: dict[str, tuple[AnyFact, ...]] = {}
    unreadable: dict[str, StoredFactError] = {}
    for name, concept in checked_profile(profile).profile_concepts().items():
        resolution = await parts.reader.concept(concept, places)
        facts[name] = tuple(resolution.facts)
        if resolution.unreadable:
            unreadable[name] = resolution.unreadable[0].error
    if not any(facts.values()) and not unreadable:
        await look_elsewhere(parts)
    return loaded_profile(profile, facts, unreadable)


async def save_profile(parts: MemoryParts, profile: Profile) -> None:
    """Save the fields that were set, in one write; then clear those that were set to None."""
    concepts = profile.profile_concepts()
    values = {
        name: each for name, each in values_of(profile).items() if name in profile.model_fields_set
    }
    writing_place(parts.selection)  # raises before anything is written
    found = [(concepts[name], each) for name, each in values.items() if each]
    await _save(parts, [each for each in found if not _has_twice(each[1])])
    for concept, given in found:
        if _has_twice(given):
            resolution = await parts.reader.concept(concept, parts.selection.places())
            held = [value for fact in resolution.facts for value in fact.values]
            wanted = [*(each for each in held if each not in given), *given]
            await _put_in_order(parts, concept, wanted, resolution.facts)
    for name in values:
        if getattr(profile, name) is None:
            await clear_in(parts, concepts[name])


@asynccontextmanager
async def edited_profile(parts: MemoryParts, profile: type[P]) -> AsyncGenerator[P]:
    me = await load_profile(parts, profile)
    before = values_of(me.model_copy(deep=True))
    yield me
    after = values_of(me)
    new: list[tuple[AnyConcept, list[Any]]] = []
    moved: list[tuple[AnyConcept, list[Any], Sequence[AnyFact]]] = []
    gone: list[tuple[AnyConcept, list[Any]]] = []
    for name, concept in me.profile_concepts().items():
        was, now = before[name], after[name]
        if concept.fact_type is FactType.SINGLE:
            if me.profile_facts(name) and (not now or name not in me.model_fields_set):
                gone.append((concept, was))
            elif now and now != was:
                new.append((concept, now))
            continue
        added = [value for value in now if value not in was]
        plain = [*(each for each in was if each in now), *added]
        if is_ordered(profile, name) and (now != plain or _has_twice(added)):
            moved.append((concept, now, me.profile_facts(name)))
        elif added:
            new.append((concept, added))
        if removed := [value for value in was if value not in now]:
            gone.append((concept, removed))
    await _save(parts, new)
    for concept, values, held in moved:
        await _put_in_order(parts, concept, values, held)
    for concept, values in gone:
        for value in values:
            await MemoryContents(parts).forget(concept=concept, value=value)


def _has_twice(values: Sequence[Any]) -> bool:
    return any(value in values[:index] for index, value in enumerate(values))


async def _put_in_order(
    parts: MemoryParts, concept: AnyConcept, values: Sequence[Any], held: Iterable[AnyFact]
) -> None:
    """Write each value of a list as a fact with its positions, in place of the same value.

    Otherwise they come in the order in which they were said. Values that others saved meanwhile
    stay, at the end. `held` are the stored facts, whose sources and other fields stay.
    """
    place, dump = writing_place(parts.selection), concept.codec.dump
    positions: dict[Any, list[int]] = {}
    facts: list[AnyFact] = []
    for index, value in enumerate(values):
        key = canonical(dump(value, concept.keyword))
        if key not in positions:
            before: Any = next((each for each in held if value in each.values), None)
            fact = MultipleFacts(concept, [value])
            facts.append(fact if before is None else replace(before, values=[value], id=fact.id))
        positions.setdefault(key, []).append(index)

    def change(entries: Sequence[Entry], now: str) -> list[Entry]:
        ledger = Ledger(entries)
        forget = [
            name_of(keyword, item)
            for keyword in concept.keywords
            for key, item in ledger.items(keyword, now).items()
            if key in positions
        ]
        written: Iterable[Any] = (
            {**stored(fact), "timestamp": now, "metadata": {**fact.metadata, POSITIONS: each}}
            for fact, each in zip(facts, positions.values(), strict=True)
        )
        saved: Any = {"at": now, "facts": [*written]}
        return [{"at": now, "forget": forget}, saved] if forget else [saved]

    await parts.provider.amend(change, place.subject, place.scope)


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
    given: object = profile
    if isinstance(given, type) and issubclass(given, Profile):
        return profile
    raise InputTypeError(
        f"The profile must be a class of Profile, not {kind_of(profile)}: "
        "await memory.current(Traveller)"
    )
