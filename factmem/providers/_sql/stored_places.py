"""StoredPlaces: the blocking operations of a store on its places.

    SqlBackend     calls them in worker threads, and `commit` from the thread of `GroupCommit`
    StoredPlaces   runs each write in a transaction, and updates the views afterwards
    PlaceRewriter  writes the rows

A transaction may be repeated on another connection, so the functions below keep the result of an
attempt whose commit was not answered.

Reading the places of a store, and listing them. Every method blocks.

`StoredPlaces` adds the writes; a database adds how work runs on its connections.

Compaction of old history after saves.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from logging import getLogger
from secrets import token_hex
from typing import TypeAlias, TypeVar

from factmem._concurrency.garbage import paused_collection
from factmem.encryption.key_file import RenewableEncryption
from factmem.errors import FactmemError, TamperedError, WrongKeyError
from factmem.ledger._items import Condition
from factmem.ledger._removal import compacted
from factmem.ledger.entries import Edit, Entry, decoded, stamped
from factmem.ledger.ledger import Ledger
from factmem.models.boundary import Boundary
from factmem.models.places import Identity
from factmem.models.when import before
from factmem.providers._backend import (
    Decision,
    Erased,
    ErasedSinceError,
    Extension,
    Present,
    StoreClock,
)
from factmem.providers._group_commit import Pending
from factmem.providers._sql import session as sql
from factmem.providers._sql.places import (
    Edited,
    PlaceReader,
    Position,
    Saved,
    View,
    Views,
    counted,
    micros,
    stamp_at,
    subject_path,
)
from factmem.providers._sql.sealing import UnknownGenerationError
from factmem.providers._sql.session import Row, Session
from factmem.providers._sql.stores import Opening
from factmem.providers._sql.writing import (
    Appended,
    Batch,
    Moment,
    PlaceRewriter,
    Save,
    moment_of,
    new_mark,
)
from factmem.providers.results import PlaceInfo, StoreStatus, place_info

R = TypeVar("R")

_MOST_LISTED = 1000
"""Places that one query lists or reads."""

_MOST_PROBED = 1024
"""Up to this many named places are looked up by key instead of listed and filtered."""


class PlaceReads(ABC):
    """Reads the places of one store. All methods are thread-safe.

    Args:
        opening: Finds the store.
        clock: The clock of the store.
        warm_places: The number of places kept in memory.
        keep_history: How long older history is kept; None keeps it forever.
    """

    def __init__(
        self,
        opening: Opening,
        clock: StoreClock,
        *,
        warm_places: int,
        keep_history: timedelta | None,
    ) -> None:
        self.opening = opening
        self._clock = clock
        self._warm_places = warm_places
        self._keep_history = keep_history
        self._start()

    def _start(self) -> None:
        self._views = Views(self._warm_places)
        self._reader: PlaceReader | None = None
        self._erased_here = 0
        """The number of erasures before the store existed."""

    def start_afresh(self) -> None:
        """Forget all cached state; in a forked child the connections belong to the parent."""
        self.opening.start_afresh()
        self._start()

    @abstractmethod
    def _run(self, work: Callable[[Session, int], R]) -> R:
        """Do work that reads, on a connection of the database."""

    @abstractmethod
    def _write(self, work: Callable[[Session, int], R]) -> R:
        """Do work that may write, on a connection of the database."""

    def run(self, work: Callable[[Session, int], R]) -> R:
        """Do work that reads. Its second argument counts earlier attempts that may have committed."""
        return self._with_keys(lambda: self._run(work))

    def write(self, work: Callable[[Session, int], R]) -> R:
        """Do work that may write; see `run`."""
        return self._with_keys(lambda: self._write(work))

    def _with_keys(self, call: Callable[[], R]) -> R:
        """Call a function; call it again with new keys if they were rotated meanwhile."""
        for _ in range(3):
            encryption = self.opening.encryption
            try:
                return call()
            except UnknownGenerationError:
                self.opening.reload()
            except WrongKeyError:  # a snapshot from before the rotation of another thread
                if self.opening.encryption is encryption:
                    raise
        raise TamperedError(
            "A place is sealed with a key that its store does not have: its row was changed, or "
            "the store's row was put back to an older copy. Restore both from one backup"
        )

    def reading(self, session: Session) -> PlaceReader | None:
        """Return the reader of the store; None if it does not exist yet."""
        store = self.opening.found(session)
        if store is None:
            return None
        reader = self._reader
        if reader is None or reader.store is not store:
            reader = self._reader = PlaceReader(store)
        return reader

    def read_store(self, read: Callable[[Session, PlaceReader], R], default: R) -> R:
        """Do work that reads a store; return the default if it does not exist yet."""

        def ask(session: Session, _: int) -> R:
            reader = self.reading(session)
            return default if reader is None else read(session, reader)

        return self.run(ask)

    def erased_at(self, identity: Identity) -> str | None:
        """Return when a place was last erased with something in it, as a stamp; None for never."""

        def read(session: Session, reader: PlaceReader) -> str | None:
            key = reader.key(identity)
            rows = session.rows(sql.READ_ERASED, [key, key + b"\xff" * 17])
            for row in rows:
                reader.check_erased(*row)
            return stamp_at(max(at for _, _, at in rows)) if rows else None

        return self.read_store(read, None)

    def time(self) -> str:
        """Return the time of the store's clock, as a stamp; not before a connection was opened."""
        self.run(lambda session, _: self.opening.found(session))
        return self._clock.recording()

    # Reading

    def known(self, identity: Identity) -> View | None:
        """Return the view of a place, if there is one."""
        return self._views.known(identity)

    def refresh(self, batch: Sequence[Pending[Identity]]) -> None:
        """Update the views of some places with one query for all of them."""
        self._follow({pending.work: self._views.of(pending.work) for pending in batch})

    def view(self, identity: Identity) -> View:
        """Return the view of a place, up to date."""
        view = self._views.of(identity)
        self._follow({identity: view})
        return view

    def present(self, identity: Identity, present: Present[R], keyword: str | None = None) -> R:
        """Present a place as it is now; with a keyword, its items may be all that is there.

        A large place that was never read is searched for the keyword, once: for a second
        concept it is faster to read all of it.
        """
        view = self._views.of(identity)
        if keyword is not None and not (view.is_warm or view.was_searched):
            view.was_searched = True
            found = self.read_store(
                lambda session, reader: reader.searched(session, identity, keyword), None
            )
            if found is not None:
                return present(found, self.now(found))
        return self.present_view(self.view(identity), present)

    def present_view(self, view: View, present: Present[R]) -> R:
        """Present what was read of a place."""
        with view.lock:
            return present(view.ledger, self.now(view.ledger))

    def now(self, ledger: Ledger) -> str:
        """Return the time for reading a ledger; the clock is not read if nothing expires."""
        return self._clock.now(ledger.recorded_at) if ledger.may_expire else ledger.recorded_at

    def _follow(self, views: Mapping[Identity, View]) -> None:
        self.run(lambda session, _: self.follow(session, views))

    def follow(self, session: Session, views: Mapping[Identity, View]) -> None:
        """Bring views up to date."""
        reader = self.reading(session)
        if reader is not None:
            reader.follow(session, views)
            return
        for view in views.values():
            if view.position is None:  # else this process has made the store since
                view.take(None, None, time.monotonic())

    def entries(self, identity: Identity) -> list[Entry]:
        """Return all entries of a place, at the times they count as recorded."""
        answer = self.read_store(lambda session, reader: reader.whole(session, identity), None)
        return [] if answer is None else counted(answer.entries)

    @staticmethod
    def identities(
        session: Session, reader: PlaceReader, wanted: Boundary, after: Identity | None = None
    ) -> Iterator[list[Identity]]:
        """Yield the places inside a boundary, some at a time, without reading their entries."""
        where, given = _conditions(reader, wanted)
        first = wanted.first_levels
        if first is not None:
            yield from _below(session, reader, wanted, first, after)
            return
        last, rows = sql.FIRST_PLACE if after is None else reader.key(after), []
        statement, number = sql.LIST.format(where=where), reader.store.number
        while rows := session.rows(statement, [number, last, *given, _MOST_LISTED]):
            last = rows[-1][3]
            yield list(filter(wanted.allows, reader.owners(rows)))
            if len(rows) < _MOST_LISTED:
                return

    def listed(self, wanted: Boundary, after: Identity | None, limit: int | None) -> list[Identity]:
        """Return the places inside a boundary that come after one, in the order of their keys."""

        def read(session: Session, reader: PlaceReader) -> list[Identity]:
            found: list[Identity] = []
            pages = self.identities(session, reader, wanted, after)
            while limit is None or len(found) < limit:
                with paused_collection(_MOST_LISTED):
                    page = next(pages, None)
                if page is None:
                    break
                found += page
            return found[:limit]

        return self.read_store(read, [])

    def places(self, wanted: Boundary) -> list[PlaceInfo]:
        """Return the places inside a boundary that hold anything."""

        def read(session: Session, reader: PlaceReader) -> list[PlaceInfo]:
            infos: list[PlaceInfo] = []
            for identities in self.identities(session, reader, wanted):
                if identities:
                    views = {each: self._views.known(each) or View() for each in identities}
                    reader.follow(session, views)
                    infos += self._infos(views, _conversations(session, reader, views))
            return infos

        return self.read_store(read, [])

    def _infos(
        self, views: dict[Identity, View], chats: Mapping[Identity, tuple[int, int]]
    ) -> Iterator[PlaceInfo]:
        for identity, view in views.items():
            count, more = chats.get(identity, (0, 0))
            with view.lock:
                size = more + (0 if view.position is None else view.position.size)
                if size:  # not erased since it was listed
                    now = self._clock.now(view.ledger.recorded_at)
                    yield place_info(identity, view.ledger, size, now, conversations=count)

    def index(self, identity: Identity) -> bytes | None:
        """Return the index of a place if there is one and it verifies."""

        def read(session: Session, reader: PlaceReader) -> bytes | None:
            key = reader.key(identity)
            for data_key, stored in session.rows(sql.READ_INDEX, [key, sql.VECTORS]):
                return reader.sealer(key, data_key).open_index(stored)
            return None

        return self.read_store(read, None)


def _conversations(
    session: Session, reader: PlaceReader, places: Iterable[Identity]
) -> dict[Identity, tuple[int, int]]:
    """Return how many conversations places have, and their bytes."""
    keys = {reader.key(identity): identity for identity in places}
    rows = session.rows(*sql.among(sql.COUNT_OWNED, keys))
    return {keys[owner]: (count, int(size)) for owner, count, size in rows}


def _below(
    session: Session,
    reader: PlaceReader,
    wanted: Boundary,
    first: tuple[str, str | None],
    after: Identity | None,
) -> Iterator[list[Identity]]:
    """Yield the places of every entity with some first levels, ordered by subject."""
    start = subject_path(reader.store.sealing, *first)
    last, key = start, b""
    if after is not None:
        last, key = reader.new_row(after).subject, reader.key(after)
    end = (int.from_bytes(start) + 1).to_bytes(len(start))
    rows: list[Row] = []
    while rows := session.rows(sql.LIST_BELOW, [reader.store.number, last, key, end, _MOST_LISTED]):
        _, _, _, key, last = rows[-1]
        yield list(filter(wanted.allows, reader.owners(rows)))
        if len(rows) < _MOST_LISTED:
            return


def _conditions(reader: PlaceReader, wanted: Boundary) -> tuple[str, list[bytes]]:
    """Return an SQL condition that restricts a listing to a boundary, and its parameters."""
    sealing, named = reader.store.sealing, wanted.identities(_MOST_PROBED)
    if named is not None:
        return among("owner", map(reader.key, named))
    if wanted.subjects is not None and not wanted.is_wide:
        return among("subject", (subject_path(sealing, *each) for each in wanted.subjects))
    if wanted.scopes is not None:
        return among("scope", (sealing.key("scope", each) for each in wanted.scopes))
    return "", []


def among(column: str, keys: Iterable[bytes]) -> tuple[str, list[bytes]]:
    """Return an SQL condition that a column is among keys, and its parameters."""
    found = list(keys)
    if not found:
        return "AND 1 = 0", []
    return sql.among(f"AND {column} IN ({{keys}})", found)


_logger = getLogger(__name__)

_CHECK_EVERY = 256
"""The least number of entries between two checks of how much of a place is history."""

_MOST_KNOWN = 4096
"""The places whose last check is remembered."""


class Tidying:
    """Compacts places after saves, when more than half of them is old history. Thread-safe.

    Args:
        edit: Applies an edit to all entries of a place, and returns the number of freed bytes.
        clock: The clock of the store.
        keep_history: How long older history is kept; None keeps it forever.
    """

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
        """The last number of a place at its last check for history, and the entries it kept."""

    def compact(self, identity: Identity, keep_history: timedelta) -> int:
        """Remove older history, and return the number of bytes that were freed."""
        cutoff = before(self._clock.recording(), keep_history)
        return self._edit(identity, lambda entries: compacted(entries, cutoff))

    def tidy(self, identity: Identity, last: int) -> None:
        """Compact a place if it has doubled since the last check, and more than half is history.

        Args:
            identity: The place.
            last: The number of its last line.
        """
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


Progress: TypeAlias = Callable[[int, int], None]
"""Called with the number of places that are done, and with the total."""


class StoredPlaces(PlaceReads):
    """The places of one store. Every method blocks; all are thread-safe."""

    copies_remain = True
    """Whether erased values stay in copies that the database makes."""

    def _start(self) -> None:
        super()._start()
        self.tidying: Tidying = Tidying(self.edit, self._clock, self._keep_history)

    def writing(self, session: Session) -> tuple[PlaceReader, PlaceRewriter]:
        """Return the reader and the writer of the store; creates the store if it does not exist."""
        self.opening.made(session)
        reader = self.reading(session)
        assert reader is not None  # noqa: S101 - it was found or made
        return reader, PlaceRewriter(reader, self.opening)

    def create(self) -> None:
        """Create the store if it does not exist."""
        self.write(lambda session, _: self.opening.made(session, is_wanted=True))

    def look(self) -> None:
        """Open the store if it exists; raise if it must."""
        self.run(lambda session, _: self.reading(session))

    def ping(self) -> StoreStatus:
        """Raise unless the store can be read and written; create it as a save does."""
        nowhere = ("product", "factmem", "ping", token_hex(16))

        def write(session: Session, _: int) -> StoreStatus:
            reader, writer = self.writing(session)
            with session.transaction():
                writer.lock_or_make(session, nowhere)
                writer.delete_empty(session, nowhere)
            return StoreStatus(
                reader.store.id, self.opening.tables.version, is_encrypted=reader.store.is_sealed
            )

        return self.write(write)

    @abstractmethod
    def warm(self, identity: Identity, present: Present[R | None]) -> R | None:
        """Return the result of `present` without I/O and without waiting; None if that is impossible."""

    def has_extents(self, identity: Identity, known: dict[bytes, tuple[int, ...]]) -> bool:
        """Return whether the conversations of a place have these extents, if it needs no I/O."""
        return False

    @abstractmethod
    def rest(self, is_wanted: Callable[[], bool]) -> None:
        """Do what can wait, after some idle seconds, until work is wanted."""

    @abstractmethod
    def close(self) -> None:
        """Close all connections."""

    def finish_erasure(self) -> bool:
        """Remove what the database still keeps of erased values; return whether copies remain."""
        return self.copies_remain

    def commit(self, batch: Sequence[Pending[Save]]) -> None:
        """Save a batch in one transaction for all of its places."""
        saves = [pending.work for pending in batch]
        late: dict[int, set[Save]] = {}

        def write(session: Session, unknown: int) -> Appended:
            reader, writer = self.writing(session)
            now, mark, earlier = micros(self._clock.recording()), new_mark(), list(late)
            late[mark] = set()
            if not unknown and all(save.since is None for save in saves):
                return Appended(writer.append(session, Batch(saves, reader, now), mark), set())
            here = self._erased_here
            done = writer.append_checked(session, saves, now, mark, earlier=earlier, here=here)
            late[mark] = done.late
            return done

        done = self.write(write)
        too_late = late.get(done.committed, done.late)
        saved: set[Identity] = set()
        for pending in batch:
            if pending.work in too_late:
                pending.error = ErasedSinceError()
            else:
                saved.add(pending.work.identity)
        for identity in saved:
            self._took(identity, done.saved.get(identity))

    def _took(self, identity: Identity, saved: Saved | None) -> None:
        """Update the view of a place after a save; `saved` is None after an earlier attempt."""
        view = self._views.known(identity)
        if view is not None and saved is None:
            view.outdate()
        elif view is not None and saved is not None:
            view.add(saved)
        if saved is not None:
            self.tidying.tidy(identity, saved.position.extent.last)

    def moment(self, identity: Identity) -> Moment:
        """Return the current moment of a place, for `learn`."""
        here = self._erased_here
        return self.read_store(
            lambda session, reader: moment_of(
                session, reader.store.number, reader.key(identity), here
            ),
            Moment(None, None, here),
        )

    def change(self, identity: Identity, decide: Decision) -> int:
        """Change a place depending on its current facts; return the number of forgotten values."""
        mark, count = new_mark(), 0
        edited: Edited | None = None
        seen: Position | None = None

        def write(session: Session, unknown: int) -> int:
            nonlocal count, edited, seen
            reader = self.reading(session)
            if reader is None:
                return 0
            writer, view = PlaceRewriter(reader, self.opening), self._views.of(identity)
            with session.transaction():
                if writer.lock(session, reader.key(identity)) is None:
                    return count
                if unknown and writer.is_marked(session, identity, mark):
                    return count
                reader.follow(session, {identity: view})
                with view.lock:
                    seen, recorded_at = view.position, view.ledger.recorded_at
                    change = decide(view.ledger, self._clock.now(recorded_at))
                if (body := change.body()) is not None:
                    at = self._clock.recording(recorded_at)
                    writer.add(session, identity, [decoded(stamped(body, at))], mark)
                if change.edit is not None:
                    writer.count_purge(session, identity)
                    edited = writer.edit(session, identity, change.edit, is_purge=True)
                if change.turns is not None:
                    turns = change.turns
                    writer.edit_conversations(session, identity, lambda _: turns)
                count = len(change.forget)
            return count

        done = self._changed(identity, write)
        view = self._views.known(identity)
        if view is not None and seen is not None and edited is not None:
            view.edit(seen, edited)
        if edited is not None:
            self.finish_erasure()
        return done

    def _changed(self, identity: Identity, write: Callable[[Session, int], R]) -> R:
        try:
            return self.write(write)
        finally:
            if (view := self._views.known(identity)) is not None:
                view.outdate()

    def extend(self, identity: Identity, extend: Extension) -> int:
        """Append the entries that `extend` returns, and apply its edits; return how many entries."""
        mark, count, purges = new_mark(), 0, False

        def write(session: Session, unknown: int) -> int:
            nonlocal count, purges
            reader, writer = self.writing(session)
            with session.transaction():
                writer.lock_or_make(session, identity)
                if unknown and writer.is_marked(session, identity, mark):
                    return count
                answer = reader.whole(session, identity)
                known = [] if answer is None else counted(answer.entries)
                recorded_at = known[-1]["at"] if known else ""
                change = extend(known, self._clock.recording(recorded_at))
                if change.entries:
                    writer.add(session, identity, change.entries, mark)
                elif not known:
                    writer.delete_empty(session, identity)
                purges = change.turns is not None
                if purges:
                    writer.count_purge(session, identity)
                if change.edit is not None:
                    writer.edit(session, identity, change.edit, is_purge=purges)
                if (turns := change.turns) is not None:
                    writer.edit_conversations(session, identity, lambda _: turns)
                count = len(change.entries)
            return count

        done = self._changed(identity, write)
        if purges:
            self.finish_erasure()
        return done

    def erase(self, identity: Identity, *, only_empty: bool = False) -> Erased:
        """Remove a place."""
        erased: Erased | None = None

        def write(session: Session, unknown: int) -> Erased:
            nonlocal erased
            if not self.opening.is_prepared(session):
                self._erased_here += 1
                return Erased(self._clock.now(), 0, 0)
            reader, writer = self.writing(session)
            with session.transaction():
                # Also for an empty place: a process that has read it must not write to it later.
                writer.lock_or_make(session, identity)
                found = self._counted(session, reader, identity)
                owned = session.rows(sql.LOCK_OWNED, [reader.key(identity)])
                size = found.bytes + sum(bytes_ for _, bytes_ in owned)
                found = replace(found, bytes=size, conversations=len(owned))
                if only_empty and (found.bytes or found.count is None):  # None where damaged
                    return Erased(found.at, 0, 0)
                writer.erase(session, identity, micros(found.at))
                if not (unknown and erased is not None):
                    erased = found
            return erased

        done = self.write(write)
        self._views.drop(identity)
        if erased is None:  # nothing was removed
            return done
        is_shreddable = isinstance(self.opening.encryption, RenewableEncryption)
        return replace(done, copies_remain=self.finish_erasure(), is_shreddable=is_shreddable)

    def _counted(self, session: Session, reader: PlaceReader, identity: Identity) -> Erased:
        try:
            answer = reader.whole(session, identity)
        except (UnknownGenerationError, FactmemError):
            return Erased(self._clock.now(), None, 0)
        ledger = Ledger(() if answer is None else answer.entries)
        now = self._clock.now(ledger.recorded_at)
        size = 0 if answer is None else answer.position.size
        return Erased(now, len(ledger.matching(Condition(), now)), size)

    def keep_index(self, identity: Identity, index: bytes, version: str) -> bool:
        """Store an index of a place; return False if the place has another version by now."""

        def write(session: Session, _: int) -> bool:
            reader = self.reading(session)
            if reader is None:
                return False
            view, key = self._views.of(identity), reader.key(identity)
            with session.transaction():
                locked = PlaceRewriter(reader, self.opening).lock(session, key)
                if locked is None:
                    return False
                reader.follow(session, {identity: view})
                if self.present_view(view, Ledger.version) != version:
                    return False
                sealed = reader.sealer(key, locked.data_key).seal_index(bytes(index))
                given = [key, sql.VECTORS, reader.store.number, sealed]
                session.rows(sql.WRITE_INDEX, given)
            return True

        return self.write(write)

    # Edits under the lock of a place

    def compact(self, identity: Identity, keep_history: timedelta) -> int:
        """Remove older history, and return the number of bytes that were freed."""
        freed = self.tidying.compact(identity, keep_history)
        self.finish_erasure()
        return freed

    def edit(self, identity: Identity, edit: Edit) -> int:
        """Apply an edit to all entries of a place, and return the number of freed bytes."""

        def write(session: Session, _: int) -> int:
            reader = self.reading(session)
            if reader is None:
                return 0
            writer = PlaceRewriter(reader, self.opening)
            with session.transaction():
                if writer.lock(session, reader.key(identity)) is None:
                    return 0
                done = writer.edit(session, identity, edit)
            return 0 if done is None else done.freed

        return self._changed(identity, write)
