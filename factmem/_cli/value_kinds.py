"""Kind: the JSON types of values; parsing of typed values."""

import json
from collections.abc import Collection, Iterable
from enum import StrEnum
from typing import Any

from pydantic import JsonValue, ValidationError

from factmem._cli.exits import CommandError
from factmem.models.facts import Concept


class Kind(StrEnum):
    """The JSON types, with their names in `--type`."""

    TEXT = "text"
    INTEGER = "integer"
    NUMBER = "number"
    BOOLEAN = "boolean"
    LIST = "list"
    OBJECT = "object"
    NULL = "null"


_KINDS: dict[type, Kind] = {
    str: Kind.TEXT,
    bool: Kind.BOOLEAN,
    int: Kind.INTEGER,
    float: Kind.NUMBER,
    list: Kind.LIST,
    dict: Kind.OBJECT,
    type(None): Kind.NULL,
}


def kind_of(value: JsonValue) -> Kind:
    """Return the kind of a plain JSON value."""
    return _KINDS[type(value)]


def kinds_of(values: Iterable[JsonValue]) -> set[Kind]:
    """Return the kinds of values; integers count as numbers if there are other numbers."""
    found = {kind_of(value) for value in values}
    return found - {Kind.INTEGER} if Kind.NUMBER in found else found


def check_kind(value: JsonValue, held: Collection[Kind], keyword: str) -> JsonValue:
    """Check the kind of a JSON value; an integer becomes a float if the keyword has numbers.

    Raises:
        CommandError: The keyword has values of another kind.
    """
    kind = kind_of(value)
    if kind is Kind.INTEGER and Kind.NUMBER in held:
        return float(value) if isinstance(value, int) else value
    if held and kind not in held:
        raise CommandError(
            f"{keyword!r} has {_kind_names(held)} values, and the new value is {kind}"
        )
    return value


def parsed(text: str, held: Collection[Kind], keyword: str) -> JsonValue:
    """Parse a typed value as one of the kinds of a keyword.

    Raises:
        CommandError: The value has none of these kinds, or is ambiguous between them.
    """
    value = _json(text)
    kind = None if value is _NO_JSON else kind_of(value)
    wanted = {*held, Kind.INTEGER} if Kind.NUMBER in held else held
    if kind is not Kind.TEXT and kind in wanted:
        if Kind.TEXT in held and kind is not Kind.NULL:
            raise CommandError(
                f"{keyword!r} has {_kind_names(held)} values: select one with --type"
            )
        return check_kind(value, held, keyword)
    if Kind.TEXT in held:
        return text
    raise CommandError(f"{keyword!r} has {_kind_names(held)} values, and the new value is not one")


_NO_JSON: Any = object()


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _json(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        return _NO_JSON


def _kind_names(held: Collection[Kind]) -> str:
    return " or ".join(sorted(held))


def concept_value(concept: Concept[Any, Any], given: str | JsonValue) -> Any:
    """Parse a value of the application's own type from a typed string or from JSON.

    A string is parsed as JSON first, then used as a JSON string: `36`, `{"x": 1}`, `2026-03-01`.

    Raises:
        CommandError: The value is not valid for that type.
    """
    codec = concept.codec
    candidates: list[JsonValue] = [given]
    if (
        isinstance(given, str)
        and not codec.is_plain_text
        and (plain := _json(given)) is not _NO_JSON
    ):
        candidates.insert(0, plain)
    for each in candidates:
        try:
            return codec.load(each)
        except (ValueError, ValidationError):
            continue
    raise CommandError(f"The value is not valid for the concept {concept.keyword!r}")
