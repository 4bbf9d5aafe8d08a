"""Anchors: how far each place had come, to be kept outside the database, against rollback.

A database cannot reveal that all of a place was put back to an older copy. Numbers never go back, so
an anchor stays true for ever: a place that has come less far was put back.

Nor can it reveal that an erased place was put back. An encrypted store counts its anchors, and the
number of a place says how many there were when it was made. So a place that an anchor does not know,
and that was made before it, had been erased.
"""

import base64
from collections.abc import Iterator
from contextlib import suppress
from hashlib import sha256
from typing import NamedTuple

import orjson

from factmem.errors import CorruptJournalError, FactmemError, TamperedError
from factmem.providers._postgres import statements as sql
from factmem.providers._postgres.batches import MADE_BITS
from factmem.providers._postgres.blocking import PostgresPlaces
from factmem.providers._postgres.chunks import Directory
from factmem.providers._postgres.driver import Row, Session
from factmem.providers._postgres.places import PlaceReader
from factmem.providers._postgres.sealing import Extent
from factmem.providers._postgres.stores import SEALED

_MOST_LISTED = 1000
"""Places that are looked at by one question."""


class _End(NamedTuple):
    """How far a place had come."""

    made: int
    snapshot: int
    last: int
    digest: str
    """Of the last line as it is stored; empty where it was purged."""


class Anchors:
    """Takes and verifies the anchors of one store. Every method blocks."""

    def __init__(self, places: PostgresPlaces) -> None:
        self._places = places

    def taken(self) -> str:
        """Return how far every place has come. Entries are not read; an encrypted store counts it."""

        def read(session: Session, _: int) -> str:
            reader = self._places.reading(session)
            if reader is None:
                return _dumped(None, {}, 0)
            taken = 0
            if reader.store.mode == SEALED:
                # Committed before places are listed: those that are made from now on know of it.
                ((taken,),) = session.rows(sql.COUNT_ANCHOR, [reader.store.number])
            ends: dict[str, _End] = {}
            after, is_end = sql.FIRST_PLACE, False
            while not is_end:
                given = [reader.store.number, after, _MOST_LISTED]
                rows = session.rows(sql.LIST_ENDS, given)
                ends.update({row[0].hex: _end(row) for row in rows})
                is_end = len(rows) < _MOST_LISTED
                after = rows[-1][0].hex if rows else after
            return _dumped(reader.store.id, ends, taken)

        return self._places.run(read)

    def read_everything(self) -> None:
        """Raise unless every entry of every place can be read."""

        def read(session: Session, _: int) -> None:
            reader = self._places.reading(session)
            if reader is not None:
                for row in _rows(session, reader.store.number):
                    _read_place(session, reader, row)

        self._places.run(read)

    def verify(self, anchor: str) -> None:
        """Raise unless every place has come as far as an anchor says. Reads every sealed place."""
        store, ends, taken = _parsed(anchor)
        if store is None:
            return

        def read(session: Session, _: int) -> None:
            reader = self._places.reading(session)
            if reader is None or reader.store.id != store:
                is_sealed = self._places.opening.encryption is not None
                raise _error(
                    "The store is not the one that the anchor was taken from", is_sealed=is_sealed
                )
            stored = self._places.opening.row(session)
            if stored is None or stored.anchors < taken:
                raise _error("The row of the store was put back", is_sealed=True)
            keys = list(ends)
            for start in range(0, len(keys), _MOST_LISTED):
                _verify(session, reader, {key: ends[key] for key in keys[start:][:_MOST_LISTED]})
            if reader.store.mode == SEALED:
                for row in _rows(session, reader.store.number):
                    if row[0].hex not in ends and row[1] >> MADE_BITS < taken:
                        raise _error("A place that had been erased was put back", is_sealed=True)
                    _read_place(session, reader, row)

        self._places.run(read)


def _rows(session: Session, store: int) -> Iterator[Row]:
    after, rows = sql.FIRST_PLACE, []
    while rows := session.rows(sql.LIST_ROWS, [store, after, _MOST_LISTED]):
        yield from rows
        after = rows[-1][0].hex


def _read_place(session: Session, reader: PlaceReader, row: Row) -> None:
    """Read a whole place, and compare the columns of its row that no read looks at."""
    place, _, scope, subject, names, data_key = row
    key = place.hex
    identity = reader.sealer(key, data_key).open_names(names)
    expected = reader.new_row(identity)
    if (reader.key(identity), expected.scope, expected.subject) != (key, scope.hex, subject.hex):
        is_sealed = reader.store.mode == SEALED
        raise _error("The row of a place has keys of other names", is_sealed=is_sealed)
    reader.whole(session, identity)


def _verify(session: Session, reader: PlaceReader, ends: dict[str, _End]) -> None:
    given = [sql.keys(ends), sql.numbers(end.last for end in ends.values())]
    found = {
        row[0].hex: _with_line(session, reader, row, ends[row[0].hex])
        for row in session.rows(sql.FIND_ENDS, given)
    }
    for key, end in ends.items():
        problem = _problem(found.get(key), end)
        if problem:
            raise _error(f"A place {problem}", is_sealed=reader.store.mode == SEALED)


def _with_line(session: Session, reader: PlaceReader, row: Row, end: _End) -> Row:
    """Return a row of FIND_ENDS with its line, also where that is in a chunk by now."""
    if row[5] is not None:
        return row
    key = row[0].hex
    for data_key, first, stored, lines in session.rows(sql.FIND_CHUNK, [key, end.last]):
        sealer = reader.sealer(key, data_key)
        directory = Directory.load(first, sealer.open_directory(first, stored))
        with suppress(ValueError):  # purged
            index = directory.offsets.index(end.last - first)
            begin, stop = directory.span(index)
            return (*row[:4], directory.times[index], lines[begin:stop])
    return row


def _problem(row: Row | None, end: _End) -> str:
    """Return what is wrong with a place beside what an anchor says; empty where nothing is."""
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
    fields = {"anchor": 1, "kind": "postgres", "store": store, "taken": taken, "places": places}
    text = orjson.dumps(fields)
    return base64.urlsafe_b64encode(text).decode()


def _parsed(anchor: str) -> tuple[str | None, dict[str, _End], int]:
    try:
        fields = orjson.loads(base64.urlsafe_b64decode(anchor.encode()))
        if fields["anchor"] != 1 or fields["kind"] != "postgres":
            raise ValueError("another version")
        ends = {
            str(key): _End(int(made), int(snapshot), int(last), str(digest))
            for key, (made, snapshot, last, digest) in fields["places"].items()
        }
        store, taken = fields["store"], int(fields["taken"])
    except (ValueError, KeyError, TypeError, AttributeError):
        raise ValueError("anchor must be the string that anchor() returned") from None
    return None if store is None else str(store), ends, taken
