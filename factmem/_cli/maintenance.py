"""Commands that check and repair a store: anchor, verify, compact, salvage."""

import errno
import os
from dataclasses import asdict
from typing import Annotated

import typer

from factmem._cli.commands import command
from factmem._cli.exits import CommandError, ExitCode
from factmem._cli.opening import Store, local
from factmem._cli.options import confirm
from factmem._cli.output import Answer, counted
from factmem._cli.place_names import PlaceOrAll, find_place
from factmem._cli.times import parse_age


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


@command()
async def anchor(
    store: Store,
    out: Annotated[str | None, typer.Option(metavar="FILE", help="Write it to a file.")] = None,
) -> Answer:
    """Print an anchor, the current state of all places. Keep it elsewhere: `verify` compares it."""
    taken = await store.anchor()
    if out is not None:
        write_anchor(out, taken)
    return Answer({"anchor": taken}, taken if out is None else f"Wrote the anchor to {out}")


@command()
async def verify(
    store: Store,
    anchor_file: Annotated[
        str | None, typer.Option("--anchor", metavar="FILE", help="An anchor from an earlier time.")
    ] = None,
) -> Answer:
    """Read every place; with an anchor, also check that no place was rolled back."""
    await store.verify(None if anchor_file is None else read_anchor(anchor_file))
    count = await read_every_place(store)
    than = " and not older than the anchor" if anchor_file is not None else ""
    are = f"{counted(count, 'place')} {'is' if count == 1 else 'are'}"
    record = {"places": count, "is_anchored": anchor_file is not None}
    return Answer(record, f"{are} readable{than}")


@command(asks=True)
async def compact(
    store: Store,
    place: PlaceOrAll = None,
    keep_history: Annotated[
        str, typer.Option(help="Keep the history of this time span: 90d.")
    ] = "0d",
) -> Answer:
    """Rewrite places without older history. Current values are not changed."""
    kept, freed = parse_age(keep_history), 0
    confirm(f"Remove the history of {place or 'every place'} older than {keep_history}?")
    for each in [await find_place(store, place)] if place else await store.list_places():
        freed += await store.compact(each.subject, each.scope, keep_history=kept)
    return Answer({"freed_bytes": freed}, f"Freed {counted(freed, 'byte')}")


@command()
async def salvage(
    store: Store,
    folder: Annotated[str, typer.Argument(metavar="FOLDER", help="Must not exist.")],
) -> Answer:
    """Save what can be read of a damaged store into a store in a new folder."""
    found = await local(store, "restore a database from its own backup").salvage(folder)
    lines = [f"Saved {counted(found.places, 'place')} to {folder}"]
    if found.lost or found.missing:
        lost, missing = counted(found.lost, "place"), counted(found.missing, "line")
        lines.append(f"{lost} and {missing} are missing")
    return Answer({"folder": folder, **asdict(found)}, *lines)
