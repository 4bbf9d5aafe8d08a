"""Comparison of the types of two definitions: whether the newer one can read all older values."""

from enum import Enum
from typing import Annotated, Any, Literal

from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from factmem.models._definition_changes import (
    accepts,
    bare_schema,
    compared,
    definition_of,
    taken_over,
)
from factmem.models.facts import Concept, FactType
from tests.properties import examples
from tests.tables import table


class Pet(BaseModel):
    """A pet."""

    name: str


class OldPet(BaseModel):
    """A pet without a species."""

    name: str
    age: int = 0


class NewPet(BaseModel):
    """A pet with one that need not be given."""

    name: str
    age: float = 0
    species: str | None = None


class StrictPet(BaseModel, extra="forbid"):
    """A pet that accepts no other field."""

    name: str


class NeedyPet(BaseModel):
    """A pet with a field that older values lack."""

    name: str
    owner: str


class Node(BaseModel):
    """A recursive type."""

    children: list["Node"] = []


class Diet(Enum):
    """Values of an enumeration."""

    VEGAN = "vegan"
    ALL = "all"


def schema(value_type: Any) -> dict[str, Any]:
    """Return the bare schema of a type."""
    return bare_schema(TypeAdapter(value_type).json_schema())


WIDER: list[tuple[Any, Any]] = [
    (str, str),
    (str, Literal["a", "b"]),
    (Literal["a", "b", "c"], Literal["a", "b"]),
    (str, Diet),
    (float, int),
    (Any, Pet),
    (int | None, int),
    (str | int, Literal["a"] | int),
    (str, Annotated[str, Field(max_length=3)]),
    (list[float], list[int]),
    (dict[str, float], dict[str, int]),
    (NewPet, OldPet),
    (NewPet | None, Pet),
    (Pet, OldPet),
    (Node, Node),
    (list[NewPet], list[OldPet]),
]


@table(("new", "old"), WIDER)
def test_a_wider_type_accepts_older_values(new: Any, old: Any) -> None:
    """Additions, alternatives and dropped limits are compatible."""
    assert accepts(schema(new), schema(old))


NARROWER: list[tuple[Any, Any]] = [
    (Literal["a", "b"], Literal["a", "b", "c"]),
    (Literal["a"], str),
    (int, float),
    (int, str),
    (int, int | None),
    (Annotated[str, Field(max_length=3)], str),
    (list[int], list[float]),
    (list[int], int),
    (dict[str, int], dict[str, float]),
    (dict[str, int], Pet),
    (OldPet, NewPet),
    (NeedyPet, Pet),
    (StrictPet, OldPet),
    (list[NewPet | None] | int, list[Pet] | Pet),
    (Pet, Any),
    (Annotated[str, Field(max_length=3)], Literal["abcd"]),
]


@table(("new", "old"), NARROWER)
def test_a_narrower_type_does_not(new: Any, old: Any) -> None:
    """A value that it cannot read may be stored."""
    assert not accepts(schema(new), schema(old))


TYPES: list[Any] = list({repr(each): each for pair in WIDER + NARROWER for each in pair}.values())
VALUES: list[Any] = [
    "a", "b", "c", "abcd", "vegan", 1, 1.5, None, [], [1], [1.5], {"name": "Miso"}, {"x": 1.5},
    {"name": "Miso", "age": 1}, {"name": "Miso", "age": 1.5}, {"children": [{"children": []}]},
]  # fmt: skip


@settings(max_examples=examples(300))
@given(st.sampled_from(TYPES), st.sampled_from(TYPES), st.sampled_from(VALUES))
def test_what_is_accepted_can_be_read(new: Any, old: Any, value: Any) -> None:
    """No stored value of a type that is accepted is unreadable."""
    if not accepts(schema(new), schema(old)):
        return
    older = TypeAdapter(old)
    try:
        stored = older.dump_json(older.validate_python(value, strict=True))
    except ValidationError:
        try:
            stored = older.dump_json(older.validate_json(TypeAdapter(Any).dump_json(value)))
        except ValidationError:
            return
    TypeAdapter(new).validate_json(stored)


def test_titles_and_descriptions_are_no_difference() -> None:
    """Names of fields that look like such keywords stay."""

    class Book(BaseModel):
        """A book."""

        title: str = Field("", description="Its title")

    assert schema(Book) == {"type": "object", "properties": {"title": {"type": "string"}}}


OLD: list[Concept[Any, Any]] = [
    Concept("pet", "A pet"),
    Concept("home-city", "A city"),
    Concept("diet", "A diet"),
]
NEW: list[Concept[Any, Any]] = [
    Concept("pet", "Pets", FactType.MULTIPLE),
    Concept("city", "A city", was=["home-city"]),
    Concept("language", "A language", value_type=Literal["en", "ko"]),
]


def test_a_program_is_told_how_its_concepts_differ() -> None:
    """The older of two versions is told; both see the concepts of the other."""
    known = taken_over({}, OLD)
    known |= taken_over(known, NEW)

    def differences(concepts: list[Concept[Any, Any]]) -> dict[str, str]:
        found = compared(known, {each.keyword: each for each in concepts})
        return {each.keyword: each.differs for each in found if each.differs}

    assert differences(NEW) == {}
    assert {keyword: text[:20] for keyword, text in differences(OLD).items()} == {
        "home-city": "It is a former keywo",
        "pet": "It has many values: ",
    }
    assert (known["city"].version, known["city"].was) == (2, ("home-city",))
    narrow = Concept("language", "A language", value_type=Literal["en"])
    assert list(differences([narrow])) == ["language"]
    assert taken_over(known, [*OLD, narrow]) == {}


def test_a_type_without_a_schema_accepts_anything() -> None:
    """It can be stored nevertheless."""
    concept = Concept("any", "Anything", value_type=type[int])

    assert definition_of(concept).json_schema == {}
