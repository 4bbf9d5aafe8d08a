"""Codecs of a journal's lines: the protocol, and the plain codec."""

import hashlib
import json
import re
import zlib
from collections.abc import Iterator
from functools import lru_cache
from secrets import token_hex
from typing import Any, NamedTuple, Protocol, TypeAlias

from factmem.storage.base import JournalName


def compact(value: object) -> bytes:
    """Return JSON without spaces, non-ASCII text as it is."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


class UnreadableHeader(Exception):  # noqa: N818 - never leaves the storage
    """A journal's first line does not verify; the message has the reason, without the file name."""


class NewerHeader(Exception):  # noqa: N818 - never leaves the storage
    """A journal's first line verifies, but a newer version wrote it."""


Unsealed: TypeAlias = tuple[int, int, bytes | None, bytes, bytes]
"""The content of a line: number, mark, tag of the line before (if chained), own tag, text.

The mark of format 1 is the number up to which all records were durable before the line was written.
In format 2 it is 0 for a batch of one, `END` for an end line, else the result of `batch_mark`.

A plain tuple, because there is one per line: a named tuple takes four times as long to create.
"""

END = -1
"""The mark of an end line, which holds no record and vouches for all before it."""

_COUNT_BITS = 32


def batch_mark(index: int, count: int) -> int:
    """Return the mark of a record: which of how many it is in its batch."""
    return index << _COUNT_BITS | count if count > 1 else 0


def batch_of(mark: int) -> tuple[int, int]:
    """Return the record's index and the count that a mark encodes."""
    return (mark >> _COUNT_BITS, mark & (1 << _COUNT_BITS) - 1) if mark else (0, 1)


def read_mark(text: bytes) -> int:
    """Return the mark of "index,count"; `ValueError` if no writer wrote it."""
    index, count = map(int, text.split(b","))
    if not 0 <= index < count < 1 << _COUNT_BITS:
        raise ValueError("no batch")
    return batch_mark(index, count)


Losses: TypeAlias = tuple[tuple[int, int], ...]
"""The number of each file that replaced one with a doubtful end, and the first record number that the
end may have had. These numbers were reused for other records."""

MOST_LOSSES = 32
"""The most losses in a first line; it keeps the newest."""


class LineSealer(Protocol):
    """Reads the lines of one incarnation of one journal file, and writes those of format 2."""

    start: bytes
    """The `previous` of the first record."""

    def seal(self, number: int, mark: int, previous: bytes, data: bytes) -> tuple[bytes, bytes]:
        """Return a line without its newline, and its tag; the data of an end line is not written."""
        ...

    def unseal(self, line: bytes) -> Unsealed:
        """Return the content of a line; raise `ValueError` if it does not verify."""
        ...

    def starts(self, line: bytes, after: int) -> Iterator[int]:
        """Yield the offsets in a line that does not verify at which another line may begin.

        A damaged newline joins two lines; the second can still be read. `after` is the number of the
        last record read.
        """
        ...


class BlockSealer(Protocol):
    """Writes and reads the blocks of one file that is derived from a journal."""

    first_line: bytes
    """The first line of the file with its newline, unique to the file."""

    def seal(self, number: int, data: bytes) -> bytes:
        """Return a block as it is written to the file. Trailing spaces may be added or removed."""
        ...

    def open(self, number: int, sealed: bytes) -> bytes:
        """Return a block's data; raise `ValueError` if it is not the block of this number."""
        ...


class Header(NamedTuple):
    """The parsed first line of a journal."""

    snapshot: int
    """The number of snapshot records that follow."""
    next: int
    """The first number after the snapshot."""
    sealer: LineSealer
    version: int
    made: int
    """The number of this file in the store; 0 in format 1."""
    losses: Losses = ()
    """The possible losses of acknowledged records in earlier files."""


FORMATS = (1, 2)
"""The formats that this version reads; it writes the last one."""


def checked_header(fields: Any, sealer: LineSealer) -> Header:
    """Return the header of the fields of a first line that verifies.

    Raises:
        NewerHeader: A later version wrote it.
        UnreadableHeader: It has invalid values.
    """
    version = fields.get("factmem")
    if version not in FORMATS:
        raise NewerHeader
    numbers = (fields.get("snap"), fields.get("next"), fields.get("made", 0))
    if not all(type(number) is int and 0 <= number < 1 << 63 for number in numbers):
        raise UnreadableHeader("its first line holds no numbers")
    snapshot, following, made = numbers
    try:
        losses = tuple((int(which), int(first)) for which, first in fields.get("lost", ()))
    except (TypeError, ValueError):
        raise UnreadableHeader("its first line holds no numbers") from None
    return Header(snapshot, following, sealer, version, made, losses)


class Codec(Protocol):
    """The encoding of the journals of one store."""

    suffix: str
    hides_names: bool
    """Whether file names and headers hide the name, so that a record must have it."""

    def file_name(self, name: JournalName) -> str:
        """Return the file name of a journal, different for each journal name."""
        ...

    def new_header(
        self,
        name: JournalName,
        file: str,
        *,
        snapshot: int,
        following: int,
        made: int,
        losses: Losses = (),
    ) -> bytes:
        """Return the first line of a new file, without its newline."""
        ...

    def open_header(self, file: str, line: bytes) -> Header:
        """Return the header of a first line.

        Raises:
            UnreadableHeader: It does not verify.
            NewerHeader: It verifies, but a later version wrote it.
        """
        ...

    def name_in(self, line: bytes) -> JournalName | None:
        """Return the name in a first line; None if the codec hides names."""
        ...

    def seal_index(self, file: str, data: bytes) -> bytes:
        """Return the content of an index's file."""
        ...

    def open_index(self, file: str, sealed: bytes | memoryview) -> bytes | memoryview:
        """Return the index in a file's content; raise `ValueError` if it does not verify."""
        ...

    def new_blocks(self, file: str) -> BlockSealer:
        """Return the sealer of the blocks of a new file."""
        ...

    def open_blocks(self, file: str, line: bytes) -> BlockSealer:
        """Return the sealer for a first line with its newline; `ValueError` if it does not verify."""
        ...


_INDEX_MARK = b"factmem index 1 crc "
_BLOCKS_MARK = b"factmem blocks 1 id "


class PlainCodec:
    """JSON Lines that anyone can read, each with a CRC-32 against accidents.

    The CRC of a record is seeded with the CRC of its file's first line, so a line of another file, or
    of an older file of the same journal, does not verify.
    """

    suffix = ".jsonl"
    hides_names = False

    def file_name(self, name: JournalName) -> str:
        return _plain_file_name(name)

    def new_header(
        self,
        name: JournalName,
        file: str,
        *,
        snapshot: int,
        following: int,
        made: int,
        losses: Losses = (),
    ) -> bytes:
        fields: dict[str, object] = {
            "factmem": FORMATS[-1],
            "place": name,
            "id": new_id(),
            "made": made,
            "snap": snapshot,
            "next": following,
            **({"lost": losses} if losses else {}),
        }
        return with_checksum(compact(fields)[:-1], 0)

    def open_header(self, file: str, line: bytes) -> Header:
        if not line.endswith(_crc_end(line, 0)):
            raise UnreadableHeader("its first line does not verify")
        try:
            fields = json.loads(line)
            name = tuple(fields["place"])
            is_of_this_file = self.file_name(name) == file
        # Two joined lines, of which the first is the seed, or a line of another program.
        except (ValueError, KeyError, TypeError, RecursionError):
            raise UnreadableHeader("its first line does not verify") from None
        seed = zlib.crc32(line)
        sealer = _PlainSealer(seed) if fields.get("factmem") != 1 else _PlainSealer1(seed)
        header = checked_header(fields, sealer)
        if not is_of_this_file:
            raise UnreadableHeader("it is the file of another place")
        return header

    def name_in(self, line: bytes) -> JournalName | None:
        return tuple(json.loads(line)["place"])

    def seal_index(self, file: str, data: bytes) -> bytes:
        return b"%b%08x\n%b" % (_INDEX_MARK, zlib.crc32(data), data)

    def open_index(self, file: str, sealed: bytes | memoryview) -> bytes | memoryview:
        head, data = sealed[: len(_INDEX_MARK) + 9], sealed[len(_INDEX_MARK) + 9 :]
        if head != b"%b%08x\n" % (_INDEX_MARK, zlib.crc32(data)):
            raise ValueError("does not verify")
        return data

    def new_blocks(self, file: str) -> BlockSealer:
        return _PlainBlocks(b"%b%b\n" % (_BLOCKS_MARK, new_id().encode()))

    def open_blocks(self, file: str, line: bytes) -> BlockSealer:
        if not line.startswith(_BLOCKS_MARK):
            raise ValueError("no first line of a file of blocks")
        return _PlainBlocks(line)


class _PlainBlocks:
    """Unencrypted blocks, each after a CRC-32 that is seeded with the file's first line.

    An unsynced file may contain blocks of a removed file, which do not verify here.
    """

    def __init__(self, first_line: bytes) -> None:
        self.first_line = first_line

    def seal(self, number: int, data: bytes) -> bytes:
        return b"%08x" % self._checksum(number, data) + data

    def open(self, number: int, sealed: bytes) -> bytes:
        data = sealed[8:]
        if sealed[:8] != b"%08x" % self._checksum(number, data):
            raise ValueError("does not verify")
        return data

    def _checksum(self, number: int, data: bytes) -> int:
        return zlib.crc32(data, zlib.crc32(b"%b%d" % (self.first_line, number)))


@lru_cache(maxsize=4096)
def _plain_file_name(name: JournalName) -> str:
    digest = hashlib.sha256(compact(name)).hexdigest()[:20]
    text = "-".join(part for part in name if part)
    slug = re.sub(r"[^a-z0-9]+", "-", text.lower())[:40].strip("-")
    return f"{slug or 'place'}-{digest}{PlainCodec.suffix}"


def new_id() -> str:
    """Return a random id of 32 hexadecimal digits for a new file."""
    return token_hex(16)


_LONG = 1 << 12
"""The length from which a view of a line is faster than a copy. A line may have a thousand facts."""

_RESERVED = (b'{"b":', b'{"end":')
"""The beginnings of records that look like a mark. Such a record gets the mark of a batch before it."""

_END = b',"end":true'
_CRC_LENGTH = len(b',"crc":"00000000"}')


def checked_line(line: bytes) -> bytes:
    """Return a line that ends in its checksum; `ValueError` if it does not verify."""
    if not line.endswith(_crc_end(line, 0)):
        raise ValueError("does not verify")
    return line


def _crc_end(line: bytes, seed: int) -> bytes:
    return b',"crc":"%08x"}' % zlib.crc32(line[:-_CRC_LENGTH], seed)


def with_checksum(body: bytes, seed: int) -> bytes:
    """Return a line of JSON that ends in its checksum, from one without its last brace."""
    return b'%b,"crc":"%08x"}' % (body, zlib.crc32(body, seed))


_MOST_STARTS = 64
"""The most offsets of a dead line at which another line is tried: few, because each takes a checksum of
the rest, and a record may contain any text."""


class _PlainSealer:
    """The lines of format 2."""

    start = b""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def seal(self, number: int, mark: int, previous: bytes, data: bytes) -> tuple[bytes, bytes]:
        if mark == END:
            body = b'{"n":%d%b' % (number, _END)
        elif mark or data.startswith(_RESERVED):
            body = b'{"n":%d,"b":[%d,%d],%b' % (number, *batch_of(mark), data[1:-1])
        else:
            body = b'{"n":%d,%b' % (number, data[1:-1])
        tag = b"%08x" % zlib.crc32(body, self._seed)
        return b'%b,"crc":"%b"}' % (body, tag), tag

    def unseal(self, line: bytes) -> Unsealed:
        if line[-18:] != b',"crc":"%08x"}' % zlib.crc32(memoryview(line)[:-18], self._seed):
            raise ValueError("does not verify")
        end = line.index(b",", 5)
        number, mark = int(line[5:end]), 0
        if line.startswith(b'"b":[', end + 1):
            start, end = end + 6, line.index(b"]", end) + 1
            mark = read_mark(line[start : end - 1])
        elif end == len(line) - 18 - len(_END) and line.startswith(_END, end):
            return number, END, None, line[-10:-2], b""
        if len(line) < _LONG:
            return number, mark, None, line[-10:-2], b"{%b}" % line[end + 1 : -18]
        data = b"".join((b"{", memoryview(line)[end + 1 : -18], b"}"))
        return number, mark, None, line[-10:-2], data

    def starts(self, line: bytes, after: int) -> Iterator[int]:
        at = line.find(b'{"n":', 1)
        for _ in range(_MOST_STARTS):
            if at <= 0:
                return
            yield at
            at = line.find(b'{"n":', at + 1)


class _PlainSealer1(_PlainSealer):
    """The lines of format 1, which are only read."""

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
