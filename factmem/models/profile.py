"""Profile: a memory shaped like a class.

Its fields are concepts, and an instance has their values.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from operator import itemgetter
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeAlias, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr
from pydantic.errors import PydanticUndefinedAnnotation
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined
from typing_extensions import TypeVar

from factmem.errors import InputTypeError, InputValueError, StoredFactError
from factmem.models._values import checked_text
from factmem.models.facts import AnyConcept, AnyFact, Concept, FactType

__all__ = ["Profile", "remembered"]

POSITIONS = "list-positions"
"""The metadata of a value of a list whose order was set: its positions in the list."""


@dataclass(frozen=True)
class _Origin:
    """Where an instance was loaded from; it does not count when instances are compared."""

    facts: Mapping[str, tuple[AnyFact, ...]] = field(default_factory=dict, compare=False)
    unreadable: Mapping[str, StoredFactError] = field(default_factory=dict, compare=False)


class _Remembered:
    """The mark of a remembered field, in the metadata of its pydantic field."""

    def __init__(self, keyword: str | None, options: Mapping[str, Any]) -> None:
        self.keyword = keyword
        self.options = options


def remembered(
    description: str,
    *,
    default: Any = None,
    keyword: str | None = None,
    detect: bool = True,
    was: Iterable[str] = (),
    read: Callable[[Any], Any] | None = None,
) -> Any:
    """Return the definition of a `Profile`'s field that is a concept.

        home_city: str | None = remembered("The city where the user lives")

    Args:
        description: One sentence for people and models.
        default: The value without a fact; None, or an empty list or set, by default.
        keyword: The concept's keyword; by default the field's name with hyphens, `home-city`.
        detect: See `Concept`.
        was: See `Concept`.
        read: See `Concept`.
    """
    info = Field(default=default, description=checked_text(description, "description"))
    mark = _Remembered(keyword, {"detect": detect, "was": tuple(was), "read": read})
    info.metadata.append(mark)
    return info


class Profile(BaseModel):
    """A pydantic model whose remembered fields are concepts.

        class Traveller(Profile):
            home_city: str | None = remembered("The city where the user lives")
            pets: list[Pet] = remembered("The user's pets")

        me = await memory.current(Traveller)
        async with memory.edit(Traveller) as me:
            me.home_city = "Busan"

    A field that is a list, set or tuple of any length has many values, any other has one: also a
    nested model, and a tuple of a fixed length. A list keeps its order and duplicates. Fields
    without `remembered` are not stored. The class is accepted wherever concepts are. Assignments
    are validated, and unknown fields raise `ValueError`; errors do not quote values. `del me.diet`
    sets a field to its default, and in `edit` forgets its value.

    Raises `TypeError` when the class is made and no field is remembered, or a remembered field has
    no default that fits.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(
        validate_assignment=True, defer_build=True, hide_input_in_errors=True, extra="forbid"
    )

    _origin: _Origin = PrivateAttr(default_factory=_Origin)
    _concepts: ClassVar[Mapping[str, AnyConcept]] = {}

    if not TYPE_CHECKING:  # pydantic's own refuses to delete a field

        def __delattr__(self, name: str) -> None:
            if name not in self._concepts:
                super().__delattr__(name)
                return
            info = type(self).model_fields[name]
            self.__dict__[name] = info.get_default(call_default_factory=True)
            self.__pydantic_fields_set__.discard(name)

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        super().__pydantic_init_subclass__(**kwargs)
        try:
            cls.model_rebuild()
        except PydanticUndefinedAnnotation as exc:
            raise InputTypeError(
                f"{cls.__name__} has a field of a type that is not defined yet, {exc.name}: define "
                "the type before the class"
            ) from None
        concepts: dict[str, AnyConcept] = {}
        is_changed = False
        for name, info in cls.model_fields.items():
            mark = next((each for each in info.metadata if isinstance(each, _Remembered)), None)
            if mark is not None:
                concepts[name] = _concept(name, info, mark)
                is_changed |= _has_new_default(cls, name, info, concepts[name])
        if not concepts:
            raise InputTypeError(
                f"{cls.__name__} has no remembered field, so nothing of it would be stored: "
                '`home_city: str | None = remembered("The city where the user lives")`'
            )
        cls._concepts = concepts
        if is_changed:
            cls.model_rebuild(force=True)

    @classmethod
    def profile_concepts(cls) -> dict[str, AnyConcept]:
        """Return the concepts of the remembered fields, by the name of the field."""
        return dict(cls._concepts)

    def profile_facts(self, field: str) -> tuple[AnyFact, ...]:
        """Return the facts that a loaded field has its values from, for `memory.why`.

        Raises:
            ValueError: There is no such remembered field.
        """
        if field not in self._concepts:
            raise InputValueError(f"{type(self).__name__} has no remembered field {field!r}")
        return self._origin.facts.get(field, ())

    @property
    def profile_unreadable(self) -> dict[str, StoredFactError]:
        """The fields with a stored value that does not fit, by name.

        It is left out, and stays stored.
        """
        return dict(self._origin.unreadable)


Concepts: TypeAlias = Iterable[Concept[Any, Any] | type[Profile]]
"""Concepts, and profiles that stand for those of their fields."""

P = TypeVar("P", bound=Profile)


def loaded_profile(
    profile: type[P],
    facts: Mapping[str, tuple[AnyFact, ...]],
    unreadable: Mapping[str, StoredFactError],
) -> P:
    """Return an instance with the values of facts, by the name of the field.

    Raises:
        ValidationError: A validator of the class refuses the values.
    """
    values: dict[str, Any] = {}
    for name, concept in profile.profile_concepts().items():
        found = _loaded(facts.get(name, ()), in_order=is_ordered(profile, name))
        if found:
            values[name] = found if concept.fact_type is FactType.MULTIPLE else found[0]
    loaded = profile.model_validate(values, by_name=True, by_alias=False)
    loaded._origin = _Origin(facts, unreadable)  # pyright: ignore[reportPrivateUsage]
    return loaded


def values_of(profile: Profile) -> dict[str, list[Any]]:
    """Return the values of each remembered field; none for None."""
    found: dict[str, list[Any]] = {}
    for name, concept in profile.profile_concepts().items():
        value = getattr(profile, name)
        if value is None:
            found[name] = []
        else:
            found[name] = list(value) if concept.fact_type is FactType.MULTIPLE else [value]
    return found


def is_ordered(profile: type[Profile], name: str) -> bool:
    """Return whether a field keeps the order of its values: a list or a tuple of any length."""
    value_type = _without_none(profile.model_fields[name].annotation)
    return _is_many(value_type) and (get_origin(value_type) or value_type) in (list, tuple)


def _loaded(facts: Iterable[AnyFact], *, in_order: bool) -> list[Any]:
    """Return the values of facts: those with positions in their order, the others after them."""
    if not in_order:
        return [value for fact in facts for value in fact.values]
    placed: list[tuple[int, Any]] = []
    others: list[Any] = []
    for fact in facts:
        given: Any = fact.metadata.get(POSITIONS)
        if isinstance(given, list):
            placed += [(position, value) for position in given for value in fact.values]
        else:
            others += fact.values
    return [value for _, value in sorted(placed, key=itemgetter(0))] + others


def _concept(name: str, info: FieldInfo, mark: _Remembered) -> AnyConcept:
    keyword = name.replace("_", "-") if mark.keyword is None else mark.keyword
    value_type = _without_none(info.annotation)
    args = get_args(value_type)
    if _is_many(value_type):
        item: Any = args[0] if args else Any
        kind = FactType.MULTIPLE
    else:
        limits = tuple(each for each in info.metadata if each is not mark)
        item = Annotated[(value_type, *limits)] if limits else value_type
        kind = FactType.SINGLE
    assert info.description is not None  # noqa: S101 - `remembered` gives one
    return Concept(keyword, info.description, kind, value_type=item, **mark.options)


def _is_many(value_type: Any) -> bool:
    origin = get_origin(value_type) or value_type
    if origin is tuple:
        return get_args(value_type)[1:] == (...,)
    return origin in (list, set, frozenset)


def _without_none(annotation: Any) -> Any:
    if get_origin(annotation) not in (Union, UnionType):
        return annotation
    rest = tuple(each for each in get_args(annotation) if each is not NoneType)
    return rest[0] if len(rest) == 1 else Union[rest]  # noqa: UP007 - from a tuple


def _has_new_default(
    profile: type[Profile], name: str, info: FieldInfo, concept: AnyConcept
) -> bool:
    """Give a field with many values an empty default; return whether it was changed."""
    if info.default is not None:
        return False
    annotation: Any = info.annotation
    if annotation is Any or NoneType in get_args(annotation):
        return False
    if concept.fact_type is FactType.SINGLE:
        raise InputTypeError(
            f"The field {name!r} of {profile.__name__} needs a value for a user without one: "
            f"`{name}: ... | None`, or remembered(..., default=...)"
        )
    info.default, info.default_factory = PydanticUndefined, get_origin(annotation) or annotation
    return True
