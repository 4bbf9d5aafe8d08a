"""Writes to places, under the locks of their rows: saves, edits, erasures, compaction.

The row of a place is its lock and its counter. A transaction locks several rows in the order of
their keys, so that there are no deadlocks.

A save to a database server is repeated when its connection breaks. Each batch has a random mark,
which its lines contain. The repetition first locks the rows, which waits for an earlier attempt
that is still running, and then looks for the mark. If it finds none, it voids the mark in the row,
so that an attempt that arrives even later adds nothing.

A save must not restore an erased place. The row of an existing place shows this: a place that was
erased and created again has another `made`, and a purge writes the count of erasures to `purged`.
For a place that did not exist, the count of all erasures in the store's row decides, so that no row
has to name an erased place.
"""

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import timedelta
from itertools import islice
from logging import getLogger
from typing import NamedTuple

from factmem.errors import FactmemError
from factmem.ledger._removal import compacted
from factmem.ledger.entries import Edit, Entry, encoded_entry
from factmem.models.places import Identity
from factmem.models.when import StoreClock, before, micros
from factmem.providers._sql import session as sql
from factmem.providers._sql.places import Answer, Edited, PlaceReader, Position, Saved, parts_of
from factmem.providers._sql.sealing import (
    NO_TAG,
    Counters,
    Extent,
    Sealer,
    UnknownGenerationError,
    time_in,
)
from factmem.providers._sql.session import End, Head, Line, PlaceRow, Row, Session
from factmem.providers._sql.stores import Opening
from factmem.providers.conversations import conversation_of


class Moment(NamedTuple):
    erasures: int | None
    """The store's count of erasures; None if there was no store."""
    made: int | None
    """The number of the place of this name; None if it did not exist."""
    here: int = 0
    """This process's count of erasures while there was no store to count them."""


def moment_of(session: Session, store: int, place: bytes, here: int) -> Moment:
    ((erasures, made),) = session.rows(sql.READ_MOMENT, [place, store])
    return Moment(erasures, made, here)


def count_erasure(session: Session, store: int) -> int:
    """Count an erasure in the current transaction; return the new count.

    The row of the store stays locked until the commit. Lock places before it, never after.
    """
    return int(session.rows(sql.COUNT_ERASURE, [store])[0][0])


def erased_since(
    session: Session, store: int, moments: Collection[tuple[bytes, Moment]], here: int
) -> set[tuple[bytes, Moment]]:
    """Return the moments after which their place, given by its key, was erased or purged.

    The rows of the places must be locked, so that no erasure is in progress.
    """
    if not moments:
        return set()
    query, places = sql.among(sql.READ_ERASURES, {place for place, _ in moments})
    rows = session.rows(query, [store, *places])
    found: Mapping[bytes, tuple[int, int, int]] = {row[0]: row[1:] for row in rows}
    return {(place, since) for place, since in moments if _is_erased(since, found[place], here)}


def _is_erased(since: Moment, place: tuple[int, int, int], here: int) -> bool:
    made, purged, erasures = place
    if since.made is not None:
        return made != since.made or purged > (since.erasures or 0)
    return erasures > (since.erasures or 0) or here > since.here


EMPTY_AT = -(2**62)
"""The time of an empty place, earlier than any other."""

MADE_BITS = 36
"""Random bits in the number of a place, below the count of earlier anchors."""

NO_MARK = 0
"""Leaves the mark of a place as it is."""


class Save(NamedTuple):
    """A save that waits for its commit."""

    identity: Identity
    parts: tuple[bytes, ...]
    since: Moment | None = None
    """The save is refused if the place was erased after this moment."""


class Appended(NamedTuple):
    saved: dict[Identity, Saved]
    late: set[Save]
    """The saves that were refused because their places had been erased."""
    committed: int = NO_MARK
    """The mark of an earlier attempt that was committed, in which case nothing was added."""


def new_mark() -> int:
    """Return a random mark of 62 bits, so that collisions are negligible."""
    return int.from_bytes(os.urandom(8)) >> 2


def made_number(anchors: int) -> int:
    """Return a number for a new place, other than those of earlier places of its name.

    It is greater than the numbers of all places created before the last anchor.
    """
    return anchors << MADE_BITS | int.from_bytes(os.urandom(8)) >> 64 - MADE_BITS


class Batch:
    """Entries that share a commit, by place, in the order in which their rows are locked.

    `now` is in microseconds; `times` are those of the entries, if they have times of their own.
    """

    def __init__(
        self, saves: Sequence[Save], reader: PlaceReader, now: int, times: Sequence[int] = ()
    ) -> None:
        self.now = now
        self.identities: dict[bytes, Identity] = {}
        self.times: list[int] = []
        """The time of each line, in a batch of one place whose entries have their own times."""
        by_key: dict[bytes, list[bytes]] = {}
        for index, (identity, parts, _) in enumerate(saves):
            key = reader.key(identity)
            by_key.setdefault(key, []).extend(parts)
            self.identities[key] = identity
            if times:
                self.times += [times[index]] * len(parts)
        self.parts = {key: by_key[key] for key in sorted(by_key)}
        self.sizes = {key: sum(map(len, by_key[key])) for key in self.parts}
        self._reader = reader

    def heads(self, *, is_empty: bool = False) -> list[Head]:
        """Return the rows of the places and what is added; with `is_empty` they are only locked."""
        made = made_number(self._reader.store.anchors)
        heads: list[Head] = []
        for key, parts in self.parts.items():
            row = self._reader.new_row(self.identities[key])
            added = (0, 0) if is_empty else (len(parts), self.sizes[key])
            heads.append(Head(key, *row, made, *added))
        return heads


class PlaceWriter:
    """Writes to places of one open store. Thread-safe."""

    def __init__(self, reader: PlaceReader, opening: Opening) -> None:
        self._reader = reader
        self._opening = opening
        self._store = reader.store.number
        self._is_sealed = reader.store.is_sealed

    # Saves

    def append(self, session: Session, batch: Batch, mark: int) -> dict[Identity, Saved]:
        if not self._is_sealed and session.appends_at_once:
            lines = [
                Line(key, index, batch.now, mark, body)
                for key, parts in batch.parts.items()
                for index, body in enumerate(parts)
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

        `earlier` has the marks of earlier attempts, one of which may have been committed. `here`
        counts the erasures of this process before the store existed.
        """
        everything = Batch(saves, self._reader, now)
        keys = list(everything.parts)
        with session.transaction():
            # This locks all rows first, which waits for an earlier attempt that is still running.
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
        lines: list[Line] = []
        ends: list[End] = []
        saved: dict[Identity, Saved] = {}
        for columns in session.take_numbers(self._store, batch.heads(), mark, batch.now):
            row = PlaceRow._make(columns)
            key, at, data_key, old = row.place, row.recorded_at, row.data_key, row.tail
            identity, parts = batch.identities[key], batch.parts[key]
            is_new = self._is_sealed and data_key is None
            if is_new:
                data_key = self._reader.store.sealing.new_data_key(key)
            sealer = self._reader.sealer(key, data_key)
            first = row.last - len(parts) + 1
            before = tag = NO_TAG if old is None else old[: len(NO_TAG)]
            if old is not None or first > 1:
                self._check_end(row, batch, sealer)
            for number, body in enumerate(parts, first):
                when = batch.times[number - first] if batch.times else at
                stored = sealer.seal(number, when, tag, body)
                tag = sealer.tag(stored)
                lines.append(Line(key, number, when, mark, stored))
            counters = row.counters
            tail = sealer.tail(counters, tag)
            if tail is not None:
                new = (sealer.seal_names(identity), data_key) if is_new else (None, None)
                ends.append(End(key, counters, tail, *new))
            position = Position.at(row.extent, row.size, tag)
            saved[identity] = Saved(position, before, at, parts)
        if any(end.data_key for end in ends):
            self.check_ring(session, makes_place=True)
        session.insert(self._store, lines, ends)
        return saved

    def _check_end(self, row: PlaceRow, batch: Batch, sealer: Sealer) -> None:
        """Raise unless the row verified before the batch, so that no forged row is extended."""
        key, made, snapshot, last, size, at, purged = row[:7]
        tail = row.tail or b""
        self._reader.check_columns(row, batch.identities[key])
        before = time_in(tail)
        if tail and at != max(before, batch.now):
            raise self._reader.damaged("The time of a place is not that of its last entry")
        last, size = last - len(batch.parts[key]), size - batch.sizes[key]
        counters = Counters(made, snapshot, last, size, before, purged)
        sealer.check_tail(counters, tail[: len(NO_TAG)], tail)

    def check_ring(self, session: Session, *, makes_place: bool = False) -> None:
        """Raise if another process rotated the key ring: a new data key needs the new generation.

        With `makes_place` also raise if an anchor was taken since, which would lack the new place.
        The lock on the store's row prevents both until the commit.
        """
        row, store = self._opening.row(session, lock="FOR SHARE"), self._reader.store
        if (
            row is None
            or row.generation != store.sealing.generation
            or (makes_place and row.anchors != store.anchors)
        ):
            raise UnknownGenerationError

    # Changes inside a transaction

    def lock(self, session: Session, key: bytes) -> PlaceRow | None:
        for row in session.rows(sql.LOCK, [key]):
            return PlaceRow(*row)
        return None

    def lock_or_make(self, session: Session, identity: Identity) -> PlaceRow:
        heads = Batch([Save(identity, ())], self._reader, EMPTY_AT).heads(is_empty=True)
        (row,) = session.take_numbers(self._store, heads, NO_MARK, EMPTY_AT)
        return PlaceRow._make(row)

    def delete_empty(self, session: Session, identity: Identity) -> None:
        session.rows(*sql.among(sql.DELETE_EMPTY, [self._reader.key(identity)]))

    def is_marked(self, session: Session, identity: Identity, mark: int) -> bool:
        return session.find_mark([self._reader.key(identity)], [mark]) is not None

    def add(
        self, session: Session, identity: Identity, entries: Sequence[Entry], mark: int
    ) -> None:
        saves = [Save(identity, parts_of(entry)) for entry in entries]
        times = [micros(entry["at"]) for entry in entries]
        # The row's time is that of the import, so that later saves get later times.
        latest = max(
            [*times, *(micros(each["received"]) for each in entries if "received" in each)]
        )
        self._append_locked(session, Batch(saves, self._reader, latest, times), mark)


def _saved(row: Row, batch: Batch) -> Saved:
    head = PlaceRow(*row)
    position = Position.at(head.extent, head.size)
    return Saved(position, NO_TAG, head.recorded_at, batch.parts[head.place])


_MOST_DELETED = 1000
"""Lines that one statement deletes."""


class PlaceRewriter(PlaceWriter):
    """Changes the lines of places of one open store. Thread-safe."""

    def edit(
        self, session: Session, identity: Identity, edit: Edit, *, is_purge: bool = False
    ) -> Edited | None:
        """Apply an edit to all entries of a place; return None if it changes nothing.

        A purge needs a new data key, as the old one opens copies of the lines.
        """
        answer = self._reader.whole(session, identity)
        if answer is None:
            return None
        after = list(edit(answer.entries))
        pairs = zip(answer.numbers, answer.entries, after, strict=True)
        changed = {number: old for number, old, new in pairs if new is not old}
        if not changed:
            return None
        key = self._reader.key(identity)
        self._drop_derived(session, key, list(changed.values()))
        # A sealed line is bound to the one before it, so all of them are sealed again.
        rewritten = set(answer.numbers) if self._is_sealed else changed.keys()
        new_key = self._new_data_key(session, key) if is_purge else None
        position = self._replace(
            session, identity, answer, after, rewritten=rewritten, new_key=new_key
        )
        freed = answer.position.size - (0 if position is None else position.size)
        return Edited(freed, answer, after, position)

    def _drop_derived(self, session: Session, key: bytes, removed: Sequence[Entry] | None) -> None:
        """Drop what is derived from removed entries; None means all, in an erased place."""
        session.on_removal()
        self._opening.on_removal(session, key, removed)

    def rekey(self, session: Session, identity: Identity) -> None:
        answer = self._reader.whole(session, identity)
        if answer is not None:
            new_key = self._new_data_key(session, self._reader.key(identity))
            numbers = set(answer.numbers)
            self._replace(
                session, identity, answer, answer.entries, rewritten=numbers, new_key=new_key
            )

    def _new_data_key(self, session: Session, key: bytes) -> bytes | None:
        """Return a new data key for a place; None in a plain store."""
        if self._is_sealed:
            self.check_ring(session)
        return self._reader.store.sealing.new_data_key(key)

    def count_purge(self, session: Session, identity: Identity) -> None:
        """Refuse writes of detections that read their chat before this purge."""
        purged, key = count_erasure(session, self._store), self._reader.key(identity)
        row = self.lock(session, key)
        if row is None:
            return
        tail = row.tail
        if tail is not None:
            sealer = self._reader.check_row(row, identity)
            tail = sealer.tail(row.counters._replace(purged=purged), tail[: len(NO_TAG)])
        session.rows(sql.SET_PURGED, [purged, tail, key])

    def erase(self, session: Session, identity: Identity, at: int) -> None:
        """Delete a place and its conversations, and record the time of the erasure."""
        count_erasure(session, self._store)
        key = self._reader.key(identity)
        owned = [each for each, _ in session.rows(sql.LOCK_OWNED, [key])]
        for each in (*owned, key):
            row = self.lock(session, each)
            if row is not None and (row.size or owned):  # the place also if it has no fact
                noted = self._reader.erased_key(each, row.made, at)
                session.rows(sql.NOTE_ERASED, [noted, row.made, self._store, at])
            self.erase_row(session, each)

    def edit_conversations(
        self, session: Session, identity: Identity, edit_of: Callable[[str], Edit | None]
    ) -> bool:
        """Edit conversations of a place, each under a new data key; return whether one changed."""
        is_changed = False
        for key, _ in session.rows(sql.LOCK_OWNED, [self._reader.key(identity)]):
            ((names, data_key),) = session.rows(sql.READ_NAMES, [key])
            owned = self._reader.sealer(key, data_key).open_names(names)
            named = conversation_of(owned)
            edit = None if named is None else edit_of(named[1])
            if edit is not None:
                is_changed |= self.edit(session, owned, edit, is_purge=True) is not None
                self.drop_if_empty(session, key)
        return is_changed

    def drop_if_empty(self, session: Session, key: bytes) -> None:
        """Delete a conversation without messages, and record when its last ones were removed."""
        row = self.lock(session, key)
        if row is not None and not session.rows(sql.COUNT_LINES, [key])[0][0]:
            noted = self._reader.erased_key(key, row.made, row.recorded_at)
            session.rows(sql.NOTE_ERASED, [noted, row.made, self._store, row.recorded_at])
            self.erase_row(session, key)

    def erase_row(self, session: Session, key: bytes) -> None:
        self._drop_derived(session, key, None)
        session.rows(sql.DELETE_ALL_LINES, [key])
        session.rows(sql.DELETE_INDEX, [key])
        session.rows(sql.DELETE_QUEUED, [key])
        session.rows(sql.DELETE_PLACE, [key])

    def _replace(
        self,
        session: Session,
        identity: Identity,
        answer: Answer,
        after: Sequence[Entry | None],
        *,
        rewritten: Collection[int],
        new_key: bytes | None,
    ) -> Position | None:
        """Replace lines; return the new end of the place, None if it is empty."""
        key = self._reader.key(identity)
        locked = self.lock(session, key)
        if locked is None:
            return None
        sealer = self._reader.sealer(key, new_key or locked.data_key)
        # Rewritten lines keep their marks, which the repetition of their save may look for.
        marks = session.read_marks(key)
        session.rows(sql.DELETE_INDEX, [key])
        self._delete_lines(session, key, rewritten)
        lines: list[Line] = []
        tag, size = NO_TAG, 0
        for number, entry, old_size in zip(answer.numbers, after, answer.sizes, strict=True):
            if number not in rewritten:
                size += old_size
            elif entry is not None:
                body, at = encoded_entry(entry), micros(entry["at"])
                size += len(body)
                stored = sealer.seal(number, at, tag, body)
                tag = sealer.tag(stored)
                lines.append(Line(key, number, at, marks.get(number, NO_MARK), stored))
        counters = locked.counters._replace(snapshot=locked.snapshot + 1, size=size)
        extent, end = Extent._make(counters[:3]), End(key, counters, sealer.tail(counters, tag))
        if new_key is not None:
            end = end._replace(names=sealer.seal_names(identity), data_key=new_key)
        session.rows(sql.SET_EDITED, [size, key])
        session.insert(self._store, lines, [end])
        return Position.at(extent, size, tag)

    def _delete_lines(self, session: Session, key: bytes, numbers: Collection[int]) -> None:
        given = iter(numbers)
        while some := list(islice(given, _MOST_DELETED)):
            deletion, found = sql.among(sql.DELETE_LINES, some)
            session.rows(deletion, [key, *found])


_logger = getLogger(__name__)

_CHECK_EVERY = 256
"""The least number of new entries between two checks of a place's history."""

_MOST_KNOWN = 4096
"""The most places whose last check is remembered."""


class Tidying:
    """Compacts places after saves, when more than half of them is old history. Thread-safe."""

    def __init__(
        self,
        edit: Callable[[Identity, Edit], int],
        clock: StoreClock,
        keep_history: timedelta | None,
    ) -> None:
        self._edit = edit
        self._clock = clock
        self._keep_history = keep_history
        self._compacted: dict[Identity, tuple[int, int]] = {}
        """The number of a place's last entry at its last check, and how many entries it kept."""

    def compact(self, identity: Identity, keep_history: timedelta) -> int:
        cutoff = before(self._clock.recording(), keep_history)
        return self._edit(identity, lambda entries: compacted(entries, cutoff))

    def tidy(self, identity: Identity, last: int) -> None:
        """Compact a place if it has doubled since the last check, and more than half is history."""
        if self._keep_history is None:
            return
        if len(self._compacted) >= _MOST_KNOWN:  # a process may save to millions of places
            self._compacted.clear()
        checked, kept = self._compacted.setdefault(identity, (last - 1, 0))
        if last - checked < max(kept, _CHECK_EVERY):
            return
        cutoff = before(self._clock.recording(), self._keep_history)

        def halve(entries: Sequence[Entry]) -> Sequence[Entry | None]:
            nonlocal kept
            after = compacted(entries, cutoff)
            kept = sum(entry is not None for entry in after)
            if 2 * kept < len(entries):
                return after
            kept = len(entries)
            return entries

        try:
            self._edit(identity, halve)
        except FactmemError as exc:
            # The save is committed, and the caller did not ask for a compaction.
            _logger.warning("A place was not compacted: %s", type(exc).__name__)
        self._compacted[identity] = last, kept
