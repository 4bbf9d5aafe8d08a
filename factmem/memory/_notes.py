"""Facts that the application states: of a concept, as free text, or as a profile."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime
from typing import Any, TypeVar

from factmem._arguments import expect, kind_of
from factmem.errors import InputTypeError, InputValueError, MemoryAccessError, StoredFactError
from factmem.ledger._presentation import facts_of
from factmem.ledger.entries import Entry, stored
from factmem.ledger.ledger import Ledger
from factmem.memory._loading import look_elsewhere
from factmem.memory._parts import MemoryParts
from factmem.memory._selection import PlaceSelection
from factmem.memory._unchanged import Expected, check_unchanged, expected_version
from factmem.memory.contents import MemoryContents
from factmem.models._checked import checked_concept
from factmem.models.facts import (
    AnyConcept,
    AnyFact,
    Concept,
    FactState,
    FactType,
    MultipleFacts,
    SingleFact,
)
from factmem.models.places import Place
from factmem.models.profile import P, Profile, loaded_profile, values_of
from factmem.models.when import moment
from factmem.providers.results import Forgotten
from factmem.providers.store import FactStore, fact_store

F = TypeVar("F", bound=AnyFact)

NOTE = Concept("note", "A note of the application", FactType.MULTIPLE, detect=False)
"""The concept of free texts."""


def stated(
    concept: Concept[Any, Any], value: Any, said_at: datetime, *, confirmed: bool = False
) -> AnyFact:
    """Return a fact of the application, with the value or the values of a concept.

    Raises:
        TypeError: `concept` is not a concept, or the values are not a list.
        ValueError: A value is not of the concept's type.
    """
    state = FactState.CONFIRMED if confirmed else FactState.STATED
    if checked_concept(concept).fact_type is FactType.SINGLE:
        return SingleFact(concept, value, timestamp=said_at, state=state)
    return MultipleFacts(concept, value, timestamp=said_at, state=state)


def note_of(text: str, said_at: datetime) -> MultipleFacts[str]:
    """Return a note.

    Raises:
        TypeError: `text` is not a string.
        ValueError: It has no words.
    """
    if not expect(text, str, "text", "await memory.note('Allergic to nuts')").strip():
        raise InputValueError("A note needs words: await memory.note('Allergic to nuts')")
    return MultipleFacts(NOTE, [text], timestamp=said_at)


def writing_place(selection: PlaceSelection) -> Place:
    """Return the first place: of the first subject, in the narrowest scope.

    Raises:
        MemoryAccessError: The view has no place.
    """
    places = selection.places()
    if not places:
        raise MemoryAccessError(
            "This view has no place to save to: use one with a subject and scope"
        )
    return places[0]


async def save_in(selection: PlaceSelection, store: FactStore, fact: AnyFact) -> None:
    """Save a fact in the first place; see `writing_place`."""
    place = writing_place(selection)
    await store.save(fact, place.subject, place.scope)


async def save_unchanged(parts: MemoryParts, fact: F, if_unchanged: Expected | None) -> F:
    """Save a fact in the first place if its concept has the state that was read.

    It counts as said when it is recorded: after what was read.
    """
    place, concept = writing_place(parts.selection), fact.concept
    wanted = None if if_unchanged is None else expected_version(if_unchanged)
    entry, at = stored(fact), ""

    def change(ledger: Ledger, now: str) -> Entry:
        nonlocal at
        present = facts_of(ledger.at(now), concept.keywords, [concept], now)
        check_unchanged(present, wanted, place)
        at = now
        return {"at": now, "facts": [{**entry, "timestamp": now}]}

    store = fact_store(parts.provider)
    await store.amend_current(change, place.subject, place.scope)
    return replace(fact, timestamp=moment(at))


async def clear_in(parts: MemoryParts, concept: Concept[Any, Any]) -> Forgotten:
    """Forget the current values of a concept."""
    places = parts.selection.places()
    found = await parts.reader.concept(checked_concept(concept), places)
    if not found.placed and not found.unreadable:  # else values that held before are forgotten
        return Forgotten(0)
    return await MemoryContents(parts).forget(concept=concept)


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
    if not any(facts.values()) and not unreadable:
        await look_elsewhere(parts)
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
    raise InputTypeError(
        f"The profile must be a class of Profile, not {kind_of(profile)}: "
        "await memory.current(Traveller)"
    )
