"""Names of places: `product/my-app/user/alice`."""

import re
from urllib.parse import unquote

from factmem._cli.exits import CommandError
from factmem.models.places import Place

__all__ = ["parse_place", "place_name"]

_SPECIAL = re.compile(r"[/%\s]")
"""Characters to encode: separators of names and arguments, and the escape character."""


def place_name(place: Place) -> str:
    """Return the name of a place: scope type, scope name, subject and entity, separated by `/`.

    `/`, `%` and white space inside a part are percent-encoded.
    """
    return "/".join(_SPECIAL.sub(_encoded, name) for name in place.identity if name is not None)


def parse_place(word: str) -> Place:
    """Parse the name of a place.

    Raises:
        CommandError: The string is not the name of a place.
    """
    names = word.split("/")
    example = "product/my-app/user/alice, as the command `places` prints it"
    if len(names) not in (3, 4) or not all(names):
        raise CommandError(f"PLACE must be scope type, scope, subject and entity: {example}")
    kind, scope, subject, *entity = (unquote(name, errors="strict") for name in names)
    try:
        return Place.of_identity((kind, scope, subject, entity[0] if entity else None))
    except ValueError as exc:
        raise CommandError(f"{exc}: {example}") from None


def _encoded(found: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in found[0].encode())
