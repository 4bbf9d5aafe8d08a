"""Chunks: rows with many older lines of a large place, and a directory of these lines.

Reading 100,000 facts from a hundred rows is ten times as fast as from 100,000 rows. A directory has
the numbers, times and offsets of the lines and the hashes of their keywords, so one keyword can be
read without the other lines. Sealed lines are moved unchanged.
"""

import struct
import sys
import zlib
from array import array
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import accumulate
from typing import Any, NamedTuple

import orjson

from factmem.errors import CorruptJournalError, FactmemError
from factmem.ledger.entries import Entry, decoded, stamp, stamped
from factmem.providers._postgres.sealing import NO_TAG, Sealer

LINES = 1024
"""The most lines of a chunk: about 300 KB, with a directory of 20 KB."""

_FEW = 8
"""For so few lines of a chunk, reading the times before each is faster than reading all once."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SEPARATOR = b","
_WIDE = b'{"wide":true,'
_HEAD = struct.Struct(f"<IIq{len(NO_TAG)}s{len(NO_TAG)}s")
_PER_LINE, _PER_TOPIC = 4 + 8 + 4, 4 + 2
"""The bytes of a directory for each line and for each of its keywords."""


class Line(NamedTuple):
    """A stored line."""

    number: int
    at: int
    stored: bytes


class Directory(NamedTuple):
    """The positions, times and keywords of the lines of a chunk."""

    first: int
    """The number of the first line."""
    latest: int
    """The latest time of all lines up to the end of the chunk."""
    start: bytes
    """The tag of the line before the first."""
    end: bytes
    """The tag of the last line."""
    offsets: "array[int]"
    """The distance of each line's number from the first one."""
    times: "array[int]"
    ends: "array[int]"
    """The end of each line, without the separator."""
    topics: "array[int]"
    """Hashes of keywords. `owners` has the index of the line of each hash."""
    owners: "array[int]"

    def dump(self) -> bytes:
        """Encode the directory, before it is sealed."""
        head = _HEAD.pack(len(self.offsets), len(self.topics), self.latest, self.start, self.end)
        return head + b"".join(map(_little, self[4:]))

    @classmethod
    def load(cls, first: int, stored: bytes) -> "Directory":
        """Decode a directory.

        Raises:
            CorruptJournalError: It is not one.
        """
        try:
            lines, topics, latest, start, end = _HEAD.unpack_from(stored)
        except struct.error:
            raise _damaged("A directory") from None
        if not lines or len(stored) != _HEAD.size + lines * _PER_LINE + topics * _PER_TOPIC:
            raise _damaged("A directory")
        position, parts = _HEAD.size, []
        for kind, count in (("I", lines), ("q", lines), ("I", lines), ("I", topics), ("H", topics)):
            part = array(kind)
            size = count * part.itemsize
            part.frombytes(stored[position : position + size])
            if sys.byteorder == "big":
                part.byteswap()
            position += size
            parts.append(part)
        return cls(first, latest, start, end, *parts)

    @property
    def last(self) -> int:
        """The number of the last line."""
        return self.first + self.offsets[-1]

    def span(self, index: int) -> tuple[int, int]:
        """Return the start and the end of a line."""
        begin = 0 if index == 0 else self.ends[index - 1] + len(_SEPARATOR)
        return begin, self.ends[index]

    def about(self, topic: int) -> list[int]:
        """Return the indexes of the lines of a keyword, by its hash."""
        wanted = topic.to_bytes(4, sys.byteorder)
        hashes, found = self.topics.tobytes(), list[int]()
        position = hashes.find(wanted)
        while position >= 0:
            if position % 4 == 0:
                found.append(self.owners[position // 4])
            position = hashes.find(wanted, position + 1)
        return sorted(set(found))

    def counted(self, indexes: Sequence[int], before: int) -> Sequence[int]:
        """Return the times that lines are treated as recorded at: never before an earlier line."""
        if len(indexes) <= _FEW:
            latest = [max(self.times[: index + 1]) for index in indexes]
            return [max(before, each) for each in latest]
        times = list(accumulate(self.times, max, initial=before))
        return [times[index + 1] for index in indexes]


def _little(part: "array[int]") -> bytes:
    if sys.byteorder == "big":
        part = array(part.typecode, part)
        part.byteswap()
    return part.tobytes()


def topic_of(keyword: str) -> int:
    """Return the hash of a keyword. Hashes may collide: readers of the lines compare keywords."""
    return zlib.crc32(keyword.encode())


def topics_of(entry: Entry) -> set[int]:
    """Return the hashes of the keywords of an entry."""
    keywords = {fact["keyword"] for fact in entry.get("facts", ())}
    keywords |= {name[0] for name in entry.get("forget", ())}
    keywords |= {each["keyword"] for each in entry.get("retract", ())}
    return set(map(topic_of, keywords))


def packed(
    lines: Sequence[Line], entries: Iterable[Entry], sealer: Sealer, start: bytes, latest: int
) -> tuple[Directory, bytes]:
    """Return lines as a chunk: its directory, and the joined lines.

    Args:
        lines: The stored lines.
        entries: Their entries.
        sealer: The form of the place's lines.
        start: The tag of the line before the first.
        latest: The latest time of all earlier lines.
    """
    first = lines[0].number
    offsets = array("I", [line.number - first for line in lines])
    times = array("q", [line.at for line in lines])
    ends, topics, owners = array("I"), array("I"), array("H")
    end = -len(_SEPARATOR)
    for index, (line, entry) in enumerate(zip(lines, entries, strict=True)):
        end += len(_SEPARATOR) + len(line.stored)
        ends.append(end)
        for topic in topics_of(entry):
            topics.append(topic)
            owners.append(index)
    tag = sealer.tag(lines[-1].stored)
    directory = Directory(
        first, max(latest, *times), start, tag, offsets, times, ends, topics, owners
    )
    return directory, _SEPARATOR.join(line.stored for line in lines)


class Replacement(NamedTuple):
    """A line that replaces another one, and its entry."""

    at: int
    stored: bytes
    entry: Entry


def edited(
    directory: Directory, stored: bytes, changes: Mapping[int, Replacement | None]
) -> tuple[Directory, bytes] | None:
    """Replace or remove lines of a chunk of plain lines; return None if no line is left.

    Args:
        directory: The chunk's directory.
        stored: Its lines.
        changes: The replacement of each changed line by its index; None removes the line.
    """
    kept = [n for n in range(len(directory.offsets)) if changes.get(n, _SEPARATOR) is not None]
    if not kept:
        return None
    skipped = directory.offsets[kept[0]]
    new_index = {index: number for number, index in enumerate(kept)}
    offsets = array("I", [directory.offsets[index] - skipped for index in kept])
    times, lines = array("q"), list[bytes]()
    topics, owners = array("I"), array("H")
    for topic, owner in zip(directory.topics, directory.owners, strict=True):
        if owner not in changes:
            topics.append(topic)
            owners.append(new_index[owner])
    for index in kept:
        new = changes.get(index)
        if new is None:
            begin, end = directory.span(index)
            times.append(directory.times[index])
            lines.append(stored[begin:end])
            continue
        times.append(new.at)
        lines.append(new.stored)
        for topic in topics_of(new.entry):
            topics.append(topic)
            owners.append(new_index[index])
    sizes = (len(line) + len(_SEPARATOR) for line in lines)
    ends = array("I", [end - len(_SEPARATOR) for end in accumulate(sizes)])
    head = directory._replace(first=directory.first + skipped, offsets=offsets, times=times)
    return head._replace(ends=ends, topics=topics, owners=owners), _SEPARATOR.join(lines)


def opened(
    directory: Directory, stored: bytes, sealer: Sealer, tag: bytes, after: int
) -> list[Entry]:
    """Return the entries of a chunk after a number.

    Args:
        directory: The chunk's directory.
        stored: Its lines.
        sealer: The form of the place's lines.
        tag: The tag of the line before the first of them.
        after: The number.

    Raises:
        CorruptJournalError: A line is no entry.
        TamperedError: A line does not verify.
    """
    skipped = sum(directory.first + offset <= after for offset in directory.offsets)
    times = directory.times[skipped:]
    if sealer.is_plain and _WIDE not in stored:
        rest = stored[directory.span(skipped)[0] :] if skipped else stored
        return _read(rest, times)
    bodies: list[bytes] = []
    for index in range(skipped, len(directory.offsets)):
        begin, end = directory.span(index)
        line = stored[begin:end]
        number = directory.first + directory.offsets[index]
        bodies.append(sealer.open(number, directory.times[index], tag, line))
        tag = sealer.tag(line)
    return entries_of(bodies, times)


def entries_of(bodies: Sequence[bytes], times: Sequence[int]) -> list[Entry]:
    """Return the entries of encoded lines and their times.

    Raises:
        CorruptJournalError: A line is no entry.
    """
    if any(body.startswith(_WIDE) for body in bodies):
        pairs = zip(bodies, times, strict=True)
        try:
            return [decoded(stamped(body, stamp_at(at))) for body, at in pairs]
        except (FactmemError, OverflowError):
            raise _damaged("A line") from None
    return _read(_SEPARATOR.join(bodies), times)


def _read(lines: bytes, times: Sequence[int]) -> list[Entry]:
    try:
        return _timed(orjson.loads(b"[%b]" % lines), times)
    except (ValueError, TypeError, OverflowError):  # of the parser, of `zip`, of `**`, of the time
        raise _damaged("A line") from None


def _damaged(what: str) -> CorruptJournalError:
    return CorruptJournalError(
        f"{what} of a place cannot be read: another program changed its row. Restore the place from "
        f"a backup"
    )


def _timed(entries: Iterable[Entry], times: Iterable[int]) -> list[Entry]:
    # The time is first, as in each line of a bundle: then an exported import is the same bundle.
    timed: list[Any] = []
    latest, second = -1, -1
    prefix = stamped_at = ""
    for entry, at in zip(entries, times, strict=True):
        if at != latest:  # saves of one batch have one time
            latest = at
            seconds, micro = divmod(at, 1_000_000)
            if seconds != second:
                second, prefix = seconds, _second(seconds)
            stamped_at = f"{prefix}{micro:06d}Z"
        timed.append({"at": stamped_at, **entry})
    return timed


def stamp_at(at: int) -> str:
    """Return the stamp of a time in microseconds since 1970."""
    seconds, micro = divmod(at, 1_000_000)
    return f"{_second(seconds)}{micro:06d}Z"


@lru_cache(maxsize=4096)
def _second(seconds: int) -> str:
    return stamp(_EPOCH + timedelta(seconds=seconds))[:-7]
