"""Kind: the JSON types of values. Target: a concept to write, which parses typed values."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class Target:
    """A concept to write, and the JSON kinds of its current values; empty for a new concept."""

    concept: Concept[Any, Any]
    held: frozenset[Kind]
    is_own: bool = False
    """Whether the values are validated by the application's own type."""

    def value(self, text: str) -> Any:
        """Parse a typed value: as JSON first, then as a string.

        Raises:
            CommandError: It has not the kind of the keyword's values, or could be of two kinds.
        """
        if self.is_own:
            return self._own_value(text)
        plain = _json(text)
        if not isinstance(plain, str) and self._fits(plain):
            if Kind.TEXT in self.held and plain is not None:
                raise CommandError(f"{self._has}: select one with --type")
            return self.json_value(plain)
        if Kind.TEXT in self.held:
            return text
        raise CommandError(f"{self._has}, and the new value is not one")

    def json_value(self, plain: JsonValue) -> Any:
        """Check a JSON value; an integer becomes a float if the keyword has numbers.

        Raises:
            CommandError: It has not the kind of the keyword's values.
        """
        if self.is_own:
            return self._own_value(plain)
        if self.held and not self._fits(plain):
            raise CommandError(f"{self._has}, and the new value is {kind_of(plain)}")
        is_widened = Kind.NUMBER in self.held and type(plain) is int
        return float(plain) if is_widened and isinstance(plain, int) else plain

    def _fits(self, plain: JsonValue) -> bool:
        kind = kind_of(plain)
        return kind in self.held or (kind is Kind.INTEGER and Kind.NUMBER in self.held)

    @property
    def _has(self) -> str:
        return f"{self.concept.keyword!r} has {' or '.join(sorted(self.held))} values"

    def _own_value(self, given: JsonValue) -> Any:
        is_parsed = isinstance(given, str) and not self.concept.codec.is_plain_text
        for each in (_json(str(given)), given) if is_parsed else (given,):
            try:
                return self.concept.codec.load(each)
            except (ValueError, ValidationError):
                continue
        raise CommandError(f"The value is not valid for the concept {self.concept.keyword!r}")


def _json(text: str) -> JsonValue:
    """Return the JSON of a text, or the text."""
    try:
        plain: JsonValue = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        return text
    return plain


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")
