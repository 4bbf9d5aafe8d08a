"""Saves and other changes: what is sent while the rows of places are locked.

The row of a place is its lock and its counter. Who locks several locks them in the order of keys,
so that no two wait for each other.

A save is repeated when its connection breaks. Each batch has a random mark, kept in its entries. The
repetition first locks the rows, which waits for an earlier attempt that is still under way, then
looks for the mark. An earlier attempt that comes even later, out of a network's buffer, finds its
mark void in the row and adds nothing.
"""

from collections.abc import Iterable, Sequence
from copy import copy
from secrets import randbits
from typing import NamedTuple

from factmem.ledger.entries import Edit, Entry, encoded_entry
from factmem.models.places import Identity
from factmem.providers._postgres import statements as sql
from factmem.providers._postgres.driver import Row, Session
from factmem.providers._postgres.erasures import Moment, count_erasure, erased_since
from factmem.providers._postgres.places import Answer, PlaceReader, Position, micros
from factmem.providers._postgres.sealing import NO_TAG, Extent, Sealer, UnknownGenerationError
from factmem.providers._postgres.stores import SEALED, Opening

EMPTY_AT = -(2**62)
"""When nothing was recorded: before every time."""

MADE_BITS = 36
"""Random bits in the number of a place; above them is how many anchors came before it."""

NO_MARK = 0
"""Leaves the mark of a place as it is."""


class Save(NamedTuple):
    """A save that waits for its commit: an encoded entry without its time."""

    identity: Identity
    body: bytes
    since: Moment | None = None
    """A moment of the place after which it must not have been erased."""


class _Line(NamedTuple):
    """A row of the table of entries."""

    key: str
    number: int
    at: int
    mark: int
    stored: bytes


class _End(NamedTuple):
    """What the row of a place gets when lines were added; None leaves a column as it is."""

    key: str
    tail: bytes | None = None
    names: bytes | None = None
    data_key: bytes | None = None


class Locked(NamedTuple):
    """The row of a place, whose lock the transaction holds."""

    extent: Extent
    names: bytes
    data_key: bytes | None


class Saved(NamedTuple):
    """What a batch added to one place."""

    position: Position
    tag: bytes
    """The tag of the line before the added ones."""
    at: int
    """When they were recorded, in microseconds."""


class Appended(NamedTuple):
    """What became of a batch."""

    saved: dict[Identity, Saved]
    late: set[Save]
    """The saves whose places were erased before they came."""
    committed: int = NO_MARK
    """The mark of the earlier attempt that was committed; nothing was added then."""


def new_mark() -> int:
    """Return a random mark: 62 bits, so that two alike are not met."""
    return randbits(62)


def made_number(anchors: int) -> int:
    """Return the number of a place that is made now, after so many anchors of its store.

    It is another one for each place of the same name, and larger than that of every place that was
    made before an anchor.
    """
    return anchors << MADE_BITS | randbits(MADE_BITS)


class Batch:
    """Entries that share a commit, by place, in the order in which their rows are locked.

    Args:
        saves: The entries, oldest first.
        reader: Knows the keys of places.
        now: The time to record them at, in microseconds.
    """

    def __init__(self, saves: Sequence[Save], reader: PlaceReader, now: int) -> None:
        self.now = now
        self.identities: dict[str, Identity] = {}
        by_key: dict[str, list[bytes]] = {}
        for identity, body, _ in saves:
            key = reader.key(identity)
            by_key.setdefault(key, []).append(body)
            self.identities[key] = identity
        self.bodies = {key: by_key[key] for key in sorted(by_key)}


class PlaceWriter:
    """Writes to places of one open store. Safe for threads."""

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
        if len(batch.bodies) == 1 and all(len(bodies) == 1 for bodies in batch.bodies.values()):
            rows = self._append_one(session, batch, mark)
        else:
            rows = self._append_many(session, batch, mark)
        return {batch.identities[row[0].hex]: _saved(row) for row in rows}

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
        """Append a batch, but for saves that came too late for an erasure, and never twice.

        Args:
            session: A connection outside a transaction.
            saves: The saves, oldest first.
            now: The time to record them at, in microseconds.
            mark: Their mark.
            earlier: The marks of earlier attempts, one of which may have been committed.
            here: How many erasures this process has done where there was no store to count them.
        """
        everything = Batch(saves, self._reader, now)
        keys = sql.keys(everything.bodies)
        with session.transaction():
            self._lock_or_make(session, everything)
            if earlier:
                for (committed,) in session.rows(sql.FIND_MARKS, [keys, sql.numbers(earlier)] * 2):
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

    def _append_one(self, session: Session, batch: Batch, mark: int) -> list[Row]:
        ((key, (body,)),) = batch.bodies.items()
        row = self._reader.new_row(batch.identities[key])
        given = [key, row.scope, row.subject, row.names, made_number(self._reader.store.anchors)]
        given += [1, len(body), mark]
        return session.rows(
            sql.APPEND_ONE, [*given, batch.now, self._store, mark, self._store, body]
        )

    def _append_many(self, session: Session, batch: Batch, mark: int) -> list[Row]:
        keys: list[str] = []
        behind: list[int] = []
        lines: list[bytes] = []
        for key, bodies in batch.bodies.items():
            keys += [key] * len(bodies)
            behind += range(len(bodies) - 1, -1, -1)
            lines += bodies
        given = [*self._heads(batch, mark), mark, self._store]
        given += [sql.keys(keys), sql.numbers(behind), sql.byte_strings(lines)]
        return session.rows(sql.APPEND_MANY, given)

    def _heads(self, batch: Batch, mark: int) -> list[object]:
        """Return the arguments of TAKE_NUMBERS."""
        rows = [self._reader.new_row(batch.identities[key]) for key in batch.bodies]
        return [
            mark,
            batch.now,
            self._store,
            sql.keys(batch.bodies),
            sql.keys(row.scope for row in rows),
            sql.keys(row.subject for row in rows),
            sql.byte_strings(row.names for row in rows),
            sql.numbers(made_number(self._reader.store.anchors) for _ in rows),
            sql.numbers(len(bodies) for bodies in batch.bodies.values()),
            sql.numbers(sum(map(len, bodies)) for bodies in batch.bodies.values()),
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
        lines: list[_Line] = []
        ends: list[_End] = []
        saved: dict[Identity, Saved] = {}
        for row in session.rows(sql.TAKE_NUMBERS, self._heads(batch, mark)):
            key, made, snapshot, last, size, at, data_key, tail = row[0].hex, *row[1:]
            end, sealer = self._end(key, data_key, batch.identities[key])
            bodies = batch.bodies[key]
            before = tag = NO_TAG if tail is None else tail[: len(NO_TAG)]
            if tail is not None:
                sealer.check_tail(Extent(made, snapshot, last - len(bodies)), tag, tail)
            for behind, body in zip(range(len(bodies) - 1, -1, -1), bodies, strict=True):
                when = times[-1 - behind] if times else at
                line = sealer.seal(last - behind, when, tag, body)
                tag = sealer.tag(line)
                lines.append(_Line(key, last - behind, when, mark, line))
            extent = Extent(made, snapshot, last)
            ends.append(end._replace(tail=sealer.tail(extent, tag)))
            saved[batch.identities[key]] = Saved(Position(extent, last, tag, size), before, at)
        if any(end.data_key for end in ends):
            self.check_ring(session)
        self._insert(session, lines, ends)
        return saved

    def _end(self, key: str, data_key: bytes | None, identity: Identity) -> tuple["_End", Sealer]:
        """Return what the row of a place gets besides its tail, and the form of its lines."""
        if not self._is_sealed or data_key is not None:
            return _End(key), self._reader.sealer(key, data_key)
        data_key = self._reader.store.sealing.new_data_key(key)
        sealer = self._reader.sealer(key, data_key)
        return _End(key, None, sealer.seal_names(identity), data_key), sealer

    def check_ring(self, session: Session) -> None:
        """Raise where a data key would be wrapped under a generation that is being dropped.

        Or where a place would be made that an anchor meanwhile should know. The row of the store is
        locked until the commit, so that neither begins now.
        """
        row, store = self._opening.row(session, lock="FOR SHARE"), self._reader.store
        known = store.sealing.generation, store.anchors
        if row is None or (row.generation, row.anchors) != known:
            raise UnknownGenerationError

    def _insert(self, session: Session, lines: Sequence["_Line"], ends: Sequence["_End"]) -> None:
        keys, found, times, marks, stored = zip(*lines, strict=True) if lines else [()] * 5
        given: list[object] = [self._store, sql.keys(keys)]
        given += [sql.numbers(each) for each in (found, times, marks)]
        given.append(sql.byte_strings(stored))
        if not self._is_sealed:
            session.rows(sql.INSERT, given)
            return
        given.append(sql.keys(end.key for end in ends))
        for column in (1, 2, 3):
            given.append(sql.byte_strings(end[column] for end in ends))  # type: ignore[misc]
        session.rows(sql.INSERT_SEALED, given)

    # Changes by what is there, inside a transaction

    def lock(self, session: Session, key: str) -> "Locked | None":
        """Lock the row of a place; None where there is none."""
        for made, snapshot, last, names, data_key in session.rows(sql.LOCK, [key]):
            return Locked(Extent(made, snapshot, last), names, data_key)
        return None

    def lock_or_make(self, session: Session, identity: Identity) -> None:
        """Lock the row of a place, an empty one where there is none."""
        self._lock_or_make(session, Batch([Save(identity, b"")], self._reader, EMPTY_AT))

    def _lock_or_make(self, session: Session, batch: Batch) -> None:
        empty = copy(batch)
        empty.bodies = {key: [] for key in batch.bodies}
        session.rows(sql.TAKE_NUMBERS, self._heads(empty, NO_MARK))

    def delete_empty(self, session: Session, identity: Identity) -> None:
        """Remove the row of a place where nothing was ever written."""
        session.rows(sql.DELETE_EMPTY, [sql.keys([self._reader.key(identity)])])

    def is_marked(self, session: Session, identity: Identity, mark: int) -> bool:
        """Whether a change with this mark was committed."""
        key = sql.keys([self._reader.key(identity)])
        return bool(session.rows(sql.FIND_MARKS, [key, sql.numbers([mark])] * 2))

    def add(
        self, session: Session, identity: Identity, entries: Sequence[Entry], mark: int
    ) -> None:
        """Append entries at times of their own."""
        times = [micros(entry["at"]) for entry in entries]
        saves = [Save(identity, encoded_entry(entry)) for entry in entries]
        self._append_locked(session, Batch(saves, self._reader, max(times)), mark, times)

    def edit(
        self, session: Session, identity: Identity, edit: Edit, *, is_purge: bool = False
    ) -> int:
        """Apply an edit to all entries of a place, and return how many bytes that freed.

        After a purge the lines are sealed under a new data key: the old one opens their copies.
        """
        answer = self._reader.whole(session, identity)
        if answer is None:
            return 0
        after = list(edit(answer.entries))
        pairs = zip(answer.entries, after, strict=True)
        changed = [index for index, (old, new) in enumerate(pairs) if new is not old]
        if not changed:
            return 0
        # Sealed lines follow each other: all of them are sealed again. Clear ones before the first
        # change stay as they are.
        start = 0 if self._is_sealed else changed[0]
        new = self._new_data_key(session, self._reader.key(identity)) if is_purge else None
        self._rewrite(session, identity, answer, after, start=start, new_key=new)
        return _size(answer.entries) - _size(after)

    def rekey(self, session: Session, identity: Identity) -> None:
        """Seal all of a place again, under a new data key of the current generation."""
        answer = self._reader.whole(session, identity)
        if answer is not None:
            data_key = self._new_data_key(session, self._reader.key(identity))
            self._rewrite(session, identity, answer, answer.entries, new_key=data_key)

    def _new_data_key(self, session: Session, key: str) -> bytes | None:
        """Return a new data key for a place; None where nothing is sealed."""
        if self._is_sealed:
            self.check_ring(session)
        return self._reader.store.sealing.new_data_key(key)

    def _rewrite(
        self,
        session: Session,
        identity: Identity,
        answer: Answer,
        after: Sequence[Entry | None],
        *,
        start: int = 0,
        new_key: bytes | None = None,
    ) -> None:
        """Replace the entries of a place from the one at `start` on."""
        key, size = self._reader.key(identity), _size(after)
        locked = self.lock(session, key)
        marks: dict[int, int] = dict(session.rows(sql.READ_MARKS, [key]))
        session.rows(sql.DELETE_FROM, [key, answer.numbers[start]])
        session.rows(sql.DELETE_INDEX, [key])
        if size == 0 or locked is None:
            session.rows(sql.DELETE_PLACE, [key])
            return
        sealer, lines, tag = self._reader.sealer(key, new_key or locked.data_key), [], NO_TAG
        for number, entry in zip(answer.numbers[start:], after[start:], strict=True):
            if entry is not None:
                at = micros(entry["at"])
                line = sealer.seal(number, at, tag, encoded_entry(entry))
                tag = sealer.tag(line)
                lines.append(_Line(key, number, at, marks[number], line))
        made, snapshot, last = locked.extent
        end = _End(key, sealer.tail(Extent(made, snapshot + 1, last), tag))
        if new_key is not None:
            end = _End(key, end.tail, sealer.seal_names(identity), new_key)
        session.rows(sql.SET_EDITED, [size, key])
        self._insert(session, lines, [end])

    def count_purge(self, session: Session, identity: Identity) -> None:
        """Have nothing land in a place that was learned before now."""
        purged = count_erasure(session, self._store)
        session.rows(sql.SET_PURGED, [purged, self._reader.key(identity)])

    def erase(self, session: Session, identity: Identity) -> None:
        """Delete all rows of a place, and count the erasure."""
        key = self._reader.key(identity)
        count_erasure(session, self._store)
        session.rows(sql.DELETE_FROM, [key, 0])
        session.rows(sql.DELETE_INDEX, [key])
        session.rows(sql.DELETE_PLACE, [key])


def _saved(row: Row) -> Saved:
    """Return what a save in the clear added, from the row of its place."""
    _, made, snapshot, last, size, at, _, _ = row
    return Saved(Position(Extent(made, snapshot, last), last, NO_TAG, size), NO_TAG, at)


def _size(entries: Iterable[Entry | None]) -> int:
    """Return the bytes of the lines of entries, as saves count them."""
    return sum(len(encoded_entry(entry)) for entry in entries if entry is not None)
