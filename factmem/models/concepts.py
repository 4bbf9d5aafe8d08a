"""Concepts: what a fact is about, and of which type its values are.

The codec of a concept validates its values, and reads stored ones. The overloads are for type
checkers: they infer the kind of fact that a load returns.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import FrozenInstanceError, dataclass, field
from enum import StrEnum
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Generic, Literal, overload

from pydantic.errors import PydanticUserError
from pydantic_core import SchemaError
from typing_extensions import TypedDict, TypeForm, TypeVar, Unpack

from factmem._arguments import expect_all, expect_member, kind_of
from factmem.models._display import Displayed
from factmem.models._names import checked_name, checked_text
from factmem.models._values import JsonValue, ValueCodec, canonical, codec_of

if TYPE_CHECKING:
    from factmem.models.facts import AnyFact, MultipleFacts, SingleFact

__all__ = ["Concept", "ConceptDefinition", "FactType"]


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


class _Options(TypedDict, total=False):
    detect: bool
    was: Iterable[str]
    read: Callable[[Any], Any] | None
    review: bool


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
            models see them and cannot change them.
        was: Its former keywords. Loads, histories and forgettings include their facts, until
            `memory.contents.rename` has given them the new keyword. Saves write the new keyword.
        read: Returns the value for a stored one that does not fit `value_type`, given as plain JSON:
            values that were saved with an older type. An exception means that it has none.
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
    value_type: TypeForm[T]
    detect: bool
    was: tuple[str, ...]
    read: Callable[[Any], T] | None
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
        self: "Concept[Any, SingleFact[Any] | MultipleFacts[Any]]",
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
        example = "was=['old-keyword']"
        former = expect_all(was, str, "was", example) if was else ()
        put(self, "was", tuple(checked_name(each, "keyword in was") for each in former))
        if self.keyword in self.was:
            raise ValueError(f"was must not contain the keyword itself, {keyword!r}: {example}")
        if read is not None and not callable(read):
            raise TypeError(f"read must be a function, not {kind_of(read)}: read=int")
        put(self, "read", read)
        put(self, "review", bool(review))

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
        try:
            return codec_of(self.value_type, self.read)
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
        return (*self._state(), self.detect, self.was, self.read, self.review)

    def __setstate__(self, state: tuple[object, ...]) -> None:
        for name, value in zip(_PICKLED, state, strict=True):
            object.__setattr__(self, name, value)

    def _state(self) -> tuple[str, str, FactType, object]:
        return self.keyword, self.description, self.fact_type, self.value_type


_TEXT = codec_of(str)

_PICKLED = (
    "keyword", "description", "fact_type", "value_type", "detect", "was", "read", "review",
)  # fmt: skip


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
