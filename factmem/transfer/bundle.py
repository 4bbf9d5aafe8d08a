"""Backup of a store, and moves between stores, as one JSON Lines file: the bundle.

    report = await export_facts(store, "backup.jsonl")
    report = await import_facts("backup.jsonl", other_store)

A bundle contains everything: values, ids, times, importance, sources, expiry, confirmations,
conversations and, unless you omit it, the history. Any `FactStore` can import a bundle of any
other without loss. An import reads a bundle twice: first to verify all of it, then to write place
by place.

**A bundle is not encrypted**, even if its store is. Its digest detects damage, not forgery. Protect
it like the facts themselves.

The lines of a bundle:

    {"format":"factmem-bundle","version":1,"written_at":"...","history":true}
    {"place":["product","my-app","user","alice"],"entries":2}
    {"at":"...","facts":[...]}
    {"at":"...","forget":[...]}
    {"place":["product","my-app","user","alice"],"conversation":"chat-7","entries":1}
    {"number":0,"said":"...","turn":{"id":"...","message":{"role":"user","content":"..."}}}
    {"end":{"places":1,"entries":2,"sha256":"..."}}

A place line contains the number of entry lines that follow it, so an entry cannot be mistaken for
another kind of line. The conversations of a place follow it. The digest covers all bytes before
the last line. Every line ends with a line feed, so that a reader notices even one missing byte at
the end.
"""

import os
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from hashlib import sha256
from io import TextIOBase
from operator import itemgetter
from shutil import copyfileobj
from tempfile import SpooledTemporaryFile
from typing import IO, Any, BinaryIO, NamedTuple, NoReturn, TypeAlias

import orjson
import pydantic_core
from anyio import CancelScope
from anyio.from_thread import check_cancelled
from anyio.to_thread import run_sync
from typing_extensions import TypeIs

from factmem._arguments import expect_function, expect_methods
from factmem.errors import InputTypeError, InputValueError, StorageError
from factmem.ledger._entry_check import check_entry
from factmem.ledger._merging import check_recorded
from factmem.ledger._removal import compacted
from factmem.ledger._trace import KINDS
from factmem.ledger.entries import MOST_BYTES, Entry, is_small
from factmem.ledger.resolution import PlacedFact
from factmem.models._values import checked_name
from factmem.models.places import UNBOUNDED, Boundary, Identity, Place, checked_places
from factmem.models.when import TimeProvider, stamp, system_clock, utc
from factmem.providers.conversations import NewTurn, Turn, conversation_of, new_turn, owner_of
from factmem.providers.results import ErasureReceipt, check_progress
from factmem.providers.store import FactStore
from factmem.transfer._outputs import Output
from factmem.transfer._rows import check_store, erased_until, import_rows, parsed_json, times_of
from factmem.transfer.reports import ExportReport, ImportReport

__all__ = ["export_facts", "import_facts"]

BundleFile: TypeAlias = str | os.PathLike[str] | BinaryIO
"""A path, or a file object in binary mode."""

_MOST_IN_MEMORY = 64 * 1024 * 1024
"""A larger bundle is copied to an unnamed file in the folder for temporary files. The verified
bytes are the imported bytes, whatever happens to the file in between."""


def _fill(copy: IO[bytes], source: BundleFile) -> None:
    """Copy a file, from its position to its end."""
    with ExitStack() as opened:
        if isinstance(source, str | os.PathLike):
            copyfileobj(opened.enter_context(open(source, "rb")), copy)
        else:
            _check_binary(source, "read")
            copyfileobj(source, copy)
    copy.seek(0)


@asynccontextmanager
async def open_target(target: BundleFile) -> AsyncGenerator[BinaryIO]:
    """Yield the file to write to. At a path, the complete file appears at the end or not at all."""
    if not isinstance(target, str | os.PathLike):
        _check_binary(target, "write", "flush")
        yield target
        await run_sync(target.flush)
        return
    draft = await run_sync(Output, os.fspath(target))
    try:
        yield draft.file
        await run_sync(draft.publish)
    finally:
        with CancelScope(shield=True):
            await run_sync(draft.discard)


def _check_binary(file: object, *methods: str) -> None:
    if isinstance(file, TextIOBase):
        raise InputTypeError("file must be open in binary mode: open(path, 'rb')")
    expect_methods(file, methods, "file", "a path, 'facts.jsonl', or io.BytesIO()")


_LONGEST_GAP = 100_000
"""The most removed messages that a conversation of a bundle may skip."""
_GAP = "factmem-gap-"
"""The beginning of the ids of messages that keep the numbers of the others for a moment."""


class StoredTurn(NamedTuple):
    """A message in a bundle."""

    number: int
    said: datetime
    turn: NewTurn


def stored_turn(fields: dict[str, Any], before: Sequence[int]) -> StoredTurn:
    """Return the message of a line, or raise `KeyError`, `TypeError` or `ValueError`.

    Args:
        fields: The line.
        before: How many messages of the conversation are before it, and the number after the last.
    """
    number, said, body = fields["number"], fields["said"], fields["turn"]
    count, least = before
    if type(number) is not int or not least <= number <= count + _LONGEST_GAP:
        raise InputValueError("its number is wrong")
    if str(body["id"]).startswith(_GAP):
        raise InputValueError("its id is reserved")
    said_at = datetime.fromisoformat(said)
    return StoredTurn(number, said_at, new_turn(body["message"], said_at, body["id"]))


async def conversations_of(store: FactStore, place: Place) -> list[tuple[str, list[Turn]]]:
    """Return the conversations of a place, by their ids; none if the store keeps none."""
    try:
        stored = store.conversations
    except StorageError:
        return []
    names = [info.id for info in await stored.conversations(place)]
    return [(name, await stored.turns(name, place)) for name in sorted(names)]


async def append_turns(
    store: FactStore, place: Place, conversation: str, turns: Sequence[StoredTurn], erased: str
) -> int:
    """Append the messages that are not stored yet; return how many were not erased.

    Messages of a new conversation keep their numbers, which facts cite.
    """
    kept = [each for each in turns if stamp(each.said) > erased]
    stored = store.conversations
    present = await stored.turns(conversation, place)
    new = [each.turn for each in kept] if present else _with_gaps(kept)
    await stored.append(new, conversation, place)
    names = [*(each.id for each in present), *(each.id for each in new)]
    if gaps := [name for name in names if name is not None and name.startswith(_GAP)]:
        await stored.remove(conversation, place, ids=gaps)
    return len(kept)


def _with_gaps(turns: Sequence[StoredTurn]) -> list[NewTurn]:
    filled: list[NewTurn] = []
    for each in turns:
        while len(filled) < each.number:
            filled.append(new_turn({"role": "system"}, None, f"{_GAP}{len(filled)}"))
        filled.append(each.turn)
    return filled


FORMAT = "factmem-bundle"
VERSION = 1

_CHUNK = 1 << 20

_MOST_ITEMS = 256
"""The most facts or forgotten values of a line. Most stores split larger saves too."""


class BundleWriter:
    """Writes a bundle to a binary file, and counts its entries, turns and bytes."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._digest = sha256()
        self._places = 0
        self.entries: int = 0
        self.turns: int = 0
        self.bytes: int = 0

    def write_header(self, written_at: str, *, history: bool) -> None:
        """Write the first line."""
        header = {"format": FORMAT, "version": VERSION, "written_at": written_at}
        self._write([_line({**header, "history": history})])

    def write_place(self, identity: Identity, entries: Sequence[Entry]) -> None:
        """Write a place, or a conversation as it is stored, and its entries.

        Raises:
            ValueError: A value is too large for a reader.
        """
        parts = [part for entry in entries for part in _split(entry)]
        head: dict[str, object] = {"place": owner_of(identity), "entries": len(parts)}
        if (named := conversation_of(identity)) is not None:
            head["conversation"] = named[1]
        self._write([_line(head)])
        self._write(map(_entry_line, parts))
        self._places += 1
        self.entries += len(parts)

    def write_conversation(self, place: Identity, name: str, turns: Sequence[Turn]) -> None:
        """Write a conversation of the last place.

        Raises:
            ValueError: A message is too large for a reader.
        """
        self._write([_line({"place": place, "conversation": name, "entries": len(turns)})])
        self._write(map(_turn_line, turns))
        self._places += 1
        self.turns += len(turns)

    def write_end(self) -> None:
        """Write the last line. A reader rejects a bundle without it."""
        counts = {"places": self._places, "entries": self.entries + self.turns}
        self._write([_line({"end": {**counts, "sha256": self._digest.hexdigest()}})])

    def _write(self, lines: Iterator[bytes] | list[bytes]) -> None:
        chunk = bytearray()
        for line in lines:
            chunk += line
            if len(chunk) >= _CHUNK:
                self._flush(bytes(chunk))
                chunk.clear()
        self._flush(bytes(chunk))

    def _flush(self, chunk: bytes) -> None:
        self._digest.update(chunk)
        self.bytes += len(chunk)
        while chunk:  # an unbuffered file may write only a part
            chunk = chunk[self._file.write(chunk) :]


def _line(fields: dict[str, Any]) -> bytes:
    try:
        return orjson.dumps(fields) + b"\n"
    except TypeError:  # an integer beyond 64 bits
        return pydantic_core.to_json(fields) + b"\n"


def _split(entry: Entry) -> Iterator[Entry]:
    """Yield an entry of very many items as several of the same time, and any other as it is."""
    for name in ("facts", "forget"):
        items: Any = entry.get(name, ())
        is_alone = all(kind == name or kind not in entry for kind in KINDS)
        if isinstance(items, list) and len(items) > _MOST_ITEMS and is_alone:
            for start in range(0, len(items), _MOST_ITEMS):
                part: Any = {**entry, name: items[start : start + _MOST_ITEMS]}
                yield part
            return
    yield entry


def _entry_line(entry: Entry) -> bytes:
    plain = {key: value for key, value in entry.items() if key != "wide"}
    line = _line(plain)
    if not is_small(line):
        keywords = {fact["keyword"] for fact in entry.get("facts", ())}
        raise InputValueError(
            f"A save of {', '.join(map(repr, keywords))} is too large for a bundle"
        )
    return line


def _turn_line(turn: Turn) -> bytes:
    body = {"id": turn.id, "message": turn.message}
    line = _line({"number": turn.number, "said": turn.said_at.isoformat(), "turn": body})
    if not is_small(line):
        raise InputValueError(f"Message {turn.number} of a conversation is too large for a bundle")
    return line


class BundlePart(NamedTuple):
    """A place line: the facts of a place, or one of its conversations."""

    place: Place
    conversation: str | None
    lines: int
    """How many lines follow."""


class BundleReader:
    """Reads a bundle from a binary file, line by line, and raises at the first invalid line.

    Every error is a `ValueError` that names the number of the line and quotes none of its content.
    With `is_verified` the entries are not checked again; the digest still detects a file that has
    changed since.
    """

    def __init__(self, file: IO[bytes], *, is_verified: bool = False) -> None:
        self._file = file
        self._is_verified = is_verified
        self._digest = sha256()
        self._line = b""
        self._number = 0
        self._places = 0
        self._entries = 0
        self._turns = (0, 0)
        """How many messages of a conversation were read, and the number after the last."""

    def read_header(self) -> None:
        """Read the first line."""
        header = self._next()
        version = header.get("version")
        if header.get("format") != FORMAT or type(version) is not int or version < 1:
            self._fail("is not the header of a factmem bundle")
        if version > VERSION:
            raise InputValueError(
                f"The bundle has version {version}, and this factmem reads versions up to "
                f"{VERSION}: update factmem. Nothing was imported"
            )

    def read_part(self) -> BundlePart | None:
        """Read a place line; None at the end mark."""
        fields = self._next()
        if "end" in fields:
            self._check_end(fields["end"])
            return None
        count = fields.get("entries")
        if type(count) is not int or count < 0:
            self._fail("is neither a place nor the end mark")
        self._places += 1
        self._turns = (0, 0)
        try:
            conversation = fields.get("conversation")
            if conversation is not None and not self._is_verified:
                checked_name(conversation, "id")
        except (TypeError, ValueError):
            self._fail("names no valid conversation")
        return BundlePart(self._place(fields.get("place")), conversation, count)

    def read_entry(self) -> Entry:
        """Read an entry line."""
        entry: Any = self._next()
        if not self._is_verified:
            try:
                check_entry(entry)
            except ValueError as exc:
                self._fail(f"is not an entry: {exc}")
        self._entries += 1
        checked: Entry = entry
        return checked

    def read_turn(self) -> StoredTurn:
        """Read a line of a conversation."""
        fields = self._next()
        try:
            turn = stored_turn(fields, self._turns)
        except (KeyError, TypeError, ValueError) as exc:
            self._fail(f"is not a message of a conversation: {exc}")
        self._entries += 1
        self._turns = (self._turns[0] + 1, turn.number + 1)
        return turn

    def _next(self) -> dict[str, Any]:
        self._digest.update(self._line)
        self._line = self._file.readline(MOST_BYTES + 1)
        self._number += 1
        if len(self._line) > MOST_BYTES:
            self._fail(f"has more than {MOST_BYTES:,} bytes")
        if not self._line.endswith(b"\n"):
            raise InputValueError(
                f"The bundle ends in line {self._number}, before its end mark: it was truncated. "
                f"Nothing was imported; copy the bundle again"
            )
        try:
            fields = parsed_json(self._line)
        except ValueError as exc:
            self._fail(str(exc))
        if not isinstance(fields, dict):
            self._fail("is not a JSON object")
        return fields

    def _place(self, identity: object) -> Place:
        place = None
        match identity:
            case [str(kind), str(scope), str(subject), None | str() as entity]:
                with suppress(ValueError):
                    place = Place.of_identity((kind, scope, subject, entity))
            case _:
                pass
        if place is None or [*place.identity] != identity:
            self._fail("does not name a valid place")
        return place

    def _check_end(self, end: object) -> None:
        if not isinstance(end, dict) or end.get("sha256") != self._digest.hexdigest():
            self._fail("has a digest that does not match the lines before it")
        if (end.get("places"), end.get("entries")) != (self._places, self._entries):
            self._fail("has counts that do not match the lines before it")
        if self._file.read(1):
            self._number += 1
            self._fail("comes after the end mark")

    def _fail(self, what: str) -> NoReturn:
        raise InputValueError(
            f"Line {self._number} of the bundle {what}: it was damaged or edited. Nothing was "
            f"imported; copy or export it again"
        ) from None


_LINES_AT_A_TIME = 10_000
"""Entries between two checks of a cancellation."""


async def export_facts(
    store: FactStore,
    target: BundleFile,
    *,
    places: Iterable[Place] | None = None,
    history: bool = True,
    clock: TimeProvider = system_clock,
    progress: Callable[[int, int], None] | None = None,
) -> ExportReport:
    """Write the facts of a store to a bundle.

    The bundle is **not encrypted**. At a path, the file is written atomically and durably, with
    mode 0600, and replaces an existing file. After an error or a cancellation the existing file is
    unchanged. The new file has no name until it is complete, so a killed export leaves nothing
    behind. Where the system does not support unnamed files, the next export to the folder removes
    the leftover. A file object is written from its current position and stays open. `import_facts`
    rejects an incomplete bundle.

    Each place is written as of one moment. If other tasks write to the store meanwhile, these
    moments differ from place to place. Uses as much memory as the largest place. No LLM calls. File
    I/O runs in worker threads.

    Args:
        store: The store to export.
        target: A path, or a file object open for writing in binary mode.
        places: Export only these places; all by default. An empty place is skipped.
        history: Whether to include replaced and forgotten values. Without history, only the values
            that are current by `clock` are written.
        clock: Returns the time for the header and for expiry.
        progress: Called after each place, with the number of finished places and of all places.

    Raises:
        TypeError: `store` is not a `FactStore`, `target` is of another type or open in text mode,
            or `places` is not a list of `Place`.
        OSError: The file cannot be written.
        StorageError: The store cannot be read.
    """
    check_store(store, "store")
    now = utc(expect_function(clock, "clock", "clock=system_clock")(), "clock's time")
    check_progress(progress)
    places = None if places is None else checked_places(places)
    kept: list[Place] = []
    async with open_target(target) as file:
        writer = BundleWriter(file)
        await run_sync(partial(writer.write_header, stamp(now), history=history))
        wanted = await _places_of(store, places)
        for done, place in enumerate(wanted, 1):
            entries = await store.entries(place.subject, place.scope)
            if not history:
                entries = await run_sync(_current, entries, stamp(now))
            chats = await conversations_of(store, place)
            if entries or chats:
                await run_sync(writer.write_place, place.identity, entries)
                kept.append(place)
            for name, turns in chats:
                await run_sync(writer.write_conversation, place.identity, name, turns)
            if progress is not None:
                progress(done, len(wanted))
        await run_sync(writer.write_end)
    return ExportReport(tuple(kept), writer.entries, writer.bytes, writer.turns)


async def import_facts(
    source: BundleFile | Iterable[PlacedFact[Any]],
    into: FactStore,
    *,
    places: Iterable[Place] | None = None,
    erased: Iterable[ErasureReceipt] = (),
    progress: Callable[[int, int], None] | None = None,
) -> ImportReport:
    """Import the facts of a bundle, or rows with their own times, into a store.

    The whole bundle is verified before anything is written; nothing of a truncated, damaged or
    edited bundle is imported. Then each place is written in one step, completely or not at all. If
    the store fails or the import is cancelled, the places written before stay, and a second import
    adds the rest. Entries that the store already has are skipped, so importing twice changes
    nothing.

    Existing entries of a place stay. What is current is decided by when it was said, whatever was
    imported when. Uses as much memory as the largest place and up to 64 MiB of the bundle. A
    larger bundle is read a second time, and a place that changed in the file since the
    verification is not written. No LLM calls. File I/O runs in worker threads.

    What was recorded, or said in a conversation, before the store erased the place is skipped, and
    counted in `skipped` of the result, so that no erased data is restored. Imported conversations
    are not queued for learning.

    Rows are `PlacedFact`s in any order. Each one is recorded at the `timestamp` of its fact, so
    that `as_of` finds it. A row older than the newest entry of its place counts as recorded at the
    time of that entry. A row is skipped if the place already has a save with the same keyword,
    timestamp and values, whatever its id. All rows are checked before the first is written.

    Args:
        source: A path, or a file object open for reading in binary mode, which is read from its
            current position to its end. Or an iterable of `PlacedFact`. A bundle of more than 64
            MiB is copied to an unnamed file in the folder for temporary files.
        into: The store to import into.
        places: Import only these places; all by default.
        erased: Receipts of erasures that the store does not know, to skip these too.
        progress: Called after each place, with the number of finished places and of all places.

    Raises:
        TypeError: `into` is not a `FactStore`, `source` is of another type or open in text mode, or
            `places` is not a list of `Place`.
        MemoryAccessError: `into` is a view that does not permit writing to one of the places.
            Nothing was imported.
        ValueError: The bundle is damaged, truncated or of a later version; the message names the
            line and quotes none of its content. Or something in it was recorded or said more than
            ten minutes after the present moment.
        OSError: The file cannot be read, or not be copied.
        StorageError: The store failed.
    """
    check_store(into, "into")
    check_progress(progress)
    wanted = None if places is None else {each.identity for each in checked_places(places)}
    if _are_rows(source):
        return await import_rows(source, into, wanted, times_of(erased), progress)
    times, done = times_of(erased), list[Place]()
    read = new = skipped = said = 0
    with SpooledTemporaryFile(_MOST_IN_MEMORY) as file:
        await run_sync(_fill, file, source)
        contents = await run_sync(_verified, BundleReader(file), into, wanted)
        if (place := contents.refused) is not None:
            await into.replay([], place.subject, place.scope)  # the view raises and reports it
        check_recorded([{"at": contents.latest}], stamp(system_clock()))
        await run_sync(file.seek, 0)
        reader = BundleReader(file, is_verified=True)
        await run_sync(reader.read_header)
        while (found := await run_sync(_next_place, reader, wanted)) is not None:
            part, entries, turns = found
            place, until = part.place, await erased_until(into, part.place, times)
            if part.conversation is not None:
                said += await append_turns(into, place, part.conversation, turns, until)
                continue
            kept = [entry for entry in entries if entry["at"] > until]
            new += await into.replay(kept, place.subject, place.scope)
            read, skipped = read + len(entries), skipped + len(entries) - len(kept)
            done.append(place)
            if progress is not None:
                progress(len(done), contents.wanted)
    return ImportReport(tuple(done), read, new, skipped=skipped, turns=said)


def _are_rows(source: BundleFile | Iterable[PlacedFact[Any]]) -> TypeIs[Iterable[PlacedFact[Any]]]:
    """Whether this is an iterable and not a file, which is iterable too."""
    is_file = isinstance(source, str | bytes | os.PathLike) or hasattr(source, "readline")
    return isinstance(source, Iterable) and not is_file


@dataclass(slots=True)
class _Contents:
    """The contents of a bundle, as found by its verification."""

    wanted: int = 0
    """The number of places to import."""
    refused: Place | None = None
    """The first place that cannot be written."""
    latest: str = ""
    """The latest time at which something was recorded or said."""


def _verified(reader: BundleReader, into: FactStore, wanted: set[Identity] | None) -> _Contents:
    """Verify a bundle to its end, without keeping its entries; a cancellation ends it early."""
    given = getattr(into, "boundary", None)
    boundary = given if isinstance(given, Boundary) else UNBOUNDED
    found, lines = _Contents(), 0
    reader.read_header()
    while (part := reader.read_part()) is not None:
        place = part.place
        for _ in range(part.lines):
            if part.conversation is None:
                found.latest = max(found.latest, reader.read_entry()["at"])
            else:
                found.latest = max(found.latest, stamp(reader.read_turn().said))
            lines += 1
            if lines % _LINES_AT_A_TIME == 0:
                check_cancelled()
        if wanted is None or place.identity in wanted:
            found.wanted += part.conversation is None
            if boundary.is_read_only or not boundary.allows(place.identity):
                found.refused = found.refused or place
    return found


_Part: TypeAlias = tuple[BundlePart, list[Entry], list[StoredTurn]]


def _next_place(reader: BundleReader, wanted: set[Identity] | None) -> _Part | None:
    """Read the next wanted place of a verified bundle."""
    while (part := reader.read_part()) is not None:
        is_wanted = wanted is None or part.place.identity in wanted
        entries, turns = list[Entry](), list[StoredTurn]()
        for _ in range(part.lines):
            if part.conversation is not None:
                turns.append(reader.read_turn())
            elif is_wanted:
                entries.append(reader.read_entry())
            else:
                reader.read_entry()
        if is_wanted:
            return part, entries, turns
    return None


async def _places_of(store: FactStore, places: Iterable[Place] | None) -> list[Place]:
    """Return the places to write, without duplicates, ordered by identity."""
    if places is None:
        places = await store.list_places()
    by_identity = {tuple(part or "" for part in place.identity): place for place in places}
    # Stores list places in different orders, and equal stores should give equal bundles.
    return [place for _, place in sorted(by_identity.items(), key=itemgetter(0))]


def _current(entries: list[Entry], now: str) -> list[Entry]:
    """Return the current entries. A clock that was set back does not revive expired values."""
    cutoff = max([now, *(entry["at"] for entry in entries)])
    return [entry for entry in compacted(entries, cutoff) if entry is not None]
