"""The search for one keyword in a large place, by the directories of its chunks."""

from typing import NamedTuple

from factmem.ledger.entries import Entry
from factmem.ledger.keyword_search import KeywordSearch
from factmem.ledger.ledger import Ledger
from factmem.models.places import Identity
from factmem.providers._postgres import statements as sql
from factmem.providers._postgres.batches import EMPTY_AT
from factmem.providers._postgres.chunks import Directory, entries_of, stamp_at, topic_of
from factmem.providers._postgres.driver import Session
from factmem.providers._postgres.places import PlaceReader, Position
from factmem.providers._postgres.sealing import NO_TAG, Extent, Sealer

_MOST_LINES = 4096
"""The number of lines of one keyword that are read one by one. With more, the place is read."""


class _Line(NamedTuple):
    """A line of the keyword in a chunk."""

    number: int
    at: int
    counted: int
    """The time that it is treated as recorded at."""
    first: int
    """The first number of its chunk."""
    begin: int
    end: int
    before: bytes
    """The tag of the line before the chunk."""


def searched(
    session: Session, reader: PlaceReader, identity: Identity, keyword: str
) -> Ledger | None:
    """Return the ledger of one keyword; None if the whole place must be read.

    That is so without chunks, with too many lines of the keyword, and if the place was edited between
    two statements.
    """
    key = reader.key(identity)
    rows = session.rows(sql.READ_DIRECTORIES, [key])
    if not rows or rows[0][3] is None:
        return None
    made, snapshot, data_key = rows[0][:3]
    sealer = reader.sealer(key, data_key)
    directories: list[Directory] = []
    tag = NO_TAG
    for _, _, _, first, stored in rows:
        directory = Directory.load(first, sealer.open_directory(first, stored))
        if directory.start != tag:
            raise reader.damaged("Entries of a place are missing")
        tag = directory.end
        directories.append(directory)
    last = directories[-1].last
    end = Position(Extent(made, snapshot, last), last, tag, 0)
    # The other lines are read in the usual way, which checks the end of the place and its names.
    answer = reader.read(session, {identity: end}).get(identity)
    if answer is None or answer.is_from_start or answer.chunks or answer.is_in_chunks:
        return None
    if answer.position.extent.last != answer.position.end:
        return None
    lines = _lines_about(directories, topic_of(keyword))
    entries = _entries(session, key, (made, snapshot), lines, sealer)
    if entries is None:
        return None
    search = KeywordSearch(keyword)
    latest: Entry = {"at": stamp_at(directories[-1].latest)}
    search.take_entries([*entries, latest, *answer.entries])
    return search.ledger()


def _lines_about(directories: list[Directory], topic: int) -> list[_Line]:
    found: list[_Line] = []
    latest = EMPTY_AT
    for directory in directories:
        indexes = directory.about(topic)
        counted = directory.counted(indexes, latest)
        latest = directory.latest
        for index, at in zip(indexes, counted, strict=True):
            number = directory.first + directory.offsets[index]
            found.append(
                _Line(
                    number,
                    directory.times[index],
                    at,
                    directory.first,
                    *directory.span(index),
                    directory.start,
                )
            )
    return found


def _entries(
    session: Session, key: str, place: tuple[int, int], lines: list[_Line], sealer: Sealer
) -> list[Entry] | None:
    """Return the entries of lines; None if they are too many or were deleted."""
    if len(lines) > _MOST_LINES:
        return None
    # Each slice starts with the end of the previous line, which is its tag.
    starts = [max(line.begin - 1 - len(NO_TAG), 0) for line in lines]
    sizes = [line.end - start for line, start in zip(lines, starts, strict=True)]
    columns = [line.first for line in lines], [start + 1 for start in starts], sizes
    rows = session.rows(sql.READ_SLICES, [*map(sql.numbers, columns), key, *place])
    if len(rows) != len(lines):
        return None
    bodies: list[bytes] = []
    for line, start, (stored,) in zip(lines, starts, rows, strict=True):
        tag = stored[: len(NO_TAG)] if line.begin else line.before
        bodies.append(sealer.open(line.number, line.at, tag, stored[line.begin - start :]))
    return entries_of(bodies, [line.counted for line in lines])
