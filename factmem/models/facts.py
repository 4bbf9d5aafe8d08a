"""Facts and their concepts: immutable, hashable values, safe to share between tasks.

A `SingleFact` or `MultipleFacts` has the values, and the fields of `AnyFact`, which both share.
Constructors validate. Facts that a store returns were validated when they were saved, and are made
by `stored_facts` instead. The overloads are for type checkers: they infer the kind of fact that a
load returns.
"""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from numbers import Real
from time import time_ns
from typing import TYPE_CHECKING, Any, Generic, TypeAlias

from typing_extensions import TypedDict, TypeVar, Unpack

from factmem._arguments import expect, expect_all, expect_member
from factmem.models._display import Displayed, Sheet, fact_cells, fact_text, summary
from factmem.models._metadata import NO_METADATA, checked_metadata
from factmem.models._names import checked_name
from factmem.models._values import JsonValue
from factmem.models.actors import FactState
from factmem.models.clock import system_clock, utc
from factmem.models.concepts import Concept, FactType
from factmem.models.sources import FactSource
from factmem.models.when import When, WhenLike

__all__ = ["AnyFact", "Concept", "Fact", "FactType", "MultipleFacts", "SingleFact"]


T = TypeVar("T", default=str)


_latest_id = 0


def new_id() -> str:
    """Return a random id that is greater than those made before in this process.

    The first 13 digits are the time in microseconds, so that of two facts of the same time the one
    that was made later counts.
    """
    global _latest_id  # noqa: PLW0603 - threads may share a time; the rest is random
    now = time_ns() // 1000
    _latest_id = now = now if now > _latest_id else _latest_id + 1
    # As one number: to join two strings takes a fifth more.
    return (now << 76 | int.from_bytes(os.urandom(9), "big")).to_bytes(16, "big").hex()


@dataclass(frozen=True, slots=True, repr=False)
class AnyFact(Displayed):
    """A fact of either kind, with values of any type: `SingleFact` or `MultipleFacts`.

    It has no instances of its own. It is a class and not a union, because with a union a type
    checker infers `SingleFact[Any]` in `save(SingleFact(AGE, "36"))` and accepts the wrong value.
    """

    if TYPE_CHECKING:

        @property
        def concept(self) -> Concept[Any, Any]:
            """Return the concept of the fact."""
            return self.concept

        @property
        def values(self) -> tuple[Any, ...]:
            """Return its values, one or more."""
            return self.values

    timestamp: datetime = field(default_factory=system_clock, kw_only=True)
    """When the fact was stated, by the caller's clock. Aware; stored in UTC, in microseconds."""
    importance: float = field(default=0.5, kw_only=True)
    """From 0 to 1. If a budget is too small for all facts, the more important ones are kept."""
    source: FactSource | None = field(default=None, kw_only=True)
    expires_at: datetime | None = field(default=None, kw_only=True)
    """From this time on, loads do not return the fact: how long to keep it, not how long it holds."""
    since: When | None = field(default=None, kw_only=True)
    """From when the fact holds; None if that was not said."""
    until: When | None = field(default=None, kw_only=True)
    """Until when it holds, a day, month or year included; None if no end was said."""
    id: str = field(default_factory=new_id, kw_only=True)
    """Identifies the save that created the fact; by default random after the time it was made."""
    metadata: Mapping[str, JsonValue] = field(
        default_factory=lambda: NO_METADATA, kw_only=True, hash=False
    )
    """Data of the application, at most 4 KB as JSON. No model reads or writes it."""
    confirmed_at: datetime | None = field(default=None, kw_only=True, compare=False)
    """When the store last recorded it; None for a fact that was not loaded."""
    state: FactState = field(default=FactState.STATED, kw_only=True)
    """Whether it is a proposal, or confirmed by a person. A save stores what it says."""
    actor: str | None = field(default=None, kw_only=True, compare=False)
    """Who saved or confirmed it; see `acting`, which names the actor of a save."""
    reason: str | None = field(default=None, kw_only=True, compare=False)

    @property
    def text(self) -> str:
        """The fact for people, such as "The IDE theme: dark"; `Match.text` is for prompts."""
        return fact_text(self)

    def _check_fields(self) -> None:
        # A frozen fact must set its fields through object.__setattr__. Four calls take a fifth of
        # the time to create a fact, so only fields that a check changed are set.
        put = object.__setattr__
        if (timestamp := utc(self.timestamp, "timestamp")) is not self.timestamp:
            put(self, "timestamp", timestamp)
        if self.expires_at is not None:
            put(self, "expires_at", utc(self.expires_at, "expires_at"))
        if self.since is not None or self.until is not None:
            self._check_period()
        given: object = self.importance
        if type(given) is not float or not 0 <= given <= 1:
            # Checked last, because isinstance with an abstract class such as Real is slow.
            if isinstance(given, bool) or not isinstance(given, Real) or not 0 <= float(given) <= 1:
                raise ValueError("importance must be a number from 0 to 1: importance=0.8")
            put(self, "importance", float(given))
        if self.source is not None:
            expect(self.source, FactSource, "source", "FactSource(SourceKind.USER)")
        if (name := checked_name(self.id, "id")) is not self.id:
            put(self, "id", name)
        if type(self.state) is not FactState:
            put(self, "state", expect_member(self.state, FactState, "state"))
        if self.metadata is not NO_METADATA:
            put(self, "metadata", checked_metadata(self.metadata))

    def _check_period(self) -> None:
        for name in ("since", "until"):
            if (given := getattr(self, name)) is not None:
                object.__setattr__(self, name, When.of(given, name))
        if self.since is not None and self.until is not None and self.until.end <= self.since.begin:
            raise ValueError("until must not be before since: since='2026-05', until='2026-08'")

    def _sheet(self) -> Sheet:
        return Sheet(type(self).__name__, ("field", "value"), [*fact_cells(self).items()])


class _Fields(TypedDict, total=False):
    """The fields of `AnyFact` as a constructor accepts them."""

    timestamp: datetime
    importance: float
    source: FactSource | None
    expires_at: datetime | None
    since: WhenLike | None
    until: WhenLike | None
    id: str
    metadata: Mapping[str, JsonValue]
    confirmed_at: datetime | None
    state: FactState


def _misfit(concept: Concept[Any, Any], fact: str, other: str) -> ValueError:
    """Return the error for a concept of the other kind; raise `TypeError` if it is no concept."""
    expect(concept, Concept, "concept", f'{fact}(Concept("theme", "The IDE theme"), ...)')
    many = "many values" if fact == "SingleFact" else "one value"
    return ValueError(f"The concept {concept.keyword!r} has {many}: use {other}")


@dataclass(frozen=True, slots=True, repr=False)
class SingleFact(AnyFact, Generic[T]):
    """A fact with one value, of a concept with one value: `SingleFact(AGE, 36, importance=0.8)`.

    Raises:
        ValueError: The value is not of the concept's type, the concept has many values, a datetime
            is naive, or a field is out of range.
        TypeError: A field has the wrong type, such as a string for a concept or a datetime.
    """

    concept: Concept[T, Any]  # pyright: ignore[reportIncompatibleMethodOverride] - frozen, too
    value: T

    if TYPE_CHECKING:  # the field has any concept; the constructor accepts one of a single value

        def __init__(
            self,
            concept: "Concept[T, SingleFact[T]] | Concept[T, SingleFact[T] | MultipleFacts[T]]",
            value: T,
            **fields: Unpack["_Fields"],
        ) -> None: ...

    def __post_init__(self) -> None:
        if getattr(self.concept, "fact_type", None) is not FactType.SINGLE:
            raise _misfit(self.concept, "SingleFact", "MultipleFacts")
        value = self.concept.codec.check(self.value, self.concept.keyword)
        if value is not self.value:
            object.__setattr__(self, "value", value)
        self._check_fields()

    def __repr__(self) -> str:
        return summary(self)

    @property
    def values(self) -> tuple[T, ...]:
        """Its one value as a tuple, so that both kinds of fact can be iterated."""
        return (self.value,)


@dataclass(frozen=True, slots=True, repr=False)
class MultipleFacts(AnyFact, Generic[T]):
    """A fact with one or more values that are saved together: `MultipleFacts(PETS, ["Miso"])`.

    `values` can be any iterable except a string. Raises the same errors as `SingleFact`.
    """

    concept: Concept[T, Any]  # pyright: ignore[reportIncompatibleMethodOverride]
    values: tuple[T, ...]  # pyright: ignore[reportIncompatibleMethodOverride]

    if TYPE_CHECKING:  # the field is a tuple; the constructor accepts any iterable

        def __init__(
            self,
            concept: "Concept[T, MultipleFacts[T]] | Concept[T, SingleFact[T] | MultipleFacts[T]]",
            values: Iterable[T],
            **fields: Unpack["_Fields"],
        ) -> None: ...

    def __post_init__(self) -> None:
        if getattr(self.concept, "fact_type", None) is not FactType.MULTIPLE:
            raise _misfit(self.concept, "MultipleFacts", "SingleFact")
        codec, keyword = self.concept.codec, self.concept.keyword
        given: Iterable[object] = self.values
        if isinstance(given, dict):  # its keys are values in order, without duplicates
            given = tuple(given)
        given = expect_all(given, object, f"The values for {keyword!r}", "[value]")
        values = tuple(codec.check(value, keyword) for value in given)
        if not values:
            raise ValueError(f"The fact about {keyword!r} needs at least one value")
        object.__setattr__(self, "values", values)
        self._check_fields()

    def __repr__(self) -> str:
        return summary(self)


Fact: TypeAlias = SingleFact[T] | MultipleFacts[T]
"""A fact of either kind, with values of one type."""
AnyConcept: TypeAlias = Concept[Any, Any]
L = TypeVar("L", bound=AnyFact, default=AnyFact)
