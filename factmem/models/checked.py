"""Subjects, scopes and places that a caller names, checked where they are handed over."""

from collections.abc import Iterable
from typing import Any

from factmem._arguments import kind_of, listed, listed_as
from factmem.models.facts import Concept
from factmem.models.places import (
    MemoryScope,
    MemorySubject,
    Place,
)

__all__ = [
    "checked_concept",
    "checked_concepts",
    "checked_places",
    "checked_scopes",
    "checked_subjects",
]


def checked_subjects(subjects: Iterable[MemorySubject]) -> tuple[MemorySubject, ...]:
    """Return subjects as a tuple.

    Raises:
        TypeError: They are no list of subjects.
    """
    return listed_as(MemorySubject, subjects, "subjects", "subjects=[USER.of('alice')]")


def checked_scopes(scopes: Iterable[MemoryScope]) -> tuple[MemoryScope, ...]:
    """Return scopes as a tuple.

    Raises:
        TypeError: They are no list of scopes.
    """
    return listed_as(MemoryScope, scopes, "scopes", "scopes=[MemoryScope.Product('my-app')]")


def checked_places(places: Iterable[Place]) -> tuple[Place, ...]:
    """Return places as a tuple.

    Raises:
        TypeError: They are no list of places.
    """
    example = "places=[Place(MemoryScope.Product('my-app'), USER.of('alice'))]"
    return listed_as(Place, places, "places", example)


def checked_concept(concept: Concept[Any, Any]) -> Concept[Any, Any]:
    """Return `concept` if it is one.

    Raises:
        TypeError: It is something else, such as its keyword.
    """
    if not isinstance(concept, Concept):
        raise TypeError(
            f"A concept is asked for as a Concept, not {kind_of(concept)}: "
            f"Concept(keyword, description)"
        )
    return concept


def checked_concepts(
    concepts: Iterable[Concept[Any, Any]], example: str = "concepts=[concept]"
) -> list[Concept[Any, Any]]:
    """Return `concepts` if they are some.

    Args:
        concepts: What was given.
        example: What to write instead.

    Raises:
        TypeError: They are something else, such as a single one.
    """
    given = listed(concepts, "concepts are a list of Concept", example)
    return [checked_concept(concept) for concept in given]
