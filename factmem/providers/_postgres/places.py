"""The query that reads new entries of places, and its answers."""

import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple, Protocol, TypeVar

from factmem.concurrency.garbage import paused_collection
from factmem.errors import CorruptJournalError, FactmemError, StorageError, TamperedError
from factmem.ledger.entries import Entry, moment
from factmem.models.places import Identity
from factmem.providers._postgres import binary
from factmem.providers._postgres.chunks import LINES, Directory, entries_of, opened
from factmem.providers._postgres.driver import Row, Session
from factmem.providers._postgres.exchanges import Statement
from factmem.providers._postgres.sealing import NO_TAG, Extent, Sealer
from factmem.providers._postgres.statements import (
    LARGEST_ANSWER,
    READ_CHUNKS,
    READ_MANY,
    READ_ONE,
)
from factmem.providers._postgres.stores import SEALED, OpenStore

R = TypeVar("R")

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)

MOST_CHUNKS = 16
"""Chunks in one answer: about 5 MB."""

_MOST_KEYS = 10_000
"""Cached keys and sealers of places; each takes about 300 bytes."""


def micros(text: str) -> int:
    """Return a stamp as microseconds since 1970."""
    return (moment(text) - _EPOCH) // _MICROSECOND


class Position(NamedTuple):
    """The position up to which a place was read."""

    extent: Extent
    end: int
    """The number of its last line when it was read."""
    tag: bytes
    """The tag of the last line that was read."""
    size: int
    """The bytes of all its lines."""


NOWHERE = Position(Extent(0, 0, 0), 0, NO_TAG, 0)


class Answer(NamedTuple):
    """The answer of a query about one place."""

    position: Position
    is_from_start: bool
    entries: list[Entry]
    numbers: list[int]
    chunks: Sequence[int] = ()
    """The number of entries in each chunk; the remaining entries follow them."""
    is_in_chunks: bool = False
    """Whether new entries are in chunks, which were not read."""


class Edited(NamedTuple):
    """An edit of a place."""

    freed: int
    """The number of bytes that it freed."""
    before: Answer
    after: Sequence[Entry | None]
    """The entries after the edit; None where one was removed."""
    position: Position | None
    """The end of the place after it; None if nothing is left."""


class NewRow(NamedTuple):
    """Columns of a new place's row besides its counters."""

    scope: str
    subject: str
    names: bytes


class Follower(Protocol):
    """Keeps the entries of a place up to the position that was read."""

    position: Position | None

    def take(self, before: Position | None, answer: Answer | None, asked: float) -> bool:
        """Apply an answer; return whether the place is now read to its end.

        Args:
            before: The position that the query started from.
            answer: None if the place does not exist.
            asked: When it was asked, on the monotonic clock.
        """
        ...


class PlaceReader:
    """Reads places of one open store. Thread-safe."""

    def __init__(self, store: OpenStore) -> None:
        self.store = store
        self._keys: dict[Identity, str] = {}
        self._new_rows: dict[Identity, NewRow] = {}
        self._sealers: dict[tuple[str, bytes | None], Sealer] = {}

    def key(self, identity: Identity) -> str:
        """Return the key of a place."""
        key = self._keys.get(identity)
        if key is None:
            if len(self._keys) >= _MOST_KEYS:
                self._keys.clear()
            key = self._keys[identity] = self.store.sealing.key("place", identity)
        return key

    def new_row(self, identity: Identity) -> NewRow:
        """Return the columns of a new row of a place.

        Sealed names are left out, because they are sealed under the data key of an existing row.
        """
        row = self._new_rows.get(identity)
        if row is None:
            if len(self._new_rows) >= _MOST_KEYS:
                self._new_rows.clear()
            sealing, is_sealed = self.store.sealing, self.store.mode == SEALED
            scope, subject = (
                sealing.key("scope", identity[:2]),
                sealing.key("subject", identity[2:]),
            )
            names = b"" if is_sealed else sealing.sealer("", None).seal_names(identity)
            row = self._new_rows[identity] = NewRow(scope, subject, names)
        return row

    def sealer(self, key: str, data_key: bytes | None) -> Sealer:
        """Return the sealer of a place's lines."""
        sealer = self._sealers.get((key, data_key))
        if sealer is None:
            if len(self._sealers) >= _MOST_KEYS:
                self._sealers.clear()
            sealer = self._sealers[key, data_key] = self.store.sealing.sealer(key, data_key)
        return sealer

    def names(self, rows: Iterable[Row]) -> list[Identity]:
        """Return the places of rows with key, names and data key. Nothing is cached."""
        sealing = self.store.sealing
        if self.store.mode != SEALED:
            open_names = sealing.sealer("", None).open_names
            return [open_names(names) for _, names, _ in rows]
        return [sealing.sealer(key, data_key).open_names(names) for key, names, data_key in rows]

    def follow(self, session: Session, views: Mapping[Identity, Follower]) -> None:
        """Read each view's place to its end, with one query for all of them at a time."""
        rest = dict(views)
        while rest:
            asked = time.monotonic()
            before = {identity: view.position for identity, view in rest.items()}
            answers = self.read(session, before)
            for identity, view in list(rest.items()):
                if view.take(before[identity], answers.get(identity), asked):
                    del rest[identity]

    def read(
        self,
        session: Session,
        known: Mapping[Identity, Position | None],
        *,
        with_chunks: bool = True,
    ) -> dict[Identity, Answer]:
        """Return the new entries of each place since a position; missing places are left out.

        With `with_chunks=False` a place with new chunks has an answer without entries.
        """
        most = LARGEST_ANSWER
        found = self.answers(known, session.answer(*self.question(known, most)), most)
        for identity, answer in found.items():
            if answer.is_in_chunks and with_chunks:
                found[identity] = self._chunks(session, self.key(identity), answer)
        return found

    def question(
        self, known: Mapping[Identity, Position | None], most: int
    ) -> tuple[Statement, list[bytes | None]]:
        """Return the statement that reads what is new in some places, and its parameters.

        Args:
            known: The places, and the position up to which each was read.
            most: The largest number of entries to read of a place.
        """
        extents = [(position or NOWHERE).extent for position in known.values()]
        places, limit = map(self.key, known), binary.integer(most)
        if len(extents) == 1:
            return READ_ONE, [binary.key(*places), *map(binary.integer, extents[0]), limit]
        columns = [binary.integers(column) for column in zip(*extents, strict=True)]
        return READ_MANY, [binary.keys(places), *columns, limit]

    def answers(
        self, known: Mapping[Identity, Position | None], rows: Iterable[Row], most: int
    ) -> dict[Identity, Answer]:
        """Return the answers in rows, without the entries in chunks."""
        identities = list(known)
        found: dict[Identity, Answer] = {}
        for row in rows:
            identity = identities[row[0] - 1]
            found[identity] = self._answer(identity, known[identity], row, most)
        return found

    def _answer(self, identity: Identity, known: Position | None, row: Row, most: int) -> Answer:
        _, made, snapshot, end, size, names, data_key, tail, folded, found, ats, lines = row
        before = known or NOWHERE
        is_from_start = (made, snapshot) != before.extent[:2]
        if not is_from_start and end == before.extent.last and known is not None:
            return Answer(known, False, [], [])
        if end == 0:  # an empty row that a transaction created as its lock
            return Answer(Position(Extent(made, snapshot, 0), 0, NO_TAG, 0), True, [], [])
        key = self.key(identity)
        sealer = self.sealer(key, data_key)
        if is_from_start and sealer.open_names(names) != identity:
            raise StorageError("Two places have one key: nothing was read")
        if is_from_start:
            before = Position(Extent(made, snapshot, 0), 0, NO_TAG, 0)
        if folded > before.extent.last:
            after = before._replace(end=end, size=size)
            return Answer(after, is_from_start, [], [], is_in_chunks=True)
        tag = before.tag
        bodies: list[bytes] = []
        for number, at, line in zip(found or (), ats or (), lines or (), strict=True):
            bodies.append(sealer.open(number, at, tag, line))
            tag = sealer.tag(line)
        with paused_collection(len(bodies)):
            entries = entries_of(bodies, ats or ())
        # A purge may have removed the last lines, so fewer lines than asked for are all of them.
        extent = Extent(made, snapshot, end if len(entries) < most else found[-1])
        if extent.last == end:
            sealer.check_tail(extent, tag, tail)
        return Answer(Position(extent, end, tag, size), is_from_start, entries, found or [])

    def _chunks(self, session: Session, key: str, answer: Answer) -> Answer:
        """Return the entries of the next chunks after a position."""
        before, is_from_start = answer.position, answer.is_from_start
        last, tag = before.extent.last, before.tag
        entries: list[Entry] = []
        numbers: list[int] = []
        sizes: list[int] = []
        rows = session.rows(READ_CHUNKS, [last, MOST_CHUNKS, key])
        if (
            not rows or rows[0][:2] != before.extent[:2]
        ):  # erased or edited: the next answer reports it
            return answer
        with paused_collection(LINES * len(rows)):
            for _, _, data_key, first, stored, lines in rows:
                if first is None:
                    raise self.damaged("Entries of a place are missing")
                sealer = self.sealer(key, data_key)
                directory = Directory.load(first, sealer.open_directory(first, stored))
                found = opened(directory, lines, sealer, tag, last)
                entries += found
                numbers += [first + offset for offset in directory.offsets[-len(found) :]]
                sizes.append(len(found))
                last, tag = directory.last, directory.end
        position = before._replace(extent=before.extent._replace(last=last), tag=tag)
        return Answer(position, is_from_start, entries, numbers, sizes)

    def damaged(self, problem: str) -> FactmemError:
        """Return the error for a damaged place."""
        error = TamperedError if self.store.mode == SEALED else CorruptJournalError
        return error(f"{problem}: restore it from a backup")

    def whole(self, session: Session, identity: Identity) -> Answer | None:
        """Return all entries of a place; None if it does not exist."""
        entries: list[Entry] = []
        found: list[int] = []
        chunks: list[int] = []
        position: Position | None = None
        while True:
            answer = self.read(session, {identity: position}).get(identity)
            if answer is None:
                return None
            if answer.is_from_start:
                entries, found, chunks = [], [], []
            entries += answer.entries
            found += answer.numbers
            chunks += answer.chunks
            position = answer.position
            if position.extent.last == position.end:
                return Answer(position, True, entries, found, chunks)


def counted(entries: list[Entry]) -> list[Entry]:
    """Return entries with times that never decrease."""
    at = ""
    for entry in entries:
        at = entry["at"] = max(entry["at"], at)
    return entries
