"""Accepted and refused values."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum, IntEnum
from typing import Annotated, Any, Literal
from uuid import UUID

import pytest
from pydantic import BaseModel, Field, SecretStr

from factmem.models.facts import Concept, FactType, MultipleFacts, SingleFact
from factmem.providers.base import AgentMemoryProvider
from factmem.testing._facts import AGENT, USER, languages, theme

STRINGS = [
    "",
    " ",
    "naïve ☃ 다크 👩‍👩‍👧",
    "café",
    "cafe\u0301",
    "a\nb\r\n\u2028\u0085c",
    '{"not": "json"}',
    "\x00\x7f",
    "'; DROP TABLE facts; --",
    "x" * 100_000,
]


class Colour(Enum):
    """An enum of strings."""

    RED = "red"


class Level(IntEnum):
    """A choice whose values are numbers."""

    HIGH = 3


class Street(BaseModel):
    """A part of an address, with names that differ from its fields'."""

    name: str = Field(validation_alias="street", serialization_alias="streetName")
    number: int | str

    model_config = {"populate_by_name": True}


class Address(BaseModel):
    """A model in a model, with an optional part."""

    street: Street
    since: date | None = None


class Cat(BaseModel):
    """One kind of pet."""

    kind: Literal["cat"] = "cat"
    lives: int


class Dog(BaseModel):
    """Another kind of pet."""

    kind: Literal["dog"] = "dog"
    lives: int


@dataclass(frozen=True)
class Point:
    """A standard dataclass."""

    x: int
    y: int


Pet = Annotated[Cat | Dog, Field(discriminator="kind")]

TYPED: list[tuple[Any, Any]] = [
    (str, "text"),
    (int, 2**70),
    (int, -(2**70)),
    (float, 0.1 + 0.2),
    (float, 1.0),
    (float, -0.0),
    (bool, True),
    (None, None),
    (Decimal, Decimal("1.10")),
    (date, date(2024, 2, 29)),
    (datetime, datetime(2024, 2, 29, 23, 59, 59, 999999, tzinfo=UTC)),
    (timedelta, timedelta(days=-1, microseconds=1)),
    (bytes, b"ascii"),
    (UUID, UUID(int=7)),
    (Colour, Colour.RED),
    (Level, Level.HIGH),
    (Literal["light", 7], 7),
    (int | str, "7"),
    (list[int], [3, 1, 2, 2**64]),
    (dict[str, list[float]], {"b": [1.0], "a": []}),
    (tuple[int, str], (1, "one")),
    (Any, {"a": [1, 1.5, "x", None, True, {"b": 2**64}]}),
    (Address, Address(street=Street(name="Hauptstraße", number="7a"), since=date(2020, 1, 1))),
    (Pet, Dog(lives=1)),
    (list[Pet], [Cat(lives=9), Dog(lives=1)]),
    (Point, Point(1, 2)),
    (Annotated[int, Field(ge=0)], 5),
]


TYPED_IDS = [f"{number} {type(value).__name__}" for number, (_, value) in enumerate(TYPED)]


def nested(depth: int) -> object:
    """Return a list in a list in a list."""
    value: object = 1
    for _ in range(depth):
        value = [value]
    return value


REFUSED: dict[str, tuple[Any, Callable[[], object]]] = {
    "not a number": (float, lambda: math.nan),
    "infinity": (float, lambda: math.inf),
    "infinity inside": (dict[str, float], lambda: {"a": -math.inf}),
    "NaN under Any": (Any, lambda: [math.nan]),
    "a secret": (SecretStr, lambda: SecretStr("PIN 1234")),
    "a lone surrogate": (str, lambda: "\ud800"),
    "a lone surrogate inside": (list[str], lambda: ["\udfff"]),
    "nesting beyond reason": (Any, lambda: nested(300)),
    "a tuple under Any": (Any, lambda: (1, 2)),
    "a date under Any": (Any, lambda: date(2024, 1, 1)),
    "a set under Any": (Any, lambda: {1}),
    "a key that is not a string, under Any": (Any, lambda: {1: "one"}),
    "bytes that are not UTF-8": (bytes, lambda: b"\xff"),
    "what pydantic cannot write": (Any, object),
}


class Values:
    """Values are returned as they were saved; values that would change raise an error."""

    @pytest.mark.parametrize("text", STRINGS, ids=ascii)
    async def test_any_text_survives(self, provider: AgentMemoryProvider, text: str) -> None:
        """A provider neither trims, normalizes nor escapes values."""
        await provider.save(theme(text), USER, AGENT)
        await provider.save(languages(text, "other"), USER, AGENT)

        loaded = await provider.load_all(USER, AGENT)

        assert [fact.values for fact in loaded] == [(text,), (text, "other")]

    @pytest.mark.parametrize(("value_type", "value"), TYPED, ids=TYPED_IDS)
    async def test_any_type_survives(
        self, provider: AgentMemoryProvider, value_type: Any, value: object
    ) -> None:
        """Equal and of the same type, alone and among others."""
        one = Concept("one", "One value", FactType.SINGLE, value_type=value_type)
        many = Concept("many", "Many values", FactType.MULTIPLE, value_type=value_type)
        await provider.save(SingleFact(one, value), USER, AGENT)
        await provider.save(MultipleFacts(many, (value,)), USER, AGENT)

        (single,) = await provider.load(one, USER, AGENT)
        (multiple,) = await provider.load(many, USER, AGENT)

        assert single.values == multiple.values == (value,)
        assert {type(v) for v in (*single.values, *multiple.values)} == {type(value)}

    @pytest.mark.parametrize("kind", REFUSED)
    async def test_a_value_that_would_change_raises(
        self, provider: AgentMemoryProvider, kind: str
    ) -> None:
        """Before anything is written, with an error that names the concept and no value."""
        value_type, make = REFUSED[kind]
        concept = Concept("strange", "Anything", FactType.SINGLE, value_type=value_type)

        with pytest.raises(ValueError, match="'strange'") as caught:
            await provider.save(SingleFact(concept, make()), USER, AGENT)

        assert "1234" not in str(caught.value)
        assert await provider.load_all(USER, AGENT) == []
