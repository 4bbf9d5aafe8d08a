"""Facts that the application states: of a concept, or as free text."""

from datetime import datetime
from typing import Any

from factmem._arguments import expect
from factmem.errors import MemoryAccessError
from factmem.memory._selection import PlaceSelection
from factmem.models._checked import checked_concept
from factmem.models.actors import FactState
from factmem.models.facts import AnyFact, Concept, FactType, MultipleFacts, SingleFact
from factmem.models.places import Place
from factmem.providers.base import FactStore

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
        raise ValueError("A note needs words: await memory.note('Allergic to nuts')")
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
