"""Functions as tools: their schema, arguments and results."""

import functools
from collections.abc import Awaitable, Callable
from datetime import date
from enum import Enum
from threading import get_ident
from typing import Annotated, Any, Literal, Optional

import anyio
import pytest
from pydantic import BaseModel, Field, SecretStr

from factmem.agent.context import AgentContext
from factmem.agent.tools import Tool, ToolError, tools_by_name
from factmem.testing.chat import ScriptedChatModel
from tests.tables import table
from tests.world import ALICE


class Address(BaseModel):
    """Where something is sent."""

    street: str = Field(description="With the number of the house")
    city: str


class Size(Enum):
    SMALL = "small"
    LARGE = "large"


class Node(BaseModel):
    name: str
    children: list["Node"] = []


def order(
    product: Annotated[str, Field(description="Its name in the catalogue", min_length=1)],
    to: Address,
    size: Size,
    speed: Literal["slow", "fast"] = "slow",
    extras: list[str] | None = None,
    on: Optional[date] = None,  # noqa: UP045 - both spellings are to work
    note: str = "",
) -> str:
    """Order something
    from the shop.

    The second paragraph is for readers of the code.

    Args:
        product: Not this, as the hint says it already.
        to: Whereto.
        speed (str): How fast: "fast" costs more,
            and goes by air.
        on: The day; as soon as possible if not given.

    Returns:
        The number of the order.
    """
    return f"{product} {to.city} {size.value} {speed} {extras} {on!r} {note}"


CONTEXT = AgentContext("Hello", chat_model=ScriptedChatModel(), subjects=[ALICE])


def parameters(function: Callable[..., object]) -> dict[str, Any]:
    definition: Any = Tool(function).definition
    schema: dict[str, Any] = definition["function"]["parameters"]
    return schema


def test_the_definition_of_a_tool() -> None:
    """Type hints and docstring become the schema that an endpoint gets."""
    assert Tool(order).definition == {
        "type": "function",
        "function": {
            "name": "order",
            "description": "Order something from the shop.",
            "parameters": {
                "type": "object",
                "properties": {
                    "product": {
                        "type": "string",
                        "minLength": 1,
                        "description": "Its name in the catalogue",
                    },
                    "to": {"$ref": "#/$defs/Address", "description": "Whereto."},
                    "size": {"$ref": "#/$defs/Size"},
                    "speed": {
                        "type": "string",
                        "enum": ["slow", "fast"],
                        "default": "slow",
                        "description": 'How fast: "fast" costs more, and goes by air.',
                    },
                    "extras": {
                        "anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}],
                        "default": None,
                    },
                    "on": {
                        "anyOf": [{"type": "string", "format": "date"}, {"type": "null"}],
                        "default": None,
                        "description": "The day; as soon as possible if not given.",
                    },
                    "note": {"type": "string", "default": ""},
                },
                "required": ["product", "to", "size"],
                "additionalProperties": False,
                "$defs": {
                    "Address": {
                        "title": "Address",
                        "description": "Where something is sent.",
                        "type": "object",
                        "properties": {
                            "street": {
                                "type": "string",
                                "description": "With the number of the house",
                            },
                            "city": {"type": "string"},
                        },
                        "required": ["street", "city"],
                    },
                    "Size": {"title": "Size", "type": "string", "enum": ["small", "large"]},
                },
            },
        },
    }


def nothing() -> None: ...


def test_a_function_without_parameters_and_docstring_has_a_schema() -> None:
    """Endpoints require an object with properties, even if there are none."""
    assert Tool(nothing).definition == {
        "type": "function",
        "function": {
            "name": "nothing",
            "parameters": {"type": "object", "properties": {}, "additionalProperties": False},
        },
    }


def test_recursive_types_have_a_schema() -> None:
    """The model can pass a tree."""

    def plant(tree: Node) -> str:
        return tree.children[0].name

    assert parameters(plant)["properties"] == {"tree": {"$ref": "#/$defs/Node"}}


def test_parameters_may_have_names_of_pydantic_methods() -> None:
    """`copy`, `json` and `schema` are good names for a parameter."""

    def keep(copy: int, json: str, schema: bool, model_config: str, self: str) -> None: ...

    assert list(parameters(keep)["properties"]) == [
        *("copy", "json", "schema", "model_config", "self")
    ]


async def test_arguments_have_their_declared_types() -> None:
    """The function need not check or convert anything, and its defaults apply."""
    given = (
        '{"product": "tea", "to": {"street": "Hauptstr. 1", "city": "Bonn"}, "size": "large",'
        ' "extras": ["honey"], "on": "2026-01-02"}'
    )

    told = await Tool(order).call(given, CONTEXT)

    assert told == "tea Bonn large slow ['honey'] datetime.date(2026, 1, 2) "


async def test_defaults_of_any_kind_stay_the_functions_own() -> None:
    """A default that has no JSON is not shown, but used."""
    marker = object()

    def look(thing: Annotated[Any, Field(description="Anything")] = marker) -> str:
        return "default" if thing is marker else "given"

    assert parameters(look)["properties"] == {"thing": {"description": "Anything"}}
    assert await Tool(look).call("{}", CONTEXT) == "default"
    assert await Tool(look).call('{"thing": null}', CONTEXT) == "given"


@pytest.mark.parametrize(
    ("arguments", "lines"),
    [
        ("{}", ["- city: Field required", "- days: Field required"]),
        (
            '{"city": 3, "days": "many"}',
            [
                "- city: Input should be a valid string",
                "- days: Input should be a valid integer, unable to parse string as an integer",
            ],
        ),
        (
            '{"city": "Bonn", "days": 1, "unit": "kelvin"}',
            ["- unit: Input should be 'celsius' or 'fahrenheit'"],
        ),
        ('{"city": "Bonn", "days": 1, "admin": true}', ["- admin: Extra inputs are not permitted"]),
        (
            '{"city": "Bonn", "days": 1, "around": [{"street": "x"}]}',
            ["- around.0.city: Field required"],
        ),
    ],
)
async def test_a_bad_call_returns_field_and_expected_type(arguments: str, lines: list[str]) -> None:
    """The model can correct it; the function is not called."""
    seen: list[str] = []

    def forecast(
        city: str,
        days: int,
        unit: Literal["celsius", "fahrenheit"] = "celsius",
        around: list[Address] | None = None,
    ) -> None:
        seen.append(city)

    told = await Tool(forecast).call(arguments, CONTEXT)

    assert told.splitlines() == [
        "Error: the tool was not called. These arguments do not fit:",
        *lines,
        "Call it again with all arguments put right.",
    ]
    assert seen == []


@table("arguments", ["nope", "[]", '"text"', '{"city": "Bo', "null", "3"])
async def test_arguments_that_are_not_an_object_return_an_error(arguments: str) -> None:
    """Small models write these; the answer is the same short sentence."""

    def forecast(city: str) -> None: ...

    told = await Tool(forecast).call(arguments, CONTEXT)

    assert told == "Error: the tool was not called. Its arguments must be one JSON object."


async def test_hundreds_of_problems_are_summarized() -> None:
    """A long list of wrong numbers must not fill the prompt."""

    def total(numbers: list[int]) -> int:
        return sum(numbers)

    told = await Tool(total).call(f'{{"numbers": [{", ".join(["true", "null"] * 50)}]}}', CONTEXT)

    assert told.count("\n- ") == 21
    assert "- and 30 more" in told


@pytest.mark.parametrize("arguments", ["", "  ", "{}"])
async def test_no_arguments_are_an_empty_object(arguments: str) -> None:
    """Some endpoints send nothing for a tool without parameters."""
    assert await Tool(nothing).call(arguments, CONTEXT) == "null"


class Weather(BaseModel):
    city: str
    degrees: float


@table(
    ("returned", "message"),
    [
        ("plain text, 그대로 🌞", "plain text, 그대로 🌞"),
        ("", ""),
        (None, "null"),
        (3, "3"),
        ([Weather(city="서울", degrees=3.5)], '[{"city":"서울","degrees":3.5}]'),
        ({"on": date(2026, 1, 2)}, '{"on":"2026-01-02"}'),
        ("half a pair: \ud83d", "half a pair: \ufffd"),
        ({"name": "a\ud800b"}, '{"name": "a\ufffdb"}'),
        ({"a\ud800b": [1]}, '{"a\ufffdb": [1]}'),
        (SecretStr("hidden"), '"**********"'),
    ],
)
async def test_what_a_tool_returns_reaches_the_model(returned: object, message: str) -> None:
    """Text as it is, everything else as JSON, and nothing that an endpoint would choke on."""

    def look() -> object:
        return returned

    assert await Tool(look).call("{}", CONTEXT) == message


async def test_a_result_without_json_raises() -> None:
    """The error names the tool, without the content of the result."""

    def look() -> object:
        return {"secret": object()}

    with pytest.raises(TypeError, match="'look' returned a dict, which cannot be written as JSON"):
        await Tool(look).call("{}", CONTEXT)


async def test_sync_functions_do_not_block_the_loop() -> None:
    """They run in a worker thread, async ones in the loop."""

    def blocking() -> bool:
        return get_ident() == loop

    async def friendly() -> bool:
        return get_ident() == loop

    loop = get_ident()

    assert await Tool(blocking).call("{}", CONTEXT) == "false"
    assert await Tool(friendly).call("{}", CONTEXT) == "true"


class Shop:
    """Sells things."""

    def __init__(self) -> None:
        self.sold: list[str] = []

    def sell(self, thing: str, /, count: int = 1) -> str:
        """Sell something."""
        self.sold += [thing] * count
        return f"sold {len(self.sold)}"


async def test_methods_are_tools() -> None:
    """`self` is not a parameter; positional-only parameters are filled in by name."""
    shop = Shop()

    assert await Tool(shop.sell).call('{"thing": "tea", "count": 2}', CONTEXT) == "sold 2"
    assert list(parameters(shop.sell)["properties"]) == ["thing", "count"]


async def test_a_tool_can_get_the_context_of_the_run() -> None:
    """The context is filled in; a model can neither see nor pass it."""

    async def orders(context: AgentContext, status: str = "open") -> str:
        """Look up orders."""
        return f"{context.subjects[0].entity}: {status}"

    tool = Tool(orders)

    assert list(parameters(orders)["properties"]) == ["status"]
    assert await tool.call("{}", CONTEXT) == "alice: open"
    told = await tool.call('{"context": {"subjects": ["bob"]}}', CONTEXT)
    assert "- context: Extra inputs are not permitted" in told


async def test_a_tool_error_reaches_the_model_unchanged() -> None:
    """A tool can report to the model this way, from a thread and from the loop."""

    def blocking() -> str:
        raise ToolError("There is no such order: ask the user for its number")

    async def friendly() -> str:
        raise ToolError("There is no such order: ask the user for its number")

    for function in (blocking, friendly):
        told = await Tool(function).call("{}", CONTEXT)
        assert told == "Error: There is no such order: ask the user for its number"


async def test_a_validation_error_inside_a_tool_is_not_a_bad_call() -> None:
    """The arguments were valid; otherwise the model would try again and again."""

    def look(city: str) -> Address:
        return Address.model_validate({"street": city})

    with pytest.raises(ValueError, match="1 validation error for Address"):
        await Tool(look).call('{"city": "Bonn"}', CONTEXT)


async def test_an_awaitable_from_a_sync_function_is_awaited() -> None:
    """A decorator may have made it of an async function."""

    async def later() -> str:
        await anyio.lowlevel.checkpoint()
        return "done"

    def decorated() -> Awaitable[str]:
        return later()

    assert await Tool(decorated).call("{}", CONTEXT) == "done"


def untyped(city) -> None:  # type: ignore[no-untyped-def]
    ...


def many(*cities: str) -> None: ...


def named(**cities: str) -> None: ...


def defaulted(city: str = Field(description="The city")) -> None: ...


def strange(city: Callable[[int], int]) -> None: ...


def foreign(city: Shop) -> None: ...


def unknown(city: "Nowhere") -> None: ...  # type: ignore[name-defined]  # noqa: F821


@table(
    ("function", "complaint"),
    [
        (untyped, "The parameter 'city' of the tool 'untyped' has no type hint"),
        (many, "The parameter 'cities' of the tool 'many' must be a named one"),
        (named, "The parameter 'cities' of the tool 'named' must be a named one"),
        (defaulted, "has a Field as its default: use Annotated"),
        (strange, "The arguments of the tool 'strange' have no JSON schema"),
        (foreign, "The arguments of the tool 'foreign' have no JSON schema"),
        (unknown, "A type hint of the tool 'unknown' cannot be resolved"),
    ],
)
def test_tools_without_a_schema_raise(function: Callable[..., object], complaint: str) -> None:
    """The error comes from the agent's constructor, not from the first call."""
    with pytest.raises(TypeError, match=complaint):
        Tool(function)


@pytest.mark.parametrize("name", ["", "look up", "搜索", "x" * 65, "a.b"])
def test_names_that_endpoints_refuse_raise(name: str) -> None:
    """The rule is OpenAI's, which others follow."""

    def renamed() -> str:
        return "x"

    renamed.__name__ = name
    with pytest.raises(ValueError, match="is not a valid name of a tool"):
        Tool(renamed)


def test_two_tools_of_one_name_are_refused() -> None:
    """A model could not distinguish them."""
    with pytest.raises(ValueError, match="Two tools are named 'order'"):
        tools_by_name([order, Tool(order)])


@pytest.mark.parametrize("wrong", [3, "order", Address, None, functools.partial(nothing)])
def test_an_object_that_is_not_callable_raises(wrong: Any) -> None:
    """A class is not called by accident."""
    with pytest.raises(TypeError, match="Each of tools must be a function"):
        tools_by_name([wrong])
