"""How a journal's lines are written and checked: the plain way and what every way must offer."""

import hashlib
import json
import re
import zlib
from collections.abc import Iterator
from functools import lru_cache
from secrets import token_hex
from typing import NamedTuple, Protocol, TypeAlias

from factmem.storage.base import JournalName


def compact(value: object) -> bytes:
    """Return JSON without spaces, non-ASCII text as it is."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


class UnreadableHeader(Exception):  # noqa: N818 - never leaves the storage
    """A journal's first line does not verify; the text says how, without a file name."""


class NewerHeader(Exception):  # noqa: N818 - never leaves the storage
    """A journal's first line is whole, and of a version that came after this one."""


Unsealed: TypeAlias = tuple[int, int, bytes | None, bytes, bytes]
"""What a line holds: the record's number; up to which number all records were durable before it;
the tag of the record before it, where lines are chained; its own tag; its text.

A plain tuple: there is one per line, and a named one takes four times as long to make.
"""


class LineSealer(Protocol):
    """Writes and reads the lines of one incarnation of one journal file."""

    start: bytes
    """What the first record's `previous` is."""

    def seal(self, number: int, durable: int, previous: bytes, data: bytes) -> tuple[bytes, bytes]:
        """Return a line without its end, and its tag; `durable` 0 is not written."""
        ...

    def unseal(self, line: bytes) -> Unsealed:
        """Return what a line holds; `ValueError` if it does not verify."""
        ...

    def starts(self, line: bytes, after: int) -> Iterator[int]:
        """Give the places in a line that does not verify at which another might begin.

        A damaged line end makes one line of two; the second is still there. `after` is the number
        of the last record read.
        """
        ...


class Header(NamedTuple):
    """What a journal's first line says."""

    snapshot: int
    """How many snapshot records follow it."""
    next: int
    """The first number after the snapshot."""
    sealer: LineSealer


class Codec(Protocol):
    """How the journals of one store are written."""

    suffix: str
    hides_names: bool
    """Whether the name must be kept in a record, as neither file name nor header show it."""

    def file_name(self, name: JournalName) -> str:
        """Return the name of a journal's file; different for different names."""
        ...

    def new_header(self, name: JournalName, file: str, snapshot: int, following: int) -> bytes:
        """Return the first line of a new incarnation, without its end."""
        ...

    def open_header(self, file: str, line: bytes) -> Header:
        """Return what a first line says; `UnreadableHeader` if it does not verify.

        `NewerHeader` if it does, and a later version wrote it.
        """
        ...

    def name_in(self, line: bytes) -> JournalName | None:
        """Return the name that a first line shows, if it does."""
        ...

    def seal_index(self, file: str, data: bytes) -> bytes:
        """Return the content of an index's file."""
        ...

    def open_index(self, file: str, sealed: bytes) -> bytes:
        """Return the index that a file holds; `ValueError` if it does not verify."""
        ...


_INDEX_MARK = b"factmem index 1 crc "


class PlainCodec:
    """JSON Lines that anyone can read, each with a CRC-32 against accidents.

    The CRC of a record is seeded with the CRC of its file's first line, so that a line of another
    file, or of an older incarnation of this one, does not count.
    """

    suffix = ".jsonl"
    hides_names = False

    def file_name(self, name: JournalName) -> str:
        return _plain_file_name(name)

    def new_header(self, name: JournalName, file: str, snapshot: int, following: int) -> bytes:
        fields = {
            "factmem": 1,
            "place": name,
            "id": new_id(),
            "snap": snapshot,
            "next": following,
        }
        return _with_crc(compact(fields)[:-1], 0)

    def open_header(self, file: str, line: bytes) -> Header:
        if not line.endswith(_crc_end(line, 0)):
            raise UnreadableHeader("its first line does not verify")
        try:
            fields = json.loads(line)
        except ValueError:  # two lines run together: the first is the other one's seed
            raise UnreadableHeader("its first line does not verify") from None
        if fields["factmem"] != 1:
            raise NewerHeader
        if self.file_name(tuple(fields["place"])) != file:
            raise UnreadableHeader("it is the file of another place")
        return Header(fields["snap"], fields["next"], _PlainSealer(zlib.crc32(line)))

    def name_in(self, line: bytes) -> JournalName | None:
        return tuple(json.loads(line)["place"])

    def seal_index(self, file: str, data: bytes) -> bytes:
        return b"%b%08x\n%b" % (_INDEX_MARK, zlib.crc32(data), data)

    def open_index(self, file: str, sealed: bytes) -> bytes:
        head, data = sealed[: len(_INDEX_MARK) + 9], sealed[len(_INDEX_MARK) + 9 :]
        if head != b"%b%08x\n" % (_INDEX_MARK, zlib.crc32(data)):
            raise ValueError("does not verify")
        return data


@lru_cache(maxsize=4096)
def _plain_file_name(name: JournalName) -> str:
    digest = hashlib.sha256(compact(name)).hexdigest()[:20]
    text = "-".join(part for part in name if part)
    slug = re.sub(r"[^a-z0-9]+", "-", text.lower())[:40].strip("-")
    return f"{slug or 'place'}-{digest}{PlainCodec.suffix}"


def new_id() -> str:
    """Return a random id of 32 hexadecimal digits for an incarnation of a file."""
    return token_hex(16)


_MARK = b'{"d":'
_CRC_LENGTH = len(b',"crc":"00000000"}')


def _crc_end(line: bytes, seed: int) -> bytes:
    return b',"crc":"%08x"}' % zlib.crc32(line[:-_CRC_LENGTH], seed)


def _with_crc(body: bytes, seed: int) -> bytes:
    return b'%b,"crc":"%08x"}' % (body, zlib.crc32(body, seed))


class _PlainSealer:
    start = b""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def seal(self, number: int, durable: int, previous: bytes, data: bytes) -> tuple[bytes, bytes]:
        if durable or data.startswith(_MARK):  # or a record's own "d" would pass for the mark
            body = b'{"n":%d,"d":%d,%b' % (number, durable, data[1:-1])
        else:
            body = b'{"n":%d,%b' % (number, data[1:-1])
        tag = b"%08x" % zlib.crc32(body, self._seed)
        return b'%b,"crc":"%b"}' % (body, tag), tag

    def unseal(self, line: bytes) -> Unsealed:
        body = line[:-18]
        if line[-18:] != b',"crc":"%08x"}' % zlib.crc32(body, self._seed):
            raise ValueError("does not verify")
        end = body.index(b",", 5)
        number = int(body[5:end])
        durable = 0
        if body.startswith(b'"d":', end + 1):
            start, end = end + 5, body.index(b",", end + 5)
            durable = int(body[start:end])
        return number, durable, None, line[-10:-2], b"{%b}" % body[end + 1 :]

    def starts(self, line: bytes, after: int) -> Iterator[int]:
        at = line.find(b'{"n":', 1)
        while at > 0:
            yield at
            at = line.find(b'{"n":', at + 1)
