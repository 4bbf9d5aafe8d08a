"""Saves to places, under the locks of their rows.

The row of a place is its lock and its counter. A transaction locks several rows in the order of
their keys, so that there are no deadlocks.

A save is repeated when its connection breaks. Each batch has a random mark, kept in its entries. The
repetition first locks the rows, which waits for an earlier attempt that is still under way, then
looks for the mark. An earlier attempt that comes even later, out of a network's buffer, finds its
mark void in the row and adds nothing.
"""

from collections.abc import Sequence
from copy import copy

from factmem.ledger.entries import Entry, encoded_entry
from factmem.models.places import Identity
from factmem.providers._postgres import binary
from factmem.providers._postgres import statements as sql
from factmem.providers._postgres.batches import (
    EMPTY_AT,
    NO_MARK,
    Appended,
    Batch,
    End,
    Line,
    Locked,
    Save,
    Saved,
    made_number,
)
from factmem.providers._postgres.driver import Row, Session
from factmem.providers._postgres.erasures import erased_since
from factmem.providers._postgres.exchanges import Statement
from factmem.providers._postgres.places import PlaceReader, Position, micros
from factmem.providers._postgres.sealing import NO_TAG, Extent, Sealer, UnknownGenerationError
from factmem.providers._postgres.stores import SEALED, Opening

_integer = binary.integer


class PlaceWriter:
    """Writes to places of one open store. Thread-safe."""

    def __init__(self, reader: PlaceReader, opening: Opening) -> None:
        self._reader = reader
        self._opening = opening
        self._store = reader.store.number
        self._is_sealed = reader.store.mode == SEALED

    # Saves

    def append(self, session: Session, batch: Batch, mark: int) -> dict[Identity, Saved]:
        """Append a batch in one transaction."""
        if self._is_sealed:
            with session.transaction():
                return self._append_locked(session, batch, mark)
        return saved_in(batch, session.answer(*self.appending(batch, mark)))

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
        keys = sql.keys(everything.bodies)
        with session.transaction():
            self._lock_or_make(session, everything)
            if earlier:
                for (committed,) in session.rows(sql.FIND_MARKS, [keys, sql.numbers(earlier)] * 3):
                    session.rows(sql.DELETE_EMPTY, [keys])
                    return Appended({}, set(), committed)
                session.rows(sql.VOID_MARKS, [sql.numbers(earlier), keys])
            moments = {(save.identity, save.since) for save in saves if save.since is not None}
            erased = erased_since(session, self._reader, moments, here)
            late = {save for save in saves if (save.identity, save.since) in erased}
            rest = Batch([save for save in saves if save not in late], self._reader, now)
            saved = self._append_locked(session, rest, mark) if rest.bodies else {}
            if late:
                session.rows(sql.DELETE_EMPTY, [keys])
            return Appended(saved, late)

    def appending(self, batch: Batch, mark: int) -> tuple[Statement, list[bytes | None]]:
        """Return the statement that appends a plain batch, and its parameters."""
        store = _integer(self._store)
        if len(batch.bodies) == 1:
            ((key, (body, *others)),) = batch.bodies.items()
            if not others:
                return sql.APPEND_ONE, [*self._head(batch, key, mark), _integer(mark), store, body]
        keys: list[str] = []
        behind: list[int] = []
        lines: list[bytes] = []
        for key, bodies in batch.bodies.items():
            keys += [key] * len(bodies)
            behind += range(len(bodies) - 1, -1, -1)
            lines += bodies
        given = [*self._heads(batch, mark), _integer(mark), store]
        given += [binary.keys(keys), binary.integers(behind), binary.byte_strings(lines)]
        return sql.APPEND_MANY, given

    def _head(self, batch: Batch, key: str, mark: int) -> list[bytes | None]:
        """Return the parameters that create or update the row of one place."""
        row, (body,) = self._reader.new_row(batch.identities[key]), batch.bodies[key]
        names = [*map(binary.key, (key, row.scope, row.subject)), row.names]
        made = made_number(self._reader.store.anchors)
        return [*names, *map(_integer, (made, 1, len(body), mark, batch.now, self._store))]

    def _heads(self, batch: Batch, mark: int) -> list[bytes | None]:
        """Return the parameters of TAKE_NUMBERS."""
        rows = [self._reader.new_row(batch.identities[key]) for key in batch.bodies]
        return [
            *map(_integer, (mark, batch.now, self._store)),
            binary.keys(batch.bodies),
            binary.keys(row.scope for row in rows),
            binary.keys(row.subject for row in rows),
            binary.byte_strings(row.names for row in rows),
            binary.integers([made_number(self._reader.store.anchors)] * len(rows)),
            binary.integers(len(bodies) for bodies in batch.bodies.values()),
            binary.integers(sum(map(len, bodies)) for bodies in batch.bodies.values()),
        ]

    def _append_locked(
        self, session: Session, batch: Batch, mark: int, times: Sequence[int] = ()
    ) -> dict[Identity, Saved]:
        """Append a batch in two statements, inside a transaction.

        Args:
            session: A connection inside a transaction.
            batch: What to append.
            mark: The batch's mark.
            times: The time of each entry, where the batch has one place; all at once by default.
        """
        lines: list[Line] = []
        ends: list[End] = []
        saved: dict[Identity, Saved] = {}
        for row in session.answer(sql.TAKE_NUMBERS, self._heads(batch, mark)):
            key, made, snapshot, last, size, at, data_key, tail, folded = row[0].hex, *row[1:]
            end, sealer = self._end(key, data_key, batch.identities[key])
            bodies = batch.bodies[key]
            before = tag = NO_TAG if tail is None else tail[: len(NO_TAG)]
            if tail is not None:
                sealer.check_tail(Extent(made, snapshot, last - len(bodies)), tag, tail)
            for behind, body in zip(range(len(bodies) - 1, -1, -1), bodies, strict=True):
                when = times[-1 - behind] if times else at
                line = sealer.seal(last - behind, when, tag, body)
                tag = sealer.tag(line)
                lines.append(Line(key, last - behind, when, mark, line))
            extent = Extent(made, snapshot, last)
            ends.append(end._replace(tail=sealer.tail(extent, tag)))
            saved[batch.identities[key]] = Saved(
                Position(extent, last, tag, size), before, at, folded
            )
        if any(end.data_key for end in ends):
            self.check_ring(session)
        self._insert(session, lines, ends)
        return saved

    def _end(self, key: str, data_key: bytes | None, identity: Identity) -> tuple[End, Sealer]:
        """Return the new columns of a place's row except its tail, and the sealer of its lines."""
        if not self._is_sealed or data_key is not None:
            return End(key), self._reader.sealer(key, data_key)
        data_key = self._reader.store.sealing.new_data_key(key)
        sealer = self._reader.sealer(key, data_key)
        return End(key, None, sealer.seal_names(identity), data_key), sealer

    def check_ring(self, session: Session) -> None:
        """Raise if the key ring was rotated, or an anchor taken, since the store was opened.

        A new data key would be wrapped under a dropped key, or an anchor would miss the new place.
        The row of the store is locked until the commit, so that neither begins now.
        """
        row, store = self._opening.row(session, lock="FOR SHARE"), self._reader.store
        known = store.sealing.generation, store.anchors
        if row is None or (row.generation, row.anchors) != known:
            raise UnknownGenerationError

    def _insert(self, session: Session, lines: Sequence[Line], ends: Sequence[End]) -> None:
        keys, found, times, marks, stored = zip(*lines, strict=True) if lines else [()] * 5
        given = [_integer(self._store), binary.keys(keys)]
        given += [binary.integers(each) for each in (found, times, marks)]
        given.append(binary.byte_strings(stored))
        if not self._is_sealed:
            session.answer(sql.INSERT, given)
            return
        given.append(binary.keys(end.key for end in ends))
        for column in (1, 2, 3):
            given.append(binary.byte_strings(end[column] for end in ends))  # type: ignore[misc]
        session.answer(sql.INSERT_SEALED, given)

    # Changes inside a transaction

    def lock(self, session: Session, key: str) -> Locked | None:
        """Lock the row of a place; None if it does not exist."""
        for made, snapshot, last, names, data_key in session.rows(sql.LOCK, [key]):
            return Locked(Extent(made, snapshot, last), names, data_key)
        return None

    def lock_or_make(self, session: Session, identity: Identity) -> None:
        """Lock the row of a place; creates an empty one if it does not exist."""
        self._lock_or_make(session, Batch([Save(identity, b"")], self._reader, EMPTY_AT))

    def _lock_or_make(self, session: Session, batch: Batch) -> None:
        empty = copy(batch)
        empty.bodies = {key: [] for key in batch.bodies}
        session.answer(sql.TAKE_NUMBERS, self._heads(empty, NO_MARK))

    def delete_empty(self, session: Session, identity: Identity) -> None:
        """Delete the row of a place that has no lines."""
        session.rows(sql.DELETE_EMPTY, [sql.keys([self._reader.key(identity)])])

    def is_marked(self, session: Session, identity: Identity, mark: int) -> bool:
        """Whether a change with this mark was committed."""
        key = sql.keys([self._reader.key(identity)])
        return bool(session.rows(sql.FIND_MARKS, [key, sql.numbers([mark])] * 3))

    def add(
        self, session: Session, identity: Identity, entries: Sequence[Entry], mark: int
    ) -> None:
        """Append entries with their own times."""
        times = [micros(entry["at"]) for entry in entries]
        saves = [Save(identity, encoded_entry(entry)) for entry in entries]
        self._append_locked(session, Batch(saves, self._reader, max(times)), mark, times)


def saved_in(batch: Batch, rows: Sequence[Row]) -> dict[Identity, Saved]:
    """Return the result of a plain batch, from the rows of its places."""
    return {batch.identities[row[0]]: _saved(row) for row in rows}


def _saved(row: Row) -> Saved:
    """Return the result of a plain save, from the row of its place."""
    _, made, snapshot, last, size, at, folded = row
    return Saved(Position(Extent(made, snapshot, last), last, NO_TAG, size), NO_TAG, at, folded)
