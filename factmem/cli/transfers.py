"""Commands that move facts: export, import."""

import os
from collections.abc import Callable
from enum import StrEnum
from typing import Annotated, Any

import anyio
import typer
from rich.console import Console
from rich.progress import Progress

from factmem.cli.exits import CommandError, ExitCode
from factmem.cli.opening import Store, run
from factmem.cli.options import Json, Options, Reveal, options_of
from factmem.cli.output import counted, print_error, print_json, print_line
from factmem.cli.place_names import place_name, place_named
from factmem.cli.rows import RowReader, csv_rows, json_rows
from factmem.cli.value_kinds import Kind
from factmem.ledger.entries import Entry
from factmem.models.places import Place
from factmem.storage.encryption.key import Key
from factmem.transfer.bundle import export_facts, import_facts

__all__ = ["app"]

app: typer.Typer = typer.Typer()
"""The commands of this module."""

_AT_A_TIME = 50_000
"""Rows in one call of the store, which reads what the place holds first. A killed import goes on
after the last call that ended."""
_PLACES_AT_ONCE = 4
"""A place waits for the disk while the next one is encoded."""


class Format(StrEnum):
    """What can be imported."""

    BUNDLE = "bundle"
    CSV = "csv"
    JSONL = "jsonl"
    KOOG = "koog"


PlaceOptions = Annotated[
    list[str] | None, typer.Option("--place", help="Only this place; may be repeated.")
]


@app.command("export")
def export(
    ctx: typer.Context,
    file: Annotated[str, typer.Argument(metavar="FILE", help="Replaced if it exists.")],
    place: PlaceOptions = None,
    with_history: Annotated[bool, typer.Option("--history/--no-history")] = True,
    as_json: Json = False,
    reveal: Reveal = False,
) -> None:
    """Write facts into a bundle, a file of JSON Lines. It is not encrypted."""
    if options_of(ctx).is_encrypted and not reveal:
        raise CommandError(
            "The store is encrypted, and a bundle is not: pass --reveal if that is wanted",
            ExitCode.REFUSED,
        )
    only = [place_named(each) for each in place] if place else None
    report = run(ctx, lambda store: export_facts(store, file, places=only, history=with_history))
    if as_json:
        print_json(
            {
                "file": file,
                "places": [place_name(each) for each in report.places],
                "entries": report.entries,
                "bytes": report.bytes,
            }
        )
    else:
        held = counted(len(report.places), "place")
        entries = counted(report.entries, "entry", "entries")
        print_line(f"Wrote {held}, {entries} to {file}")


@app.command("import")
def import_(
    ctx: typer.Context,
    file: Annotated[str, typer.Argument(metavar="FILE", help="A file, or Koog's folder.")],
    file_format: Annotated[
        Format | None, typer.Option("--format", help="Found out by the file unless given.")
    ] = None,
    place: PlaceOptions = None,
    kind: Annotated[
        Kind | None, typer.Option("--type", help="The kind of JSON of new keywords in rows.")
    ] = None,
    koog_key_env: Annotated[
        str | None, typer.Option(help="The key of Koog's files is in this environment variable.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Read facts from a bundle, CSV, JSON Lines or Koog's folder. Importing twice changes nothing.

    `--place` selects places of a bundle; rows without a column `place` go there.
    """
    chosen = file_format or _format_of(file)
    options = options_of(ctx)
    only = [place_named(each) for each in place or ()]
    if chosen is Format.BUNDLE:
        report = run(
            ctx, lambda store: import_facts(file, store, places=only or None), creates=True
        )
        new, read, problems = report.new, report.entries, []
    elif chosen is Format.KOOG:
        from factmem.transfer.koog import import_koog

        key = None if koog_key_env is None else Key.from_env(koog_key_env)
        koog = run(ctx, lambda store: import_koog(file, store, key=key), creates=True)
        new, read = koog.new, koog.new + koog.known
        problems = [str(each) for each in koog.problems]
    else:
        problems = []
        new, read = run(ctx, _rows(file, chosen, options, only, kind), creates=True)
    if as_json:
        print_json({"format": chosen.value, "read": read, "new": new, "problems": problems})
    else:
        print_line(f"Read {counted(read, 'entry', 'entries')}, {new:,} of them new")
        for problem in problems:
            print_error(problem)


def _format_of(path: str) -> Format:
    if os.path.isdir(path):
        return Format.KOOG
    if path.lower().endswith(".csv"):
        return Format.CSV
    with open(path, "rb") as file:
        start = file.read(64)
    return Format.BUNDLE if start.startswith(b'{"format":"factmem-bundle"') else Format.JSONL


def _rows(
    path: str, chosen: Format, options: Options, only: list[Place], kind: Kind | None
) -> Callable[[Store], Any]:
    if len(only) > 1:
        raise CommandError("Rows without a column 'place' go to one place: pass --place once")
    rows = csv_rows(path) if chosen is Format.CSV else json_rows(path)

    async def work(store: Store) -> tuple[int, int]:
        reader = RowReader(store, options, only[0] if only else None, kind)
        return await _written(store, await reader.entries(rows))

    return work


async def _written(store: Store, found: dict[Place, list[Entry]]) -> tuple[int, int]:
    """Write entries, with a progress bar where a person looks on; return new ones and all."""
    total = sum(map(len, found.values()))
    new = 0
    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("Importing", total=total)
        limiter = anyio.CapacityLimiter(_PLACES_AT_ONCE)

        async def write(place: Place, entries: list[Entry]) -> None:
            nonlocal new
            async with limiter:
                for start in range(0, len(entries), _AT_A_TIME):
                    part = entries[start : start + _AT_A_TIME]
                    count = await store.replay(part, place.subject, place.scope)
                    new += count  # not `new += await`: another place may have added meanwhile
                    progress.advance(task, len(part))

        try:
            async with anyio.create_task_group() as group:
                for place, entries in found.items():
                    group.start_soon(write, place, entries)
        except ExceptionGroup as failed:  # the first failure has cancelled the other places
            raise failed.exceptions[0] from None
    return new, total
