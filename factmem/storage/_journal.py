"""Place: the state of reading a journal file, with the damage found so far.

`_lines_1.py` and `_lines_2.py` validate the lines, by the format of the file.
"""

import json
from hashlib import sha256
from typing import NamedTuple

from factmem.errors import StorageError
from factmem.storage._file_calls import Files
from factmem.storage._plain_codec import (
    FORMATS,
    Codec,
    Header,
    LineSealer,
    Losses,
    NewerHeader,
    UnreadableHeader,
    compact,
)
from factmem.storage.base import JournalName

CHUNK = 1 << 20
"""The bytes read at a time; a longer line is read whole."""

LONGEST_HEADER = 1 << 14


def journal_path(file: str) -> str:
    """Return the path of a journal's file, relative to the store."""
    return f"journals/{file}"


class Damage(Exception):  # noqa: N818 - never leaves the storage
    """A damaged journal; the message has the line and the damage, without the file's name."""

    def __init__(self, what: str, *, is_forged: bool = False) -> None:
        super().__init__(what)
        self.is_forged = is_forged
        """Whether it was changed on purpose and not by accident."""


class Place(NamedTuple):
    """The state of reading a journal file up to an offset, for validating the next line.

    A named tuple, because every save creates one: a frozen dataclass takes a fifth longer to copy.
    """

    file: str
    path: str
    """The path of the file, relative to the store."""
    header: bytes
    """The first line with its end: valid only while the file still begins with it."""
    sealer: LineSealer
    following: int
    """The header's `next`."""
    offset: int
    """Where the next line begins."""
    size: int
    """The size of the file. Bytes after `offset` are an incomplete line."""
    line: int = 1
    """The number of lines read."""
    last: int = 0
    """The number of the last record."""
    tag: bytes = b""
    durable: int = 0
    snapshot_left: int = 0
    snapshot_last: int = -1
    gaps: tuple[tuple[int, int, int], ...] = ()
    """Missing numbers: the first, the last, and the line at which this was found."""
    dead: int = 0
    """The first line that does not verify; 0 if all do."""
    verdict: str = ""
    """Damage other than missing records."""
    version: int = 2
    """The format of the file."""
    made: int = 0
    """The number of this file in the store."""
    losses: Losses = ()
    """See `Header`."""
    ended: int = -1
    """The last record that the end mark vouches for; -1 before the mark was read."""
    has_bad_mark: bool = False
    """Whether there is an end mark that cannot be read."""

    def extended(self, size: int, added: int, tag: bytes) -> "Place":
        """Return the place after an append that ends at `size`; the tag is that of its last line.

        `_replace` takes four times as long.
        """
        last = self.last + added
        line = self.line + added
        return tuple.__new__(Place, (*self[:5], size, size, line, last, tag, last, *self[11:]))

    def is_extendable(self) -> bool:
        """Return whether lines may be appended: it has the newest format, no damage, and no torn end.

        A file that is not vouched for is not appended to either: a write to it was not acknowledged,
        and after a failed fsync the next one succeeds although its data may be lost.
        """
        is_whole = self.size == self.offset and not self.gaps and not self.snapshot_left
        return is_whole and self.version == FORMATS[-1] and not self.verdict

    def digest(self) -> str:
        """Return the SHA-256 of the first line, which is unique, in hexadecimal."""
        return sha256(self.header).hexdigest()

    def has_tail(self) -> bool:
        """Return whether any bytes follow the last whole batch."""
        return self.size > self.offset

    def is_whole(self) -> bool:
        """Return whether all lines so far are valid, in the newest format."""
        is_short = self.snapshot_left or self.gaps or self.dead or self.has_tail()
        return self.version > 1 and not is_short and self.damage() is None

    def damage(self) -> Damage | None:
        """Return the damage up to the end of the file, or None."""
        if self.verdict:
            return Damage(self.verdict, is_forged=True)
        if self.snapshot_left > 0:
            where = f"line {self.dead}" if self.dead else "the end"
            return Damage(f"{self.snapshot_left} records are missing, at {where}")
        for first, last, line in self.gaps:
            if first <= self.durable:
                what = f"line {self.dead or line}: {_records(first, last)} missing"
                return Damage(what + (", says its end mark" if last <= self.ended else ""))
        return None

    def missing(self) -> int:
        """Return how many records are known to be lost."""
        known = sum(
            min(last, self.durable) - first + 1
            for first, last, _ in self.gaps
            if first <= self.durable
        )
        return known + self.snapshot_left


def check_name(place: Place, codec: Codec, data: bytes) -> bool:
    """Return whether a record 0 has the name that belongs to its file name."""
    return codec.file_name(name_of(data)) == place.file


def _records(first: int, last: int) -> str:
    return f"record {first} is" if first == last else f"records {first} to {last} are"


def read_header(files: Files, codec: Codec, file: str, fd: int) -> tuple[bytes, Header]:
    """Return a journal's first line with its newline, and the parsed header.

    Raises:
        Damage: The line is no header, or does not verify.
        StorageError: A newer version of factmem wrote it.
    """
    line, end, _ = files.read(fd, LONGEST_HEADER, 0).partition(b"\n")
    if not end:
        raise Damage("line 1: it has no whole first line")
    try:
        return line + end, codec.open_header(file, line)
    except NewerHeader:
        raise StorageError(
            f"The journal {files.path(f'journals/{file}')!r} was written by a newer version of "
            f"factmem: upgrade to read it. Nothing was changed"
        ) from None
    except UnreadableHeader as exc:
        raise Damage(f"line 1: {exc}", is_forged=True) from None


def at_start(file: str, line: bytes, header: Header) -> Place:
    """Return the place right after the first line."""
    return Place(
        file=file,
        path=journal_path(file),
        header=line,
        sealer=header.sealer,
        following=header.next,
        offset=len(line),
        size=len(line),
        last=header.next - 1,
        tag=header.sealer.start,
        durable=header.next - 1,
        snapshot_left=header.snapshot,
        version=header.version,
        made=header.made,
        losses=header.losses,
    )


def name_record(name: JournalName) -> bytes:
    """Return the record 0, which holds the name of an encrypted journal."""
    return b'{"place":%b}' % compact(name)


def name_of(data: bytes) -> JournalName:
    """Return the name in a record 0; raise `ValueError` for any other record."""
    try:
        return tuple(json.loads(data)["place"])
    except (KeyError, TypeError, RecursionError):
        raise ValueError("it names no journal") from None
