"""Blocking writes to the places of a PostgreSQL store."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import TypeVar

from factmem.errors import FactmemError, TamperedError
from factmem.ledger.condition import Condition
from factmem.ledger.entries import Edit, decoded, encoded, stamped
from factmem.ledger.ledger import Ledger
from factmem.models.places import Identity
from factmem.providers._backend import Decision, Erased, ErasedSinceError, Extension
from factmem.providers._group_commit import Pending
from factmem.providers._postgres import statements as sql
from factmem.providers._postgres.batches import Appended, Batch, BegunSave, Save, Saved, new_mark
from factmem.providers._postgres.driver import Session
from factmem.providers._postgres.erasures import Moment, moment_of
from factmem.providers._postgres.places import Edited, PlaceReader, Position, counted, micros
from factmem.providers._postgres.reads import PlaceReads
from factmem.providers._postgres.rewriting import PlaceRewriter
from factmem.providers._postgres.sealing import UnknownGenerationError
from factmem.providers._postgres.tidying import Tidying

R = TypeVar("R")


class PostgresPlaces(PlaceReads):
    """The places of one store. Every method blocks; all are thread-safe."""

    def _start(self) -> None:
        super()._start()
        self.tidying = Tidying(self, self._clock, self._keep_history)

    def writing(self, session: Session) -> tuple[PlaceReader, PlaceRewriter]:
        """Return the reader and the writer of the store; creates the store if it does not exist."""
        self.opening.made(session)
        reader = self.reading(session)
        assert reader is not None  # noqa: S101 - it was found or made
        return reader, PlaceRewriter(reader, self.opening)

    def commit(self, batch: Sequence[Pending[Save]], begun: BegunSave | None = None) -> None:
        """Save a batch in one transaction for all of its places.

        Args:
            batch: The saves.
            begun: The first attempt, if the event loop has sent it; its answer is awaited.
        """
        saves = [pending.work for pending in batch]
        late: dict[int, set[Save]] = {} if begun is None else {begun.mark: set()}

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

        done = self.run(write, None if begun is None else (begun.session, begun.appended))
        too_late = late.get(done.committed, done.late)
        bodies: dict[Identity, list[bytes]] = {}
        for pending in batch:
            if pending.work in too_late:
                pending.error = ErasedSinceError()
            else:
                bodies.setdefault(pending.work.identity, []).append(pending.work.body)
        for identity, added in bodies.items():
            saved = done.saved.get(identity)
            self.took(identity, added, saved)
            if saved is not None:
                self.tidying.tidy(identity, saved.position.extent.last, saved.folded)

    def took(self, identity: Identity, bodies: Sequence[bytes], saved: Saved | None) -> None:
        """Update the view of a place after a save; `saved` is None after an earlier attempt."""
        view = self._views.known(identity)
        if view is not None and saved is None:
            view.outdate()
        elif view is not None and saved is not None:
            view.took(saved.position, saved.tag, saved.at, bodies)

    def moment(self, identity: Identity) -> Moment:
        """Return the current moment of a place, for `learn`."""

        def read(session: Session, _: int) -> Moment:
            reader = self.reading(session)
            if reader is None:
                return Moment(None, None, self._erased_here)
            return moment_of(session, reader, identity, self._erased_here)

        return self.run(read)

    def took_at_once(self, identity: Identity, bodies: Sequence[bytes], saved: Saved) -> bool:
        """Call `took` unless another thread holds the view; return whether it was called."""
        view = self._views.known(identity)
        if view is not None:
            if view.lock.locked():
                return False
            view.took(saved.position, saved.tag, saved.at, bodies)
        return True

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
                if unknown and writer.is_marked(session, identity, mark):
                    return count
                if writer.lock(session, reader.key(identity)) is None:
                    return count
                if unknown and writer.is_marked(session, identity, mark):
                    return count
                reader.follow(session, {identity: view})
                with view.lock:
                    seen = view.position
                    now = self._clock.now(view.ledger.recorded_at)
                    recorded_at = view.ledger.recorded_at
                    change = decide(view.ledger, now)
                if change.facts or change.forget:
                    at = self._clock.recording(recorded_at)
                    body = stamped(encoded(change.facts, change.forget), at)
                    writer.add(session, identity, [decoded(body)], mark)
                if change.edit is not None:
                    writer.count_purge(session, identity)
                    edited = writer.edit(session, identity, change.edit, is_purge=True)
                count = len(change.forget)
            return count

        done = self._changed(identity, write)
        view = self._views.known(identity)
        if view is not None and seen is not None and edited is not None:
            view.took_edit(seen, edited)
        return done

    def _changed(self, identity: Identity, write: Callable[[Session, int], R]) -> R:
        try:
            return self.run(write)
        finally:
            if (view := self._views.known(identity)) is not None:
                view.outdate()

    def extend(self, identity: Identity, extend: Extension) -> int:
        """Append the entries that `extend` returns, under the place's lock; return how many."""
        mark, count, total, folded = new_mark(), 0, 0, 0

        def write(session: Session, unknown: int) -> int:
            nonlocal count, total, folded
            reader, writer = self.writing(session)
            with session.transaction():
                writer.lock_or_make(session, identity)
                if unknown and writer.is_marked(session, identity, mark):
                    return count
                answer = reader.whole(session, identity)
                known = [] if answer is None else counted(answer.entries)
                recorded_at = known[-1]["at"] if known else ""
                folded = 0 if answer is None else sum(answer.chunks)
                new = extend(known, self._clock.recording(recorded_at))
                total = len(known) + len(new)
                if new:
                    writer.add(session, identity, new, mark)
                else:
                    writer.delete_empty(session, identity)
                count = len(new)
            return count

        done = self._changed(identity, write)
        self.tidying.fold(identity, total, folded)
        return done

    def erase(self, identity: Identity, *, only_empty: bool = False) -> Erased:
        """Remove a place. Its bytes stay in dead rows until a VACUUM, and longer in the WAL."""
        erased: Erased | None = None

        def write(session: Session, unknown: int) -> Erased:
            nonlocal erased
            if not self.opening.is_prepared(session):
                self._erased_here += 1
                return Erased(self._clock.now(), 0, 0, key_destroyed=False)
            reader, writer = self.writing(session)
            with session.transaction():
                # Also for an empty place: a process that has read it must not write to it later.
                writer.lock_or_make(session, identity)
                found = self._counted(session, reader, identity)
                if only_empty and (found.bytes or found.count is None):  # None where damaged
                    return _erased(found.at, 0, 0)
                writer.erase(session, identity)
            if not (unknown and erased is not None):
                erased = found
            return erased

        done = self.run(write)
        self._views.drop(identity)
        return done

    def _counted(self, session: Session, reader: PlaceReader, identity: Identity) -> Erased:
        try:
            answer = reader.whole(session, identity)
        except (TamperedError, UnknownGenerationError, FactmemError):
            return _erased(self._clock.now(), None, 0)
        ledger = Ledger(() if answer is None else answer.entries)
        now = self._clock.now(ledger.recorded_at)
        size = 0 if answer is None else answer.position.size
        return _erased(now, len(ledger.matching(Condition(), now)), size)

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
                session.rows(sql.WRITE_INDEX, [key, reader.store.number, sealed])
            return True

        return self.run(write)

    # Edits under the lock of a place

    def compact(self, identity: Identity, keep_history: timedelta) -> int:
        """Remove older history, and return the number of bytes that were freed."""
        return self.tidying.compact(identity, keep_history)

    def edit(self, identity: Identity, edit: Edit) -> int:
        """Apply an edit to all entries of a place, and return the number of freed bytes."""

        def edited(session: Session, writer: PlaceRewriter) -> int:
            done = writer.edit(session, identity, edit)
            return 0 if done is None else done.freed

        try:
            return self.edit_locked(identity, edited)
        finally:
            if (view := self._views.known(identity)) is not None:
                view.outdate()

    def edit_locked(self, identity: Identity, edit: Callable[[Session, PlaceRewriter], int]) -> int:
        """Edit a place under its lock; return 0 if it does not exist."""

        def write(session: Session, _: int) -> int:
            reader = self.reading(session)
            if reader is None:
                return 0
            writer = PlaceRewriter(reader, self.opening)
            with session.transaction():
                if writer.lock(session, reader.key(identity)) is None:
                    return 0
                return edit(session, writer)

        return self.run(write)


def _erased(at: str, count: int | None, size: int) -> Erased:
    """Return the result of an erasure; logs and standbys keep copies for a while."""
    return Erased(at, count, size, key_destroyed=False, copies_remain=True)
