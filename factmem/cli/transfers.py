"""Commands that move facts: export, import."""

import os
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from enum import StrEnum
from typing import Annotated, Any, NamedTuple, TypeAlias

import anyio
import typer
from rich.console import Console
from rich.progress import Progress

from factmem.cli.exits import CommandError, ExitCode
from factmem.cli.opening import Store, run
from factmem.cli.options import Json, Options, Reveal, options_of
from factmem.cli.output import counted, print_error, print_json, print_line
from factmem.cli.place_names import parse_place, place_name
from factmem.cli.rows import RowReader, csv_rows, json_rows
from factmem.cli.value_kinds import Kind
from factmem.concurrency.garbage import paused_collection
from factmem.encryption.key import Key
from factmem.ledger.entries import Entry
from factmem.models.places import Place
from factmem.transfer.bundle import export_facts, import_facts

__all__ = ["app"]

app: typer.Typer = typer.Typer()
"""The commands of this module."""

_AT_A_TIME = 50_000
"""Rows in one call of the store, which first reads the place. A killed import continues after the
last completed call."""
_PLACES_AT_ONCE = 4
"""One place waits for the disk while the next one is encoded."""


class Format(StrEnum):
    """The formats that can be imported."""

    BUNDLE = "bundle"
    CSV = "csv"
    JSONL = "jsonl"
    KOOG = "koog"
    CREWAI = "crewai"
    MEM0 = "mem0"


class _Imported(NamedTuple):
    """The number of entries that were read, the number of new ones, and problems."""

    read: int
    new: int
    problems: Sequence[str] = ()


_Work: TypeAlias = Callable[[Store], Awaitable[_Imported]]

PlaceOptions = Annotated[
    list[str] | None, typer.Option("--place", help="Only this place; can be repeated.")
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
    """Write facts to a bundle, a JSON Lines file. It is not encrypted."""
    if options_of(ctx).is_encrypted and not reveal:
        raise CommandError(
            "The store is encrypted, but a bundle is not: pass --reveal to allow that",
            ExitCode.REFUSED,
        )
    only = [parse_place(each) for each in place] if place else None
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
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="A file, or the folder of Koog, CrewAI or mem0.")
    ],
    file_format: Annotated[
        Format | None, typer.Option("--format", help="By default detected from the file.")
    ] = None,
    place: PlaceOptions = None,
    kind: Annotated[
        Kind | None, typer.Option("--type", help="The JSON type of new keywords in rows.")
    ] = None,
    user_field: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The field with the user of a memory; user_id in mem0."),
    ] = None,
    keyword: Annotated[
        str, typer.Option(help="The keyword of memories without a category.")
    ] = "notes",
    koog_key_env: Annotated[
        str | None, typer.Option(help="The environment variable with the key of Koog's files.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Import facts from a bundle, CSV, JSON Lines, or a store of Koog, CrewAI or mem0.

    Importing again changes nothing. For a bundle, `--place` selects places. For rows without a
    column `place` and for memories of CrewAI and mem0, it is the target.
    """
    chosen = file_format or _format_of(file)
    only = [parse_place(each) for each in place or ()]
    if chosen is Format.BUNDLE:
        work = _bundle(file, only)
    elif chosen is Format.KOOG:
        work = _koog(file, koog_key_env)
    elif chosen in {Format.CREWAI, Format.MEM0}:
        work = _memories(file, chosen, options_of(ctx), only, user_field, keyword)
    else:
        work = _rows(file, chosen, options_of(ctx), only, kind)
    with paused_collection(_AT_A_TIME):  # it would scan all rows repeatedly
        read, new, problems = run(ctx, work, creates=True)
    if as_json:
        print_json({"format": chosen.value, "read": read, "new": new, "problems": [*problems]})
    else:
        print_line(f"Read {counted(read, 'entry', 'entries')}, {new:,} of them new")
        for problem in problems:
            print_error(problem)


def _format_of(path: str) -> Format:
    is_foreign = os.path.isdir(path) or path.lower().endswith((".json", ".db", ".sqlite"))
    if is_foreign:
        from factmem.transfer.memories import library_of

        if (library := library_of(path)) is not None:
            return Format(library)
    if os.path.isdir(path):
        return Format.KOOG
    if path.lower().endswith(".csv"):
        return Format.CSV
    with open(path, "rb") as file:
        start = file.read(64)
    return Format.BUNDLE if start.startswith(b'{"format":"factmem-bundle"') else Format.JSONL


def _bundle(path: str, only: list[Place]) -> _Work:
    async def work(store: Store) -> _Imported:
        with _bar() as progress:
            report = await import_facts(path, store, places=only or None, progress=progress)
        return _Imported(report.entries, report.new)

    return work


def _koog(path: str, key_env: str | None) -> _Work:
    from factmem.transfer.koog import import_koog

    key = None if key_env is None else Key.from_env(key_env)

    async def work(store: Store) -> _Imported:
        report = await import_koog(path, store, key=key)
        return _Imported(report.entries, report.new, [*map(str, report.problems)])

    return work


def _memories(
    path: str,
    chosen: Format,
    options: Options,
    only: list[Place],
    user_field: str | None,
    keyword: str,
) -> _Work:
    """Import the memories of another library into the place that `--place` names."""
    if len(only) != 1:
        raise CommandError(
            f"Memories of {chosen} need one --place: product/my-app/user to keep their users, or "
            "product/my-app/user/alice to import all for one user"
        )
    from factmem.transfer.memories import import_crewai, import_mem0

    scope, subject = only[0].scope, only[0].subject
    if subject.entity is None and (user_field is not None or chosen is Format.MEM0):
        subject = replace(subject, per_entity=True)

    async def work(store: Store) -> _Imported:
        given: dict[str, Any] = {"scope": scope, "subject": subject, "keyword": keyword}
        given |= {"concepts": options.concepts}
        if user_field is not None:
            given["user_field"] = user_field
        read = import_mem0 if chosen is Format.MEM0 else import_crewai
        with _bar():
            report = await read(path, store, **given)
        return _Imported(report.entries, report.new, [*map(str, report.problems)])

    return work


@contextmanager
def _bar() -> Generator[Callable[[int, int], None]]:
    """Show a progress bar on a terminal; yield the function that updates it."""
    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("Importing", total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)


def _rows(
    path: str, chosen: Format, options: Options, only: list[Place], kind: Kind | None
) -> _Work:
    if len(only) > 1:
        raise CommandError(
            "Rows can be imported into one --place only: use a column 'place' for more"
        )
    rows = csv_rows(path) if chosen is Format.CSV else json_rows(path)

    async def work(store: Store) -> _Imported:
        reader = RowReader(store, options, only[0] if only else None, kind)
        return await _write_entries(store, await reader.entries(rows))

    return work


async def _write_entries(store: Store, found: dict[Place, list[Entry]]) -> _Imported:
    """Write entries, several places at a time."""
    total = sum(map(len, found.values()))
    new = done = 0
    limiter = anyio.CapacityLimiter(_PLACES_AT_ONCE)

    async def write(place: Place, entries: list[Entry]) -> None:
        nonlocal new, done
        async with limiter:
            for start in range(0, len(entries), _AT_A_TIME):
                part = entries[start : start + _AT_A_TIME]
                count = await store.replay(part, place.subject, place.scope)
                new += count  # not `new += await`: another place may have added in the meantime
                done += len(part)
                progress(done, total)

    with _bar() as progress:
        try:
            async with anyio.create_task_group() as group:
                for place, entries in found.items():
                    group.start_soon(write, place, entries)
        except ExceptionGroup as failed:  # the first error has cancelled the other places
            raise failed.exceptions[0] from None
    return _Imported(total, new)
