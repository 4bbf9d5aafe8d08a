"""Names of places: `product/my-app/user/alice`, of a tenant `product/my-app/user/acme/alice`.

The end of a name is enough if no other place ends so: `alice`.
"""

import os
import re
from dataclasses import replace
from difflib import get_close_matches
from typing import Annotated, TypeAlias
from urllib.parse import unquote

import typer

from factmem._cli.exits import CommandError, ExitCode
from factmem._cli.opening import Store, run
from factmem._cli.options import GIVEN, Options
from factmem.errors import FactmemError
from factmem.models.places import MemoryScopeType, Place

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
        raise CommandError(f"{exc}: {_EXAMPLE}") from None


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
        found = [place_name(place) for place in run(_places)]
    except (CommandError, FactmemError, ValueError, OSError):
        return []  # a shell shows no errors during completion
    return [word for word in found if word.startswith(incomplete)]


async def _places(store: Store) -> list[Place]:
    return await store.list_places()


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
