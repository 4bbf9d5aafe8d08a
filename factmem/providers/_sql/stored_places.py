"""StoredPlaces: the backend of a store in a database.

    StoredPlaces   runs blocking work in threads, each write in a transaction, and updates the views
    Database       has the connections: a folder's file, a server, or memory
    PlaceReader    reads and verifies rows
    PlaceRewriter  writes them

Concurrent saves share a transaction, which the thread of `GroupCommit` commits. A transaction may
be repeated on another connection, so the functions below keep the result of an attempt whose commit
was not answered.
"""

import os
import time
import weakref
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from functools import partial, wraps
from secrets import token_hex
from types import CoroutineType
from typing import Any, Concatenate, ParamSpec, TypeAlias, TypeVar

from anyio import CancelScope
from anyio.lowlevel import checkpoint, checkpoint_if_cancelled

from factmem._concurrency import Workers, paused_collection
from factmem.errors import FactmemError, WrongKeyError
from factmem.ledger._items import Condition
from factmem.ledger.entries import Edit, Entry, exported
from factmem.ledger.ledger import Ledger
from factmem.models.places import Boundary, Identity
from factmem.models.when import StoreClock, micros
from factmem.providers._backend import (
    FEW,
    Decision,
    Erased,
    ErasedSinceError,
    Extension,
    Present,
    Unread,
)
from factmem.providers._group_commit import EventLoop, GroupCommit, Pending
from factmem.providers._sql import session as sql
from factmem.providers._sql.places import (
    MOST_LISTED,
    ODD_ENTRIES,
    UNKNOWN,
    Edited,
    PlaceReader,
    Position,
    Saved,
    Searched,
    View,
    Views,
    conversations,
    counted,
    identities,
    parts_of,
    stamp_at,
    understood,
)
from factmem.providers._sql.sealing import Extent, UnknownGenerationError, unknown_key
from factmem.providers._sql.session import Database, Row, Session
from factmem.providers._sql.stores import Opening
from factmem.providers._sql.writing import (
    EMPTY_AT,
    Appended,
    Batch,
    Moment,
    PlaceRewriter,
    Save,
    Tidying,
    moment_of,
    new_mark,
)
from factmem.providers.results import Forgotten, PlaceInfo, StoreStatus, place_info

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S", bound="StoredPlaces")

Progress: TypeAlias = Callable[[int, int], None]
"""Called with the number of places that are done, and with the total."""

_Restart: TypeAlias = "weakref.WeakMethod[Callable[[], None]]"


def in_thread(
    function: Callable[Concatenate[S, P], R],
) -> "Callable[Concatenate[S, P], CoroutineType[Any, Any, R]]":
    """Make an asynchronous method of a blocking one: it runs in a worker thread."""

    @wraps(function)
    async def method(self: S, /, *given: P.args, **options: P.kwargs) -> R:
        return await self.work(lambda: function(self, *given, **options))

    # mypy calls what `async def` returns a Coroutine, and pyright a CoroutineType.
    made: Callable[Concatenate[S, P], Any] = method
    return made


class StoredPlaces:
    """The places of one store: a `Backend`, and what the other parts of a store need.

    The methods that are not asynchronous block, but `warm` and `has_extents`. All are thread-safe.
    """

    def __init__(
        self, opening: Opening, clock: StoreClock, keep_history: timedelta | None = None
    ) -> None:
        self.opening = opening
        self.database: Database = opening.database
        self.clock = clock
        self._keep_history = keep_history
        self._start()
        _restarts[self] = weakref.WeakMethod(self._start_in_child)

    def _start(self) -> None:
        database = self.database
        self._views = Views(database.warm_places)
        self._reader: PlaceReader | None = None
        self._file: object = None
        """The file that was read last."""
        self._erased_here = 0
        """The number of erasures before the store existed."""
        self.tidying: Tidying = Tidying(self._edit, self.clock, self._keep_history)
        self.workers: Workers = Workers()
        self._commits = GroupCommit(self.commit, self.workers, database.rest)
        # A shared read runs a query that begins after the call, so reads are linearizable.
        self._reads = GroupCommit(self._refresh, self.workers) if database.shares_reads else None

    def _start_in_child(self) -> None:
        """Start again in a forked child: threads and connections belong to the parent."""
        self.clock.start_in_child()
        self.database.start_afresh()
        self.opening.start_afresh()
        self._start()

    # Work on the database

    async def work(self, work: Callable[[], R]) -> R:
        """Run blocking work in a worker thread, or at once if the database does no I/O."""
        if self.database.is_inline:
            await checkpoint()
            return work()
        await checkpoint_if_cancelled()
        return await self.workers.run(work)

    def run(self, work: Callable[[Session, int], R]) -> R:
        """Do work that reads; its second argument counts attempts that may have committed."""
        return self._done(self.database.read, work)

    def run_apart(self, work: Callable[[Session, int], R]) -> R:
        return self._done(self.database.apart, work)

    def write(self, work: Callable[[Session, int], R]) -> R:
        return self._done(self.database.write, work)

    def write_soon(self, work: Callable[[Session, int], R]) -> R:
        return self._done(self.database.write_soon, work)

    def _done(
        self, do: Callable[[Callable[[Session, int], R]], R], work: Callable[[Session, int], R]
    ) -> R:
        """Do work, again if the keys were rotated, and with new caches if the file was replaced."""

        def checked(session: Session, attempt: int) -> R:
            is_gone = session.is_empty and self.opening.known is not None
            if session.file != self._file or is_gone:
                if self._file is not None or is_gone:  # it was deleted or replaced since
                    self.opening.reload()
                    self._views.clear()
                self._file = session.file
            try:
                return work(session, attempt)
            finally:
                if self._file is None:  # the work may have created it
                    self._file = session.file

        looks, before = 0, None
        while looks < 3:
            encryption = self.opening.encryption
            try:
                return do(checked)
            except UnknownGenerationError:
                store = self.opening.known
                now = None if store is None else (store.sealing.generation, store.anchors)
                # Others may rotate repeatedly: the row is wrong only if it stays the same.
                looks, before = looks + 1 if now == before else 0, now
                self.opening.reload()
            except WrongKeyError:  # a snapshot from before the rotation of another thread
                looks += 1
                if self.opening.encryption is encryption:
                    raise
        raise unknown_key()

    def reading(self, session: Session) -> PlaceReader | None:
        """Return the reader of the store; None if it does not exist, or not yet in this session."""
        if session.is_empty and self.opening.known is not None:
            return None
        store = self.opening.find(session)
        if store is None:
            return None
        reader = self._reader
        if reader is None or reader.store is not store:
            reader = self._reader = PlaceReader(store)
        return reader

    def writing(self, session: Session) -> tuple[PlaceReader, PlaceRewriter]:
        """Return the reader and the writer of the store; creates the store if it does not exist."""
        self.opening.create(session)
        reader = self.reading(session)
        assert reader is not None  # noqa: S101 - it was found or made
        return reader, PlaceRewriter(reader, self.opening)

    def read_store(self, read: Callable[[Session, PlaceReader], R], default: R) -> R:
        """Do work that reads a store; return the default if it does not exist yet."""

        def ask(session: Session, _: int) -> R:
            return default if (reader := self.reading(session)) is None else read(session, reader)

        return self.run(ask)

    def _key(self, identity: Identity) -> bytes | None:
        """Return the key of a place, if that needs no I/O."""
        reader = self._reader
        is_known = reader is not None and reader.store is self.opening.known
        return reader.key(identity) if reader is not None and is_known else None

    # The store

    @in_thread
    def create(self) -> None:
        self.write(lambda session, _: self.opening.create(session, is_wanted=True))

    @in_thread
    def open(self) -> None:
        self.run(lambda session, _: self.reading(session))

    @in_thread
    def ping(self) -> StoreStatus:
        """Raise unless the store can be read and written; create it as a save does."""
        nowhere = ("product", "factmem", "ping", token_hex(16))

        def write(session: Session, _: int) -> StoreStatus:
            reader, writer = self.writing(session)
            with session.transaction():
                writer.lock_or_make(session, nowhere)
                writer.delete_empty(session, nowhere)
            version, is_sealed = self.database.version, reader.store.is_sealed
            return StoreStatus(reader.store.id, version, is_encrypted=is_sealed)

        return self.write(write)

    def time(self) -> str:
        """Return the time of the store's clock, as a stamp; not before a connection was opened."""
        self.run(lambda session, _: self.opening.find(session))
        return self.clock.recording()

    async def close(self) -> None:
        if self._reads is not None:
            await self._reads.close()
        await self._commits.close()
        with CancelScope(shield=True):  # cancelled or not, no connection stays open
            await self.workers.run(self.database.close)

    # Reading

    def warm(self, identity: Identity, present: Present[R | None]) -> R | None:
        """See `Backend.warm`: it only compares the end of the place, in some microseconds."""
        view = self._views.known(identity)
        if view is None or not view.is_warm or not view.lock.acquire(blocking=False):
            return None
        try:
            is_current = self.database.is_current(view, lambda: self._key(identity))
            return present(view.ledger, self.now(view.ledger)) if is_current else None
        except ODD_ENTRIES:  # a worker thread finds out whether a line causes it
            return None
        finally:
            view.lock.release()

    def has_extents(self, identity: Identity, known: dict[bytes, tuple[int, ...]]) -> bool:
        """Return whether the conversations of a place have these extents, if it needs no I/O."""
        key = self._key(identity)
        return key is not None and self.database.has_extents(key, known)

    async def present(
        self,
        identity: Identity,
        present: Present[R],
        *,
        until: str | None = None,
        keyword: str | None = None,
    ) -> R:
        if until is not None:
            return await self.entries(
                identity, lambda entries: present(Ledger(entries, until=until), until)
            )
        reads, view = self._reads, self._views.known(identity)
        if reads is None or view is None or not view.is_warm or len(view) > FEW:
            # A first read may take long, so it does not delay the reads that share a query.
            return await self.work(lambda: self._present(identity, present, keyword))
        await reads.submit(identity)
        if self._views.known(identity) is not view or not view.lock.acquire(blocking=False):
            return await self.work(lambda: self._present(identity, present, None))
        try:
            return present(view.ledger, self.now(view.ledger))
        finally:
            view.lock.release()

    def _present(self, identity: Identity, present: Present[R], keyword: str | None) -> R:
        """Present a place as it is now; with a keyword, its items may be all that is there.

        A large place that was never read is searched once: for a second concept all is read.
        """
        view = self._views.of(identity)
        with understood(partial(self.all_entries, identity)):
            if keyword is not None and not (view.is_warm or view.was_searched):
                view.was_searched = True
                found = self.read_store(
                    lambda session, reader: reader.searched(session, identity, [keyword]), None
                )
                if found is not None:
                    self.write_topics(identity, found)
                    ledger = found.ledgers[keyword]
                    return present(ledger, self.now(ledger))
            return self.present_view(self.view(identity), present)

    def write_topics(self, identity: Identity, found: Searched) -> None:
        """Store an index, unless the place was edited meanwhile; then the next reader tries."""

        def write(session: Session, _: int) -> None:
            if (reader := self.reading(session)) is None:
                return
            key, store = reader.key(identity), reader.store.number
            with session.transaction():
                row = PlaceRewriter(reader, self.opening).lock(session, key)
                if row is not None and row.extent[:2] == found.extent[:2]:
                    sealer = reader.sealer(key, row.data_key)
                    for kind, index in found.rows:
                        sealed = sealer.seal_index(index)
                        session.rows(sql.WRITE_INDEX, [key, kind, store, sealed])

        if found.rows:
            with suppress(FactmemError):  # such as a store that this user only reads
                self.write_soon(write)

    def present_view(self, view: View, present: Present[R]) -> R:
        with view.lock:
            return present(view.ledger, self.now(view.ledger))

    def now(self, ledger: Ledger) -> str:
        """Return the time for reading a ledger; the clock is not read if nothing expires."""
        return self.clock.now(ledger.recorded_at) if ledger.may_expire else ledger.recorded_at

    def known(self, identity: Identity) -> View | None:
        return self._views.known(identity)

    def view(self, identity: Identity) -> View:
        view = self._views.of(identity)
        self._follow({identity: view})
        return view

    def _refresh(self, batch: Sequence[Pending[Identity]]) -> None:
        """Update the views of some places with one query for all of them."""
        self._follow({pending.work: self._views.of(pending.work) for pending in batch})

    def _follow(self, views: Mapping[Identity, View]) -> None:
        self.run(lambda session, _: self.follow(session, views))

    def follow(self, session: Session, views: Mapping[Identity, View]) -> None:
        reader = self.reading(session)
        if reader is not None:
            reader.follow(session, views)
            return
        for view in views.values():
            if view.position is None:  # else this process has made the store since
                view.take(None, None, time.monotonic())

    @in_thread
    def entries(self, identity: Identity, use: Callable[[list[Entry]], R]) -> R:
        entries = self.all_entries(identity)
        with understood(lambda: entries):
            return use(entries)

    def all_entries(self, identity: Identity) -> list[Entry]:
        answer = self.read_store(lambda session, reader: reader.whole(session, identity), None)
        return [] if answer is None else counted(answer.entries)

    @in_thread
    def entries_since(self, identity: Identity, state: str) -> list[Entry] | None:
        """Return the entries after a state of `states`; None if earlier ones have changed."""
        key, *numbers = state.split(".")
        extent, last_at = Extent(*map(int, numbers[:3])), int(numbers[4])

        def read(session: Session, reader: PlaceReader) -> list[Entry] | None:
            row = reader.row(session, identity)
            if row is None or row.place.hex() != key or row.extent[:2] != extent[:2]:
                return None
            lines = session.rows(sql.READ_LINE, [row.place, extent.last])
            # An older copy of the store has later lines there; an imported line is an earlier one.
            if not lines or lines[0][0] > last_at:
                return None
            tag = reader.sealer(row.place, row.data_key).tag(bytes(lines[0][1]))
            position = Position(extent, row.last, tag, UNKNOWN, UNKNOWN)
            found = _unread(session, reader, {identity: position}).get(identity)
            if found is None or found.is_from_start:
                return [] if row.last == extent.last else None
            return exported(counted(found.entries))

        return self.read_store(read, None)

    @in_thread
    def states(self, known: Collection[str]) -> dict[str, Identity | None]:
        return self.states_of(known)

    def states_of(
        self, known: Collection[str], *, chats: bool = False
    ) -> dict[str, Identity | None]:

        def read(session: Session, reader: PlaceReader) -> dict[str, Identity | None]:
            found: dict[str, Identity | None] = {}
            rows: list[Row] = [(sql.FIRST_PLACE,)]
            while rows:
                given = [reader.store.number, rows[-1][0], not chats, MOST_LISTED]
                rows = session.rows(sql.LIST_STATES, given)
                for key, names, data_key, *numbers in rows:
                    state = ".".join([bytes(key).hex(), *map(str, numbers)])
                    found[state] = (
                        None if state in known else reader.names(bytes(key), names, data_key)
                    )
            return found

        return self.read_store(read, {})

    @in_thread
    def unread(
        self, known: Mapping[Identity, object], use: Callable[[Mapping[Identity, Unread]], R]
    ) -> R:
        empty: dict[Identity, Unread] = {}
        found = self.read_store(lambda at, reader: _unread(at, reader, known), empty)
        with understood(lambda: [entry for each in found.values() for entry in each.entries]):
            return use(found)

    @in_thread
    def identities(
        self, wanted: Boundary, after: Identity | None, limit: int | None
    ) -> list[Identity]:
        def read(session: Session, reader: PlaceReader) -> list[Identity]:
            found: list[Identity] = []
            pages = identities(session, reader, wanted, after)
            while limit is None or len(found) < limit:
                with paused_collection(MOST_LISTED):
                    page = next(pages, None)
                if page is None:
                    break
                found += page
            return found[:limit]

        return self.read_store(read, [])

    @in_thread
    def places(self, wanted: Boundary) -> list[PlaceInfo]:

        def read(session: Session, _: int) -> list[PlaceInfo]:
            reader = self.reading(session)
            infos: list[PlaceInfo] = []
            if reader is None:
                return infos
            for found in identities(session, reader, wanted):
                if found:
                    views = {each: self._views.known(each) or View() for each in found}
                    reader.follow(session, views)
                    infos += self._infos(views, conversations(session, reader, views))
            return infos

        return self.run_apart(read)

    def _infos(
        self, views: dict[Identity, View], chats: Mapping[Identity, tuple[int, int]]
    ) -> Iterator[PlaceInfo]:
        for identity, view in views.items():
            count, more = chats.get(identity, (0, 0))
            with view.lock, understood(partial(self.all_entries, identity)):
                size = more + (0 if view.position is None else view.position.size)
                now = self.clock.now(view.ledger.recorded_at)
                info = place_info(identity, view.ledger, size, now, conversations=count)
            if size:  # not erased since it was listed
                yield info

    @in_thread
    def erased_at(self, identity: Identity) -> str | None:
        return self.noted_at(identity)

    def noted_at(self, identity: Identity) -> str | None:
        """Return the time of the last note that a place or a conversation is gone."""

        def read(session: Session, reader: PlaceReader) -> str | None:
            key, last = reader.key(identity), None
            for place, made, at in session.rows(sql.READ_ERASED, [key, key + b"\xff" * 17]):
                reader.check_erased(place, made, at)
                last = max(last or at, at)
            return None if last is None else stamp_at(last)

        return self.read_store(read, None)

    @in_thread
    def read_index(self, identity: Identity) -> bytes | None:

        def read(session: Session, reader: PlaceReader) -> bytes | None:
            key = reader.key(identity)
            for data_key, stored in session.rows(sql.READ_INDEX, [key, sql.VECTORS]):
                return reader.sealer(key, data_key).open_index(stored)
            return None

        return self.read_store(read, None)

    # Saves

    def append(
        self, identity: Identity, entry: dict[str, Any], *, since: object = None
    ) -> Awaitable[None]:
        save = Save(identity, parts_of(entry), since if isinstance(since, Moment) else None)
        return self._append_here(save) if self.database.is_inline else self._commits.submit(save)

    async def _append_here(self, save: Save) -> None:
        pending = Pending(save, EventLoop())
        await self.work(lambda: self.commit([pending]))
        if pending.error is not None:
            raise pending.error

    def commit(self, batch: Sequence[Pending[Save]]) -> None:
        saves = [pending.work for pending in batch]
        late: dict[int, set[Save]] = {}

        def write(session: Session, unknown: int) -> Appended:
            reader, writer = self.writing(session)
            now, mark, earlier = self.clock.micros(), new_mark(), list(late)
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
            if too_late and pending.work in too_late:
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
        if saved is not None and self._keep_history is not None:
            self.tidying.tidy(identity, saved.position.extent.last)

    @in_thread
    def moment(self, identity: Identity) -> Moment:
        here = self._erased_here

        def read(session: Session, reader: PlaceReader) -> Moment:
            return moment_of(session, reader.store.number, reader.key(identity), here)

        return self.read_store(read, Moment(None, None, here))

    # Changes under the lock of a place

    @in_thread
    def change(self, identity: Identity, decide: Decision) -> int:
        mark, count = new_mark(), 0
        edited: Edited | None = None
        seen: Position | None = None
        is_purged = False

        def write(session: Session, unknown: int) -> int:
            nonlocal count, edited, seen, is_purged
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
                    change = decide(view.ledger, self.clock.now(recorded_at))
                if change.entry is not None:
                    new: Any = {**change.entry, "at": self.clock.recording(recorded_at)}
                    writer.add(session, identity, [new], mark)
                if change.edit is not None:
                    writer.count_purge(session, identity)
                    edited = writer.edit(session, identity, change.edit, is_purge=True)
                    is_purged |= edited is not None
                if (turns := change.turns) is not None:
                    is_purged |= writer.edit_conversations(session, identity, lambda _: turns)
                count = change.forgotten
            return count

        with understood(partial(self.all_entries, identity)):
            done = self._changed(identity, write, self.database.forget)
        view = self._views.known(identity)
        if view is not None and seen is not None and edited is not None:
            view.edit(seen, edited)
        return Forgotten(done, copies_remain=is_purged and self.database.finish_erasure())

    def _changed(
        self,
        identity: Identity,
        write: Callable[[Session, int], R],
        do: Callable[[Callable[[Session, int], R]], R],
    ) -> R:
        try:
            return self._done(do, write)
        finally:
            if (view := self._views.known(identity)) is not None:
                view.outdate()

    @in_thread
    def extend(self, identity: Identity, extend: Extension, *, since: str | None = None) -> int:
        first = None if since is None else micros(since)
        mark, count, purges = new_mark(), 0, False

        def write(session: Session, unknown: int) -> int:
            nonlocal count, purges
            reader, writer = self.writing(session)
            with session.transaction():
                writer.lock_or_make(session, identity)
                if unknown and writer.is_marked(session, identity, mark):
                    return count
                row = reader.row(session, identity)
                # An import counts as recorded now, so the row does not tell the time of the last
                # line.
                last = row and session.rows(sql.READ_LINE, [row.place, row.last])
                last_at = EMPTY_AT if row is None else last[0][0] if last else row.recorded_at
                is_later = first is not None and last_at < first
                answer = None if is_later else reader.whole(session, identity)
                known = [] if answer is None else counted(answer.entries)
                recorded_at = known[-1]["at"] if known else ""
                if is_later and row is not None:
                    recorded_at = stamp_at(row.recorded_at)
                with understood(lambda: known):
                    change = extend(known, self.clock.recording(recorded_at))
                if change.entries:
                    writer.add(session, identity, change.entries, mark)
                elif row is None:
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

        done = self._changed(identity, write, self.database.write)
        if purges:
            self.database.finish_erasure()
        return done

    @in_thread
    def erase(self, identity: Identity, *, only_empty: bool = False) -> Erased:
        erased: Erased | None = None

        def write(session: Session, unknown: int) -> Erased:
            nonlocal erased
            if not self.opening.is_prepared(session):
                self._erased_here += 1
                return Erased(self.clock.now(), 0, 0)
            reader, writer = self.writing(session)
            with session.transaction():
                # Also for an empty place: a process that has read it must not write to it later.
                writer.lock_or_make(session, identity)
                found = self._counted(session, reader, identity)
                owned = session.rows(sql.LOCK_OWNED, [reader.key(identity)])
                size = found.bytes + sum(part for _, part in owned)
                found = replace(found, bytes=size, conversations=len(owned))
                if only_empty and (found.bytes or found.count is None):  # None where damaged
                    return Erased(found.at, 0, 0)
                writer.erase(session, identity, micros(found.at))
                if not (unknown and erased is not None):
                    erased = found
            return erased

        done = self._done(self.database.forget, write)
        self._views.drop(identity)
        if erased is None:  # nothing was removed
            return done
        copies_remain = self.database.finish_erasure()
        is_shreddable = self.opening.is_renewable()
        return replace(done, copies_remain=copies_remain, is_shreddable=is_shreddable)

    def _counted(self, session: Session, reader: PlaceReader, identity: Identity) -> Erased:
        try:
            answer = reader.whole(session, identity)
            ledger = Ledger(() if answer is None else answer.entries)
            now = self.clock.now(ledger.recorded_at)
            count = len(ledger.matching(Condition(), now))
        except (UnknownGenerationError, FactmemError, *ODD_ENTRIES):
            return Erased(self.clock.now(), None, 0)
        return Erased(now, count, 0 if answer is None else answer.position.size)

    @in_thread
    def write_index(self, identity: Identity, index: bytes, version: str) -> bool:

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
                session.rows(sql.WRITE_INDEX, [key, sql.VECTORS, reader.store.number, sealed])
            return True

        return self.write_soon(write)

    @in_thread
    def compact(self, identity: Identity, keep_history: timedelta) -> int:
        freed = self.tidying.compact(identity, keep_history)
        self.database.finish_erasure()
        return freed

    def _edit(self, identity: Identity, edit: Edit) -> int:
        def write(session: Session, _: int) -> int:
            reader = self.reading(session)
            if reader is None:
                return 0
            writer = PlaceRewriter(reader, self.opening)
            with session.transaction():
                if writer.lock(session, reader.key(identity)) is None:
                    return 0
                done = writer.edit(session, identity, edit)
            return done.freed if done else 0

        return self._changed(identity, write, self.database.forget)


def _unread(
    session: Session, reader: PlaceReader, known: Mapping[Identity, object]
) -> dict[Identity, Unread]:
    at = {key: each if isinstance(each, Position) else None for key, each in known.items()}
    found: dict[Identity, Unread] = {}
    while True:  # until one query has read all places to their ends
        answers = reader.read(session, at)
        is_whole = True
        for identity in at:
            at[identity] = None
        for identity, answer in answers.items():
            at[identity] = position = answer.position
            is_whole = is_whole and position.extent.last == position.end
            before, is_start = found.get(identity), answer.is_from_start
            entries = answer.entries
            if before is not None and not is_start:
                is_start, entries = before.is_from_start, before.entries + entries
            found[identity] = Unread(position, is_start, entries)
        if is_whole:
            return {identity: found[identity] for identity in answers}


_restarts: "weakref.WeakKeyDictionary[StoredPlaces, _Restart]" = weakref.WeakKeyDictionary()


def _start_in_child() -> None:
    for restart in list(_restarts.values()):
        if (start := restart()) is not None:
            start()


if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(after_in_child=_start_in_child)
