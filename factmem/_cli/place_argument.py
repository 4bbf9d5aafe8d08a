"""The argument PLACE, with shell completion from the store."""

import os
from typing import Annotated, TypeAlias

import typer

from factmem._cli.exits import CommandError
from factmem._cli.opening import places_of, storage_of
from factmem._cli.options import Options
from factmem._cli.place_names import place_name
from factmem.errors import FactmemError

__all__ = ["PlaceWord"]


def _completed(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the places that begin with the typed string; none if the key must be asked for."""
    given = ctx.find_root().params
    names = ("store", "key_env", "key_file")
    store, key_env, key_file = (given.get(name) for name in names)
    options = Options(store or os.environ.get("FACTMEM_STORE"), key_env, key_file)
    try:
        if options.is_database:
            return []
        found = [place_name(place) for place in places_of(options, storage_of(options))]
    except (CommandError, FactmemError, ValueError, OSError):
        return []  # a shell shows no errors during completion
    return [word for word in found if word.startswith(incomplete)]


PlaceWord: TypeAlias = Annotated[
    str,
    typer.Argument(
        metavar="PLACE",
        help="A place as `places` prints it: product/my-app/user/alice.",
        autocompletion=_completed,
    ),
]
"""The argument PLACE."""
