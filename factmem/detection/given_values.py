"""Values in a model's answer, parsed as values of a concept."""

from typing import Any

from pydantic import JsonValue
from pydantic_core import from_json, to_json

from factmem.llm.lenient_json import unwrapped
from factmem.models.facts import Concept, FactType
from factmem.models.values import Canonical, canonical

__all__ = ["MAX_LIST", "MAX_VALUE", "given_values", "text_of"]


MAX_VALUE = 2_000
"""The longest value that is accepted from a model, in bytes of JSON."""

MAX_LIST = 50
"""The most values of one item."""

MAX_DEPTH = 4
"""The deepest nesting of a value whose type the application did not declare."""

_ANY_JSON: object = JsonValue

_NOTHING = frozenset(
    {"unknown", "n/a", "null", "undefined", "unspecified"}
    | {f"not {said}" for said in ("known", "mentioned", "provided", "specified", "stated")}
)
"""Strings that models write in place of a missing value."""


def given_values(raw: JsonValue, concept: Concept[Any, Any]) -> dict[Canonical, object]:
    """Return the values of an item by their canonical form.

    Usually one; several if the concept has many values and the item has a list.

    Raises:
        ValueError: A value does not fit the concept. The message continues "its value" and does
            not quote it.
    """
    is_any = concept.value_type is _ANY_JSON
    is_many = concept.fact_type is FactType.MULTIPLE and isinstance(raw, list)
    try:
        if not (is_many and is_any):
            key, value = _one_value(raw, concept)
            return {key: value}
    except ValueError as exc:
        if not isinstance(raw, list) or not (is_many or len(raw) == 1):
            raise ValueError(str(exc)) from None
    several = raw if isinstance(raw, list) else [raw]
    if not several or len(several) > MAX_LIST:
        raise ValueError(f"is a list of {len(several)}: from 1 to {MAX_LIST} are accepted")
    return dict(_one_value(each, concept) for each in several)


def text_of(key: Canonical) -> str:
    """Return the words of a value, from its canonical form: strings and numbers, joined."""
    if isinstance(key, str):
        return key
    found: list[str] = []
    rest: list[JsonValue] = [from_json(key)]
    while rest:
        each = rest.pop()
        if isinstance(each, dict):
            rest += reversed(each.values())
        elif isinstance(each, list):
            rest += reversed(each)
        elif isinstance(each, str):
            found.append(each)
        elif each is not None and not isinstance(each, bool):
            found.append(to_json(each).decode())
    return " ".join(found)


def _one_value(raw: JsonValue, concept: Concept[Any, Any]) -> tuple[Canonical, object]:
    """Return a value with its canonical form."""
    raw = raw.strip() if isinstance(raw, str) else raw
    is_text = concept.codec.is_plain_text
    is_free = is_text or concept.value_type is _ANY_JSON
    if is_free and (raw in ("", [], {}) or _says_nothing(raw)):
        raise ValueError("is empty")
    if is_free and _is_deeper(raw, MAX_DEPTH):
        raise ValueError(f"is nested deeper than {MAX_DEPTH} levels, and no type asks for it")
    if is_text and isinstance(raw, bool | int | float):
        raw = to_json(raw).decode()
    try:
        if len(to_json(raw)) > MAX_VALUE:
            message = f"is longer than {MAX_VALUE} bytes of JSON"
        else:
            value = _load(raw, concept)
            return canonical(concept.codec.dump(value, concept.keyword)), value
    except ValueError:
        message = "does not fit the concept's type"
    raise ValueError(message)


def _says_nothing(raw: JsonValue) -> bool:
    return isinstance(raw, str) and raw[:40].casefold().rstrip(".") in _NOTHING


def _is_deeper(raw: JsonValue, levels: int) -> bool:
    parts = raw.values() if isinstance(raw, dict) else raw if isinstance(raw, list) else ()
    return levels < 0 or any(_is_deeper(part, levels - 1) for part in parts)


def _load(raw: JsonValue, concept: Concept[Any, Any]) -> object:
    """Parse a value by the concept's type. Its JSON may be inside a string."""
    try:
        return concept.codec.load(raw)
    except ValueError:
        if not isinstance(raw, str):
            raise
        return concept.codec.load(unwrapped(raw))
