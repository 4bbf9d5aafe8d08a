"""Subjects, scopes and places that a caller names, checked where they are handed over."""

from collections.abc import Iterable

from factmem._given import listed_as
from factmem.models import MemoryScope, MemorySubject, Place

__all__ = ["checked_places", "checked_scopes", "checked_subjects"]


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
