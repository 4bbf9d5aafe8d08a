"""The line format of a bundle: a writer, and a reader that validates it.

    {"format":"factmem-bundle","version":1,"written_at":"...","history":true}
    {"place":["product","my-app","user","alice"],"entries":2}
    {"at":"...","facts":[...]}
    {"at":"...","forget":[...]}
    {"place":["product","my-app","user","alice"],"conversation":"chat-7","entries":1}
    {"number":0,"said":"...","turn":{"id":"...","message":{"role":"user","content":"..."}}}
    {"end":{"places":1,"entries":2,"sha256":"..."}}

A place line contains the number of entry lines that follow it, so an entry cannot be mistaken for
another kind of line. The conversations of a place follow it. The digest covers all bytes before the last line. Every line ends with a line
feed, so that a reader notices even one missing byte at the end.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from hashlib import sha256
from typing import IO, Any, BinaryIO, NamedTuple, NoReturn

import orjson
import pydantic_core

from factmem.ledger._entry_check import check_entry
from factmem.ledger._related import KINDS
from factmem.ledger.entries import Entry
from factmem.models._names import checked_name
from factmem.models.places import Identity, Place
from factmem.providers.conversations import Turn
from factmem.transfer._bundle_turns import StoredTurn, stored_turn
from factmem.transfer._lines import MOST_BYTES, is_small, parsed_json

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
        self.entries = 0
        self.turns = 0
        self.bytes = 0

    def write_header(self, written_at: str, *, history: bool) -> None:
        """Write the first line."""
        header = {"format": FORMAT, "version": VERSION, "written_at": written_at}
        self._write([_line({**header, "history": history})])

    def write_place(self, identity: Identity, entries: Sequence[Entry]) -> None:
        """Write a place and its entries.

        Raises:
            ValueError: A value is too large for a reader.
        """
        parts = [part for entry in entries for part in _split(entry)]
        self._write([_line({"place": identity, "entries": len(parts)})])
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


def _line(fields: dict[str, object]) -> bytes:
    return orjson.dumps(fields) + b"\n"


def _split(entry: Entry) -> Iterator[Entry]:
    """Yield an entry of very many items as several of the same time, and any other as it is."""
    for name in ("facts", "forget"):
        items: Any = entry.get(name, ())
        is_alone = all(kind == name or kind not in entry for kind in KINDS)
        if len(items) > _MOST_ITEMS and is_alone:
            for start in range(0, len(items), _MOST_ITEMS):
                part: Any = {**entry, name: items[start : start + _MOST_ITEMS]}
                yield part
            return
    yield entry


def _entry_line(entry: Entry) -> bytes:
    plain = {key: value for key, value in entry.items() if key != "wide"}
    try:
        line = orjson.dumps(plain) + b"\n"
    except TypeError:  # an integer beyond 64 bits
        line = pydantic_core.to_json(plain) + b"\n"
    if not is_small(line):
        keywords = {fact["keyword"] for fact in entry.get("facts", ())}
        raise ValueError(f"A save of {', '.join(map(repr, keywords))} is too large for a bundle")
    return line


def _turn_line(turn: Turn) -> bytes:
    body = {"id": turn.id, "message": turn.message}
    line = _line({"number": turn.number, "said": turn.said_at.isoformat(), "turn": body})
    if not is_small(line):
        raise ValueError(f"Message {turn.number} of a conversation is too large for a bundle")
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
            raise ValueError(
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
            conversation = None if conversation is None else checked_name(conversation, "id")
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
            raise ValueError(
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
        raise ValueError(
            f"Line {self._number} of the bundle {what}: it was damaged or edited. Nothing was "
            f"imported; copy or export it again"
        ) from None
