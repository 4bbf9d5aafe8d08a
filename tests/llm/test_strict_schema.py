"""JSON schemas in OpenAI's strict subset: conversions, and schemas that cannot be converted."""

import json
from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from typing import Annotated, Any, Literal

import pytest
from openai.lib._pydantic import to_strict_json_schema
from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema

from factmem.llm.extraction import AnswerType, strict_schema
from tests.tables import table


class Point(BaseModel):
    x: int
    y: Annotated[float, Field(ge=0, multiple_of=2)] = 4


class Line(BaseModel):
    points: list[Point]
    label: str | None = None
    kind: Literal["solid", "dashed"]


class Tree(BaseModel):
    name: str
    children: list["Tree"] = []


class Noted(BaseModel):
    point: Point = Field(description="where it is")


class NotedTree(BaseModel):
    parent: "NotedTree | None" = None
    next: "NotedTree" = Field(description="a reference to itself with words beside it")


class Cat(BaseModel):
    kind: Literal["cat"]


class Dog(BaseModel):
    kind: Literal["dog"]


class Pets(BaseModel):
    pets: list[Annotated[Cat | Dog, Field(discriminator="kind")]]


class Loose(BaseModel):
    model_config = ConfigDict(extra="allow")
    name: str


class Constrained(BaseModel):
    born: date
    price: Decimal
    code: Annotated[str, Field(min_length=2, pattern="^[a-z]+$")]
    odd: Annotated[str, WithJsonSchema({"type": "string", "pattern": "^(?!x)"})]
    path: Annotated[str, Field(json_schema_extra={"format": "path", "examples": ["a"]})]


def strict(output_type: Any) -> dict[str, Any] | None:
    return strict_schema(AnswerType[Any](output_type).schema)


def nodes(schema: Any) -> Iterator[dict[str, Any]]:
    """Yield every schema inside a schema."""
    if isinstance(schema, dict):
        yield schema
        for key, value in schema.items():
            inner = value.values() if key in {"properties", "$defs"} else [value]
            for part in inner:
                yield from nodes(part)
    elif isinstance(schema, list):
        for part in schema:
            yield from nodes(part)


def without(schema: Any, *keys: str) -> Any:
    """Return a schema without some keywords, with its definitions in one order."""
    if isinstance(schema, list):
        return [without(part, *keys) for part in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: {name: without(part, *keys) for name, part in value.items()}
        if key in {"properties", "$defs"}
        else without(value, *keys)
        for key, value in schema.items()
        if key not in keys
    }


@pytest.mark.parametrize("model", [Point, Line, Noted, Tree])
def test_it_equals_the_conversion_of_the_openai_package(model: type[BaseModel]) -> None:
    """This holds where that conversion gives a schema that its endpoint accepts."""
    theirs = without(to_strict_json_schema(model), "title", "default")
    if "$ref" in theirs:
        theirs |= theirs["$defs"][theirs.pop("$ref").removeprefix("#/$defs/")]

    assert strict(model) == theirs


@table(
    "output_type",
    [Point, Line, Noted, Tree, Pets, Constrained, list[Point], int, str | None, Cat | Dog,
     Literal["a", "b"], date],
)  # fmt: skip
def test_every_object_is_closed_and_complete(output_type: Any) -> None:
    """The root is an object, and no part of it is refused by the endpoint."""
    schema = strict(output_type)

    assert schema is not None
    assert schema["type"] == "object"
    for node in nodes(schema):
        assert not {"oneOf", "allOf", "default", "discriminator", "minLength"} & node.keys()
        assert "$ref" not in node or len(node) == 1
        if node.get("type") == "object":
            assert node["additionalProperties"] is False
            assert node["required"] == list(node["properties"])


@table(
    "output_type",
    [dict[str, int], Loose, tuple[int, str], Any, list[Any], dict[str, Any], Literal["a", 1],
     NotedTree, object],
    ids=repr,
)  # fmt: skip
def test_a_shape_beyond_the_subset_has_no_strict_schema(output_type: Any) -> None:
    """It is requested with the plain schema, and pydantic validates the answer."""
    wanted = AnswerType[Any](output_type)

    assert strict_schema(wanted.schema) is None
    assert wanted.schema["type"] == "object"


def test_constraints_outside_the_subset_are_left_to_pydantic() -> None:
    """The rest of a schema with a lookaround pattern or an unusual format is still sent."""
    schema = strict(Constrained)

    assert schema is not None
    assert schema["properties"] == {
        "born": {"type": "string", "format": "date"},
        "price": {"anyOf": [{"type": "number"}, {"type": "string"}]},
        "code": {"type": "string", "pattern": "^[a-z]+$"},
        "odd": {"type": "string"},
        "path": {"type": "string"},
    }


@pytest.mark.parametrize(
    ("output_type", "name"),
    [(Point, "Point"), (list[Point], "list"), (Literal["a"], "Literal"), (Cat | Dog, "answer")],
)
def test_the_schema_has_a_name_that_the_endpoint_accepts(output_type: Any, name: str) -> None:
    """It has letters, digits, underscores and hyphens, 64 at most."""
    assert AnswerType[Any](output_type).name == name


def test_a_long_or_non_ascii_name_is_converted() -> None:
    """Python allows letters in names that the endpoint refuses."""
    model = type("Préférence" * 10, (Point,), {"__module__": __name__})

    name = AnswerType[Any](model).name

    assert name == ("Pr_f_rence" * 10)[:64]
    assert json.dumps(name) == f'"{name}"'
