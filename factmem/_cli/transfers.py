"""Commands that move facts: export, import, and sync with other devices.

An import first detects the format of its file. For each format a function returns the work to do on
the open store, so that wrong arguments are refused before a store is opened.

Rows of CSV and JSON Lines become facts: `RowReader` finds the place and the concept of each row and
parses its value as the kind of that concept. The id of a fact is a hash of its row, so that a second
import recognises it.
"""

import csv
import json
import os
import sys
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from functools import cache
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import IO, Annotated, Any, TypeAlias

import anyio
import typer

from factmem._cli.commands import command
from factmem._cli.maintenance import Erased, receipts_of
from factmem._cli.opening import Store, ask_passphrase, run
from factmem._cli.options import GIVEN, Options, Reveal
from factmem._cli.output import Answer, CommandError, ExitCode, Problem, counted, progress_bar
from factmem._cli.targets import (
    Kind,
    Target,
    find_place,
    held_anywhere,
    held_in,
    kind_of,
    parse_place,
    place_name,
    target_of,
)
from factmem._concurrency.threads import paused_collection
from factmem.encryption.key import Key
from factmem.ledger.resolution import PlacedFact
from factmem.models.actors import acting
from factmem.models.facts import (
    AnyFact,
    FactSource,
    FactType,
    MultipleFacts,
    SingleFact,
    SourceKind,
)
from factmem.models.places import Place
from factmem.providers.results import ErasureReceipt
from factmem.transfer._inputs import DamagedError, json_values, opened
from factmem.transfer._outputs import is_special, write_whole
from factmem.transfer._rows import lines_of
from factmem.transfer.bundle import export_facts, import_facts
from factmem.transfer.devices import (
    SyncReport,
    key_of_phrase,
    new_phrase,
    opens_none,
    shared_folder,
    sync_devices,
)
from factmem.transfer.reports import ImportProblem, ImportReport

COLUMNS = (
    "place",
    "keyword",
    "value",
    "type",
    "fact_type",
    "description",
    "timestamp",
    "importance",
    "expires_at",
    "since",
    "until",
)
"""The columns of a row; `keyword` and `value` are required."""
_MOST_ROWS = 1_000_000
"""All rows are in memory until they are checked, with 1 to 2 KB for each."""


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a file: its position and its columns."""

    where: str
    columns: Mapping[str, Any]
    is_typed: bool
    """Whether the value is JSON already; otherwise it is a string to parse."""


def csv_rows(file: IO[bytes]) -> Iterator[Row]:
    """Yield the rows of a CSV file; the first line has the names of the columns."""
    reader = csv.DictReader((line.decode("utf-8-sig") for line in lines_of(file)), strict=True)
    try:
        names = reader.fieldnames or ()
        if len({*names}) < len(names):
            raise CommandError("Line 1 names a column twice")
        if missing := _NEEDED - {*names}:
            raise CommandError(
                f"Line 1 must name the columns, and {min(missing)!r} is missing: "
                f"the columns are {', '.join(COLUMNS)}"
            )
        for columns in reader:
            if None in columns or None in columns.values():
                raise CommandError(f"Line {reader.line_num} must have one cell for each column")
            given = {name: cell for name, cell in columns.items() if cell or name == "value"}
            yield Row(f"Line {reader.line_num}", given, is_typed=False)
    except csv.Error as exc:
        raise CommandError(f"Line {max(reader.line_num, 1)} is not CSV ({exc})") from None
    except UnicodeDecodeError:
        raise CommandError(f"Line {reader.line_num + 1} is not UTF-8") from None


def json_rows(file: IO[bytes]) -> Iterator[Row]:
    """Yield the rows of JSON Lines, or of a JSON list. A null is a column that is absent."""
    try:
        for position, columns in json_values(file):
            where = position.capitalize()
            if isinstance(columns, ValueError):
                raise CommandError(f"{where} {columns}")
            if not isinstance(columns, dict):
                raise CommandError(f"{where} must be a JSON object")
            is_null = columns.get("type") == Kind.NULL
            present = {
                name: cell
                for name, cell in columns.items()
                if cell is not None or (is_null and name == "value")
            }
            yield Row(where, present, is_typed=True)
    except DamagedError as exc:
        raise CommandError(f"{exc}; for CSV pass --format csv") from None


def records_in(file: IO[bytes]) -> Iterator[Mapping[str, Any] | ImportProblem]:
    """Yield the records of a file, and a problem for each value that is none."""
    try:
        for where, item in json_values(file):
            reason = str(item) if isinstance(item, ValueError) else "is not a JSON object"
            yield item if isinstance(item, dict) else ImportProblem(where, reason)
    except (DamagedError, UnicodeDecodeError) as exc:
        what = str(exc) if isinstance(exc, DamagedError) else "The file is not UTF-16"
        yield ImportProblem("the rest", what)


class RowReader:
    """Converts rows to facts, and checks them against the facts of the store. Writes nothing."""

    def __init__(self, store: Store, options: Options, place: Place | None = None) -> None:
        self._store = store
        self._options = options
        self._place = place
        self._now = datetime.now(UTC)
        self._held: dict[Place, dict[str, list[AnyFact]]] = {}
        self._targets: dict[tuple[Any, ...], Target] = {}
        self._parsed = cache(parse_place)
        self._kinds: dict[str, Kind] = {}
        """The kinds of new keywords, each that of its first row."""
        self._elsewhere: dict[str, list[AnyFact]] | None = None

    async def facts(self, rows: Iterable[Row]) -> list[PlacedFact[Any]]:
        """Return the fact of each row, in the order of the file.

        Raises:
            CommandError: A row is invalid; the message contains its line number and no value.
        """
        found: list[PlacedFact[Any]] = []
        for row in rows:
            if len(found) == _MOST_ROWS:
                raise CommandError(f"An import has at most {_MOST_ROWS:,} rows: split the file")
            try:
                _check_columns(row.columns)
                place = self._place_of(row.columns)
                target = await self._target(row, place)
                found.append(PlacedFact(place, self._fact(row, target, place)))
            except (CommandError, ValueError, TypeError) as exc:
                raise CommandError(f"{row.where}: {exc}; nothing was imported") from None
        return found

    def _fact(self, row: Row, target: Target, place: Place) -> AnyFact:
        columns = row.columns
        fields: dict[str, Any] = {
            "timestamp": _time(columns, "timestamp") or self._now,
            "expires_at": _time(columns, "expires_at"),
            "since": _period(columns, "since"),
            "until": _period(columns, "until"),
            "source": FactSource(SourceKind.DOCUMENT),
            "id": _row_id(place, columns),
        }
        if "importance" in columns:
            fields["importance"] = _number(columns["importance"])
        value = columns["value"]
        value = target.json_value(value) if row.is_typed else target.value(value)
        if target.concept.fact_type is FactType.SINGLE:
            return SingleFact(target.concept, value, **fields)
        return MultipleFacts(target.concept, [value], **fields)

    def _place_of(self, columns: Mapping[str, Any]) -> Place:
        if "place" not in columns:
            if self._place is None:
                raise CommandError("the row has no place: add a column 'place', or pass --place")
            return self._place
        return self._parsed(_word(columns, "place"))

    async def _target(self, row: Row, place: Place) -> Target:
        """Return the concept of a row and its kinds; cached, as a file has many rows of each."""
        columns = row.columns
        keyword = _word(columns, "keyword")
        if place not in self._held:
            self._held[place] = await held_in(self._store, place)
        if self._elsewhere is None:  # read only once: a file may have thousands of new keywords
            self._elsewhere = await held_anywhere(self._store)
        held = self._held[place].get(keyword, [])
        # In a place without the keyword, the columns and other places decide what it is.
        given = [_word(columns, name) if name in columns else None for name in _TARGET]
        said = (place if held else None, keyword, *given)
        if said in self._targets:
            return self._targets[said]
        kind = None if given[0] is None else _kind(given[0])
        began = self._kinds.get(keyword, kind)
        if not held and kind not in (None, began):
            raise CommandError(f"{keyword!r} has {began} values, not {kind}")
        if began is None and row.is_typed:
            began = kind_of(columns["value"])
        known = held or self._elsewhere.get(keyword, [])
        target = self._targets[said] = target_of(
            self._options,
            keyword,
            known,
            kind=kind if known else began,
            description=given[1],
            multiple=_is_multiple(given[2]),
            remedy="add a column 'type' with",
        )
        if len(target.held) == 1:
            self._kinds.setdefault(keyword, min(target.held))
        return target


_NAMES = frozenset(COLUMNS)
_NEEDED = frozenset({"keyword", "value"})
_TARGET = ("type", "description", "fact_type")
"""The columns that say what a new keyword is."""


def _check_columns(columns: Mapping[str, Any]) -> None:
    if unknown := columns.keys() - _NAMES:
        raise CommandError(f"unknown column {min(unknown)!r}: the columns are {', '.join(COLUMNS)}")
    if missing := _NEEDED - columns.keys():
        raise CommandError(f"the column {min(missing)!r} is missing")


def _word(columns: Mapping[str, Any], name: str) -> str:
    if not isinstance(word := columns[name], str):
        raise CommandError(f"{name} must be a string")
    return word


def _kind(word: str) -> Kind:
    try:
        return Kind(word.lower())
    except ValueError:
        raise CommandError(f"type must be one of {', '.join(Kind)}") from None


def _is_multiple(word: str | None) -> bool:
    if word is not None and word.upper() not in set(FactType):
        raise CommandError(f"fact_type must be {' or '.join(FactType)}")
    return word is not None and word.upper() == FactType.MULTIPLE


def _number(cell: object) -> float:
    try:
        if isinstance(cell, str | int | float) and not isinstance(cell, bool):
            return float(cell)
    except (ValueError, OverflowError):
        pass
    raise CommandError("importance must be a number from 0 to 1") from None


def _time(columns: Mapping[str, Any], name: str) -> datetime | None:
    if columns.get(name) is None:
        return None
    try:
        when = datetime.fromisoformat(str(columns[name]))
    except ValueError:
        raise CommandError(f"{name} must be a time: 2026-03-01T12:00:00Z") from None
    return when if when.tzinfo else when.replace(tzinfo=UTC)


def _period(columns: Mapping[str, Any], name: str) -> str | None:
    return None if columns.get(name) is None else str(columns[name])


def _row_id(place: Place, columns: Mapping[str, Any]) -> str:
    """Return an id that is a hash of the row, with which a second import recognises it."""
    said = [place.identity, {name: columns[name] for name in sorted(columns) if name != "place"}]
    return f"row-{sha256(json.dumps(said).encode()).hexdigest()[:32]}"


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
    MCP = "mcp"
    CHATS = "chats"


_MEMORIES = (Format.CREWAI, Format.MEM0, Format.GRAPHITI, Format.MCP, Format.CHATS)

_Work: TypeAlias = Callable[[Store], Awaitable[ImportReport]]

PlaceOptions = Annotated[
    list[str] | None, typer.Option("--place", help="Only this place; can be repeated.")
]


@command()
async def export(
    store: Store,
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="A file is replaced; - is standard output.")
    ],
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
    words = f"Wrote {places}, {entries}{turns} to {file}"
    return Answer(record, Problem(words) if is_special(file) else words)


@command()
def import_(
    file: Annotated[
        str,
        typer.Argument(metavar="FILE", help="A file or pipe, -, or a folder of Koog or of chats."),
    ],
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
    """Import facts from a bundle, CSV, JSON Lines, the memories of another program, or chats.

    The memories are those of Koog, CrewAI, mem0, Graphiti or the memory server of MCP. The chats
    are those that ChatGPT and Claude export.

    Importing again changes nothing. For a bundle, `--place` selects places. For rows without a
    column `place`, for memories and for chats it is the target. Exit code 1 means that something
    could not be imported; it is named.
    """
    receipts, only = receipts_of(erased), place or []
    with ExitStack() as stack:
        is_folder = os.path.isdir(file)
        source: Any = file if is_folder else stack.enter_context(opened(file))
        chosen = file_format or (_format_of_folder(file) if is_folder else _format_of(file, source))
        if receipts and chosen not in {Format.BUNDLE, Format.CSV, Format.JSONL}:
            raise CommandError("--erased is for bundles and rows")
        if is_folder and chosen not in {Format.KOOG, Format.CHATS}:
            raise CommandError(f"{chosen} is a file, and {file!r} is a folder")
        if chosen is Format.KOOG:
            work = _koog(file, key_env)
        elif chosen in _MEMORIES:
            work = _memories(source, chosen, only, user_field)
        else:
            work = _facts(source, chosen, only, receipts)
        # The collector would scan all rows repeatedly.
        with acting("factmem import"), paused_collection(_MANY):
            report = run(work, creates=True)
    counts = {"entries": report.entries, "new": report.new, "skipped": report.skipped}
    if chosen in {Format.BUNDLE, Format.CHATS}:
        counts["turns"] = report.turns
    counts["failed"] = report.failed
    lines = [_import_counts(report, chosen)]
    if report.skipped:
        lines.append(f"Skipped {report.skipped:,}, recorded before their places were erased")
    problems = [Problem(each) for each in report.problems]
    if report.failed:
        lines.append(f"Could not import {report.failed:,}")
    if report.failed > len(problems):
        problems.append(Problem(f"and {report.failed - len(problems):,} more"))
    code = ExitCode.FAILED if report.failed else ExitCode.OK
    listed = [{"item": each.item, "reason": each.reason} for each in report.problems]
    record = {"format": chosen.value, **counts, "problems": listed}
    return Answer(record, *lines, *problems, code=code)


def _import_counts(report: ImportReport, chosen: Format) -> str:
    if chosen is Format.CHATS:
        return f"Read {counted(report.entries, 'message')}, {report.new:,} of them new"
    entries = counted(report.entries, "entry", "entries")
    turns = f", and {counted(report.turns, 'message')}" if report.turns else ""
    return f"Read {entries}, {report.new:,} of them new{turns}"


_LOOKED_AT = 20
"""The records of a file of which one shows the format; the first may be damaged."""
_SHOWN_BY = {
    "mapping": Format.CHATS,
    "chat_messages": Format.CHATS,
    "keyword": Format.JSONL,
    "observations": Format.MCP,
    "relationType": Format.MCP,
    "memory": Format.MEM0,
    "fact": Format.GRAPHITI,
    "content": Format.CREWAI,
}
"""The fields by which a record shows its program."""


def _format_of(path: str, file: IO[bytes]) -> Format:
    """Return the format of a file, which is read and left at its beginning."""
    start = file.read(64)
    file.seek(0)
    if not start:
        raise CommandError("The file is empty: nothing was imported")
    if start.startswith(b'{"format":"factmem-bundle"'):
        return Format.BUNDLE
    if start.startswith(b"PK"):
        return Format.CHATS
    if path.lower().endswith(".csv"):
        return Format.CSV
    records = islice(records_in(file), _LOOKED_AT)
    found = [each for each in records if not isinstance(each, ImportProblem)]
    file.seek(0)
    shown = (_SHOWN_BY[name] for each in found for name in _SHOWN_BY if name in each)
    return next(shown, Format.CHATS if path.endswith("conversations.json") else Format.JSONL)


def _format_of_folder(path: str) -> Format:
    from factmem.transfer.chats import chat_files

    return Format.CHATS if chat_files(path) else Format.KOOG


def _facts(file: IO[bytes], chosen: Format, only: list[str], erased: list[ErasureReceipt]) -> _Work:
    """Import a bundle, or rows."""
    if chosen is not Format.BUNDLE and len(only) > 1:
        raise CommandError(
            "Rows can be imported into one --place only: use a column 'place' for more"
        )

    async def work(store: Store) -> ImportReport:
        source: Any = file
        places = [await find_place(store, each, creates=True) for each in only]
        if chosen is not Format.BUNDLE:
            rows = csv_rows(file) if chosen is Format.CSV else json_rows(file)
            source = await RowReader(store, GIVEN.get(), *places).facts(rows)
            places = []
        with progress_bar("Importing") as update:
            return await import_facts(
                source, store, places=places or None, erased=erased, progress=update
            )

    return work


def _koog(path: str, key_env: str | None) -> _Work:
    from factmem.transfer.koog import import_koog

    key = None if key_env is None else Key.from_env(key_env)
    return lambda store: import_koog(path, store, key=key)


def _memories(file: Any, chosen: Format, only: list[str], user_field: str | None) -> _Work:
    """Import the memories or chats of another program into the place that `--place` names."""
    if len(only) != 1:
        raise CommandError(
            f"{chosen} needs one --place: product/my-app/user to keep their users, or "
            "product/my-app/user/alice to import all for one user"
        )
    if user_field is not None and chosen not in {Format.CREWAI, Format.GRAPHITI}:
        raise CommandError("--user-field is for CrewAI and Graphiti: mem0 names users in user_id")
    from factmem.transfer.chats import import_chats
    from factmem.transfer.memories import import_crewai, import_graphiti, import_mcp, import_mem0

    place = parse_place(only[0])
    scope, subject = place.scope, place.subject
    if chosen is Format.CHATS:
        return lambda store: import_chats(file, store, scope=scope, subject=subject)
    has_users = user_field is not None or chosen in {Format.MEM0, Format.GRAPHITI}
    if subject.entity is None and has_users:
        subject = replace(subject, per_entity=True)

    given: dict[str, Any] = {} if user_field is None else {"user_field": user_field}
    given |= {"scope": scope, "subject": subject, "concepts": [*GIVEN.get().concepts.values()]}
    readers = {Format.MEM0: import_mem0, Format.CREWAI: import_crewai, Format.MCP: import_mcp}
    read: Any = readers.get(chosen, import_graphiti)
    return lambda store: read(records_in(file), store, **given)


@command(creates=True)
async def sync(
    store: Store,
    folder: Annotated[str, typer.Argument(metavar="FOLDER", help="Shared by the devices.")],
    new: Annotated[
        bool, typer.Option("--new", help="Make a key, and show its phrase once.")
    ] = False,
    join: Annotated[bool, typer.Option("--join", help="Ask for the phrase of the key.")] = False,
    watch: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="Sync again and again.", min=1)
    ] = None,
    place: PlaceOptions = None,
    conversations: Annotated[
        bool, typer.Option("--conversations", help="Conversations as well, from now on.")
    ] = False,
    state: Annotated[
        str | None, typer.Option(metavar="FOLDER", help="By default the store's path with .sync.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Write nothing.")] = False,
) -> Answer | None:
    """Exchange facts with your other devices through a folder, encrypted end to end."""
    if new and join:
        raise CommandError("--new makes a key and --join asks for that of another device")
    if state is None and GIVEN.get().is_database:
        raise CommandError("Pass --state FOLDER: a database has no folder on this device")
    shared_folder(folder)  # before a phrase is shown that no other device could use
    own = Path(state or GIVEN.get().location.rstrip("/\\") + ".sync")
    phrase = new_phrase() if new else None
    if join:
        is_typed = sys.stdin.isatty()
        phrase = ask_passphrase("Phrase: ", twice=False) if is_typed else sys.stdin.readline()
    given = None if phrase is None else key_of_phrase(phrase)
    if join and given is not None and opens_none(folder, given):
        raise CommandError(
            "The phrase opens no file of the folder: it is that of another memory or folder, or an "
            "old one; `--new` shows the new one. Nothing was changed",
            ExitCode.KEY,
        )
    key = _shared_key(own / "key", given)
    if new:
        sys.stderr.write(f"The phrase for your other devices, shown only now:\n\n  {phrase}\n\n")
    places = [await find_place(store, each) for each in place] if place else None
    while True:
        with progress_bar("Receiving") as update:
            report = await sync_devices(
                store,
                folder,
                key=key,
                state=own,
                places=places,
                conversations=conversations,
                dry_run=dry_run,
                progress=update,
            )
        answer = _sync_answer(report, is_dry=dry_run)
        if watch is None:
            return answer
        if report.sent or report.received or report.erased or report.problems:
            answer.show(as_json=GIVEN.get().as_json, is_last=False)
        await anyio.sleep(watch)


def _shared_key(path: Path, new: Key | None) -> Key:
    """Return the key of the shared memory; write it first if it is new to this device."""
    if new is None:
        if not path.exists():
            raise CommandError(
                "This device has no key: pass --new on the first device, --join on the others",
                ExitCode.KEY,
            )
        return Key.from_file(path)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_whole(str(path), f"{new.to_base64()}\n")
    return new


def _sync_answer(report: SyncReport, *, is_dry: bool) -> Answer:
    behind = [{"device": device, "last_sync": at.isoformat()} for device, at in report.behind]
    sent = counted(report.sent, "entry", "entries")
    erased = f", erased {counted(report.erased, 'place')}" if report.erased else ""
    devices = counted(report.devices, "device")
    done = f"Would send {sent}" if is_dry else f"Sent {sent}, received {report.received}{erased}"
    return Answer(
        {**asdict(report), "behind": behind},
        f"{done}; the folder has files of {devices}",
        *(
            f"Device {device} may still have what was removed: its last sync was {at:%Y-%m-%d %H:%M}Z"
            for device, at in report.behind
        ),
        *(Problem(each) for each in report.problems),
        code=ExitCode.DAMAGED if report.problems else ExitCode.OK,
    )
