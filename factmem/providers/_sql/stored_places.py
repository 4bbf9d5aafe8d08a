"""StoredPlaces: the blocking operations of a store on its places.

    SqlBackend     calls them in worker threads, and `commit` from the thread of `GroupCommit`
    StoredPlaces   runs each write in a transaction, and updates the views afterwards
    PlaceRewriter  writes the rows

A transaction may be repeated on another connection, so the functions below keep the result of an
attempt whose commit was not answered.
"""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from secrets import token_hex
from typing import TypeAlias, TypeVar

from factmem.encryption.key_file import RenewableEncryption
from factmem.errors import FactmemError
from factmem.ledger._condition import Condition
from factmem.ledger.entries import Edit, decoded, stamped
from factmem.ledger.ledger import Ledger
from factmem.models.places import Identity
from factmem.providers._backend import Decision, Erased, ErasedSinceError, Extension, Present
from factmem.providers._group_commit import Pending
from factmem.providers._sql import statements as sql
from factmem.providers._sql.erasures import Moment, moment_of
from factmem.providers._sql.lines import counted, micros
from factmem.providers._sql.places import Edited, PlaceReader, Position, Saved
from factmem.providers._sql.reads import PlaceReads
from factmem.providers._sql.rewriting import PlaceRewriter
from factmem.providers._sql.sealing import UnknownGenerationError
from factmem.providers._sql.session import Session
from factmem.providers._sql.tidying import Tidying
from factmem.providers._sql.writing import Appended, Batch, Save, new_mark
from factmem.providers.results import StoreStatus

R = TypeVar("R")

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
