"""PlaceWriter: saves to places, under the locks of their rows.

The row of a place is its lock and its counter. A transaction locks several rows in the order of
their keys, so that there are no deadlocks.

A save to a database server is repeated when its connection breaks. Each batch has a random mark, kept
in its lines. The repetition first locks the rows, which waits for an earlier attempt that is still
under way, then looks for the mark. An earlier attempt that arrives even later finds its mark void in
the row and adds nothing.
"""

from collections.abc import Sequence
from secrets import randbits
from typing import NamedTuple

from factmem.ledger.entries import Entry, encoded_entry
from factmem.models.places import Identity
from factmem.providers._sql import statements as sql
from factmem.providers._sql.erasures import Moment, erased_since
from factmem.providers._sql.lines import Part, micros, split
from factmem.providers._sql.places import PlaceReader, Position, Saved
from factmem.providers._sql.sealing import NO_TAG, Extent, Sealer, UnknownGenerationError
from factmem.providers._sql.session import End, Head, Line, Row, Session
from factmem.providers._sql.stores import Opening

EMPTY_AT = -(2**62)
"""The time of an empty place: before every other."""

MADE_BITS = 36
"""Random bits in the number of a place; the number of earlier anchors is above them."""

NO_MARK = 0
"""Does not change the mark of a place."""


class Save(NamedTuple):
    """A save that waits for its commit: an encoded entry without its time."""

    identity: Identity
    body: bytes
    since: Moment | None = None
    """If the place was erased after this moment, the save is refused."""


class Appended(NamedTuple):
    """The result of a batch."""

    saved: dict[Identity, Saved]
    late: set[Save]
    """The saves that were refused because their places had been erased."""
    committed: int = NO_MARK
    """The mark of the earlier attempt that was committed; nothing was added then."""


def new_mark() -> int:
    """Return a random mark of 62 bits, so that collisions are negligible."""
    return randbits(62)


def made_number(anchors: int) -> int:
    """Return the number of a new place, given the number of anchors of its store.

    It differs between places of the same name, and is larger than that of every place that was
    created before an anchor.
    """
    return anchors << MADE_BITS | randbits(MADE_BITS)


class Batch:
    """Entries that share a commit, by place, in the order in which their rows are locked.

    Args:
        saves: The entries, oldest first.
        reader: Knows the keys of places.
        now: The time to record them at, in microseconds.
        times: The time of each entry, if they have times of their own.
    """

    def __init__(
        self, saves: Sequence[Save], reader: PlaceReader, now: int, times: Sequence[int] = ()
    ) -> None:
        self.now = now
        self.identities: dict[bytes, Identity] = {}
        self.times: list[int] = []
        """The time of each part of an only place, if the entries have times of their own."""
        by_key: dict[bytes, list[Part]] = {}
        for index, (identity, body, _) in enumerate(saves):
            key = reader.key(identity)
            parts = split(body, is_sealed=reader.store.is_sealed)
            by_key.setdefault(key, []).extend(parts)
            self.identities[key] = identity
            if times:
                self.times += [times[index]] * len(parts)
        self.parts = {key: by_key[key] for key in sorted(by_key)}
        self._reader = reader

    def heads(self, *, is_empty: bool = False) -> list[Head]:
        """Return the rows of the places, with what the batch adds to them.

        With `is_empty` nothing is added: the rows are only locked, or created.
        """
        made = made_number(self._reader.store.anchors)
        heads: list[Head] = []
        for key, parts in self.parts.items():
            row = self._reader.new_row(self.identities[key])
            count, size = len(parts), sum(len(part.body) for part in parts)
            heads.append(Head(key, *row, made, *((0, 0) if is_empty else (count, size))))
        return heads


class Locked(NamedTuple):
    """The row of a place that the transaction has locked."""

    extent: Extent
    names: bytes
    data_key: bytes | None


class PlaceWriter:
    """Writes to places of one open store. Thread-safe."""

    def __init__(self, reader: PlaceReader, opening: Opening) -> None:
        self._reader = reader
        self._opening = opening
        self._store = reader.store.number
        self._is_sealed = reader.store.is_sealed

    # Saves

    def append(self, session: Session, batch: Batch, mark: int) -> dict[Identity, Saved]:
        """Append a batch in one transaction."""
        if not self._is_sealed and session.appends_at_once:
            lines = [
                Line(key, index, batch.now, mark, *part)
                for key, parts in batch.parts.items()
                for index, part in enumerate(parts)
            ]
            rows = session.append_plain(self._store, batch.heads(), lines, mark, batch.now)
            return {batch.identities[row[0]]: _saved(row, batch) for row in rows}
        with session.transaction():
            return self._append_locked(session, batch, mark)

    def append_checked(
        self,
        session: Session,
        saves: Sequence[Save],
        now: int,
        mark: int,
        *,
        earlier: Sequence[int] = (),
        here: int = 0,
    ) -> Appended:
        """Append a batch exactly once, except for saves whose place was erased meanwhile.

        Args:
            session: A connection outside a transaction.
            saves: The saves, oldest first.
            now: The time to record them at, in microseconds.
            mark: Their mark.
            earlier: The marks of earlier attempts, one of which may have been committed.
            here: The number of erasures in this process before the store existed.
        """
        everything = Batch(saves, self._reader, now)
        keys = list(everything.parts)
        with session.transaction():
            # Locks all rows first, which waits for an earlier attempt that is still under way.
            session.take_numbers(self._store, everything.heads(is_empty=True), NO_MARK, EMPTY_AT)
            if earlier:
                committed = session.find_mark(keys, earlier)
                if committed is not None:
                    session.rows(*sql.among(sql.DELETE_EMPTY, keys))
                    return Appended({}, set(), committed)
                session.void_marks(keys, earlier)
            key = self._reader.key
            moments = {(key(save.identity), save.since) for save in saves if save.since is not None}
            erased = erased_since(session, self._store, moments, here)
            late = {save for save in saves if (key(save.identity), save.since) in erased}
            rest = Batch([save for save in saves if save not in late], self._reader, now)
            saved = self._append_locked(session, rest, mark) if rest.parts else {}
            if late:
                session.rows(*sql.among(sql.DELETE_EMPTY, keys))
            return Appended(saved, late)

    def _append_locked(self, session: Session, batch: Batch, mark: int) -> dict[Identity, Saved]:
        """Append a batch inside a transaction."""
        lines: list[Line] = []
        ends: list[End] = []
        saved: dict[Identity, Saved] = {}
        for row in session.take_numbers(self._store, batch.heads(), mark, batch.now):
            key, made, snapshot, last, size, at, data_key, tail = row
            end, sealer = self._end(key, data_key, batch.identities[key])
            parts = batch.parts[key]
            first = last - len(parts) + 1
            before = tag = NO_TAG if tail is None else tail[: len(NO_TAG)]
            if tail is not None:
                # Nothing is appended to an end that does not verify.
                sealer.check_tail(Extent(made, snapshot, first - 1), tag, tail)
            for number, (body, topics) in enumerate(parts, first):
                when = batch.times[number - first] if batch.times else at
                stored = sealer.seal(number, when, tag, body)
                tag = sealer.tag(stored)
                lines.append(Line(key, number, when, mark, stored, topics))
            extent = Extent(made, snapshot, last)
            ends.append(end._replace(tail=sealer.tail(extent, tag)))
            position = Position(extent, last, tag, size, size)
            saved[batch.identities[key]] = Saved(position, before, at, _bodies(parts))
        if any(end.data_key for end in ends):
            self.check_ring(session, makes_place=True)
        session.insert(self._store, lines, ends if self._is_sealed else ())
        return saved

    def _end(self, key: bytes, data_key: bytes | None, identity: Identity) -> tuple[End, Sealer]:
        """Return the new columns of a place's row except its tail, and the sealer of its lines."""
        if not self._is_sealed or data_key is not None:
            return End(key), self._reader.sealer(key, data_key)
        data_key = self._reader.store.sealing.new_data_key(key)
        sealer = self._reader.sealer(key, data_key)
        return End(key, None, sealer.seal_names(identity), data_key), sealer

    def check_ring(self, session: Session, *, makes_place: bool = False) -> None:
        """Raise if the key ring was rotated since the store was opened.

        A new data key would be wrapped under a dropped key. With `makes_place` raise also if an anchor
        was taken: it would miss the new place.
        The row of the store is locked until the commit, so that neither begins now.
        """
        row, store = self._opening.row(session, lock="FOR SHARE"), self._reader.store
        if (
            row is None
            or row.generation != store.sealing.generation
            or (makes_place and row.anchors != store.anchors)
        ):
            raise UnknownGenerationError

    # Changes inside a transaction

    def lock(self, session: Session, key: bytes) -> Locked | None:
        """Lock the row of a place; None if it does not exist."""
        for made, snapshot, last, names, data_key in session.rows(sql.LOCK, [key]):
            return Locked(Extent(made, snapshot, last), names, data_key)
        return None

    def lock_or_make(self, session: Session, identity: Identity) -> None:
        """Lock the row of a place; creates an empty one if it does not exist."""
        place = Batch([Save(identity, b"{}")], self._reader, EMPTY_AT)
        session.take_numbers(self._store, place.heads(is_empty=True), NO_MARK, EMPTY_AT)

    def delete_empty(self, session: Session, identity: Identity) -> None:
        """Delete the row of a place that has no lines."""
        session.rows(*sql.among(sql.DELETE_EMPTY, [self._reader.key(identity)]))

    def is_marked(self, session: Session, identity: Identity, mark: int) -> bool:
        """Whether a change with this mark was committed."""
        return session.find_mark([self._reader.key(identity)], [mark]) is not None

    def add(
        self, session: Session, identity: Identity, entries: Sequence[Entry], mark: int
    ) -> None:
        """Append entries with their own times."""
        saves = [Save(identity, encoded_entry(entry)) for entry in entries]
        times = [micros(entry["at"]) for entry in entries]
        self._append_locked(session, Batch(saves, self._reader, max(times), times), mark)


def _saved(row: Row, batch: Batch) -> Saved:
    """Return the result of a plain save, from the row of its place."""
    key, made, snapshot, last, size, at, _, _ = row
    position = Position(Extent(made, snapshot, last), last, NO_TAG, size, size)
    return Saved(position, NO_TAG, at, _bodies(batch.parts[key]))


def _bodies(parts: Sequence[Part]) -> list[bytes]:
    return [part.body for part in parts]
