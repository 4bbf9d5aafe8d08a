"""Conditional writes: `if_unchanged` names the state that the caller has read.

It is compared with the present one while the place is locked, so that one of several writers wins.
"""

from collections.abc import Sequence
from typing import Any, TypeAlias

from factmem._arguments import expect
from factmem.errors import ChangedError
from factmem.ledger.resolution import PlacedFact, is_version, version_of
from factmem.models.facts import AnyFact
from factmem.models.places import Place

Expected: TypeAlias = AnyFact | PlacedFact | str
"""A fact that was read, with or without its place, or its version."""


def expected_version(given: object) -> str:
    """Return the version that a caller expects: of a fact, of what has a `version`, or itself."""
    if isinstance(given, AnyFact):
        return version_of(given)
    version = getattr(given, "version", given)
    return expect(version, str, "if_unchanged", "if_unchanged=placed, or placed.version")


def check_unchanged(present: Sequence[AnyFact], wanted: str | None, place: Place) -> None:
    """Raise `ChangedError` unless one of the present facts is the one that was read.

    Its version is `wanted`, or None if there was no fact.
    """
    if present if wanted is None else not any(is_version(wanted, each) for each in present):
        raise changed(present, place)


def changed(present: Sequence[AnyFact], place: Place) -> ChangedError:
    """Return the error for another state than the one that was read."""
    if not present:
        return ChangedError(f"The fact is no longer in {place}: it was deleted since it was read")
    placed: PlacedFact[Any] = PlacedFact(place, present[-1])
    return ChangedError(
        f"{placed.fact.concept.keyword!r} in {place} has changed since it was read: decide again by "
        "`present`, and repeat the call with it",
        placed,
    )
