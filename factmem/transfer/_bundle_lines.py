"""The lines of a bundle: how they are written, and how they are read and checked.

    {"format":"factmem-bundle","version":1,"written_at":"...","history":true}
    {"place":["product","my-app","user","alice"],"entries":2}
    {"at":"...","facts":[...]}
    {"at":"...","forget":[...]}
    {"end":{"places":1,"entries":2,"sha256":"..."}}

A place line says how many of the lines after it are its entries, so no entry can be taken for
anything else. The digest is over all bytes before the last line. Every line ends in a line feed, so
that a reader notices a single byte that is missing at the end.
"""

import json
from collections.abc import Iterator, Sequence
from hashlib import sha256
from typing import Any, BinaryIO, NoReturn

import orjson
import pydantic_core

from factmem.ledger.entries import Entry
from factmem.ledger.entry_check import check_entry
from factmem.models.places import Identity, Place

FORMAT = "factmem-bundle"
VERSION = 1

_CHUNK = 1 << 20

_WIDE = b'{"wide":true,'
"""How an entry begins that holds integers beyond 64 bits: fast readers would round them."""


class BundleWriter:
    """Writes a bundle into a binary file, line by line, counting as it goes."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._digest = sha256()
        self._places = 0
        self.entries = 0
        self.bytes = 0

    def write_header(self, written_at: str, *, history: bool) -> None:
        """Write the first line."""
        header = {"format": FORMAT, "version": VERSION, "written_at": written_at}
        self._write([_line({**header, "history": history})])

    def write_place(self, identity: Identity, entries: Sequence[Entry]) -> None:
        """Write a place and its entries."""
        self._write([_line({"place": identity, "entries": len(entries)})])
        self._write(_entry_line(entry) for entry in entries)
        self._places += 1
        self.entries += len(entries)

    def write_end(self) -> None:
        """Write the last line, without which a bundle is not whole."""
        counts = {"places": self._places, "entries": self.entries}
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
        while chunk:  # an unbuffered file may take a part only
            chunk = chunk[self._file.write(chunk) :]


def _line(fields: dict[str, object]) -> bytes:
    return orjson.dumps(fields) + b"\n"


def _entry_line(entry: Entry) -> bytes:
    plain = {key: value for key, value in entry.items() if key != "wide"}
    try:
        return orjson.dumps(plain) + b"\n"
    except TypeError:  # an integer beyond 64 bits
        return pydantic_core.to_json({"wide": True, **plain}) + b"\n"


class BundleReader:
    """Reads a bundle from a binary file, line by line, and raises at the first that is wrong.

    Every error is a `ValueError` that names the line by its number and quotes nothing of it. In a
    bundle that was verified before, entries are not looked at again; the digest still tells if the
    file is another by now.
    """

    def __init__(self, file: BinaryIO, *, is_verified: bool = False) -> None:
        self._file = file
        self._is_verified = is_verified
        self._digest = sha256()
        self._line = b""
        self._number = 0
        self._places = 0
        self._entries = 0

    def read_header(self) -> None:
        """Read the first line."""
        header = self._next()
        version = header.get("version")
        if header.get("format") != FORMAT or type(version) is not int or version < 1:
            self._fail("is not the header of a factmem bundle")
        if version > VERSION:
            raise ValueError(
                f"The bundle is of version {version} and this factmem reads up to version "
                f"{VERSION}: update factmem. Nothing was imported"
            )

    def read_place(self) -> tuple[Place, int] | None:
        """Read the line of a place: the place, and how many entries follow; None at the end."""
        fields = self._next()
        if "end" in fields:
            self._check_end(fields["end"])
            return None
        count = fields.get("entries")
        if type(count) is not int or count < 0:
            self._fail("is neither a place nor the end mark")
        self._places += 1
        return self._place(fields.get("place")), count

    def read_entry(self) -> Entry:
        """Read the line of an entry."""
        entry: Any = self._next()
        entry.pop("wide", None)
        if not self._is_verified:
            try:
                check_entry(entry)
            except ValueError as exc:
                self._fail(f"is not an entry: {exc}")
        self._entries += 1
        checked: Entry = entry
        return checked

    def mark(self) -> bytes:
        """Return the digest of all lines that were read."""
        digest = self._digest.copy()
        digest.update(self._line)
        return digest.digest()

    def _next(self) -> dict[str, Any]:
        self._digest.update(self._line)
        self._line = self._file.readline()
        self._number += 1
        if not self._line.endswith(b"\n"):
            raise ValueError(
                f"The bundle ends in line {self._number}, before its end mark: it was cut short. "
                f"Nothing was imported; copy the bundle again"
            )
        try:
            fields: object = _parsed(self._line)
        except (ValueError, RecursionError):
            self._fail("is not JSON")
        if not isinstance(fields, dict):
            self._fail("is not a JSON object")
        return fields

    def _place(self, identity: object) -> Place:
        match identity:
            case [str(kind), str(scope), str(subject), None | str() as entity]:
                place = _place_of((kind, scope, subject, entity))
            case _:
                place = None
        if place is None:
            self._fail("names no place that there can be")
        return place

    def _check_end(self, end: object) -> None:
        if not isinstance(end, dict) or end.get("sha256") != self._digest.hexdigest():
            self._fail("has a digest that the lines before it do not give")
        if (end.get("places"), end.get("entries")) != (self._places, self._entries):
            self._fail("counts other lines than there are")
        if self._file.read(1):
            self._number += 1
            self._fail("comes after the end mark")

    def _fail(self, what: str) -> NoReturn:
        raise ValueError(
            f"Line {self._number} of the bundle {what}: it was damaged or edited. Nothing was "
            f"imported; copy or export it again"
        ) from None


def _place_of(identity: Identity) -> Place | None:
    try:
        place = Place.of_identity(identity)
    except ValueError:
        return None
    return place if place.identity == identity else None


def _parsed(line: bytes) -> object:
    if not line.startswith(_WIDE):
        return orjson.loads(line)
    wide: object = json.loads(line, parse_constant=_refused)
    json.dumps(wide, ensure_ascii=False).encode()  # a lone surrogate is no text
    return wide


def _refused(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")
