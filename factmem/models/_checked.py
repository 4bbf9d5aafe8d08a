"""Checks of arguments that are subjects, scopes, places or concepts."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from factmem._arguments import expect, expect_all
from factmem.errors import InputValueError
from factmem.models.facts import Concept
from factmem.models.places import MemoryScope, MemorySubject, Place

if TYPE_CHECKING:
    from factmem.models.profile import Concepts


def checked_subjects(subjects: Iterable[MemorySubject]) -> tuple[MemorySubject, ...]:
    """Return subjects as a tuple; raise `TypeError` unless it is a list of them."""
    return expect_all(subjects, MemorySubject, "subjects", "subjects=[USER.of('alice')]")


def checked_scopes(scopes: Iterable[MemoryScope]) -> tuple[MemoryScope, ...]:
    """Return scopes as a tuple; raise `TypeError` unless it is a list of them."""
    return expect_all(scopes, MemoryScope, "scopes", "scopes=[MemoryScope.Product('my-app')]")


def checked_places(places: Iterable[Place]) -> tuple[Place, ...]:
    """Return places as a tuple; raise `TypeError` unless it is a list of them."""
    example = "places=[Place(MemoryScope.Product('my-app'), USER.of('alice'))]"
    return expect_all(places, Place, "places", example)


def checked_concept(concept: Concept[Any, Any]) -> Concept[Any, Any]:
    """Return a `Concept`; raise `TypeError` for anything else, such as its keyword."""
    given: object = concept
    example = "Concept(keyword, description)"
    if not isinstance(given, Concept) and hasattr(given, "profile_concepts"):
        example = "a profile is loaded as a whole, await memory.current(Traveller)"
    return expect(concept, Concept, "concept", example)


def checked_concepts(
    concepts: Iterable[Concept[Any, Any]], example: str = "concepts=[concept]"
) -> list[Concept[Any, Any]]:
    """Return concepts as a list; raise `TypeError` for anything else, such as a single one."""
    return list(expect_all(concepts, Concept, "concepts", example))


def concepts_by_keyword(
    concepts: "Concepts", argument: str = "concepts"
) -> dict[str, Concept[Any, Any]]:
    """Index concepts, and those of profiles, by keyword; none may stand for two different ones."""
    found: dict[str, Concept[Any, Any]] = {}
    given: list[Any] = []
    several: tuple[Any, ...] = expect_all(concepts, object, argument, f"{argument}=[AGE]")
    for each in several:
        fields = getattr(each, "profile_concepts", None)  # Profile takes long to import
        given += [each] if fields is None else fields().values()
    for concept in expect_all(given, Concept, argument, f"{argument}=[AGE]"):
        if found.setdefault(concept.keyword, concept) != concept:
            raise InputValueError(f"Two concepts have the keyword {concept.keyword!r}: keep one")
    for concept in found.values():
        if again := [keyword for keyword in concept.was if keyword in found]:
            raise InputValueError(
                f"{again[0]!r} is a former keyword of {concept.keyword!r} and declared as well: "
                "keep one"
            )
    return found
