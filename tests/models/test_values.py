"""Values to JSON and back; the contract of stores tests the kinds of values."""

import math
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field, JsonValue, SecretStr, field_serializer

from factmem.models._values import canonical, codec_of
from tests.tables import table

json_values: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(json_values)
def test_any_json_survives_a_round_trip(value: JsonValue) -> None:
    """Values are equal and keep their types, whatever the declared type."""
    for value_type in (Any, JsonValue):
        codec = codec_of(value_type)
        back = codec.load(codec.dump(codec.check(value, "k"), "k"))
        assert repr(back) == repr(value)


@given(json_values, json_values)
def test_canonical_forms_are_equal_when_the_json_is(one: JsonValue, other: JsonValue) -> None:
    """The order of keys does not count; the type and the sign of a number do."""
    assert (canonical(one) == canonical(other)) == (_told(one) == _told(other))
    assert canonical(one) == canonical(_turned(one))


def _told(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ",".join(f"{key!r}:{_told(value[key])}" for key in sorted(value)) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_told, value)) + "]"
    return repr(value)


def _turned(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _turned(value[key]) for key in reversed(value)}
    return [_turned(part) for part in value] if isinstance(value, list) else value


class Address(BaseModel):
    street: str


class Padded(BaseModel):
    """Serialises to JSON that it does not validate from."""

    text: str

    @field_serializer("text")
    def pad(self, text: str) -> str:
        return f"{text} "


class Unbounded(BaseModel):
    """Contains an infinity, which only pydantic reads from JSON."""

    model_config = ConfigDict(ser_json_inf_nan="constants")
    ratio: float


class Hidden(BaseModel):
    """Leaves a field out."""

    shown: int
    hidden: int = Field(default=0, exclude=True)


class Parent(BaseModel):
    child: Address


class Longer(Address):
    number: int


@dataclass
class Inexact:
    """Compares equal to everything."""

    number: int

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = None  # type: ignore[assignment]


def _cycle() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


REFUSED: dict[str, tuple[Any, Callable[[], Any]]] = {
    "not a number": (float, lambda: math.nan),
    "infinity": (Decimal, lambda: Decimal("Infinity")),
    "infinity as a constant": (Unbounded, lambda: Unbounded(ratio=math.inf)),
    "a secret": (SecretStr, lambda: SecretStr("1234")),
    "a serialiser that changes the value": (Padded, lambda: Padded(text="a")),
    "a field that is left out": (Hidden, lambda: Hidden(shown=1, hidden=2)),
    "a subclass, of which a part would be lost": (Address, lambda: Longer(street="a", number=1)),
    "a subclass inside": (Parent, lambda: Parent(child=Longer(street="a", number=1))),
    "another class that is equal": (Any, lambda: Inexact(1)),
    "a subclass of text": (Any, lambda: type("Loud", (str,), {})("a")),
    "a date of a zone that JSON does not name": (
        Any,
        lambda: datetime(2024, 1, 1, tzinfo=timezone(timedelta(hours=1), "CET")),
    ),
    "a tuple inside": (Any, lambda: {"a": (1,)}),
    "a set under Any": (Any, lambda: {1, 2}),
    "a cycle": (Any, _cycle),
}


@table("kind", REFUSED)
def test_a_value_that_would_change_raises(kind: str) -> None:
    """The error has the concept's name and what to do, and not the value."""
    value_type, make = REFUSED[kind]

    with pytest.raises(
        ValueError, match=r"'pin'.*value_type whose values can be stored as JSON"
    ) as caught:
        codec_of(value_type).dump(make(), "pin")

    assert "1234" not in str(caught.value)


@table(
    ("value_type", "value", "named"),
    [
        (int, "7", r"not a valid int \(int_type\)"),
        (int, True, r"not a valid int \(int_type\)"),
        (int, 1.0, r"not a valid int \(int_type\)"),
        (str, 7, r"not a valid str \(string_type\): .*value_type=int"),
        (str, b"a", r"not a valid str \(string_type\)"),
        (date, "2024-01-01", r"not a valid date \(date_type\)"),
        (Literal["a", "b"], "PIN 1234", r"not a valid Literal\['a', 'b'\] \(literal_error\)"),
        (Annotated[int, Field(ge=0)], -1, r"not a valid int \(greater_than_equal\)"),
        (list[int], ["PIN 1234"], r"not a valid list\[int\] \(int_type\)"),
        (Address, Padded(text="PIN 1234"), r"not a valid Address \(model_type\)"),
    ],
)
def test_values_are_validated_strictly(value_type: Any, value: object, named: str) -> None:
    """A value that pydantic would silently convert has the wrong type."""
    with pytest.raises(ValueError, match=f"The value for 'pin' is {named}") as caught:
        codec_of(value_type).check(value, "pin")

    assert "1234" not in str(caught.value)
    assert caught.value.__cause__ is None


@pytest.mark.parametrize(
    ("value_type", "plain", "named"),
    [
        (int, "PIN 1234", r"is not a valid int \(int_parsing\)"),
        (date, 7.5, r"is not a valid date"),
        (str, {"PIN": "1234"}, r"is not a valid str \(string_type\)"),
        (Address, {}, r"is not a valid Address \(missing\)"),
        (Annotated[Address | Padded, "pets"], {"PIN": 1234}, r"Address"),
    ],
)
def test_a_load_error_names_the_expected_type(value_type: Any, plain: Any, named: str) -> None:
    """It shows nothing of the stored value."""
    with pytest.raises(ValueError, match=named) as caught:
        codec_of(value_type).load(plain)

    assert "1234" not in str(caught.value)


@pytest.mark.parametrize("depth", [1, 100, 190])
def test_moderate_nesting_is_allowed(depth: int) -> None:
    """The limit is what every JSON parser supports."""
    value: Any = 1
    for _ in range(depth):
        value = [value]
    codec = codec_of(Any)

    assert codec.load(codec.dump(value, "k")) == value


@pytest.mark.parametrize("depth", [300, 5_000, 200_000])
def test_excessive_nesting_raises(depth: int) -> None:
    """The error is a ValueError, not a crash of the interpreter."""
    value: Any = 1
    for _ in range(depth):
        value = [value]

    with pytest.raises(ValueError, match="'k'"):
        codec_of(Any).dump(value, "k")


def test_codecs_are_cached() -> None:
    """This holds for hashable types; others get a codec each."""
    assert codec_of(int) is codec_of(int)
    assert codec_of(list[int]) is codec_of(list[int])
    odd = Annotated[int, Field(json_schema_extra={"a": [1]})]
    assert codec_of(odd).dump(codec_of(odd).check(7, "k"), "k") == 7


def test_literals_that_are_equal_in_python_are_distinct() -> None:
    """1 and True are the same dictionary key, but each type keeps its own codec."""
    assert codec_of(Literal[1]).load(1) is not True
    assert codec_of(Literal[True]).load(True) is True


def test_the_schema_and_the_store_use_names_not_aliases() -> None:
    """The schema in a prompt is the one that `load` parses and `dump` writes."""

    class Aliased(BaseModel):
        name: str = Field(alias="theName")

    codec = codec_of(Aliased)
    given = codec.check(Aliased(theName="Miso"), "pet")

    assert list(codec.json_schema()["properties"]) == ["name"]
    assert codec.dump(given, "pet") == {"name": "Miso"}
    assert codec.load({"name": "Miso"}) == given


def test_sets_in_a_dict_have_one_order_for_any_keys() -> None:
    """The JSON of a key may differ from its str, as for a datetime."""
    codec = codec_of(dict[datetime, set[int]])

    plain = codec.dump({datetime(2024, 1, 2, 3, 4, tzinfo=UTC): {8, 1}}, "days")

    assert plain == {"2024-01-02T03:04:00Z": [1, 8]}


PROGRAM = """
from dataclasses import dataclass
from pydantic import BaseModel, RootModel
from factmem.models._values import canonical, codec_of

Key = tuple[frozenset[str], int]

@dataclass(frozen=True)
class Team:
    name: str
    roles: frozenset[str]

class Tags(RootModel[set[str]]):
    pass

class Sheet(BaseModel):
    tags: list[Tags]

WORDS = [f"word {number}" for number in range(40)]
VALUES = {
    "set": (set[str], set(WORDS)),
    "sets in a set": (set[frozenset[str]], {frozenset(WORDS[at:at + 5]) for at in range(30)}),
    "sets in tuples in a set": (
        set[tuple[int, frozenset[str]]], {(at % 3, frozenset(WORDS[at:at + 5])) for at in range(30)}
    ),
    "dataclasses in a set": (
        set[Team], {Team("a", frozenset(WORDS[at:at + 5])) for at in range(9)}
    ),
    "sets in a list in a dict": (
        dict[str, list[frozenset[str]]], {"all": [frozenset(WORDS), frozenset(WORDS[:9])]}
    ),
    "sets in sets in sets": (
        frozenset[frozenset[frozenset[str]]],
        frozenset(
            {frozenset({frozenset(WORDS[at:at + 4]), frozenset(WORDS[at:])}) for at in range(9)}
        ),
    ),
    "sets by numbers in a dict": (dict[int, set[str]], {at: set(WORDS[at:]) for at in range(9)}),
    "a root model": (Tags, Tags(set(WORDS))),
    "root models in a model": (Sheet, Sheet(tags=[Tags(set(WORDS)), Tags(set(WORDS[:9]))])),
    "a set or a list": (set[str] | list[int], set(WORDS)),
}
for name, (kind, value) in VALUES.items():
    print(name, canonical(codec_of(kind).dump(value, "words")))
"""


@pytest.fixture(scope="module")
def printed() -> list[list[str]]:
    """Return the output of two processes with different hash seeds, one line per value."""
    outputs = [
        subprocess.run(
            [sys.executable, "-c", PROGRAM],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for seed in ("1", "2", "3")
    ]
    return [output.splitlines() for output in outputs]


@pytest.mark.storm
def test_sets_have_the_same_json_in_every_process(printed: list[list[str]]) -> None:
    first, *others = printed

    assert len(first) == 10
    for other in others:
        assert other == first
