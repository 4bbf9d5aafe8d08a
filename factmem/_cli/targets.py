"""The targets of keywords in a store: their concepts, and the kinds of their values.

Kind: the JSON types of values. Target: a concept to write, which parses typed values.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from pydantic import JsonValue, ValidationError

from factmem._cli.exits import CommandError, ExitCode
from factmem._cli.opening import Store
from factmem._cli.options import Options
from factmem._cli.readings import Row
from factmem.models._display import shown
from factmem.models.facts import AnyFact, Concept, FactType, stored_concept
from factmem.models.places import Place
from factmem.models.when import When


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
        """Parse a typed value: as JSON first, then as a string."""
        if self.is_own:
            return self._own_value(text)
        parsed = plain(text)
        if not isinstance(parsed, str) and self._fits(parsed):
            if Kind.TEXT in self.held and parsed is not None:
                raise CommandError(f"{self._has}: select one with --type")
            return self.json_value(parsed)
        if Kind.TEXT in self.held:
            return text
        raise CommandError(f"{self._has}, and the new value is not one")

    def json_value(self, given: JsonValue) -> Any:
        """Check a JSON value; an integer becomes a float if the keyword has numbers."""
        if self.is_own:
            return self._own_value(given)
        if self.held and not self._fits(given):
            raise CommandError(f"{self._has}, and the new value is {kind_of(given)}")
        is_widened = Kind.NUMBER in self.held and type(given) is int
        return float(given) if is_widened and isinstance(given, int) else given

    def _fits(self, given: JsonValue) -> bool:
        kind = kind_of(given)
        return kind in self.held or (kind is Kind.INTEGER and Kind.NUMBER in self.held)

    @property
    def _has(self) -> str:
        return f"{self.concept.keyword!r} has {' or '.join(sorted(self.held))} values"

    def _own_value(self, given: JsonValue) -> Any:
        is_parsed = isinstance(given, str) and not self.concept.codec.is_plain_text
        for each in (plain(str(given)), given) if is_parsed else (given,):
            try:
                return self.concept.codec.load(each)
            except (ValueError, ValidationError):
                continue
        raise CommandError(f"The value is not valid for the concept {self.concept.keyword!r}")


def plain(text: str) -> JsonValue:
    """Return the JSON of a text, or the text."""
    try:
        found: JsonValue = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        return text
    return found


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


async def facts_of(
    store: Store,
    place: Place,
    keyword: str | None = None,
    as_of: datetime | None = None,
    *,
    valid_at: When | None = None,
) -> list[AnyFact]:
    """Return the facts of a place, of one keyword or of all, with plain JSON values."""
    facts = await store.load_all(place.subject, place.scope, as_of=as_of, valid_at=valid_at)
    return [fact for fact in facts if keyword in (None, fact.concept.keyword)]


async def held_in(store: Store, place: Place) -> dict[str, list[AnyFact]]:
    """Return the current facts of a place by keyword."""
    found: dict[str, list[AnyFact]] = {}
    for fact in await facts_of(store, place):
        found.setdefault(fact.concept.keyword, []).append(fact)
    return found


async def held_anywhere(store: Store) -> dict[str, list[AnyFact]]:
    """Return the current facts of each keyword, from the first place that has the keyword."""
    found: dict[str, list[AnyFact]] = {}
    for info in await store.places():
        found = {**await held_in(store, info.place), **found}
    return found


async def known_facts(store: Store, place: Place, keyword: str) -> list[AnyFact]:
    """Return the current facts of a keyword in a place, or in the first one that has it."""
    if held := await facts_of(store, place, keyword):
        return held
    for info in await store.places():
        if found := await facts_of(store, info.place, keyword):
            return found
    return []


async def stored_target(store: Store, keywords: Sequence[str]) -> Concept[Any, Any]:
    """Return a concept for the first keyword, described as the first of them that has facts."""
    held = await held_anywhere(store)
    for keyword in keywords:
        if facts := held.get(keyword):
            known = facts[-1].concept
            return _concept(keywords[0], known.description, known.fact_type)
    raise CommandError(f"There are no facts of {', '.join(keywords)}", ExitCode.NOTHING)


def target_of(
    options: Options,
    keyword: str,
    facts: Sequence[AnyFact],
    *,
    kind: Kind | None = None,
    description: str | None = None,
    multiple: bool = False,
    remedy: str = "pass --type",
) -> Target:
    """Return the target for a keyword: the application's concept, that of `facts`, or a new one.

    Args:
        options: The options before the command.
        keyword: The keyword.
        facts: Its current facts; empty for a new keyword.
        kind: The kind of a new keyword, or one of the kinds that its values have.
        description: The description; by default that of the last fact, or the keyword.
        multiple: Whether a new keyword has many values.
        remedy: How to pass the kind of a new keyword.
    """
    if (own := options.concept(keyword)) is not None:
        return Target(own, frozenset(), is_own=True)
    if not facts:
        if kind is None:
            raise CommandError(
                f"The keyword {keyword!r} is new: {remedy} "
                f"{'|'.join(each for each in Kind if each is not Kind.NULL)}"
            )
        fact_type = FactType.MULTIPLE if multiple else FactType.SINGLE
        return Target(_concept(keyword, description or keyword, fact_type), frozenset({kind}))
    kinds = kinds_of(value for fact in facts for value in fact.values)
    if kind is not None and kind not in kinds:
        raise CommandError(f"{keyword!r} has {' or '.join(sorted(kinds))} values, not {kind}")
    last = facts[-1].concept
    if multiple and last.fact_type is FactType.SINGLE:
        raise CommandError(f"{keyword!r} has one value, not several")
    concept = _concept(keyword, description or last.description, last.fact_type)
    return Target(concept, frozenset(kinds if kind is None else {kind}))


def _concept(keyword: str, description: str, fact_type: FactType) -> Concept[Any, Any]:
    Concept(keyword, description, fact_type)  # checks the names
    return stored_concept(keyword, description, fact_type, JsonValue)


def editable(value: object) -> str:
    """Return a value for an editor: JSON, or a string unchanged.

    A string with control characters is shown as JSON, because they would control the terminal.
    """
    if isinstance(value, str) and shown(value.replace("\n", "")) == value.replace("\n", ""):
        return value
    if isinstance(value, str):
        return shown(json.dumps(value))
    return json.dumps(value, ensure_ascii=False, indent=2)


def typed_value(options: Options, row: Row, text: str) -> Any:
    """Parse a value that a person typed over that of a row."""
    keyword = row.fact.concept.keyword
    is_escaped = isinstance(row.value, str) and editable(row.value) != row.value
    if is_escaped and text.startswith('"'):
        try:
            text = json.loads(text)
        except ValueError:
            raise CommandError("The value must be a JSON string") from None
    target = target_of(options, keyword, [row.fact])
    value = target.value(text)
    return target.concept.codec.dump(value, keyword) if target.is_own else value
