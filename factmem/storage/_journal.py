"""One journal file: reading it line by line, and telling torn from damaged. Pure but for reading.

A line counts if it is ended, verifies, and has a greater number than the one before it. Any other
line is dead and is passed over; whether something is missing because of it is told by the numbers.
A missing number that some later line knows to have been durable is damage; one that no line knows
was never acknowledged: the power failed while it was written.
"""

import json
from typing import NamedTuple

from factmem.errors import StorageError
from factmem.storage._files import Files
from factmem.storage._plain_codec import (
    Codec,
    Header,
    LineSealer,
    NewerHeader,
    UnreadableHeader,
    Unsealed,
    compact,
)
from factmem.storage.base import JournalName, Record

CHUNK = 1 << 20
"""How much is read at a time, in bytes; a longer line is read whole."""

LONGEST_HEADER = 1 << 14

_new_tuple = tuple.__new__
"""Makes a named tuple of what is a tuple already, in a third of the time."""


def journal_path(file: str) -> str:
    """Return where a journal's file stands, relative to the store."""
    return f"journals/{file}"


class Damage(Exception):  # noqa: N818 - never leaves the storage
    """A journal cannot be trusted; the text says where and what, without the file's name."""

    def __init__(self, what: str, *, is_forged: bool = False) -> None:
        super().__init__(what)
        self.is_forged = is_forged
        """Whether it was changed by somebody, rather than by an accident."""


class Place(NamedTuple):
    """How far a journal file was read, and all that judging the next line needs.

    A named tuple, since every save makes one: a frozen dataclass takes a fifth longer to copy.
    """

    file: str
    header: bytes
    """The first line with its end: valid only while the file still begins with it."""
    sealer: LineSealer
    following: int
    """The header's `next`."""
    offset: int
    """Where the next line begins."""
    size: int
    """How many bytes were there: beyond `offset` stands a line without an end."""
    line: int = 1
    """How many lines were read."""
    last: int = 0
    """The number of the last record."""
    tag: bytes = b""
    durable: int = 0
    snapshot_left: int = 0
    snapshot_last: int = -1
    gaps: tuple[tuple[int, int, int], ...] = ()
    """Missing numbers: the first, the last, and the line at which they were missed."""
    dead: int = 0
    """The first line that did not count; 0 where all did."""
    verdict: str = ""
    """What is wrong beyond missing records."""

    def damage(self) -> Damage | None:
        """Return what is wrong with what was read, as far as the end of the file; or None."""
        if self.verdict:
            return Damage(self.verdict, is_forged=True)
        if self.snapshot_left > 0:
            where = f"line {self.dead}" if self.dead else "the end"
            return Damage(f"{self.snapshot_left} records are missing, at {where}")
        for first, last, line in self.gaps:
            if first <= self.durable:
                return Damage(f"line {self.dead or line}: {_records(first, last)} missing")
        return None

    def missing(self) -> int:
        """Return how many records are known to be lost."""
        known = sum(
            min(last, self.durable) - first + 1
            for first, last, _ in self.gaps
            if first <= self.durable
        )
        return known + self.snapshot_left


def _records(first: int, last: int) -> str:
    return f"record {first} is" if first == last else f"records {first} to {last} are"


def read_header(files: Files, codec: Codec, file: str, fd: int) -> tuple[bytes, Header]:
    """Return a journal's first line with its end, and what it says.

    Raises:
        Damage: It is no header, or does not verify.
        StorageError: A newer version wrote it.
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
        header=line,
        sealer=header.sealer,
        following=header.next,
        offset=len(line),
        size=len(line),
        last=header.next - 1,
        tag=header.sealer.start,
        durable=header.next - 1,
        snapshot_left=header.snapshot,
    )


def advanced(
    place: Place, data: bytes, codec: Codec, *, is_end: bool
) -> tuple[Place, list[Record]]:
    """Return the place after the whole lines in `data`, and their records.

    `data` is what stands in the file from `place.offset` on; `is_end` says that it is all.
    """
    if not data and place.size == place.offset:
        return place, []
    end = data.rfind(b"\n") + 1
    if not end and is_end and place.size == place.offset + len(data):
        return place, []
    reader = _Reader(place, codec)
    reader.take_all(data[:end].split(b"\n")[:-1])
    size = place.offset + (len(data) if is_end else end)
    return reader.place(place.offset + end, size), reader.records


class _Reader:
    """Judges lines in their order; a `Place` in the making."""

    __slots__ = (
        "_before",
        "_codec",
        "_following",
        "_unseal",
        "dead",
        "durable",
        "gaps",
        "last",
        "line",
        "records",
        "snapshot_last",
        "snapshot_left",
        "tag",
        "verdict",
    )

    def __init__(self, before: Place, codec: Codec) -> None:
        self._before = before
        self._codec = codec
        self._following = before.following
        self._unseal = before.sealer.unseal
        self.records: list[Record] = []
        self.line, self.last, self.tag = before.line, before.last, before.tag
        self.durable, self.gaps = before.durable, before.gaps
        self.snapshot_left, self.snapshot_last = before.snapshot_left, before.snapshot_last
        self.dead, self.verdict = before.dead, before.verdict

    def place(self, offset: int, size: int) -> Place:
        return self._before._replace(
            offset=offset,
            size=size,
            line=self.line,
            last=self.last,
            tag=self.tag,
            durable=self.durable,
            snapshot_left=self.snapshot_left,
            snapshot_last=self.snapshot_last,
            gaps=self.gaps,
            dead=self.dead,
            verdict=self.verdict,
        )

    def take_all(self, lines: list[bytes]) -> None:
        """Take lines in their order.

        Nearly all verify and continue the one before. They take a short way without a call per
        line, which is what `_take_record` would do with them.
        """
        unseal, add = self._unseal, self.records.append
        for line in lines:
            self.line += 1
            try:
                record = unseal(line)
            except ValueError:
                self._take_rest(line)
                continue
            number, durable, previous, tag, data = record
            continues = previous is None or previous == self.tag
            if continues and number == self.last + 1 and number >= self._following:
                self.last, self.tag = number, tag
                if durable > self.durable:  # noqa: PLR1730 - no call per line
                    self.durable = durable
                add(_new_tuple(Record, (number, data)))
            else:
                self._take_record(record)

    def _take_rest(self, line: bytes) -> None:
        """Pass over a dead line, but take a record that a damaged line end made a part of it."""
        self.dead = self.dead or self.line
        for start in self._before.sealer.starts(line, self.last):
            try:
                record = self._unseal(line[start:])
            except ValueError:
                continue
            self._take_record(record)
            return

    def _take_record(self, record: Unsealed) -> None:
        number, durable, previous, tag, data = record
        if number < self._following:
            self._take_snapshot(record)
            return
        if number <= self.last:
            # Every line of this file verifies with this file's own seed or key, so a number that
            # goes back was written here before, and copied.
            self._accuse(f"record {number} stands there again")
            return
        if number > self.last + 1:
            self.gaps = (*self.gaps, (self.last + 1, number - 1, self.line))
        elif previous is not None and previous != self.tag:
            self._accuse(f"record {number} does not follow the one before it")
        self.last, self.tag = number, tag
        self.durable = max(self.durable, durable)
        self.records.append(Record(number, data))

    def _take_snapshot(self, record: Unsealed) -> None:
        number, _, previous, tag, data = record
        if number <= self.snapshot_last or self.last != self._following - 1:
            self._accuse(f"record {number} stands there again")
            return
        if previous is not None and previous != self.tag and not self.dead:
            self._accuse(f"record {number} does not follow the one before it")
        self.snapshot_last, self.tag = number, tag
        self.snapshot_left -= 1
        if number == 0:
            self._check_name(data)
        else:
            self.records.append(Record(number, data))

    def _check_name(self, data: bytes) -> None:
        if self._codec.file_name(name_of(data)) != self._before.file:
            self._accuse("it is the file of another place")

    def _accuse(self, what: str) -> None:
        self.verdict = self.verdict or f"line {self.line}: {what}"


def name_record(name: JournalName) -> bytes:
    """Return the record 0, which names the journal where nothing else does."""
    return b'{"place":%b}' % compact(name)


def name_of(data: bytes) -> JournalName:
    """Return the name in a record 0; `ValueError` if it is another record."""
    try:
        return tuple(json.loads(data)["place"])
    except (KeyError, TypeError):
        raise ValueError("it names no journal") from None
