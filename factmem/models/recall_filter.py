"""RecallFilter: the facts that a recall searches."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, cast

import orjson

from factmem._arguments import expect_all
from factmem.errors import InputValueError
from factmem.models._values import JsonValue
from factmem.models.facts import NO_METADATA, AnyFact, Concept, checked_metadata
from factmem.models.when import When, WhenLike, utc

__all__ = ["RecallFilter"]


@dataclass(frozen=True, slots=True)
class RecallFilter:
    """The facts that a recall searches; by default all. One filter serves any number of recalls.

    Raises:
        TypeError: An argument has the wrong type, such as one concept instead of a list.
        ValueError: The time range is naive or empty.
    """

    concepts: "Iterable[Concept[Any, Any] | str] | None" = None
    """The concepts to search, or their keywords; None means all."""
    since: datetime | None = None
    """Only facts said at this time or later."""
    until: datetime | None = None
    """Only facts said before this time."""
    valid_at: WhenLike | None = None
    """What held at this time, such as "2026-06", and not what is current. It reads the places
    again, and compares words alone."""
    metadata: Mapping[str, JsonValue] = field(default_factory=lambda: NO_METADATA)
    """Only facts whose metadata has all of these keys, with equal values."""

    def __post_init__(self) -> None:
        def put(name: str, value: object) -> None:
            object.__setattr__(self, name, value)

        if self.concepts is not None:
            # expect_all rejects a single string, whose letters would otherwise count as keywords.
            given: tuple[Any, ...] = expect_all(
                self.concepts, (Concept, str), "concepts", "concepts=['city']"
            )
            put("concepts", frozenset(c if isinstance(c, str) else c.keyword for c in given))
        if self.since is not None:
            put("since", utc(self.since, "time range's begin"))
        if self.until is not None:
            put("until", utc(self.until, "time range's end"))
        if self.valid_at is not None:
            put("valid_at", When.of(self.valid_at, "valid_at"))
        if self.since is not None and self.until is not None and self.since >= self.until:
            raise InputValueError("since must be before until; the time range is empty")
        if self.metadata is not NO_METADATA:
            put("metadata", checked_metadata(self.metadata))

    @property
    def keywords(self) -> frozenset[str] | None:
        """The keywords of the concepts."""
        return cast("frozenset[str] | None", self.concepts)

    @property
    def marks(self) -> frozenset[bytes]:
        """The marks that a fact must have, of those of `marks_of`."""
        return frozenset(_mark("metadata", *pair) for pair in self.metadata.items())

    @property
    def is_open(self) -> bool:
        """Whether it allows all facts."""
        return self is OPEN or self == OPEN


OPEN = RecallFilter()
"""The filter that allows all facts."""


def marks_of(fact: AnyFact) -> frozenset[bytes]:
    """Return a mark for each property of a fact that a filter can compare.

    Every index stores and compares marks alone: a further property needs no change of any index.
    """
    if not fact.metadata:
        return _NO_MARKS
    return frozenset(_mark("metadata", *pair) for pair in fact.metadata.items())


def _mark(kind: str, *of: JsonValue) -> bytes:
    return orjson.dumps([kind, *of], option=orjson.OPT_SORT_KEYS)


_NO_MARKS: frozenset[bytes] = frozenset()
