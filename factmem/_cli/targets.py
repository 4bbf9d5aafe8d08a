"""The targets of commands: places by name, concepts by keyword, and the kinds of their values.

A place has a name such as `product/my-app/user/alice`, of a tenant
`product/my-app/user/acme/alice`. The end of a name is enough if no other place ends so: `alice`.

Kind: the JSON types of values. Target: a concept to write, which parses typed values.
"""

import json
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from difflib import get_close_matches
from enum import StrEnum
from typing import Annotated, Any, TypeAlias
from urllib.parse import unquote

import typer
from pydantic import JsonValue, ValidationError

from factmem._cli.opening import Store, run
from factmem._cli.options import GIVEN, Options
from factmem._cli.output import CommandError, ExitCode
from factmem.errors import FactmemError
from factmem.models._values import normalized
from factmem.models.facts import AnyFact, Concept, FactType, stored_concept
from factmem.models.places import MemoryScopeType, Place
from factmem.models.when import When

_SPECIAL = re.compile(r"[/%\s]")
"""Characters to encode: separators of names and arguments, and the escape character."""
_EXAMPLE = "product/my-app/user/alice"
_MOST_NAMED = 5


def place_name(place: Place) -> str:
    """Return the name of a place: scope type, scope name, subject and the levels of the entity.

    `/`, `%` and white space inside a part are percent-encoded.
    """
    names = (*place.identity[:3], *place.subject.levels)
    return "/".join(_SPECIAL.sub(_encoded, name) for name in names)


def parse_place(word: str) -> Place:
    """Parse the whole name of a place."""
    names = word.split("/")
    if len(names) < 3 or not all(names):
        raise CommandError(
            f"PLACE must be scope type, scope, subject and entity, such as {_EXAMPLE}"
        )
    kind, scope, subject, *levels = (unquote(name, errors="strict") for name in names)
    if kind not in set(MemoryScopeType):
        raise CommandError(f"PLACE must begin with {', '.join(MemoryScopeType)}: {_EXAMPLE}")
    try:
        found = Place.of_identity((kind, scope, subject, None))
        if not levels:
            return found
        return Place(found.scope, replace(found.subject, per_entity=True).of(*levels))
    except ValueError as exc:
        raise CommandError(f"{exc}. PLACE is such as {_EXAMPLE}") from None


def whole(word: str) -> Place | None:
    """Return the place with a whole name; None if the string is no such name."""
    try:
        return parse_place(word)
    except CommandError:
        return None


async def find_place(store: Store, word: str, *, creates: bool = False) -> Place:
    """Return the place with a name, or the only place whose name ends with it.

    With `creates`, a whole name may be that of a new place.
    """
    word = normalized("NFC", word)
    named = whole(word)
    # A store may have a million places. Looking for one takes no longer than in a small store.
    if named and await store.list_places(subjects=[named.subject], scopes=[named.scope], limit=1):
        return named
    known = {place_name(place): place for place in await store.list_places()}
    ends = [name for name in known if name.endswith(f"/{word}")]
    if len(ends) == 1:
        return known[ends[0]]
    if ends:
        listed = ", ".join(sorted(ends)[:_MOST_NAMED])
        raise CommandError(f"{len(ends)} places end with {word!r}: write more of one: {listed}")
    if creates:
        if "/" not in word:
            hint = f"write the whole name of a new one, such as {_EXAMPLE}"
            raise CommandError(f"No place has a name that ends with {word!r}: {hint}")
        return parse_place(word)
    last = {name.rpartition("/")[2]: name for name in known}
    near = get_close_matches(word, known, 3) or [
        last[each] for each in get_close_matches(word, last, 3)
    ]
    hint = f"did you mean {' or '.join(near)}?" if near else "`places` lists all"
    what = "the name" if named else "a name that ends with"
    raise CommandError(f"No place has {what} {word!r}: {hint}", ExitCode.NOTHING)


def _encoded(found: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in found[0].encode())


def _completed(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the places that begin with the typed string; none if the key must be asked for."""
    given = ctx.find_root().params
    names = ("store", "key_env", "key_file")
    store, key_env, key_file = (given.get(name) for name in names)
    options = Options(store or os.environ.get("FACTMEM_STORE"), key_env, key_file)
    try:
        if options.is_database:
            return []
        GIVEN.set(options)
        found = [place_name(place) for place in run(lambda store: store.list_places())]
    except (CommandError, FactmemError, ValueError, OSError):
        return []  # a shell shows no errors during completion
    return [word for word in found if word.startswith(incomplete)]


PlaceOrAll: TypeAlias = Annotated[
    str | None, typer.Argument(metavar="[PLACE]", help="All places by default.")
]
"""The argument [PLACE]."""

PlaceWord: TypeAlias = Annotated[
    str,
    typer.Argument(
        metavar="PLACE",
        help="A place as `places` prints it, or the end of its name.",
        autocompletion=_completed,
    ),
]
"""The argument PLACE."""


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
    if (own := options.concepts.get(keyword)) is not None:
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
