"""Facts that the application states: of a concept, or as free text, and conditional writes.

`if_unchanged` names the state that the caller has read. It is compared with the present one while
the place is locked, so that one of several writers wins.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, TypeAlias, TypeVar

from factmem._arguments import expect, kind_of
from factmem.errors import ChangedError, InputTypeError, InputValueError, MemoryAccessError
from factmem.ledger._reads import facts_of
from factmem.ledger.entries import Entry, stored
from factmem.ledger.ledger import Ledger
from factmem.ledger.resolution import PlacedFact, is_version, version_of
from factmem.memory._parts import MemoryParts
from factmem.memory._selection import PlaceSelection
from factmem.models.facts import (
    AnyFact,
    Concept,
    FactState,
    FactType,
    MultipleFacts,
    SingleFact,
    checked_concept,
)
from factmem.models.places import Place
from factmem.models.when import moment
from factmem.providers.provider import fact_store
from factmem.providers.store import FactStore

F = TypeVar("F", bound=AnyFact)

NOTE = Concept("note", "A note of the application", FactType.MULTIPLE, detect=False)
"""The concept of free texts."""

_INSTEAD: dict[type, str] = {
    SingleFact: "memory.save(fact.concept, fact.value), or store.save(fact, subject, scope)",
    MultipleFacts: "memory.save(fact.concept, fact.values), or store.save(fact, subject, scope)",
    list: "memory.auto_detect_facts(messages) finds facts in a chat",
    str: "memory.save(Concept(keyword, description), value); memory.remember(text) finds facts",
    type: "memory.save(Traveller(home_city='Busan')) saves an instance of a profile",
}


def check_statement(concept: object, value: object) -> None:
    """Raise for arguments that belong to another method than `save`."""
    if isinstance(value, Concept):
        raise InputTypeError("The concept comes first: await memory.save(concept, value)")
    instead = next((text for kind, text in _INSTEAD.items() if isinstance(concept, kind)), None)
    if instead is not None:
        raise InputTypeError(f"concept must be a Concept, not {kind_of(concept)}: await {instead}")
    if value is ... and isinstance(concept, Concept):
        raise InputTypeError(
            f"The value is missing: await memory.save(concept, value) for {concept.keyword!r}"
        )
    if value is None and isinstance(concept, Concept):
        try:
            concept.codec.check(None, concept.keyword)
        except InputValueError as exc:
            raise InputValueError(f"{exc}: await memory.clear(concept) forgets it") from None


def stated(
    concept: Concept[Any, Any], value: Any, said_at: datetime, *, confirmed: bool = False
) -> AnyFact:
    state = FactState.CONFIRMED if confirmed else FactState.STATED
    if checked_concept(concept).fact_type is FactType.SINGLE:
        return SingleFact(concept, value, timestamp=said_at, state=state)
    return MultipleFacts(concept, value, timestamp=said_at, state=state)


def note_of(text: str, said_at: datetime) -> MultipleFacts[str]:
    if not expect(text, str, "text", "await memory.note('Allergic to nuts')").strip():
        raise InputValueError("A note needs words: await memory.note('Allergic to nuts')")
    return MultipleFacts(NOTE, [text], timestamp=said_at)


def writing_place(selection: PlaceSelection) -> Place:
    """Return the first place: of the first subject, in the narrowest scope."""
    places = selection.places()
    if not places:
        raise MemoryAccessError(
            "This view has no place to save to: use one with a subject and scope"
        )
    return places[0]


async def save_in(selection: PlaceSelection, store: FactStore, fact: AnyFact) -> None:
    place = writing_place(selection)
    await store.save(fact, place.subject, place.scope)


Expected: TypeAlias = AnyFact | PlacedFact | str
"""A fact that was read, with or without its place, or its version."""


def expected_version(given: object) -> str:
    """Return the version that a caller expects: of a fact, of what has a `version`, or itself."""
    if isinstance(given, AnyFact):
        return version_of(given)
    version = getattr(given, "version", given)
    return expect(version, str, "if_unchanged", "if_unchanged=placed, or placed.version")


def changed(present: Sequence[AnyFact], place: Place) -> ChangedError:
    """Return the error for a state that has changed since it was read."""
    if not present:
        return ChangedError(f"The fact is no longer in {place}: it was deleted since it was read")
    placed: PlacedFact[Any] = PlacedFact(place, present[-1])
    return ChangedError(
        f"{placed.fact.concept.keyword!r} in {place} has changed since it was read: decide again "
        "by `present`, and repeat the call with it",
        placed,
    )


async def save_unchanged(parts: MemoryParts, fact: F, if_unchanged: Expected | None) -> F:
    """Save a fact in the first place, as said now, if its concept has the state that was read."""
    place, concept = writing_place(parts.selection), fact.concept
    wanted = None if if_unchanged is None else expected_version(if_unchanged)
    entry, at = stored(fact), ""

    def change(ledger: Ledger, now: str) -> Entry:
        nonlocal at
        present = facts_of(ledger.at(now), concept.keywords, [concept], now)
        if present if wanted is None else not any(is_version(wanted, each) for each in present):
            raise changed(present, place)
        at = now
        return {"at": now, "facts": [{**entry, "timestamp": now}]}

    store = fact_store(parts.provider)
    await store.amend_current(change, place.subject, place.scope)
    return replace(fact, timestamp=moment(at))
