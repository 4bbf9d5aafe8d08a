"""Chunks: older lines of a large place, many to a row, with a directory of where each line is.

A place of 100,000 facts is read ten times as fast from a hundred rows as from 100,000. A directory
lists the numbers, times and offsets of the lines and which keywords they are about, so that one
keyword can be read without the rest. Lines stay as they were sealed; only their rows go.
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

from factmem.ledger.entries import Entry, decoded, stamp, stamped
from factmem.providers._postgres.sealing import NO_TAG, Sealer

LINES = 1024
"""Lines in a chunk, at most: some 300 KB of them, and 20 KB of directory."""

_FEW = 8
"""Up to how many lines of a chunk it is quicker to look at the times before each."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SEPARATOR = b","
_WIDE = b'{"wide":true,'
_HEAD = struct.Struct(f"<IIq{len(NO_TAG)}s{len(NO_TAG)}s")


class Line(NamedTuple):
    """A line as it is stored."""

    number: int
    at: int
    stored: bytes


class Directory(NamedTuple):
    """Where the lines of a chunk are, and what they are about."""

    first: int
    """The number of the first line."""
    latest: int
    """The latest time of any line up to the end of the chunk."""
    start: bytes
    """The tag of the line before the first."""
    end: bytes
    """The tag of the last line."""
    offsets: "array[int]"
    """Of each number from the first one."""
    times: "array[int]"
    ends: "array[int]"
    """Where each line ends, without the separator."""
    topics: "array[int]"
    """Hashes of keywords; each stands beside the index of a line in `owners`."""
    owners: "array[int]"

    def dump(self) -> bytes:
        """Return the directory as it is stored, before it is sealed."""
        head = _HEAD.pack(len(self.offsets), len(self.topics), self.latest, self.start, self.end)
        return head + b"".join(map(_little, self[4:]))

    @classmethod
    def load(cls, first: int, stored: bytes) -> "Directory":
        """Return the directory that was dumped."""
        lines, topics, latest, start, end = _HEAD.unpack_from(stored)
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
        """Return where a line begins and ends."""
        begin = 0 if index == 0 else self.ends[index - 1] + len(_SEPARATOR)
        return begin, self.ends[index]

    def about(self, topic: int) -> list[int]:
        """Return the indexes of the lines about a keyword, by its hash."""
        wanted = topic.to_bytes(4, sys.byteorder)
        hashes, found = self.topics.tobytes(), list[int]()
        position = hashes.find(wanted)
        while position >= 0:
            if position % 4 == 0:
                found.append(self.owners[position // 4])
            position = hashes.find(wanted, position + 1)
        return sorted(set(found))

    def counted(self, indexes: Sequence[int], before: int) -> Sequence[int]:
        """Return the times that lines count as recorded at: none before the one before it."""
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
    """Return the hash of a keyword. Others may have the same: who reads its lines looks again."""
    return zlib.crc32(keyword.encode())


def topics_of(entry: Entry) -> set[int]:
    """Return the hashes of the keywords that an entry is about."""
    keywords = {fact["keyword"] for fact in entry.get("facts", ())}
    keywords |= {name[0] for name in entry.get("forget", ())}
    keywords |= {each["keyword"] for each in entry.get("retract", ())}
    return set(map(topic_of, keywords))


def packed(
    lines: Sequence[Line], entries: Iterable[Entry], sealer: Sealer, start: bytes, latest: int
) -> tuple[Directory, bytes]:
    """Return lines as a chunk: its directory, and the lines in one string.

    Args:
        lines: The lines as they are stored.
        entries: What they hold.
        sealer: The form of the place's lines.
        start: The tag of the line before the first.
        latest: The latest time of any line before.
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
    """A line in the place of another one, and what it holds."""

    at: int
    stored: bytes
    entry: Entry


def edited(
    directory: Directory, stored: bytes, changes: Mapping[int, Replacement | None]
) -> tuple[Directory, bytes] | None:
    """Return a chunk of plain lines with other ones in the place of some; None if none is left.

    Args:
        directory: The chunk's directory.
        stored: Its lines.
        changes: What replaces the line at each changed index; None removes it.
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
    """Return the entries of a chunk that come after a number.

    Args:
        directory: The chunk's directory.
        stored: Its lines.
        sealer: The form of the place's lines.
        tag: The tag of the line before the first of them.
        after: The number.
    """
    skipped = sum(directory.first + offset <= after for offset in directory.offsets)
    times = directory.times[skipped:]
    if sealer.is_plain and _WIDE not in stored:
        rest = stored[directory.span(skipped)[0] :] if skipped else stored
        return _timed(orjson.loads(b"[%b]" % rest), times)
    bodies: list[bytes] = []
    for index in range(skipped, len(directory.offsets)):
        begin, end = directory.span(index)
        line = stored[begin:end]
        number = directory.first + directory.offsets[index]
        bodies.append(sealer.open(number, directory.times[index], tag, line))
        tag = sealer.tag(line)
    return entries_of(bodies, times)


def entries_of(bodies: Sequence[bytes], times: Sequence[int]) -> list[Entry]:
    """Return the entries of encoded lines and their times."""
    if any(body.startswith(_WIDE) for body in bodies):
        pairs = zip(bodies, times, strict=True)
        return [decoded(stamped(body, stamp_at(at))) for body, at in pairs]
    return _timed(orjson.loads(b"[%b]" % _SEPARATOR.join(bodies)), times)


def _timed(entries: Iterable[Entry], times: Iterable[int]) -> list[Entry]:
    # The time comes first, as in every line of a bundle: an export of an import is the same bundle.
    timed: list[Any] = []
    latest, second = -1, -1
    prefix = stamped_at = ""
    for entry, at in zip(entries, times, strict=True):
        if at != latest:  # a batch has one time
            latest = at
            seconds, micro = divmod(at, 1_000_000)
            if seconds != second:
                second, prefix = seconds, _second(seconds)
            stamped_at = f"{prefix}{micro:06d}Z"
        timed.append({"at": stamped_at, **entry})
    return timed


def stamp_at(at: int) -> str:
    """Return microseconds since 1970 as a stamp."""
    seconds, micro = divmod(at, 1_000_000)
    return f"{_second(seconds)}{micro:06d}Z"


@lru_cache(maxsize=4096)
def _second(seconds: int) -> str:
    return stamp(_EPOCH + timedelta(seconds=seconds))[:-7]
