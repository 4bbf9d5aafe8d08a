"""Concepts that a caller names, checked where they are handed over."""

from collections.abc import Iterable
from typing import Any

from factmem._given import kind_of, listed
from factmem.models import Concept

__all__ = ["checked_concept", "checked_concepts"]


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
