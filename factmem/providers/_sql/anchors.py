"""Anchors: the ends of all places, to be kept outside the database, which detect a rollback.

A database cannot reveal that a whole place was rolled back to an older copy. The numbers of lines
never decrease, so an anchor never expires: a place with a smaller one was rolled back.

Nor can it reveal that an erased place was restored. An encrypted store counts its anchors, and the
number of a place contains the count at its creation. So a place that is older than an anchor, and
missing in it, had been erased.
"""

import base64
from collections.abc import Callable, Iterator
from hashlib import sha256
from itertools import count
from typing import NamedTuple

import orjson

from factmem.errors import CorruptJournalError, FactmemError, TamperedError
from factmem.providers._sql import session as sql
from factmem.providers._sql.places import MOST_LISTED, PlaceReader
from factmem.providers._sql.sealing import Extent
from factmem.providers._sql.session import Row, Session
from factmem.providers._sql.stored_places import Progress, StoredPlaces
from factmem.providers._sql.writing import MADE_BITS


class _End(NamedTuple):
    made: int
    snapshot: int
    last: int
    digest: str
    """The digest of the last line as it is stored; empty if the line was purged."""


class Anchors:
    def __init__(self, places: StoredPlaces) -> None:
        self._places = places

    def take(self, progress: Progress | None = None) -> str:
        """Return the ends of all places, without reading entries."""
        taken = self.count()
        return self._places.run_apart(lambda session, _: self.read(session, taken, progress))

    def count(self) -> int:
        """Count an anchor in the row of a sealed store, for the numbers of new places.

        It is committed before places are listed. A plain store counts none, so it may be read-only.
        """
        if self._places.opening.encryption is None:
            return 0

        def write(session: Session, _: int) -> int:
            reader = self._places.reading(session)
            if reader is None or not reader.store.is_sealed:
                return 0
            return int(session.rows(sql.COUNT_ANCHOR, [reader.store.number])[0][0])

        return self._places.write(write)

    def read(self, session: Session, taken: int, progress: Progress | None = None) -> str:
        """Return the ends of all places in the state that a session reads."""
        reader = self._places.reading(session)
        if reader is None:
            return _dumped(None, {}, 0)
        number = reader.store.number
        report = _reporter(session, number, progress)
        ends: dict[str, _End] = {}
        for row in _rows(session, sql.LIST_ENDS, number):
            ends[row[0].hex()] = _end(row)
            report()
        return _dumped(reader.store.id, ends, taken)

    def verify(self, anchor: str | None, progress: Progress | None = None) -> None:
        """Raise unless every place is readable and no end is before that in an anchor."""
        store, ends, taken = (None, {}, 0) if anchor is None else _parsed(anchor)

        def read(session: Session, _: int) -> None:
            reader = self._places.reading(session)
            if store is not None:
                self._check_store(session, reader, store, taken)
            if reader is None:
                return
            session.check_integrity()
            check_erased(session, reader)
            report = _reporter(session, reader.store.number, progress)
            left = dict(ends)
            for row in _rows(session, sql.LIST_ROWS, reader.store.number):
                end = left.pop(row[0].hex(), None)
                if end is not None:
                    _check_end(session, reader, row[0], end)
                elif row[1] >> MADE_BITS < taken:
                    raise _error(
                        "A place that had been erased was put back",
                        is_sealed=reader.store.is_sealed,
                    )
                _read_place(session, reader, row)
                report()
            for key, end in left.items():  # unless it was erased and created during this call
                _check_end(session, reader, bytes.fromhex(key), end)

        self._places.run_apart(read)

    def _check_store(
        self, session: Session, reader: PlaceReader | None, store: str, taken: int
    ) -> None:
        if reader is None or reader.store.id != store:
            is_sealed = self._places.opening.encryption is not None
            raise _error(
                "The store is not the one that the anchor was taken from", is_sealed=is_sealed
            )
        stored = self._places.opening.row(session)
        if stored is None or stored.anchors < taken:
            raise _error("The row of the store was put back", is_sealed=True)


def _reporter(session: Session, store: int, progress: Progress | None) -> Callable[[], None]:
    """Return a function that reports one more place, with the number of all places."""
    if progress is None:
        return lambda: None
    ((total,),) = session.rows(sql.COUNT_PLACES, [store])
    numbers = count(1)

    def report() -> None:
        number = next(numbers)
        progress(number, max(total, number))

    return report


def _rows(session: Session, query: str, store: int) -> Iterator[Row]:
    after, rows = sql.FIRST_PLACE, []
    while rows := session.rows(query, [store, after, MOST_LISTED]):
        yield from rows
        after = rows[-1][0]


def check_erased(session: Session, reader: PlaceReader) -> None:
    """Raise unless the rows about erased places verify, and none of these is still there."""
    place, made, rows = b"", 0, []
    while rows := session.rows(sql.LIST_ERASED, [reader.store.number, place, made, MOST_LISTED]):
        for *row, is_there in rows:
            reader.check_erased(*row)
            if is_there:
                raise reader.damaged("A place that is there is noted as erased")
        place, made = rows[-1][:2]


def _read_place(session: Session, reader: PlaceReader, row: Row) -> None:
    """Read a whole place, whose key must be that of its names."""
    key, _, names, data_key = row
    identity = reader.sealer(key, data_key).open_names(names)
    if reader.key(identity) != key:
        raise reader.damaged("The row of a place has keys of other names")
    reader.whole(session, identity)


def _check_end(session: Session, reader: PlaceReader, key: bytes, end: _End) -> None:
    """Raise if a place ends before the end that an anchor has."""
    rows = session.rows(sql.FIND_END, [end.last, reader.store.number, key])
    problem = _problem(rows[0] if rows else None, end)
    if problem:
        raise _error(f"A place {problem}", is_sealed=reader.store.is_sealed)


def _problem(row: Row | None, end: _End) -> str:
    """Describe how a place contradicts an anchor; empty if it does not."""
    if row is None or row[1] != end.made:
        return "is gone, and the anchor knows it (take a new anchor after an erasure)"
    if row[2] < end.snapshot:
        return "is a copy from before it was rewritten"
    if row[3] < end.last:
        return f"ends at entry {row[3]} and had come to {end.last}"
    if row[2] == end.snapshot and end.digest and _end(row).digest != end.digest:
        return f"has another entry {end.last} than it had"
    return ""


def _error(problem: str, *, is_sealed: bool) -> FactmemError:
    error = TamperedError if is_sealed else CorruptJournalError
    return error(f"{problem}: restore it from a newer backup")


def _end(row: Row) -> _End:
    _, made, snapshot, last, at, line = row
    is_there = line is not None
    digest = sha256(at.to_bytes(8, "big", signed=True) + line).hexdigest()[:32] if is_there else ""
    return _End(*Extent(made, snapshot, last), digest)


def _dumped(store: str | None, ends: dict[str, _End], taken: int) -> str:
    places = {key: list(end) for key, end in ends.items()}
    fields = {"anchor": 1, "store": store, "taken": taken, "places": places}
    text = orjson.dumps(fields)
    return base64.urlsafe_b64encode(text).decode()


def _parsed(anchor: str) -> tuple[str | None, dict[str, _End], int]:
    try:
        fields = orjson.loads(base64.urlsafe_b64decode(anchor.encode()))
        if fields["anchor"] != 1:
            raise ValueError("another version")
        ends = {
            str(key): _End(int(made), int(snapshot), int(last), str(digest))
            for key, (made, snapshot, last, digest) in fields["places"].items()
        }
        store, taken = fields["store"], int(fields["taken"])
    except (ValueError, KeyError, TypeError, AttributeError):
        raise ValueError("anchor must be the string that anchor() returned") from None
    return None if store is None else str(store), ends, taken
