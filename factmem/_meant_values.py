"""The stored values that a model means by those it writes down."""

from collections.abc import Iterable, Mapping
from math import isfinite
from typing import TypeAlias

from pydantic import JsonValue
from pydantic_core import from_json

from factmem.transcript import folded
from factmem.values import Canonical, canonical

__all__ = ["meant_values"]

_Values: TypeAlias = dict[Canonical, JsonValue]


def meant_values(given: Iterable[JsonValue], stored: Iterable[JsonValue]) -> list[JsonValue]:
    """Return the stored values that are meant, each once.

    A value that is stored exactly so is meant, and no other. Else it is those that differ by no
    more than models change when they copy: case, width and white space, a number that is written
    as a text or a text as a number. A text that is none of these may hold JSON: an object, or a
    list of what is meant.
    """
    known = {canonical(value): value for value in stored}
    alike: dict[str, list[Canonical]] = {}
    for key, value in known.items():
        alike.setdefault(_form(value), []).append(key)
    meant: _Values = {}
    for value in given:
        meant |= _meant(value, known, alike)
    return list(meant.values())


def _meant(
    value: JsonValue,
    known: Mapping[Canonical, JsonValue],
    alike: Mapping[str, list[Canonical]],
    *,
    is_read: bool = False,
) -> _Values:
    if isinstance(value, float) and not isfinite(value):
        return {}
    exact = canonical(value)
    keys = [exact] if exact in known else alike.get(_form(value), [])
    if keys or is_read or not isinstance(value, str):
        return {key: known[key] for key in keys}
    try:
        read = from_json(value, allow_inf_nan=False)
    except ValueError:
        return {}
    meant = _meant(read, known, alike, is_read=True)
    if not meant and isinstance(read, list):
        for each in read:
            meant |= _meant(each, known, alike, is_read=True)
    return meant


def _form(value: JsonValue) -> str:
    """Return a text in which values are the same that a model may write for one another."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    plain = canonical(value)
    return folded(plain if isinstance(plain, str) else plain.decode())
