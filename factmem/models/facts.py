"""Facts and their concepts: immutable, hashable values, safe to share between tasks.

A `SingleFact` or `MultipleFacts` has the values, and the fields of `AnyFact`, which both share.
Constructors validate; facts that a store returns were validated when they were saved. The overloads
are for type checkers: they infer the kind of fact that a load returns.

Setting the fields of a frozen object one by one through `object.__setattr__` takes three times as
long as an `__init__` that assigns them, and 100,000 facts have 1.4 million fields. `stored_concept`
and `stored_single` therefore create each object by a class with the same slots that is not frozen,
and give it its final class at the end. Python allows this only for classes of the same layout.
"""

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import FrozenInstanceError, dataclass, field
from datetime import datetime
from enum import StrEnum
from hashlib import blake2b
from numbers import Real
from random import Random
from time import time_ns
from typing import TYPE_CHECKING, Any, Generic, Literal, NoReturn, TypeAlias, cast, final, overload

import orjson
from pydantic_core import SchemaError
from typing_extensions import TypedDict, TypeForm, TypeVar, Unpack

from factmem._arguments import expect, expect_all, expect_member, expect_within, guided, kind_of
from factmem.errors import InputTypeError, InputValueError
from factmem.models._display import Displayed, Sheet, fact_cells, fact_text, summary
from factmem.models._values import (
    JsonValue,
    ValueCodec,
    canonical,
    checked_name,
    checked_text,
    codec_of,
)
from factmem.models.when import When, WhenLike, system_clock, utc

__all__ = [
    "AnyFact", "Concept", "ConceptDefinition", "Fact", "FactSource", "FactState", "FactType",
    "MultipleFacts", "SingleFact", "SourceKind",
]  # fmt: skip

V = TypeVar("V")
T = TypeVar("T", default=str)
# Covariant, so that mypy takes [AGE, CITY] for a list of concepts. `save(AGE, "36")` stays wrong,
# because the second parameter has the type of the values, too, and facts are invariant.
T_co = TypeVar("T_co", default=str, covariant=True)
F_co = TypeVar("F_co", default="SingleFact[T_co]", covariant=True)

MAX_KEYS = 32
"""The largest number of keys."""
MAX_METADATA_BYTES = 4096
"""The largest size as JSON. Each load of a place reads it: store documents elsewhere."""

_EXAMPLE = "metadata={'ticket': 'T-7'}"


class Metadata(dict[str, JsonValue]):
    """A read-only dictionary. It is a `dict`, because JSON encoders and pydantic support that type.

    Its repr shows only the keys, because logs contain reprs.
    """

    __slots__ = ()

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise TypeError("metadata is immutable: save or update the fact with other metadata")

    # Any, because no single signature fits the overloads of dict.
    __setitem__: Any = _refuse
    __delitem__: Any = _refuse
    __ior__: Any = _refuse
    clear: Any = _refuse
    pop: Any = _refuse
    popitem: Any = _refuse
    setdefault: Any = _refuse
    update: Any = _refuse

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return Metadata, (dict(self),)

    def __copy__(self) -> "Metadata":
        return self

    def __repr__(self) -> str:
        return f"<Metadata {', '.join(map(repr, self))}>" if self else "<Metadata>"


NO_METADATA = Metadata()
"""The metadata of facts without metadata."""


def checked_metadata(given: object) -> Metadata:
    """Return an immutable copy of metadata.

    Raises:
        TypeError: It is not a mapping of strings to JSON values.
        ValueError: It has too many keys, is too large, or its JSON would not load as an equal
            value.
    """
    if not isinstance(given, Mapping):
        raise InputTypeError(f"metadata must be a mapping, not {kind_of(given)}: {_EXAMPLE}")
    if not given:
        return NO_METADATA
    if len(given) > MAX_KEYS:
        raise InputValueError(f"metadata has {len(given)} keys: at most {MAX_KEYS} are allowed")
    named = {checked_name(key, "metadata key"): value for key, value in given.items()}
    try:
        text = orjson.dumps(named)
        plain = orjson.loads(text)
    except (TypeError, ValueError, RecursionError):
        plain = text = None
    if plain is None or text is None or plain != named:
        raise InputValueError(
            "metadata values must be JSON (strings, numbers below 2**63, booleans, None, lists "
            f"and dictionaries): {_EXAMPLE}"
        )
    if len(text) > MAX_METADATA_BYTES:
        raise InputValueError(
            f"metadata has {len(text)} bytes as JSON: at most {MAX_METADATA_BYTES} are allowed"
        )
    return Metadata(plain)


def includes(metadata: Mapping[str, JsonValue], wanted: Mapping[str, JsonValue]) -> bool:
    """Return whether metadata has every key of `wanted`, with an equal value."""
    return all(
        key in metadata and canonical(metadata[key]) == canonical(wanted[key]) for key in wanted
    )


class FactState(StrEnum):
    """How far a fact has been decided."""

    PROPOSED = "proposed"
    """A model found it, and a person or the application decides. No load and no prompt has it."""
    STATED = "stated"
    """The application saved it, or a model learnt it."""
    CONFIRMED = "confirmed"
    """A person said so. What a model learns against it becomes a proposal."""


class FactType(StrEnum):
    """The number of values that a concept has at a time: one or many."""

    SINGLE = "SINGLE"
    MULTIPLE = "MULTIPLE"


_VALUES = (str, bytes, int, float, list, tuple, dict, set, frozenset)
"""Types of values that callers pass as `value_type` by mistake."""
_BY_NAME = "the type of the values is a keyword argument, value_type=int"


class _Options(TypedDict, total=False):
    detect: bool
    was: Iterable[str]
    read: Callable[[Any], Any] | None
    review: bool


@guided(
    arguments={
        "many multiple": "FactType.MULTIPLE is the third argument",
        "type": "value_type=int",
        "default": "await memory.value(CONCEPT) or default",
        "name key": "keyword='city'",
    },
    calls=("__init__",),
)
class Concept(Generic[T_co, F_co]):
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
            models see them and cannot change them.
        was: Its former keywords. Loads, histories and forgettings include their facts, until
            `memory.contents.rename` has given them the new keyword. Saves write the new keyword.
        read: Returns the value for a stored one that does not fit `value_type`, given as plain
            JSON: values that were saved with an older type. An exception means that it has none.
        review: Whether what models learn of it is a proposal, until a person or the application
            decides; see `AgentMemory.review`.

    `detect`, `was`, `read` and `review` are not part of equality, and not stored.

    Raises:
        ValueError: The keyword is invalid.
        TypeError: `value_type` is a value instead of a type, or a type was passed as `fact_type`.
    """

    __slots__ = (
        "_codec", "description", "detect", "fact_type", "keyword", "read", "review",
        "value_type", "was",
    )  # fmt: skip
    keyword: str
    description: str
    fact_type: FactType
    value_type: TypeForm[T_co]
    detect: bool
    was: tuple[str, ...]
    read: Callable[[Any], T_co] | None
    review: bool
    _codec: ValueCodec

    @overload
    def __init__(
        self: "Concept[str, SingleFact[str]]",
        keyword: str,
        description: str,
        fact_type: Literal[FactType.SINGLE] = ...,
        **options: Unpack["_Options"],
    ) -> None: ...
    @overload
    def __init__(
        self: "Concept[str, MultipleFacts[str]]",
        keyword: str,
        description: str,
        fact_type: Literal[FactType.MULTIPLE],
        **options: Unpack["_Options"],
    ) -> None: ...
    @overload
    def __init__(
        self: "Concept[V, SingleFact[V]]",
        keyword: str,
        description: str,
        fact_type: Literal[FactType.SINGLE] = ...,
        *,
        value_type: TypeForm[V],
        **options: Unpack["_Options"],
    ) -> None: ...
    @overload
    def __init__(
        self: "Concept[V, MultipleFacts[V]]",
        keyword: str,
        description: str,
        fact_type: Literal[FactType.MULTIPLE],
        *,
        value_type: TypeForm[V],
        **options: Unpack["_Options"],
    ) -> None: ...
    @overload
    def __init__(
        self: "Concept[Any, Any]",
        keyword: str,
        description: str,
        fact_type: FactType,
        *,
        value_type: object = ...,
        **options: Unpack["_Options"],
    ) -> None: ...
    def __init__(
        self,
        keyword: str,
        description: str,
        fact_type: FactType = FactType.SINGLE,
        *,
        value_type: object = str,
        detect: bool = True,
        was: Iterable[str] = (),
        read: Callable[[Any], Any] | None = None,
        review: bool = False,
    ) -> None:
        keyword = checked_name(keyword, "keyword")
        if type(description) is not str or not description.isascii():  # a call costs as much
            description = checked_text(description, "description")
        if type(fact_type) is not FactType:
            fact_type = expect_member(fact_type, FactType, "fact_type", _BY_NAME)
        if value_type is not str and isinstance(value_type, _VALUES):
            raise InputTypeError(
                f"The value_type of {keyword!r} must be a type, not a value of "
                f"{type(value_type).__name__}: value_type=int or value_type=list[int]"
            )
        example = "was=['old-keyword']"
        former = expect_all(was, str, "was", example) if was else ()
        named = tuple(checked_name(each, "keyword in was") for each in former) if former else ()
        if keyword in named:
            raise InputValueError(f"was must not contain the keyword {keyword!r}: {example}")
        if read is not None and not callable(read):
            raise InputTypeError(f"read must be a function, not {kind_of(read)}: read=int")
        made: Any = self
        object.__setattr__(made, "__class__", _StoredConcept)
        made.__init__(keyword, description, fact_type, value_type, detect, named, read, review)

    @property
    def keywords(self) -> tuple[str, ...]:
        """The keyword and the former ones."""
        return (self.keyword, *self.was)

    @property
    def codec(self) -> ValueCodec:
        """The codec that converts its values to JSON and back; built at first use."""
        if self.value_type is str and self.read is None:
            return _TEXT  # nearly always: a missing attribute costs a microsecond
        try:
            return self._codec
        except AttributeError:
            object.__setattr__(self, "_codec", self._made_codec())
            return self._codec

    def _made_codec(self) -> ValueCodec:
        from pydantic.errors import PydanticUserError

        try:
            return codec_of(self.value_type, self.read)
        except (PydanticUserError, SchemaError, NameError) as exc:
            raise InputTypeError(
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

    def __reduce__(self) -> tuple[Any, tuple[object, ...]]:
        return _StoredConcept, (*self._state(), self.detect, self.was, self.read, self.review)

    def _state(self) -> tuple[str, str, FactType, object]:
        return self.keyword, self.description, self.fact_type, self.value_type


_TEXT = codec_of(str)


@dataclass(frozen=True, slots=True)
class ConceptDefinition(Displayed):
    """What a store was told about a concept by the programs that use it."""

    keyword: str
    fact_type: FactType
    """MULTIPLE as soon as one program has declared it so."""
    json_schema: Mapping[str, JsonValue]
    """The JSON schema of one value, without titles and descriptions."""
    version: int = 1
    """Grows by one with each change."""
    was: tuple[str, ...] = ()
    """Its former keywords."""
    differs: str | None = None
    """How the concept that the memory declares differs. None if it does not, or is not declared."""
    past: tuple[str, ...] = field(default=(), repr=False)
    """The digests of its former schemas."""

    @property
    def digest(self) -> str:
        """The digest of its schema."""
        key = canonical(dict(self.json_schema))
        return blake2b(key if isinstance(key, bytes) else key.encode(), digest_size=8).hexdigest()

    def dump(self) -> dict[str, JsonValue]:
        """Return it as plain JSON, for `load`."""
        return {
            "type": self.fact_type.value,
            "schema": dict(self.json_schema),
            "version": self.version,
            "was": list(self.was),
            "past": list(self.past),
        }

    @classmethod
    def load(cls, keyword: str, plain: Any) -> "ConceptDefinition":
        """Return the definition that `dump` returned as plain JSON."""
        return cls(
            keyword,
            FactType(plain["type"]),
            plain["schema"],
            plain["version"],
            tuple(plain["was"]),
            past=tuple(plain["past"]),
        )


MAX_BEFORE = 500
"""The largest length of `FactSource.before`, in characters."""


class SourceKind(StrEnum):
    """The kinds of sources."""

    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"
    DOCUMENT = "document"
    CODE = "code"


@dataclass(frozen=True, slots=True)
class FactSource:
    """The source of a fact. `why()` returns it, and facts can be deleted by their source.

    Raises:
        ValueError: `kind` is unknown, `message` is negative, or `before` is too long.
        TypeError: A field has the wrong type.
    """

    kind: SourceKind
    conversation: str | None = None
    """The application's name for the conversation or document."""
    message: int | None = None
    """The index of the message in its conversation, from 0."""
    quote: str | None = None
    """The words that state the fact."""
    model: str | None = None
    """The model that extracted the fact."""
    before: str | None = None
    """The end of the message before the one that states the fact, at most 500 characters. It lets a
    search find the answer "By ferry" by the words of its question. No model reads it."""
    doubts: tuple[str, ...] = ()
    """Why a detected value may not follow from the quote; the values of `Doubt`."""

    def __post_init__(self) -> None:
        if type(self.kind) is not SourceKind:
            kind = expect_member(self.kind, SourceKind, "kind")
            object.__setattr__(self, "kind", kind)
        if self.message is not None:
            example = "FactSource(SourceKind.USER, message=0)"
            expect_within(self.message, int, "message", example, least=0)
        for name in ("conversation", "quote", "model", "before"):
            if (text := getattr(self, name)) is not None:
                checked_text(text, name)
        if self.doubts:
            doubts = expect_all(self.doubts, str, "doubts", "doubts=['hedge']")
            object.__setattr__(self, "doubts", tuple(map(str, doubts)))
        if self.before is not None and len(self.before) > MAX_BEFORE:
            raise InputValueError(
                f"before has {len(self.before)} characters: at most {MAX_BEFORE} are allowed, "
                f"before=text[-{MAX_BEFORE}:]"
            )

    def covers(self, other: "FactSource") -> bool:
        """Return whether each field of this source is empty or equal to the one of `other`."""
        return all(
            getattr(self, name) in (None, (), getattr(other, name)) for name in self.__slots__
        )


_latest_id = 0
_random = Random()  # noqa: S311 - an id is no secret
"""Seeded by the system, and in a forked child again. `os.urandom` takes four times as long."""

if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(after_in_child=_random.seed)


def new_id() -> str:
    """Return a random id that is greater than those made before in this process.

    The first 13 digits are the time in microseconds, so that of two facts of the same time the one
    that was made later counts.
    """
    global _latest_id  # noqa: PLW0603 - threads may share a time; the rest is random
    now = time_ns() // 1000
    _latest_id = now = now if now > _latest_id else _latest_id + 1
    # As one number: to join two strings takes a fifth more.
    return (now << 76 | _random.getrandbits(72)).to_bytes(16, "big").hex()


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
    """From this time on, loads do not return the fact: how long to keep it, not how long it
    holds."""
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
                raise InputValueError("importance must be a number from 0 to 1: importance=0.8")
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
            raise InputValueError("until must be after since: since='2026-05', until='2026-08'")

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


def _misfit(concept: Concept[Any, Any], fact: str, other: str) -> InputValueError:
    """Return the error for a concept of the other kind; raise `TypeError` if it is no concept."""
    expect(concept, Concept, "concept", f'{fact}(Concept("theme", "The IDE theme"), ...)')
    many = "many values" if fact == "SingleFact" else "one value"
    return InputValueError(f"The concept {concept.keyword!r} has {many}: use {other}")


@final
@dataclass(frozen=True, slots=True, repr=False, init=False)
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
            self, concept: "Concept[T, SingleFact[T]]", value: T, **fields: Unpack["_Fields"]
        ) -> None: ...

    else:  # that of a dataclass sets each field by `object.__setattr__`

        def __init__(self, concept: object, value: object, **fields: Any) -> None:
            if "timestamp" not in fields:
                fields["timestamp"] = system_clock()
            if "id" not in fields:
                fields["id"] = new_id()
            object.__setattr__(self, "__class__", _StoredSingle)
            self.__init__(concept, value, **fields)
            self._check()

    def _check(self) -> None:
        concept = self.concept
        if getattr(concept, "fact_type", None) is not FactType.SINGLE:
            raise _misfit(concept, "SingleFact", "MultipleFacts")
        value = concept.codec.check(self.value, concept.keyword)
        if value is not self.value:
            object.__setattr__(self, "value", value)
        self._check_fields()

    def __repr__(self) -> str:
        return summary(self)

    @property
    def values(self) -> tuple[T, ...]:
        """Its one value as a tuple, so that both kinds of fact can be iterated."""
        return (self.value,)


@guided({"value": "a fact of many values has .values"})
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
            concept: "Concept[T, MultipleFacts[T]]",
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
            raise InputValueError(f"The fact about {keyword!r} needs at least one value")
        object.__setattr__(self, "values", values)
        self._check_fields()

    def __repr__(self) -> str:
        return summary(self)


Fact: TypeAlias = SingleFact[T] | MultipleFacts[T]
"""A fact of either kind, with values of one type."""
AnyConcept: TypeAlias = Concept[Any, Any]
L = TypeVar("L", bound=AnyFact, default=AnyFact)


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
    concepts: "Iterable[Concept[Any, Any] | type[Any]]", argument: str = "concepts"
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


class _StoredConcept(Generic[V, T]):
    __slots__ = Concept.__slots__

    def __init__(  # noqa: PLR0917 - as below
        self: Any,
        keyword: str,
        description: str,
        fact_type: FactType,
        value_type: object,
        detect: object = True,
        was: tuple[str, ...] = (),
        read: Callable[[Any], Any] | None = None,
        review: object = False,
    ) -> None:
        self.keyword = keyword
        self.description = description
        self.fact_type = fact_type
        self.value_type = value_type
        self.detect = bool(detect)
        self.was = was
        self.read = read
        self.review = bool(review)
        self.__class__ = Concept


class _StoredSingle(AnyFact):
    __slots__ = ("concept", "value")

    # Overrides the inherited methods of a frozen class, which reject assignments.
    __setattr__ = object.__setattr__
    __delattr__ = object.__delattr__

    def __init__(  # noqa: PLR0917 - keyword arguments would take a fifth of its time
        self: Any,
        concept: Concept[Any, Any],
        value: object,
        id: str,  # noqa: A002 - the name of the field
        timestamp: datetime,
        confirmed_at: datetime | None = None,
        importance: float = 0.5,
        expires_at: datetime | None = None,
        source: FactSource | None = None,
        metadata: Mapping[str, JsonValue] = NO_METADATA,
        since: When | None = None,
        until: When | None = None,
        state: FactState = FactState.STATED,
        actor: str | None = None,
        reason: str | None = None,
    ) -> None:
        self.concept = concept  # pyright: ignore[reportIncompatibleMethodOverride]
        self.value = value
        self.id = id
        self.timestamp = timestamp
        self.confirmed_at = confirmed_at
        self.importance = importance
        self.expires_at = expires_at
        self.source = source
        self.metadata = metadata
        self.since = since
        self.until = until
        self.state = state
        self.actor = actor
        self.reason = reason
        self.__class__ = SingleFact

    __init__.__qualname__ = "SingleFact.__init__"  # in the errors of wrong arguments


stored_concept: Callable[[str, str, FactType, object], Concept[Any, Any]] = cast(
    "Any", _StoredConcept
)
"""Creates a concept from its keyword, description, fact type and value type."""

stored_single: Callable[..., SingleFact[Any]] = cast("Any", _StoredSingle)
"""Creates a fact with one value; for the arguments see `_StoredSingle`."""
