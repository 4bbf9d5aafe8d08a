"""Commands that move facts: export, import.

An import first detects the format of its file. For each format a function returns the work to do on
the open store, so that wrong arguments are refused before a store is opened.
"""

import os
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from dataclasses import replace
from enum import StrEnum
from typing import Annotated, Any, TypeAlias

import typer
from rich.console import Console
from rich.progress import Progress

from factmem._cli.commands import command
from factmem._cli.erasures import Erased, receipts_of
from factmem._cli.exits import CommandError, ExitCode
from factmem._cli.opening import Store, run
from factmem._cli.options import GIVEN, Reveal
from factmem._cli.output import Answer, Problem, counted
from factmem._cli.place_names import find_place, parse_place, place_name
from factmem._cli.rows import RowReader, csv_rows, json_rows, records_in
from factmem._concurrency.garbage import paused_collection
from factmem.encryption.key import Key
from factmem.models.actors import acting
from factmem.models.places import Place
from factmem.providers.results import ErasureReceipt
from factmem.transfer.bundle import export_facts, import_facts
from factmem.transfer.reports import ImportProblem, ImportReport

_MANY = 50_000
"""Rows of a large import. The collector is paused for small ones too, which costs nothing."""


class Format(StrEnum):
    """The formats that can be imported."""

    BUNDLE = "bundle"
    CSV = "csv"
    JSONL = "jsonl"
    KOOG = "koog"
    CREWAI = "crewai"
    MEM0 = "mem0"
    GRAPHITI = "graphiti"
    CHATS = "chats"


_Work: TypeAlias = Callable[[Store], Awaitable[ImportReport]]

PlaceOptions = Annotated[
    list[str] | None, typer.Option("--place", help="Only this place; can be repeated.")
]


@command()
async def export(
    store: Store,
    file: Annotated[str, typer.Argument(metavar="FILE", help="Replaced if it exists.")],
    place: PlaceOptions = None,
    with_history: Annotated[bool, typer.Option("--history/--no-history")] = True,
    reveal: Reveal = False,
) -> Answer:
    """Write facts to a bundle, a JSON Lines file. It is not encrypted."""
    if GIVEN.get().is_encrypted and not reveal:
        raise CommandError(
            "The store is encrypted, but a bundle is not: pass --reveal to allow that",
            ExitCode.REFUSED,
        )
    only = [await find_place(store, each) for each in place] if place else None
    report = await export_facts(store, file, places=only, history=with_history)
    record = {
        "file": file,
        "places": [place_name(each) for each in report.places],
        "entries": report.entries,
        "turns": report.turns,
        "bytes": report.bytes,
    }
    entries = counted(report.entries, "entry", "entries")
    turns = f" and {counted(report.turns, 'message')}" if report.turns else ""
    places = counted(len(report.places), "place")
    return Answer(record, f"Wrote {places}, {entries}{turns} to {file}")


@command()
def import_(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A file, or a folder of Koog.")],
    file_format: Annotated[
        Format | None, typer.Option("--format", help="By default detected from the file.")
    ] = None,
    place: PlaceOptions = None,
    user_field: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The field with the user, in CrewAI and Graphiti."),
    ] = None,
    erased: Erased = None,
    key_env: Annotated[
        str | None, typer.Option(help="The environment variable with the key of Koog's files.")
    ] = None,
) -> Answer:
    """Import facts from a bundle, CSV or JSON Lines, memories of Koog, CrewAI, mem0 or Graphiti, or chats.

    Importing again changes nothing. For a bundle, `--place` selects places. For rows without a
    column `place`, for memories of CrewAI, mem0 and Graphiti, and for the exported chats of ChatGPT and
    Claude, it is the target.
    """
    chosen = file_format or _format_of(file)
    only = [parse_place(each) for each in place or ()]
    receipts = receipts_of(erased)
    if receipts and chosen not in {Format.BUNDLE, Format.CSV, Format.JSONL}:
        raise CommandError("--erased is for bundles and rows")
    if chosen is Format.KOOG:
        work = _koog(file, key_env)
    elif chosen in {Format.CREWAI, Format.MEM0, Format.GRAPHITI, Format.CHATS}:
        work = _memories(file, chosen, only, user_field)
    else:
        work = _facts(file, chosen, only, receipts)
    # The collector would scan all rows repeatedly.
    with acting("factmem import"), paused_collection(_MANY):
        report = run(work, creates=True)
    counts = {"read": report.entries, "new": report.new, "skipped": report.skipped}
    if chosen in {Format.BUNDLE, Format.CHATS}:
        counts["turns"] = report.turns
    lines = [_counts(report, chosen)]
    if report.skipped:
        lines.append(f"Skipped {report.skipped:,}, recorded before their places were erased")
    problems = [Problem(each) for each in report.problems]
    return Answer({"format": chosen.value, **counts, "problems": problems}, *lines, *problems)


def _counts(report: ImportReport, chosen: Format) -> str:
    if chosen is Format.CHATS:
        return f"Read {counted(report.entries, 'message')}, {report.new:,} of them new"
    entries = counted(report.entries, "entry", "entries")
    turns = f", and {counted(report.turns, 'message')}" if report.turns else ""
    return f"Read {entries}, {report.new:,} of them new{turns}"


def _format_of(path: str) -> Format:
    if os.path.isdir(path):
        return Format.KOOG
    if path.lower().endswith(".csv"):
        return Format.CSV
    if path.lower().endswith((".zip", "conversations.json")):
        return Format.CHATS
    with open(path, "rb") as file:
        start = file.read(64)
    if start.startswith(b'{"format":"factmem-bundle"'):
        return Format.BUNDLE
    records = (each for each in records_in(path) if not isinstance(each, ImportProblem))
    names = next(records, {}).keys()
    known = {"content": Format.CREWAI, "memory": Format.MEM0, "fact": Format.GRAPHITI}
    return next((each for name, each in known.items() if name in names), Format.JSONL)


def _facts(path: str, chosen: Format, only: list[Place], erased: list[ErasureReceipt]) -> _Work:
    """Import a bundle, or rows."""
    if chosen is not Format.BUNDLE and len(only) > 1:
        raise CommandError(
            "Rows can be imported into one --place only: use a column 'place' for more"
        )

    async def work(store: Store) -> ImportReport:
        source: Any = path
        if chosen is not Format.BUNDLE:
            rows = csv_rows(path) if chosen is Format.CSV else json_rows(path)
            source = await RowReader(store, GIVEN.get(), only[0] if only else None).facts(rows)
        places = only if only and chosen is Format.BUNDLE else None
        with _bar() as update:
            return await import_facts(source, store, places=places, erased=erased, progress=update)

    return work


def _koog(path: str, key_env: str | None) -> _Work:
    from factmem.transfer.koog import import_koog

    key = None if key_env is None else Key.from_env(key_env)
    return lambda store: import_koog(path, store, key=key)


def _memories(path: str, chosen: Format, only: list[Place], user_field: str | None) -> _Work:
    """Import the memories or chats of another program into the place that `--place` names."""
    if len(only) != 1:
        raise CommandError(
            f"{chosen} needs one --place: product/my-app/user to keep their users, or "
            "product/my-app/user/alice to import all for one user"
        )
    if user_field is not None and chosen not in {Format.CREWAI, Format.GRAPHITI}:
        raise CommandError("--user-field is for CrewAI and Graphiti: mem0 names users in user_id")
    from factmem.transfer.chats import import_chats
    from factmem.transfer.memories import import_crewai, import_graphiti, import_mem0

    scope, subject = only[0].scope, only[0].subject
    if chosen is Format.CHATS:
        return lambda store: import_chats(path, store, scope=scope, subject=subject)
    if subject.entity is None and (user_field is not None or chosen is not Format.CREWAI):
        subject = replace(subject, per_entity=True)

    given: dict[str, Any] = {} if user_field is None else {"user_field": user_field}
    given |= {"scope": scope, "subject": subject, "concepts": GIVEN.get().concepts}
    readers = {Format.MEM0: import_mem0, Format.CREWAI: import_crewai}
    read: Any = readers.get(chosen, import_graphiti)
    return lambda store: read(records_in(path), store, **given)


@contextmanager
def _bar() -> Generator[Callable[[int, int], None]]:
    """Show a progress bar on a terminal; yield the function that updates it."""
    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("Importing", total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)
