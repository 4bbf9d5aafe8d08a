"""Facts and their concepts: immutable, hashable values, safe to share between tasks.

A `Concept` says what a fact is about and of which type its values are; its codec validates them. A
`SingleFact` or `MultipleFacts` has the values, and the fields of `AnyFact`, which both share.
Constructors validate. Facts that a store returns were validated when they were saved, and are made
by `stored_facts` instead. The overloads are for type checkers: they infer the kind of fact that a
load returns.
"""

import os
from collections.abc import Iterable, Mapping
from dataclasses import FrozenInstanceError, dataclass, field
from datetime import datetime
from enum import StrEnum
from numbers import Real
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeAlias, overload

from pydantic import GetCoreSchemaHandler
from pydantic.errors import PydanticUserError
from pydantic_core import CoreSchema, SchemaError
from typing_extensions import TypeForm, TypeVar

from factmem._arguments import expect, expect_all, expect_member
from factmem.models._display import Displayed, Sheet, fact_cells
from factmem.models._metadata import NO_METADATA, checked_metadata
from factmem.models._names import checked_name, checked_text
from factmem.models._schema import concept_schema
from factmem.models._values import JsonValue, ValueCodec, codec_of
from factmem.models.clock import system_clock, utc
from factmem.models.sources import FactSource

__all__ = ["AnyFact", "Concept", "Fact", "FactType", "MultipleFacts", "SingleFact"]


class FactType(StrEnum):
    """The number of values that a concept has at a time: one or many."""

    SINGLE = "SINGLE"
    MULTIPLE = "MULTIPLE"


T = TypeVar("T", default=str)
F = TypeVar("F", bound="AnyFact", default="SingleFact[T]")
V = TypeVar("V")

_VALUES = (str, bytes, int, float, list, tuple, dict, set, frozenset)
"""Types of values that callers pass as `value_type` by mistake."""
_BY_NAME = "the type of the values is a keyword argument, value_type=int"


class Concept(Generic[T, F]):
    """A topic of facts, such as "the user's preferred IDE theme".

    The keyword identifies it in storage; models read the description. The second type parameter is
    the kind of fact that a load returns: `Concept("age", "...", value_type=int)` is a
    `Concept[int]`, and loading it returns a `list[SingleFact[int]]`.

    Args:
        keyword: Its name, unique within an application: "ide-theme".
        description: One sentence for people and models.
        fact_type: Whether the concept has one value at a time, or many.
        value_type: Any type that pydantic can validate: `int`, `date`, a `Literal`, a union, an
            `Annotated`, a `BaseModel`.
        detect: Whether models may write its values. False for values that the application owns:
            models see them and cannot change them. Not part of equality, and not stored.

    Raises:
        ValueError: The keyword is invalid.
        TypeError: `value_type` is a value instead of a type, or a type was passed as `fact_type`.
    """

    __slots__ = ("_codec", "description", "detect", "fact_type", "keyword", "value_type")
    keyword: str
    description: str
    fact_type: FactType
    value_type: TypeForm[T]
    detect: bool
    _codec: ValueCodec

    @overload
    def __init__(
        self: "Concept[str, SingleFact[str]]",
        keyword: str,
        description: str,
        fact_type: Literal[FactType.SINGLE] = ...,
        *,
        detect: bool = ...,
    ) -> None: ...
    @overload
    def __init__(
        self: "Concept[str, MultipleFacts[str]]",
        keyword: str,
        description: str,
        fact_type: Literal[FactType.MULTIPLE],
        *,
        detect: bool = ...,
    ) -> None: ...
    @overload
    def __init__(
        self: "Concept[V, SingleFact[V]]",
        keyword: str,
        description: str,
        fact_type: Literal[FactType.SINGLE] = ...,
        *,
        value_type: TypeForm[V],
        detect: bool = ...,
    ) -> None: ...
    @overload
    def __init__(
        self: "Concept[V, MultipleFacts[V]]",
        keyword: str,
        description: str,
        fact_type: Literal[FactType.MULTIPLE],
        *,
        value_type: TypeForm[V],
        detect: bool = ...,
    ) -> None: ...
    @overload
    def __init__(
        self: "Concept[Any, SingleFact[Any] | MultipleFacts[Any]]",
        keyword: str,
        description: str,
        fact_type: FactType,
        *,
        value_type: object = ...,
        detect: bool = ...,
    ) -> None: ...
    def __init__(
        self,
        keyword: str,
        description: str,
        fact_type: FactType = FactType.SINGLE,
        *,
        value_type: object = str,
        detect: bool = True,
    ) -> None:
        put = object.__setattr__
        put(self, "keyword", checked_name(keyword, "keyword"))
        put(self, "description", checked_text(description, "description"))
        put(self, "fact_type", expect_member(fact_type, FactType, "fact_type", _BY_NAME))
        if value_type is not str and isinstance(value_type, _VALUES):
            raise TypeError(
                f"The value_type of {self.keyword!r} must be a type, not a value of "
                f"{type(value_type).__name__}: value_type=int or value_type=list[int]"
            )
        put(self, "value_type", value_type)
        put(self, "detect", bool(detect))

    @property
    def codec(self) -> ValueCodec:
        """The codec that converts its values to JSON and back; built at first use."""
        if self.value_type is str:  # nearly always: a missing attribute costs a microsecond
            return _TEXT
        try:
            return self._codec
        except AttributeError:
            object.__setattr__(self, "_codec", self._made_codec())
            return self._codec

    def _made_codec(self) -> ValueCodec:
        try:
            return codec_of(self.value_type)
        except (PydanticUserError, SchemaError, NameError) as exc:
            raise TypeError(
                f"The value_type of {self.keyword!r} is not a type that pydantic can validate "
                f"({type(exc).__name__}): use a type, an annotation or a BaseModel"
            ) from None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Concept):
            return NotImplemented
        return self._state() == other._state()

    def __hash__(self) -> int:
        return hash((self.keyword, self.fact_type))

    def __repr__(self) -> str:
        keyword, description, fact_type, value_type = self._state()
        owned = "" if self.detect else ", detect=False"
        shown = f"{keyword!r}, {description!r}, {fact_type}, value_type={value_type!r}"
        return f"Concept({shown}{owned})"

    def __setattr__(self, name: str, value: object) -> None:
        raise FrozenInstanceError(f"A concept is immutable: {name!r} cannot be set")

    def __delattr__(self, name: str) -> None:
        raise FrozenInstanceError(f"A concept is immutable: {name!r} cannot be deleted")

    def __getstate__(self) -> tuple[object, ...]:
        return (*self._state(), self.detect)

    def __setstate__(self, state: tuple[object, ...]) -> None:
        for name, value in zip(_PICKLED, state, strict=True):
            object.__setattr__(self, name, value)

    def _state(self) -> tuple[str, str, FactType, object]:
        return self.keyword, self.description, self.fact_type, self.value_type

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return concept_schema(cls, source, handler)


_TEXT = codec_of(str)

_PICKLED = ("keyword", "description", "fact_type", "value_type", "detect")


def _new_id() -> str:
    return os.urandom(16).hex()  # the same as secrets.token_hex, in two thirds of its time


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
    """From this time on, loads do not return the fact."""
    id: str = field(default_factory=_new_id, kw_only=True)
    """Identifies the save that created the fact; random by default."""
    metadata: Mapping[str, JsonValue] = field(
        default_factory=lambda: NO_METADATA, kw_only=True, hash=False
    )
    """Data of the application, at most 4 KB as JSON. No model reads or writes it."""
    confirmed_at: datetime | None = field(default=None, kw_only=True, compare=False)
    """When the store last recorded it; None for a fact that was not loaded."""

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return handler(SingleFact[Any] | MultipleFacts[Any] if source is AnyFact else source)

    def _check_fields(self) -> None:
        # A frozen fact must set its fields through object.__setattr__. Four calls take a fifth of
        # the time to create a fact, so only fields that a check changed are set.
        put = object.__setattr__
        if (timestamp := utc(self.timestamp, "timestamp")) is not self.timestamp:
            put(self, "timestamp", timestamp)
        if self.expires_at is not None:
            put(self, "expires_at", utc(self.expires_at, "expires_at"))
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
        if self.metadata is not NO_METADATA:
            put(self, "metadata", checked_metadata(self.metadata))

    def _sheet(self) -> Sheet:
        return Sheet(type(self).__name__, ("field", "value"), [*fact_cells(self).items()])

    def _summary(self, concept: Concept[Any, Any], values: tuple[object, ...]) -> str:
        """Return keyword, values and day in under 100 characters, to fit logs and cells."""
        shown = ", ".join(repr(_shortened(value)) for value in values[:_MOST_SHOWN])
        day = self.timestamp.date().isoformat()
        keyword, shown = _cut(concept.keyword, 28), _cut(shown, 38)
        return f"<{type(self).__name__} {keyword}: {shown} ({day})>"


def _misfit(concept: Concept[Any, Any], fact: str, other: str) -> ValueError:
    """Return the error for a concept of the other kind; raise `TypeError` if it is no concept."""
    expect(concept, Concept, "concept", f'{fact}(Concept("theme", "The IDE theme"), ...)')
    many = "many values" if fact == "SingleFact" else "one value"
    return ValueError(f"The concept {concept.keyword!r} has {many}: use {other}")


_MOST_SHOWN = 20


def _shortened(value: object) -> object:
    return value[:40] if isinstance(value, str) else value


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length - 3]}..."


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
            *,
            timestamp: datetime = ...,
            importance: float = ...,
            source: FactSource | None = ...,
            expires_at: datetime | None = ...,
            id: str = ...,  # noqa: A002 - the field's name
            metadata: Mapping[str, JsonValue] = ...,
            confirmed_at: datetime | None = ...,
        ) -> None: ...

    def __post_init__(self) -> None:
        if getattr(self.concept, "fact_type", None) is not FactType.SINGLE:
            raise _misfit(self.concept, "SingleFact", "MultipleFacts")
        value = self.concept.codec.check(self.value, self.concept.keyword)
        if value is not self.value:
            object.__setattr__(self, "value", value)
        self._check_fields()

    def __repr__(self) -> str:
        return self._summary(self.concept, (self.value,))

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
            *,
            timestamp: datetime = ...,
            importance: float = ...,
            source: FactSource | None = ...,
            expires_at: datetime | None = ...,
            id: str = ...,  # noqa: A002 - the field's name
            metadata: Mapping[str, JsonValue] = ...,
            confirmed_at: datetime | None = ...,
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
        return self._summary(self.concept, self.values)


Fact: TypeAlias = SingleFact[T] | MultipleFacts[T]
"""A fact of either kind, with values of one type."""

AnyConcept: TypeAlias = Concept[Any, Any]
L = TypeVar("L", bound=AnyFact)
