"""Commands that move facts: export, import, and sync with other devices.

An import first detects the format of its file. For each format a function returns the work to do on
the open store, so that wrong arguments are refused before a store is opened.

Rows of CSV and JSON Lines become facts: `RowReader` finds the place and the concept of each row and
parses its value as the kind of that concept. The id of a fact is a hash of its row, so that a
second import recognises it.
"""

import csv
import json
import os
import sys
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass, fields, replace
from datetime import UTC, datetime
from enum import StrEnum
from functools import cache
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import IO, Annotated, Any, ClassVar, TypeAlias

import anyio
import typer
from pydantic import BeforeValidator, ConfigDict, TypeAdapter, ValidationError

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
from factmem._concurrency import paused_collection
from factmem.encryption.key import Key
from factmem.ledger.entries import MOST_BYTES
from factmem.ledger.resolution import PlacedFact
from factmem.models.facts import (
    AnyFact,
    FactSource,
    FactType,
    MultipleFacts,
    SingleFact,
    SourceKind,
)
from factmem.models.places import Place, acting
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

_MOST_ROWS = 1_000_000
"""All rows are in memory until they are checked, with 1 to 2 KB for each."""


def _lower(given: object) -> object:
    return given.lower() if isinstance(given, str) else given


def _upper(given: object) -> object:
    return given.upper() if isinstance(given, str) else given


def _aware(given: object) -> datetime:
    """Parse a time; a naive one is in UTC."""
    try:
        when = datetime.fromisoformat(str(given))
    except ValueError:
        raise ValueError("must be a time: 2026-03-01T12:00:00Z") from None
    return when if when.tzinfo else when.replace(tzinfo=UTC)


_Time: TypeAlias = Annotated[datetime | None, BeforeValidator(_aware)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """The columns of a row; `keyword` and `value` are required."""

    __pydantic_config__: ClassVar = ConfigDict(extra="forbid")
    place: str | None = None
    keyword: str
    value: Any
    type: Annotated[Kind | None, BeforeValidator(_lower)] = None
    fact_type: Annotated[FactType | None, BeforeValidator(_upper)] = None
    description: str | None = None
    timestamp: _Time = None
    importance: float | None = None
    expires_at: _Time = None
    since: str | int | None = None
    until: str | int | None = None


_NAMES = [each.name for each in fields(Columns)]


@cache
def _adapter() -> TypeAdapter[Columns]:
    return TypeAdapter(Columns)


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a file: its position and its columns, as they were written."""

    where: str
    given: Mapping[str, Any]
    is_typed: bool
    """Whether the value is JSON already; otherwise it is a string to parse."""

    def columns(self) -> Columns:
        """Return the columns, parsed."""
        try:
            return _adapter().validate_python(self.given)
        except ValidationError as exc:
            first = exc.errors(include_url=False, include_input=False)[0]
            name, problem = first["loc"][0], first["msg"].removeprefix("Value error, ")
            if name not in _NAMES:
                problem = f"it is unknown; the columns are {', '.join(_NAMES)}"
            raise CommandError(f"column {name!r}: {problem}") from None


def csv_rows(file: IO[bytes]) -> Iterator[Row]:
    """Yield the rows of a CSV file; the first line has the names of the columns."""
    csv.field_size_limit(MOST_BYTES)  # a value may be as large as in JSON Lines
    reader = csv.DictReader((line.decode("utf-8-sig") for line in lines_of(file)), strict=True)
    try:
        names = reader.fieldnames or ()
        if len({*names}) < len(names):
            raise CommandError("Line 1 names a column twice")
        if missing := {"keyword", "value"} - {*names}:
            raise CommandError(
                f"Line 1 must name the columns, and {min(missing)!r} is missing: "
                f"the columns are {', '.join(_NAMES)}"
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
                columns = row.columns()
                place = self._place_of(columns)
                target = await self._target(row, columns, place)
                found.append(PlacedFact(place, self._fact(row, columns, target, place)))
            except (CommandError, ValueError, TypeError) as exc:
                raise CommandError(f"{row.where}: {exc}; nothing was imported") from None
        return found

    def _fact(self, row: Row, columns: Columns, target: Target, place: Place) -> AnyFact:
        named: dict[str, Any] = {
            "timestamp": columns.timestamp or self._now,
            "expires_at": columns.expires_at,
            "since": None if columns.since is None else str(columns.since),
            "until": None if columns.until is None else str(columns.until),
            "source": FactSource(SourceKind.DOCUMENT),
            "id": _row_id(place, row.given),
        }
        if columns.importance is not None:
            named["importance"] = columns.importance
        value = target.json_value if row.is_typed else target.value
        if target.concept.fact_type is FactType.SINGLE:
            return SingleFact(target.concept, value(columns.value), **named)
        return MultipleFacts(target.concept, [value(columns.value)], **named)

    def _place_of(self, columns: Columns) -> Place:
        if columns.place is not None:
            return self._parsed(columns.place)
        if self._place is None:
            raise CommandError("the row has no place: add a column 'place', or pass --place")
        return self._place

    async def _target(self, row: Row, columns: Columns, place: Place) -> Target:
        """Return the concept of a row and its kinds; cached, as a file has many rows of each."""
        keyword, kind = columns.keyword, columns.type
        if place not in self._held:
            self._held[place] = await held_in(self._store, place)
        if self._elsewhere is None:  # read only once: a file may have thousands of new keywords
            self._elsewhere = await held_anywhere(self._store)
        held = self._held[place].get(keyword, [])
        # In a place without the keyword, the columns and other places decide what it is.
        given = kind, columns.description, columns.fact_type
        said = (place if held else None, keyword, *given)
        if said in self._targets:
            return self._targets[said]
        began = self._kinds.get(keyword, kind)
        if not held and kind not in (None, began):
            raise CommandError(f"{keyword!r} has {began} values, not {kind}")
        if began is None and row.is_typed:
            began = kind_of(columns.value)
        known = held or self._elsewhere.get(keyword, [])
        target = self._targets[said] = target_of(
            self._options,
            keyword,
            known,
            kind=kind if known else began,
            description=columns.description,
            multiple=columns.fact_type is FactType.MULTIPLE,
            remedy="add a column 'type' with",
        )
        if len(target.held) == 1:
            self._kinds.setdefault(keyword, min(target.held))
        return target


def _row_id(place: Place, given: Mapping[str, Any]) -> str:
    """Return an id that is a hash of the row, with which a second import recognises it."""
    said = [place.identity, {name: given[name] for name in sorted(given) if name != "place"}]
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
            f"Device {device} may still have what was removed: last sync {at:%Y-%m-%d %H:%M}Z"
            for device, at in report.behind
        ),
        *(Problem(each) for each in report.problems),
        code=ExitCode.DAMAGED if report.problems else ExitCode.OK,
    )
