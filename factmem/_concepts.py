"""Concepts that a caller names, checked where they are handed over."""

from collections.abc import Iterable
from typing import Any

from factmem._given import kind_of
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


def checked_concepts(concepts: Iterable[Concept[Any, Any]]) -> list[Concept[Any, Any]]:
    """Return `concepts` if they are some.

    Raises:
        TypeError: They are something else, such as a single one.
    """
    try:
        given = iter(concepts)
    except TypeError:
        raise TypeError(
            f"concepts are several, a list of Concept, and not {kind_of(concepts)}: "
            f"give a list of them, as in concepts=[concept]"
        ) from None
    return [checked_concept(concept) for concept in given]
