"""Changes of a place's lines: purges, compaction, new keys, and the move of lines into chunks.

All methods run inside a transaction that holds the lock of the place.
"""

from collections.abc import Iterable, Mapping, Sequence

from factmem.ledger.entries import Edit, Entry, encoded_entry
from factmem.models.places import Identity
from factmem.providers._postgres import chunks
from factmem.providers._postgres import statements as sql
from factmem.providers._postgres.batches import EMPTY_AT, NO_MARK, End, Line
from factmem.providers._postgres.driver import Session
from factmem.providers._postgres.erasures import count_erasure
from factmem.providers._postgres.item_tables import erase_items, take_out
from factmem.providers._postgres.places import Answer, Edited, Position, micros
from factmem.providers._postgres.sealing import NO_TAG, Extent, Sealer
from factmem.providers._postgres.writing import PlaceWriter

FOLD_FROM = 4096
"""The number of lines from which on a place has chunks. Smaller places are read as fast without."""

LOOSE = 256
"""The fewest lines that stay outside chunks. The place's last line is always one of them."""


def is_worthwhile(last: int, tried: int) -> bool:
    """Whether a place may have enough lines to fold since the last check."""
    return last >= FOLD_FROM and last - tried >= chunks.LINES + LOOSE


class PlaceRewriter(PlaceWriter):
    """Changes the lines of places of one open store. Safe for threads."""

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
        pairs = zip(answer.entries, after, strict=True)
        changed = [(old, new) for old, new in pairs if new is not old]
        if not changed:
            return None
        if is_purge:
            take_out(session, self._reader.key(identity), [old for old, _ in changed])
        freed = _size(old for old, _ in changed) - _size(new for _, new in changed)
        new_key = self._new_data_key(session, self._reader.key(identity)) if is_purge else None
        size = answer.position.size - freed
        position = self._replace(session, identity, answer, after, size=size, new_key=new_key)
        return Edited(freed, answer, after, position)

    def rekey(self, session: Session, identity: Identity) -> None:
        """Seal all lines of a place again, with a new data key of the current generation."""
        answer = self._reader.whole(session, identity)
        if answer is not None:
            new_key = self._new_data_key(session, self._reader.key(identity))
            size = answer.position.size
            entries = answer.entries
            self._replace(session, identity, answer, entries, size=size, new_key=new_key)

    def _new_data_key(self, session: Session, key: str) -> bytes | None:
        """Return a new data key for a place; None in a plain store."""
        if self._is_sealed:
            self.check_ring(session)
        return self._reader.store.sealing.new_data_key(key)

    def count_purge(self, session: Session, identity: Identity) -> None:
        """Let no detection write to a place that read its chat before now."""
        purged = count_erasure(session, self._store)
        session.rows(sql.SET_PURGED, [purged, self._reader.key(identity)])

    def erase(self, session: Session, identity: Identity) -> None:
        """Delete all rows of a place, and count the erasure."""
        key = self._reader.key(identity)
        count_erasure(session, self._store)
        erase_items(session, key)
        session.rows(sql.DELETE_FROM, [key, 0])
        session.rows(sql.DELETE_CHUNKS, [key])
        session.rows(sql.DELETE_INDEX, [key])
        session.rows(sql.DELETE_PLACE, [key])

    def fold(self, session: Session, identity: Identity) -> int:
        """Move the oldest lines of a large place into a chunk; return their number."""
        key = self._reader.key(identity)
        locked = self.lock(session, key)
        if locked is None:
            return 0
        sealer = self._reader.sealer(key, locked.data_key)
        folded, start, latest = 0, NO_TAG, EMPTY_AT
        for first, stored in session.rows(sql.LAST_CHUNK, [key]):
            before = chunks.Directory.load(first, sealer.open_directory(first, stored))
            folded, start, latest = before.last, before.end, before.latest
        ((count,),) = session.rows(sql.COUNT_LINES, [key, folded])
        if count < (LOOSE + chunks.LINES if folded else FOLD_FROM):
            return 0
        rows = session.rows(sql.READ_LINES, [key, folded, chunks.LINES])
        lines = [chunks.Line(number, at, stored) for number, at, _, stored in rows]
        entries = _opened(lines, sealer, start)
        group = chunks.packed(lines, entries, sealer, start, latest)
        self._add_chunk(session, key, group, sealer, (row[2] for row in rows))
        session.rows(sql.DELETE_UP_TO, [key, lines[-1].number])
        session.rows(sql.SET_FOLDED, [lines[-1].number, key])
        return len(lines)

    def _replace(
        self,
        session: Session,
        identity: Identity,
        answer: Answer,
        after: Sequence[Entry | None],
        *,
        size: int,
        new_key: bytes | None = None,
    ) -> Position | None:
        """Replace the entries of a place by the result of an edit, which has `size` bytes.

        Return the new end of the place; None if no entry is left.
        """
        key = self._reader.key(identity)
        locked = self.lock(session, key)
        session.rows(sql.DELETE_INDEX, [key])
        if locked is None or all(entry is None for entry in after):
            erase_items(session, key)
            session.rows(sql.DELETE_FROM, [key, 0])
            session.rows(sql.DELETE_CHUNKS, [key])
            session.rows(sql.DELETE_PLACE, [key])
            return None
        sealer = self._reader.sealer(key, new_key or locked.data_key)
        in_chunks = sum(answer.chunks)
        # Each sealed line is bound to the previous one, so all of them are sealed again.
        if (
            not sealer.is_plain
            or 2 * sum(each is not None for each in after[:in_chunks]) < in_chunks
        ):
            tag = self._regroup(session, key, answer, after, sealer)
        else:
            tag = self._patch(session, key, answer, after, sealer)
        made, snapshot, last = locked.extent
        extent = Extent(made, snapshot + 1, last)
        end = End(key, sealer.tail(extent, tag))
        if new_key is not None:
            end = End(key, end.tail, sealer.seal_names(identity), new_key)
        session.rows(sql.SET_EDITED, [size, key])
        self._insert(session, [], [end])
        return Position(extent, last, tag, size)

    def _regroup(
        self,
        session: Session,
        key: str,
        answer: Answer,
        after: Sequence[Entry | None],
        sealer: Sealer,
    ) -> bytes:
        """Rewrite all lines, the older ones of a large place in chunks; return the last tag."""
        marks: dict[int, int] = dict(session.rows(sql.READ_MARKS, [key]))
        others = [mark for (each,) in session.rows(sql.DELETE_CHUNKS, [key]) for mark in each]
        session.rows(sql.DELETE_FROM, [key, 0])
        kept = [(n, e) for n, e in zip(answer.numbers, after, strict=True) if e is not None]
        lines, tags = _sealed(kept, sealer)
        is_large = bool(answer.chunks) or len(lines) >= FOLD_FROM
        loose = max(len(lines) - LOOSE, 0) if is_large else 0
        start, latest, folded = NO_TAG, EMPTY_AT, 0
        for begin in range(0, loose, chunks.LINES):
            end = min(begin + chunks.LINES, loose)
            found = [*others, *(marks[n] for n, _ in kept[begin:end] if n in marks)]
            entries = [entry for _, entry in kept[begin:end]]
            group = chunks.packed(lines[begin:end], entries, sealer, start, latest)
            self._add_chunk(session, key, group, sealer, found)
            start, latest, folded, others = tags[end - 1], group[0].latest, group[0].last, []
        rows = [
            Line(key, *line[:2], marks.get(line.number, NO_MARK), line.stored) for line in lines
        ]
        self._insert(session, rows[loose:], [])
        session.rows(sql.SET_FOLDED, [folded, key])
        return tags[-1]

    def _patch(
        self,
        session: Session,
        key: str,
        answer: Answer,
        after: Sequence[Entry | None],
        sealer: Sealer,
    ) -> bytes:
        """Rewrite the changed chunks, and the lines outside chunks from the first change on."""
        begin = 0
        for count in answer.chunks:
            span = slice(begin, begin + count)
            both = zip(answer.entries[span], after[span], strict=True)
            changed = {index: new for index, (old, new) in enumerate(both) if new is not old}
            if changed:
                self._edit_chunk(session, key, answer.numbers[begin], changed, sealer)
            begin += count
        numbers, old, new = answer.numbers[begin:], answer.entries[begin:], after[begin:]
        pairs = zip(numbers, old, new, strict=True)
        first = next((number for number, one, two in pairs if one is not two), None)
        if first is not None:
            found: dict[int, int] = dict(session.rows(sql.READ_MARKS, [key]))
            session.rows(sql.DELETE_FROM, [key, first])
            kept = [
                (n, e) for n, e in zip(numbers, new, strict=True) if e is not None and n >= first
            ]
            lines, _ = _sealed(kept, sealer)
            rows = [Line(key, *line[:2], found[line.number], line.stored) for line in lines]
            self._insert(session, rows, [])
        return NO_TAG

    def _edit_chunk(
        self,
        session: Session,
        key: str,
        number: int,
        changed: Mapping[int, Entry | None],
        sealer: Sealer,
    ) -> None:
        """Rewrite a chunk of plain lines, with some entries replaced."""
        rows = session.rows(sql.TAKE_CHUNK, [key, number, number])
        if not rows:
            raise self._reader.damaged("Entries of a place are missing")
        ((first, marks, stored, lines),) = rows
        directory = chunks.Directory.load(first, sealer.open_directory(first, stored))
        new = {
            index: entry and chunks.Replacement(micros(entry["at"]), encoded_entry(entry), entry)
            for index, entry in changed.items()
        }
        group = chunks.edited(directory, lines, new)
        if group is not None:
            self._add_chunk(session, key, group, sealer, marks)

    def _add_chunk(
        self,
        session: Session,
        key: str,
        group: tuple[chunks.Directory, bytes],
        sealer: Sealer,
        marks: Iterable[int],
    ) -> None:
        directory, lines = group
        sealed = sealer.seal_directory(directory.first, directory.dump())
        numbers = sql.numbers(dict.fromkeys(marks))
        given = [key, directory.first, directory.last, self._store, numbers, sealed, lines]
        session.rows(sql.ADD_CHUNK, given)


def _sealed(
    entries: Iterable[tuple[int, Entry]], sealer: Sealer
) -> tuple[list[chunks.Line], list[bytes]]:
    """Return numbered entries as lines, and the tags of these lines."""
    lines: list[chunks.Line] = []
    tags: list[bytes] = []
    tag = NO_TAG
    for number, entry in entries:
        at = micros(entry["at"])
        stored = sealer.seal(number, at, tag, encoded_entry(entry))
        tag = sealer.tag(stored)
        lines.append(chunks.Line(number, at, stored))
        tags.append(tag)
    return lines, tags


def _opened(lines: Iterable[chunks.Line], sealer: Sealer, tag: bytes) -> list[Entry]:
    """Return the entries of lines. `tag` is the tag of the line before them."""
    bodies: list[bytes] = []
    times: list[int] = []
    for number, at, stored in lines:
        bodies.append(sealer.open(number, at, tag, stored))
        times.append(at)
        tag = sealer.tag(stored)
    return chunks.entries_of(bodies, times)


def _size(entries: Iterable[Entry | None]) -> int:
    """Return the size of the lines of entries, as saves count it."""
    return sum(len(encoded_entry(entry)) for entry in entries if entry is not None)
