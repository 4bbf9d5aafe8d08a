"""The question that reads on in places, and its answers."""

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
"""Chunks in one answer: some 5 MB."""

_MOST_KEYS = 10_000
"""Keys and sealers of places that are kept; each takes some 300 bytes."""


def micros(text: str) -> int:
    """Return a stamp as microseconds since 1970."""
    return (moment(text) - _EPOCH) // _MICROSECOND


class Position(NamedTuple):
    """How far a place was read."""

    extent: Extent
    end: int
    """The number of its last line when it was read."""
    tag: bytes
    """The tag of the last line that was read."""
    size: int
    """The bytes of all its lines."""


NOWHERE = Position(Extent(0, 0, 0), 0, NO_TAG, 0)


class Answer(NamedTuple):
    """What a question brought about one place."""

    position: Position
    is_from_start: bool
    entries: list[Entry]
    numbers: list[int]
    chunks: Sequence[int] = ()
    """How many of the entries are in each chunk; the others come after them."""
    is_in_chunks: bool = False
    """Whether what is new is in chunks, which were not read."""


class Edited(NamedTuple):
    """An edit of a place."""

    freed: int
    """How many bytes of lines it freed."""
    before: Answer
    after: Sequence[Entry | None]
    """What is left of each entry."""
    position: Position | None
    """The end of the place after it; None where nothing is left."""


class NewRow(NamedTuple):
    """What the row of a place has besides its counters."""

    scope: str
    subject: str
    names: bytes


class Follower(Protocol):
    """What keeps the entries of a place as far as they were read."""

    position: Position | None

    def take(self, before: Position | None, answer: Answer | None, asked: float) -> bool:
        """Take in an answer to a question; return whether the place is now read to its end.

        Args:
            before: The position that the question went on from.
            answer: None where there is no such place.
            asked: When it was asked, on the monotonic clock.
        """
        ...


class PlaceReader:
    """Reads places of one open store. Safe for threads."""

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
        """Return what the row of a place would have, were it made now.

        Sealed names are left out: they are sealed under the data key, which a row that is there
        has already.
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
        """Return the form of a place's lines."""
        sealer = self._sealers.get((key, data_key))
        if sealer is None:
            if len(self._sealers) >= _MOST_KEYS:
                self._sealers.clear()
            sealer = self._sealers[key, data_key] = self.store.sealing.sealer(key, data_key)
        return sealer

    def names(self, rows: Iterable[Row]) -> list[Identity]:
        """Return the places of rows with key, names and data key. Nothing is kept for the next."""
        sealing = self.store.sealing
        if self.store.mode != SEALED:
            open_names = sealing.sealer("", None).open_names
            return [open_names(names) for _, names, _ in rows]
        return [sealing.sealer(key, data_key).open_names(names) for key, names, data_key in rows]

    def follow(self, session: Session, views: Mapping[Identity, Follower]) -> None:
        """Read on to the end of each view's place, one question for all of them at a time."""
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
        """Return what is new in each place since a position; nothing where there is no place.

        Without chunks nothing is read of a place that has new ones.
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
            known: The places, and how far each was read.
            most: How many entries of a place are read at most.
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
        """Return what the rows of an answer say; what is in chunks is missing."""
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
        if end == 0:  # the empty row that a transaction made as its lock
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
        # A purge may have removed the last lines: then fewer than asked for say that these are all.
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
        ):  # erased or edited: the next answer says so
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
        """Return the error for a place that cannot be as it was written."""
        error = TamperedError if self.store.mode == SEALED else CorruptJournalError
        return error(f"{problem}: restore it from a backup")

    def whole(self, session: Session, identity: Identity) -> Answer | None:
        """Return all entries of a place; None where there is no such place."""
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
    """Return entries at the times that they count as recorded: none before the one before it."""
    at = ""
    for entry in entries:
        at = entry["at"] = max(entry["at"], at)
    return entries
