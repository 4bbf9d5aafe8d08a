"""Lists of erasures that are kept outside of the store: the receipts that `erase` prints."""

import json
from datetime import datetime
from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from factmem._cli.exits import CommandError
from factmem._cli.place_names import parse_place
from factmem.providers.results import ErasureReceipt

Erased: TypeAlias = Annotated[
    str | None,
    typer.Option(metavar="FILE", help="Receipts that `erase` printed: leave these out."),
]
"""The option --erased."""


def receipts_of(path: str | None) -> list[ErasureReceipt]:
    """Read the receipts in a file; none if there is no file.

    Raises:
        CommandError: It contains something else.
    """
    if path is None:
        return []
    text = Path(path).read_text(encoding="utf-8", errors="replace")
    found: list[ErasureReceipt] = []
    try:
        while text := text.lstrip():
            fields, end = json.JSONDecoder().raw_decode(text)
            text = text[end:]
            place, at = parse_place(fields["place"]), datetime.fromisoformat(fields["erased_at"])
            found.append(ErasureReceipt(place.scope, place.subject, at, count=None, bytes=0))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, CommandError):
        raise CommandError(
            f"Receipt {len(found) + 1} in {path!r} cannot be read. Receipts are as `erase` prints them: "
            '{"place": "product/my-app/user/alice", "erased_at": "2026-01-31T12:00:00Z"}'
        ) from None
    return found
