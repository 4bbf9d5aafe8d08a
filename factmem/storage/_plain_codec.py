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
    """A journal's first line does not verify; the text says how, without a file name."""


class NewerHeader(Exception):  # noqa: N818 - never leaves the storage
    """A journal's first line is whole, and of a version that came after this one."""


Unsealed: TypeAlias = tuple[int, int, bytes | None, bytes, bytes]
"""The content of a line: number, mark, tag of the line before (if chained), own tag, text.

The mark of format 1 is the number up to which all records were durable before the line was written.
In format 2 it is 0 for a batch of one, `END` for an end line, else the result of `batch_mark`.

A plain tuple: there is one per line, and a named one takes four times as long to make.
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
"""For each time that a file replaced one whose end was in doubt: which file of the store it is, and
the first number that the end may have held. These numbers were given to other records."""

MOST_LOSSES = 32
"""How many losses a first line names, the newest ones."""


class LineSealer(Protocol):
    """Reads the lines of one incarnation of one journal file, and writes those of format 2."""

    start: bytes
    """What the first record's `previous` is."""

    def seal(self, number: int, mark: int, previous: bytes, data: bytes) -> tuple[bytes, bytes]:
        """Return a line without its end, and its tag; the data of an end mark is not written."""
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


class BlockSealer(Protocol):
    """Writes and reads the blocks of one file that is derived from a journal."""

    first_line: bytes
    """What the file begins with, its end included; no two files share it."""

    def seal(self, number: int, data: bytes) -> bytes:
        """Return a block as written in the file. Trailing spaces may be added or lost."""
        ...

    def open(self, number: int, sealed: bytes) -> bytes:
        """Return a block's data; `ValueError` if it does not verify as the block of a number."""
        ...


class Header(NamedTuple):
    """What a journal's first line says."""

    snapshot: int
    """How many snapshot records follow it."""
    next: int
    """The first number after the snapshot."""
    sealer: LineSealer
    version: int
    made: int
    """How many files the store had made when it made this one; 0 in format 1."""
    losses: Losses = ()
    """Where the files before this one may have lost acknowledged records."""


FORMATS = (1, 2)
"""The formats that this version reads; it writes the last one."""


def checked_header(fields: Any, sealer: LineSealer) -> Header:
    """Return what the fields of a first line that verifies say.

    Raises:
        NewerHeader: A later version wrote it.
        UnreadableHeader: No version wrote it.
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
    """How the journals of one store are written."""

    suffix: str
    hides_names: bool
    """Whether the name must be kept in a record, as neither file name nor header show it."""

    def file_name(self, name: JournalName) -> str:
        """Return the name of a journal's file; different for different names."""
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
        """Return the first line of a new incarnation, without its newline."""
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

    def open_index(self, file: str, sealed: bytes | memoryview) -> bytes | memoryview:
        """Return the index that a file holds; `ValueError` if it does not verify."""
        ...

    def new_blocks(self, file: str) -> BlockSealer:
        """Return what seals the blocks of a new file."""
        ...

    def open_blocks(self, file: str, line: bytes) -> BlockSealer:
        """Return what opens the blocks of a file with this first line, which has its end.

        `ValueError` if the line does not verify.
        """
        ...


_INDEX_MARK = b"factmem index 1 crc "
_BLOCKS_MARK = b"factmem blocks 1 id "


class PlainCodec:
    """JSON Lines that anyone can read, each with a CRC-32 against accidents.

    The CRC of a record is seeded with the CRC of its file's first line, so that a line of another
    file, or of an older incarnation of this one, does not count.
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
        # Two lines run together: the first is the other one's seed. Or a stranger wrote it.
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
    """Blocks in the clear, each behind a CRC-32 that begins with the file's first line.

    A file that was not flushed may hold blocks of one that was removed: they do not verify here.
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
    """Return a random id of 32 hexadecimal digits for an incarnation of a file."""
    return token_hex(16)


_LONG = 1 << 12
"""From which length on a view of a line is quicker than a copy of it: a line may hold a thousand
facts."""

_RESERVED = (b'{"b":', b'{"end":')
"""How a record may begin that would pass for a mark: the mark of a batch is written before it."""

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
"""In how many places of a dead line another line is looked for: few, as each may take a checksum
of all that follows, and a record may hold any text."""


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
