"""Topics: the index of a large place by keyword.

A cold process that loads one concept reads its lines, and not the whole place. Saves do not pay for
it: a reader that finds many lines beyond the index extends it. Loads also read lines beyond it.

A row of `indexes` begins with the position up to which the index reaches. Then come hashes of
keywords, sorted, and the numbers of the lines about them. A sealed place has one row, so that its
size tells nothing about keywords, and a plain one several, of which a load reads one. An edit of
the place deletes them.
"""

import struct
import sys
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from hashlib import blake2b
from typing import NamedTuple

from factmem.ledger.entries import Entry, keywords_of
from factmem.providers._sql import session as sql
from factmem.providers._sql.sealing import Extent, Sealer
from factmem.providers._sql.session import PlaceRow, Session

_HEAD = struct.Struct("=8sqqqq16s")
_FORM = b"topics1" + sys.byteorder[:1].encode()
_PARTS = 16
_FIRST = 1
"""The kind of the first row."""


@lru_cache(maxsize=4096)
def topic_of(keyword: str) -> int:
    digest = blake2b(keyword.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)


class Reach(NamedTuple):
    """The position up to which an index reaches."""

    extent: Extent
    size: int
    """The bytes of the lines up to here."""
    tag: bytes
    """The tag of the last of them."""


class Pair(NamedTuple):
    topic: int
    number: int
    """The number of a line that is about it."""


def kinds_of(keywords: Iterable[str] | None, *, is_sealed: bool) -> Collection[int]:
    """Return the kinds of the rows that have some keywords, or of all rows."""
    if is_sealed:
        return (_FIRST,)
    if keywords is None:
        return range(_FIRST, _FIRST + _PARTS)
    return {_FIRST + topic_of(keyword) % _PARTS for keyword in keywords} or (_FIRST,)


class Topics:
    """Rows of the index of a place; `ValueError` if they do not belong together."""

    def __init__(self, rows: Iterable[bytes | None]) -> None:
        self._columns = list(map(_columns, rows))
        if len({reach for reach, _, _ in self._columns}) != 1:
            raise ValueError
        self.reach: Reach = self._columns[0][0]

    def lines(self, keywords: Iterable[str]) -> list[int]:
        """Return the numbers of the lines about keywords."""
        found: set[int] = set()
        for topic in map(topic_of, keywords):
            for _, topics, numbers in self._columns:
                found.update(numbers[bisect_left(topics, topic) : bisect_right(topics, topic)])
        return sorted(found)

    def pairs(self) -> Iterator[Pair]:
        for _, topics, numbers in self._columns:
            yield from map(Pair, topics, numbers)


def _columns(stored: bytes | None) -> "tuple[Reach, memoryview[int], memoryview[int]]":
    """Return a row: how far it reaches, the topics in order, and the lines about each."""
    try:
        form, made, snapshot, last, size, tag = _HEAD.unpack_from(stored or b"")
        columns = memoryview(stored or b"")[_HEAD.size :].cast("q")
    except (struct.error, TypeError):
        raise ValueError from None
    if form != _FORM:
        raise ValueError
    half = len(columns) // 2
    return Reach(Extent(made, snapshot, last), size, tag), columns[:half], columns[half:]


def stored_topics(
    session: Session,
    row: PlaceRow,
    sealer: Sealer,
    keywords: Collection[str] | None = None,
    *,
    is_sealed: bool,
) -> Topics | None:
    """Return the index of a place, or its rows for keywords; None without one of this state."""
    kinds = kinds_of(keywords, is_sealed=is_sealed)
    found = [session.rows(sql.READ_INDEX, [row.place, kind]) for kind in kinds]
    with suppress(ValueError):
        topics = Topics(sealer.open_index(stored[0][1]) if stored else None for stored in found)
        extent = topics.reach.extent
        if extent[:2] == row.extent[:2] and extent.last <= row.last:
            return topics
    return None


def pairs_of(entries: Sequence[Entry], numbers: Sequence[int]) -> Iterator[Pair]:
    for entry, number in zip(entries, numbers, strict=True):
        for keyword in keywords_of(entry):
            yield Pair(topic_of(keyword), number)


def rows_of(pairs: Iterable[Pair], reach: Reach, *, is_sealed: bool) -> list[tuple[int, bytes]]:
    """Return the kinds and the bytes of the rows of an index."""
    parts: dict[int, list[Pair]] = {kind: [] for kind in kinds_of(None, is_sealed=is_sealed)}
    for pair in sorted(pairs):
        parts[_FIRST + (0 if is_sealed else pair.topic % _PARTS)].append(pair)
    head = _HEAD.pack(_FORM, *reach.extent, reach.size, reach.tag)
    rows: list[tuple[int, bytes]] = []
    for kind, some in parts.items():
        columns = [each.topic for each in some] + [each.number for each in some]
        rows.append((kind, head + struct.pack(f"={len(columns)}q", *columns)))
    return rows
