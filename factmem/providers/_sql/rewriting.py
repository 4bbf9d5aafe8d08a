"""PlaceRewriter: changes of a place's lines by purges, compaction, erasure and new keys.

All methods run inside a transaction that holds the lock of the place.
"""

from collections.abc import Callable, Collection, Sequence
from itertools import islice

from factmem.ledger.entries import Edit, Entry, encoded_entry
from factmem.models.places import Identity
from factmem.providers._sql import statements as sql
from factmem.providers._sql.erasures import count_erasure
from factmem.providers._sql.lines import micros, topics_of
from factmem.providers._sql.places import Answer, Edited, Position
from factmem.providers._sql.sealing import NO_TAG, Extent
from factmem.providers._sql.session import End, Line, Session
from factmem.providers._sql.writing import NO_MARK, PlaceWriter
from factmem.providers.conversations import conversation_of

_MOST_DELETED = 1000
"""Lines that one statement deletes."""


class PlaceRewriter(PlaceWriter):
    """Changes the lines of places of one open store. Thread-safe."""

    def edit(
        self, session: Session, identity: Identity, edit: Edit, *, is_purge: bool = False
    ) -> Edited | None:
        """Apply an edit to all entries of a place; return None if it changes nothing.

        After a purge the lines are sealed with a new data key, because the old key opens their copies.
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
        session.on_removal(key, list(changed.values()), is_purge=is_purge)
        # A sealed line is bound to the one before it, so all of them are sealed again.
        rewritten = set(answer.numbers) if self._is_sealed else changed.keys()
        new_key = self._new_data_key(session, key) if is_purge else None
        position = self._replace(
            session, identity, answer, after, rewritten=rewritten, new_key=new_key
        )
        freed = answer.position.size - (0 if position is None else position.size)
        return Edited(freed, answer, after, position)

    def rekey(self, session: Session, identity: Identity) -> None:
        """Seal all lines of a place again, with a new data key of the current generation."""
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
        """Let no detection write to a place that read its chat before now."""
        purged = count_erasure(session, self._store)
        session.rows(sql.SET_PURGED, [purged, self._reader.key(identity)])

    def erase(self, session: Session, identity: Identity, at: int) -> None:
        """Delete all rows of a place and of its conversations, and note the erasure and its time."""
        count_erasure(session, self._store)
        key = self._reader.key(identity)
        owned = [each for each, _ in session.rows(sql.LOCK_OWNED, [key])]
        for each in (*owned, key):  # the place also if it has conversations and no fact
            session.rows(sql.NOTE_ERASED, [at, each, len(owned)])
            self.erase_row(session, each)

    def edit_conversations(
        self, session: Session, identity: Identity, edit_of: Callable[[str], Edit | None]
    ) -> None:
        """Edit conversations of a place, under a new data key each; delete those without messages.

        Args:
            session: A session inside a transaction.
            identity: The place.
            edit_of: Returns the edit of a conversation, given its id; None to leave it.
        """
        for key, _ in session.rows(sql.LOCK_OWNED, [self._reader.key(identity)]):
            ((names, data_key),) = session.rows(sql.READ_NAMES, [key])
            owned = self._reader.sealer(key, data_key).open_names(names)
            named = conversation_of(owned)
            edit = None if named is None else edit_of(named[1])
            if edit is not None:
                self.edit(session, owned, edit, is_purge=True)
                if not session.rows(sql.COUNT_LINES, [key])[0][0]:
                    self.erase_row(session, key)

    def erase_row(self, session: Session, key: bytes) -> None:
        """Delete the rows of a place or of a conversation."""
        session.on_removal(key, None, is_purge=True)
        session.rows(sql.DELETE_ALL_LINES, [key])
        session.rows(sql.DELETE_ALL_TOPICS, [key])
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
        """Replace the lines with some numbers; return the new end of the place, None if it is empty."""
        key = self._reader.key(identity)
        locked = self.lock(session, key)
        if locked is None:
            return None
        sealer = self._reader.sealer(key, new_key or locked.data_key)
        # Rewritten lines keep their marks, as a repetition of their save may still look for one.
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
                topics = () if self._is_sealed else topics_of(entry)
                lines.append(Line(key, number, at, marks.get(number, NO_MARK), stored, topics))
        made, snapshot, last = locked.extent
        extent = Extent(made, snapshot + 1, last)
        end = End(key, sealer.tail(extent, tag))
        if new_key is not None:
            end = End(key, end.tail, sealer.seal_names(identity), new_key)
        session.rows(sql.SET_EDITED, [size, key])
        session.insert(self._store, lines, [end])
        return Position(extent, last, tag, size, size)

    def _delete_lines(self, session: Session, key: bytes, numbers: Collection[int]) -> None:
        given = iter(numbers)
        while some := list(islice(given, _MOST_DELETED)):
            for query in (sql.DELETE_LINES, sql.DELETE_TOPICS):
                deletion, found = sql.among(query, some)
                session.rows(deletion, [key, *found])
