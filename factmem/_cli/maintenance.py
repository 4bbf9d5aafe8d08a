"""Commands that check and repair a store: anchor, verify, compact, salvage."""

import errno
import os
from dataclasses import asdict
from datetime import timedelta
from typing import Annotated

import typer

from factmem._cli.exits import CommandError, ExitCode
from factmem._cli.opening import Store, local, run
from factmem._cli.options import Json, Yes, confirm
from factmem._cli.output import counted, print_json, print_line
from factmem._cli.place_names import find_place
from factmem._cli.times import parse_age
from factmem.providers.local_file import SalvagedStore

__all__ = ["app", "read_anchor", "read_every_place", "write_anchor"]

app: typer.Typer = typer.Typer()
"""The commands of this module."""


def read_anchor(path: str) -> str:
    """Read an anchor from a file."""
    with open(path, encoding="ascii", errors="replace") as file:
        return file.read().strip()


def write_anchor(path: str, anchor: str) -> None:
    """Write an anchor to a file; never through a link, which may name another file."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_NOFOLLOW", 0)
    try:
        opened = os.open(path, flags, 0o666)
    except OSError as exc:
        if exc.errno == errno.ELOOP:
            raise CommandError(f"{path!r} is a link: pass a file", ExitCode.REFUSED) from None
        raise
    with open(opened, "w", encoding="ascii") as file:
        file.write(f"{anchor}\n")


async def read_every_place(store: Store) -> int:
    """Read all entries of all places, and return the number of places.

    Raises:
        StorageError: A place is damaged.
        DecryptionError: The authentication of a place failed.
    """
    places = await store.places()
    for info in places:
        await store.entries(info.subject, info.scope)
    return len(places)


@app.command()
def anchor(
    ctx: typer.Context,
    out: Annotated[str | None, typer.Option(metavar="FILE", help="Write it to a file.")] = None,
    as_json: Json = False,
) -> None:
    """Print an anchor, the current state of all places. Keep it elsewhere: `verify` compares it."""
    taken = run(ctx, lambda store: store.anchor())
    if out is not None:
        write_anchor(out, taken)
    if as_json:
        print_json({"anchor": taken})
    elif out is None:
        print_line(taken)
    else:
        print_line(f"Wrote the anchor to {out}")


@app.command()
def verify(
    ctx: typer.Context,
    anchor_file: Annotated[
        str | None, typer.Option("--anchor", metavar="FILE", help="An anchor from an earlier time.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Read every place; with an anchor, also check that no place was rolled back."""

    async def work(store: Store) -> int:
        await store.verify(None if anchor_file is None else read_anchor(anchor_file))
        return await read_every_place(store)

    count = run(ctx, work)
    if as_json:
        print_json({"places": count, "is_anchored": anchor_file is not None})
        return
    than = " and not older than the anchor" if anchor_file is not None else ""
    are = f"{counted(count, 'place')} {'is' if count == 1 else 'are'}"
    print_line(f"{are} readable{than}")


@app.command()
def compact(
    ctx: typer.Context,
    place: Annotated[str | None, typer.Argument(metavar="[PLACE]", help="All by default.")] = None,
    keep_history: Annotated[
        str, typer.Option(help="Keep the history of this time span: 90d.")
    ] = "0d",
    as_json: Json = False,
    yes: Yes = False,
) -> None:
    """Rewrite places without older history. Current values are not changed."""
    kept: timedelta = parse_age(keep_history)
    confirm(f"Remove the history of {place or 'every place'} older than {keep_history}?", yes)

    async def work(store: Store) -> int:
        places = [await find_place(store, place)] if place else await store.list_places()
        freed = 0
        for each in places:
            freed += await store.compact(each.subject, each.scope, keep_history=kept)
        return freed

    freed = run(ctx, work)
    if as_json:
        print_json({"freed_bytes": freed})
    else:
        print_line(f"Freed {counted(freed, 'byte')}")


@app.command()
def salvage(
    ctx: typer.Context,
    folder: Annotated[str, typer.Argument(metavar="FOLDER", help="Must not exist.")],
    as_json: Json = False,
) -> None:
    """Save what can be read of a damaged store into a store in a new folder."""

    async def work(store: Store) -> SalvagedStore:
        return await local(store, "restore a database from its own backup").salvage(folder)

    found = run(ctx, work)
    if as_json:
        print_json({"folder": folder, **asdict(found)})
        return
    print_line(f"Saved {counted(found.places, 'place')} to {folder}")
    if found.lost or found.missing:
        print_line(
            f"{counted(found.lost, 'place')} and {counted(found.missing, 'line')} are missing"
        )
