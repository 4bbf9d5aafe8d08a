"""Reads of places: their lines, their cached ledgers, and lists of them.

A place is a row with counters, and its lines. A reader knows the position up to which it has read a
place, and asks for later lines; a `View` keeps that position and the ledger. An edit changes
`snapshot` and an erasure `made`, and either makes the reader start over. A view also applies the
saves and edits of its own process without reading them back.

Lines are encoded entries without their times, which are a column of their own. A large save is
split into several lines of the same time, so that one concept is found without parsing all of it.
The opened lines of an answer are parsed together.
"""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from functools import lru_cache, partial
from hmac import compare_digest
from math import inf
from typing import Any, NamedTuple

import orjson

from factmem._concurrency import paused_collection
from factmem.errors import CorruptJournalError, FactmemError, StorageError, TamperedError
from factmem.ledger._trace import refolded
from factmem.ledger.entries import Entry, check_size, decoded, encoded_entry, stamped
from factmem.ledger.ledger import KeywordSearches, Ledger
from factmem.models.places import Boundary, Identity, levels_of
from factmem.models.when import EPOCH, stamp
from factmem.providers._sql import session as sql
from factmem.providers._sql.sealing import NO_TAG, Extent, Sealer, Sealing
from factmem.providers._sql.session import PlaceRow, Row, Session
from factmem.providers._sql.stores import OpenStore
from factmem.providers._sql.topics import Pair, Reach, pairs_of, rows_of, stored_topics
from factmem.providers.conversations import owner_of

_MOST_FACTS = 128
"""The most facts in one line: a search for one fact parses its whole line."""

_WIDE = b'{"wide":true,'


def stamp_at(at: int) -> str:
    seconds, micro = divmod(at, 1_000_000)
    try:
        return f"{_second(seconds)}{micro:06d}Z"
    except OverflowError:
        raise CorruptJournalError(
            "The row of a place has a time that no clock has: restore it from a backup"
        ) from None


@lru_cache(maxsize=4096)
def _second(seconds: int) -> str:
    return stamp(EPOCH + timedelta(seconds=seconds))[:-7]


def parts_of(entry: Mapping[str, Any]) -> tuple[bytes, ...]:
    """Return an entry without its time as lines: several for a save of many facts, else one."""
    facts = entry.get("facts", ())
    if len(facts) <= _MOST_FACTS or not entry.keys() <= {"at", "facts", "actor", "reason"}:
        return (_part(entry),)
    some = (facts[n : n + _MOST_FACTS] for n in range(0, len(facts), _MOST_FACTS))
    return tuple(_part({**entry, "facts": each}) for each in some)


def _part(entry: Mapping[str, Any]) -> bytes:
    body = encoded_entry(entry)
    if "facts" in entry or "turn" in entry:  # removals are never refused
        check_size(body, entry)
    return body


def entries_of(bodies: Sequence[bytes], times: Sequence[int]) -> list[Entry]:
    """Return the entries of lines, with times; raise `CorruptJournalError` if one is invalid."""
    try:
        if any(body.startswith(_WIDE) for body in bodies):
            pairs = zip(bodies, times, strict=True)
            return [decoded(stamped(body, stamp_at(at))) for body, at in pairs]
        return _timed(orjson.loads(b"[%b]" % b",".join(bodies)), times)
    except (ValueError, TypeError, OverflowError, FactmemError):
        # JSON that is invalid or no object, numbers of lines and times that differ, an odd time
        raise CorruptJournalError(_UNREADABLE) from None


def _timed(entries: Iterable[Entry], times: Iterable[int]) -> list[Entry]:
    # The time comes first, as in exported bundles, so that an imported export is the same bundle.
    timed: list[Any] = []
    latest, second = -1, -1
    prefix = stamped_at = ""
    for entry, at in zip(entries, times, strict=True):
        if at != latest:  # saves of one batch have one time
            latest = at
            seconds, micro = divmod(at, 1_000_000)
            if seconds != second:
                second, prefix = seconds, _second(seconds)
            stamped_at = f"{prefix}{micro:06d}Z"
        timed.append({"at": stamped_at, **entry})
    return timed


ODD_ENTRIES = (LookupError, TypeError, AttributeError, ValueError, OverflowError)
"""Python's errors when a line is valid JSON but no entry."""


@contextmanager
def understood(read: Callable[[], Sequence[Entry]]) -> Generator[None]:
    """Raise `CorruptJournalError` if the block fails because a line of a place is no entry.

    Lines are verified but not validated before use, as validation takes longer than folding. So
    when folding fails, the entries that `read` returns are validated to see if one is the cause.
    """
    try:
        yield
    except FactmemError:
        raise
    except ODD_ENTRIES:
        from factmem.ledger._entry_check import check_entry  # slow import

        entries = read()
        try:
            for entry in entries:
                check_entry(entry)
        except (ValueError, OverflowError):
            raise CorruptJournalError(_UNREADABLE) from None
        raise


_UNREADABLE = (
    "A line of a place cannot be read: another program changed its row. Restore the place from a "
    "backup"
)


def counted(entries: list[Entry]) -> list[Entry]:
    """Return entries with times that never decrease."""
    at = ""
    try:
        for entry in entries:
            at = entry["at"] = max(entry["at"], at)
    except TypeError:  # no string
        raise CorruptJournalError(_UNREADABLE) from None
    return entries


FACT_BYTES = 256
"""The typical size of a fact in a line."""

_LARGE = 1000 * FACT_BYTES
"""A larger place is searched for the first concept that is loaded from it. Its index is extended
when it lacks this many bytes of lines."""

_MOST_LINES = 4096
"""With more lines about one keyword than these, the whole place is read."""

_MOST_KEYS = 10_000
"""Cached keys and sealers of places; each takes about 300 bytes."""

_STEP = 8
"""The bytes of one level in the key of a subject."""

UNKNOWN = -1
"""`Position.read` if not all lines were read."""


NOWHERE = Extent(0, 0, 0)
"""The extent of a place that was not read."""


class Position(NamedTuple):
    """The position up to which a place was read."""

    extent: Extent
    end: int
    """The number of its last line when it was read."""
    tag: bytes
    """The tag of the last line that was read."""
    size: int
    """The bytes of all its lines."""
    read: int
    """The bytes of the lines up to here; `UNKNOWN` if they were not counted."""

    @classmethod
    def at(cls, extent: Extent, size: int, tag: bytes = NO_TAG) -> "Position":
        """Return the position of a place that was read to its end."""
        return cls(extent, extent.last, tag, size, size)


class Answer(NamedTuple):
    """The answer of a query about one place."""

    position: Position
    is_from_start: bool
    entries: list[Entry]
    numbers: list[int]
    sizes: list[int]
    """The bytes of each line."""


class Saved(NamedTuple):
    """The result of a batch for one place."""

    position: Position
    tag: bytes
    """The tag of the line before the added ones."""
    at: int
    """When they were recorded, in microseconds."""
    parts: Sequence[bytes]
    """The added lines, before they were sealed."""


class Searched(NamedTuple):
    """The ledgers of keywords of a large place."""

    ledgers: Mapping[str, Ledger]
    extent: Extent
    rows: Sequence[tuple[int, bytes]] = ()
    """The rows of an index that reaches to this extent, if the stored one is far behind."""


class Edited(NamedTuple):
    """An edit of a place."""

    freed: int
    """The number of bytes that it freed."""
    before: Answer
    after: Sequence[Entry | None]
    """The entries after the edit; None where one was removed."""
    position: Position | None
    """The end of the place after it; None if nothing is left."""


class NewRow(NamedTuple):
    """Columns of a new place's row besides its counters."""

    scope: bytes
    subject: bytes
    names: bytes
    owner: bytes
    """The key of the place itself, or of the place that a conversation belongs to."""


class PlaceReader:
    """Reads places of one open store. Thread-safe."""

    def __init__(self, store: OpenStore) -> None:
        self.store = store
        cached = lru_cache(maxsize=_MOST_KEYS)
        self.key: Callable[[Identity], bytes] = cached(partial(store.sealing.key, "place"))
        """Returns the key of a place."""
        self.new_row: Callable[[Identity], NewRow] = cached(self._new_row)
        """Returns the columns of a new row of a place.

        Sealed names are left out, because they are sealed under the data key of an existing row.
        """
        self.sealer: Callable[[bytes, bytes | None], Sealer] = cached(store.sealing.sealer)
        """Returns the sealer of a place's lines, by its key and its data key."""

    def _new_row(self, identity: Identity) -> NewRow:
        sealing, owner = self.store.sealing, owner_of(identity)
        scope, subject = sealing.key("scope", owner[:2]), subject_path(sealing, *owner[2:])
        names = b"" if self.store.is_sealed else sealing.sealer(b"", None).seal_names(identity)
        return NewRow(scope, subject, names, self.key(owner))

    def names(self, key: bytes, stored: bytes, data_key: bytes | None) -> Identity:
        """Return the names in a row of a place or of a conversation."""
        return self.store.sealing.sealer(key, data_key).open_names(stored)

    def owners(self, rows: Iterable[Row]) -> list[Identity]:
        """Return the places of rows with key, names, data key and owner, each once.

        The rows of one place follow each other. Nothing is cached.
        """
        sealing = self.store.sealing
        plain = None if self.store.is_sealed else sealing.sealer(b"", None)
        found: list[Identity] = []
        last = b""
        for key, names, data_key, owner, *_ in rows:
            if owner != last:
                sealer = plain or sealing.sealer(key, data_key)
                found.append(owner_of(sealer.open_names(names)))
                # Else the owner would be missing in the list.
                if sealing.key("place", found[-1]) != owner:
                    raise self.damaged("The row of a place has keys of other names")
                last = owner
        return found

    def follow(self, session: Session, views: "Mapping[Identity, View]") -> None:
        """Read each view's place to its end, with one query for all of them at a time."""
        rest = dict(views)
        self._follow(session, rest)
        with paused_collection(_LARGE if rest else 0):  # not resumed between two answers
            while rest:
                self._follow(session, rest)

    def _follow(self, session: Session, rest: "dict[Identity, View]") -> None:
        asked = time.monotonic()
        before = {identity: view.position for identity, view in rest.items()}
        answers = self.read(session, before)
        for identity, view in list(rest.items()):
            if view.take(before[identity], answers.get(identity), asked):
                del rest[identity]

    def read(
        self, session: Session, known: Mapping[Identity, Position | None]
    ) -> dict[Identity, Answer]:
        """Return the new entries of each place since a position; missing places are left out."""
        identities = {self.key(identity): identity for identity in known}
        extents = {
            key: NOWHERE if (position := known[identity]) is None else position.extent
            for key, identity in identities.items()
        }
        rows = session.read_places(extents)
        # The snapshot of an SQLite session may be older than what this process has saved since.
        if _is_behind(rows, extents) and session.renew():
            rows = session.read_places(extents)
        found: dict[Identity, Answer] = {}
        for row in rows:
            identity = identities[row[0]]
            lines = row[-1] or ()
            is_cut = len(lines) >= session.most_lines
            is_cut = is_cut or sum(map(len, lines)) >= session.most_bytes
            found[identity] = self._answer(identity, known[identity], row, is_cut=is_cut)
        return found

    def _answer(
        self, identity: Identity, known: Position | None, row: Row, *, is_cut: bool
    ) -> Answer:
        numbers, ats, lines = row[-3:]
        head = PlaceRow(*row[:-3])
        key, made, snapshot, end, size = head[:5]
        is_from_start = known is None or (made, snapshot) != known.extent[:2]
        if known is not None and not is_from_start and end == known.extent.last:
            return Answer(known, False, [], [], [])
        last, tag, read = 0, NO_TAG, 0
        if known is not None and not is_from_start:
            last, tag, read = known.extent.last, known.tag, known.read
        if end == 0 and head.tail is None and not numbers:  # a row that was created as a lock
            return Answer(Position.at(Extent(made, snapshot, 0), 0), True, [], [], [])
        sealer = self.sealer(key, head.data_key)
        if is_from_start:
            self._check_names(head, sealer, identity)
        numbers, ats = numbers or [], ats or []
        bodies: list[bytes] = []
        for number, at, line in zip(numbers, ats, lines or (), strict=True):
            bodies.append(sealer.open(number, at, tag, line))
            tag = sealer.tag(line)
        sizes = list(map(len, bodies))
        read = UNKNOWN if read == UNKNOWN else read + sum(sizes)
        # A purge may have removed the last lines, so fewer lines than asked for are all of them.
        last = numbers[-1] if is_cut else end
        extent = Extent(made, snapshot, last)
        if last == end:
            sealer.check_tail(head.counters, tag, head.tail)
            if read not in {size, UNKNOWN}:
                raise self.damaged("Entries of a place are missing or were changed")
        with paused_collection(sum(sizes) // FACT_BYTES):
            entries = entries_of(bodies, ats)
        position = Position(extent, end, tag, size, read)
        return Answer(position, is_from_start, entries, numbers, sizes)

    def check_row(self, row: PlaceRow, identity: Identity) -> Sealer:
        """Return the sealer of a row with lines; raise unless the row is that of the place."""
        sealer = self.sealer(row.place, row.data_key)
        self._check_names(row, sealer, identity)
        sealer.check_tail(row.counters, (row.tail or NO_TAG)[: len(NO_TAG)], row.tail)
        return sealer

    def _check_names(self, row: PlaceRow, sealer: Sealer, identity: Identity) -> None:
        if sealer.open_names(row.names) != identity:
            raise StorageError("Two places have one key: nothing was read")
        self.check_columns(row, identity)

    def check_columns(self, row: PlaceRow, identity: Identity) -> None:
        """Raise unless a row has the keys of its names: otherwise listings would miss it."""
        expected = self.new_row(identity)
        found = row.store, row.scope, row.subject, row.owner
        if found != (self.store.number, expected.scope, expected.subject, expected.owner):
            raise self.damaged("The row of a place has keys of other names")

    def erased_key(self, place: bytes, made: int, at: int) -> bytes:
        """Return the key of a row that records an erasure: the place's key and a tag."""
        return place + self.store.sealing.key("erased", (place.hex(), str(made), str(at)))

    def check_erased(self, key: bytes, made: int, at: int) -> None:
        """Raise unless this store wrote a row of `erased`: restoring a backup obeys these rows."""
        if not compare_digest(key, self.erased_key(key[:16], made, at)):
            raise self.damaged("A row about an erased place does not verify")

    def row(self, session: Session, identity: Identity) -> PlaceRow | None:
        """Return the verified row of a place that has lines; None if there is none."""
        for found in session.rows(sql.READ_ROW, [self.key(identity)]):
            row = PlaceRow(*found)
            if row.last or row.tail:
                self.check_row(row, identity)
                return row
        return None

    def damaged(self, problem: str) -> FactmemError:
        error = TamperedError if self.store.is_sealed else CorruptJournalError
        return error(f"{problem}: restore it from a backup")

    def answers(
        self, session: Session, identity: Identity, since: Position | None = None
    ) -> Iterator[Answer | None]:
        """Read a place from a position to its end, by parts; None if it does not exist."""
        position = since
        while True:
            answer = self.read(session, {identity: position}).get(identity)
            yield answer
            if answer is None:
                return
            position = answer.position
            if position.extent.last == position.end:
                return

    def whole(self, session: Session, identity: Identity) -> Answer | None:
        """Return all entries of a place; None if it does not exist."""
        entries: list[Entry] = []
        found: list[int] = []
        sizes: list[int] = []
        position: Position | None = None
        for answer in self.answers(session, identity):
            if answer is None:
                return None
            if answer.is_from_start:
                entries, found, sizes = [], [], []
            entries += answer.entries
            found += answer.numbers
            sizes += answer.sizes
            position = answer.position
        return None if position is None else Answer(position, True, entries, found, sizes)

    def searched(
        self, session: Session, identity: Identity, keywords: Collection[str]
    ) -> Searched | None:
        """Search a large place for keywords; None if the place must be read.

        Each line is verified. Only a read of the whole place detects a missing line.
        """
        for columns in session.rows(sql.READ_ROW, [self.key(identity)]):
            row = PlaceRow(*columns)
            if row.size > _LARGE:
                return self._searched(session, identity, row, keywords)
        return None

    def _searched(
        self, session: Session, identity: Identity, row: PlaceRow, keywords: Collection[str]
    ) -> Searched | None:
        sealer = self.check_row(row, identity)
        index = partial(stored_topics, session, row, sealer, is_sealed=self.store.is_sealed)
        topics = index(keywords)
        numbers = [] if topics is None else topics.lines(keywords)
        if len(numbers) > _MOST_LINES:
            return None
        searches = KeywordSearches(keywords)
        searches.take(self._lines(session, row.place, sealer, numbers))
        start = position = None if topics is None else Position.at(*topics.reach)
        pairs: list[Pair] = []
        for answer in self.answers(session, identity, start):
            if answer is None or (answer.is_from_start and position is not None):
                return None  # it was changed after the row was read
            searches.take(answer.entries)
            pairs += pairs_of(answer.entries, answer.numbers)
            position = answer.position
        searches.take([{"at": stamp_at(row.recorded_at)}])
        assert position is not None  # noqa: S101 - there is an answer
        found = Searched(searches.ledgers, position.extent)
        if position.size - (0 if start is None else start.size) <= _LARGE:
            return found
        if topics is not None:
            if (rest := index()) is None or rest.reach != topics.reach:
                return found  # another process has extended it meanwhile
            pairs += rest.pairs()
        reach = Reach(position.extent, position.size, position.tag)
        return found._replace(rows=rows_of(pairs, reach, is_sealed=self.store.is_sealed))

    def _lines(
        self, session: Session, key: bytes, sealer: Sealer, numbers: Sequence[int]
    ) -> list[Entry]:
        query, given = sql.among(sql.READ_SOME, numbers or [0])
        rows = session.rows(query, [key, *given])
        bodies = [
            sealer.open(number, at, NO_TAG if before is None else sealer.tag(before), line)
            for number, at, line, before in rows
        ]
        return entries_of(bodies, [at for _, at, _, _ in rows])


def subject_path(sealing: Sealing, name: str, entity: str | None) -> bytes:
    """Return the key of a subject: 8 bytes for its name and for each level of its entity.

    So the key of `USER.every("acme")` is a prefix of the keys of all users of this tenant.
    Different subjects may share a key, so readers compare the names.
    """
    levels = () if entity is None else levels_of(entity)
    steps = (levels[:count] for count in range(len(levels) + 1))
    return b"".join(sealing.key("subject", (name, *step))[:_STEP] for step in steps)


def _is_behind(rows: Sequence[Row], known: Mapping[bytes, Extent]) -> bool:
    """Whether rows are older than this process's own saves, which came after their snapshot."""
    found = {row[0]: Extent(*row[1:4]) for row in rows}
    for key, then in known.items():
        extent = found.get(key, then._replace(last=0))
        if extent.made == then.made and extent < then:
            return True
    return False


_MOST_UNREAD = 64 * 1024
"""The bytes of own saves that a view keeps for the next read; if there are more, they are read
back."""


class View:
    """The cached ledger of one place. `lock` is never held during I/O."""

    __slots__ = (
        "_bodies", "_ledger", "_read_to", "_times", "_unread", "checked", "found", "is_warm",
        "lock", "outdated", "position", "was_searched",
    )  # fmt: skip

    def __init__(self) -> None:
        self.lock: threading.Lock = threading.Lock()
        self._ledger = Ledger()
        self._bodies: list[bytes] = []
        self._times: list[int] = []
        self._unread = 0
        """The bytes of own saves that are not applied yet."""
        self._read_to: Position | None = None
        """The position of the ledger before the own saves that are not applied yet."""
        self.position: Position | None = None
        """None before the first read, and if the place does not exist."""
        self.is_warm: bool = False
        """Whether the place was read to its end."""
        self.was_searched: bool = False
        """Whether one keyword was searched for instead of reading the place."""
        self.checked: float = -inf
        """The time at which it was complete, on the monotonic clock."""
        self.found: object = None
        """The version of the database at which the view was current, if databases have versions."""
        self.outdated: float = -inf
        """The monotonic time of this process's last write that the ledger lacks."""

    @property
    def end(self) -> Extent | None:
        return None if self.position is None else self.position.extent

    @property
    def ledger(self) -> Ledger:
        """The ledger, after applying own saves; the caller holds the lock."""
        if self._bodies:
            for entry in entries_of(self._bodies, self._times):
                self._ledger.apply(entry)
            self._bodies, self._times, self._unread = [], [], 0
        return self._ledger

    @ledger.setter
    def ledger(self, ledger: Ledger) -> None:
        self._ledger, self._bodies, self._times, self._unread = ledger, [], [], 0

    def __len__(self) -> int:
        """The approximate number of items; needs no lock."""
        return len(self._ledger) + len(self._bodies)

    def take(self, before: Position | None, answer: Answer | None, asked: float) -> bool:
        """Apply an answer, unless another thread has read further; return whether all was read.

        Args:
            before: The position that the query started from.
            answer: None if the place does not exist.
            asked: When it was asked, on the monotonic clock.
        """
        with self.lock:
            if self.position is not before:
                return False
            self.found = None
            if answer is None:
                if before is not None:  # erased; a place that never existed keeps its empty ledger
                    self.ledger, self.position = Ledger(), None
                self.is_warm, self.checked = True, self._checked(asked)
                return True
            if answer.is_from_start:
                self.ledger = Ledger()
            ledger = self.ledger
            with (
                understood(lambda: answer.entries),
                paused_collection(sum(answer.sizes) // FACT_BYTES),
            ):
                for entry in answer.entries:
                    ledger.apply(entry)
            if answer.position != before:
                self.position = answer.position
            self.is_warm = answer.position.extent.last == answer.position.end
            self.checked = self._checked(asked) if self.is_warm else -inf
            return self.is_warm

    def _checked(self, asked: float) -> float:
        """Return the time of completeness; a query before an own write lacks that write."""
        return asked if asked >= self.outdated else -inf

    def add(self, saved: Saved) -> None:
        """Add own saves, if everything before them was read.

        Otherwise the next read queries the database whatever `max_staleness` is, because callers
        see their own saves. Saves are applied to the ledger at the next read.
        """
        after, bodies = saved.position, saved.parts
        with self.lock:
            before = self.position
            first = Extent(*after.extent[:2], after.extent.last - len(bodies))
            if before is None:
                is_next = self.is_warm and first.last == 0 and first.snapshot == 0
            else:
                is_next = self.is_warm and (before.extent, before.tag) == (first, saved.tag)
            if not is_next:
                self.outdate()
                return
            if not self._bodies:
                self._read_to = before
            self._unread += sum(map(len, bodies))
            if self._unread > _MOST_UNREAD:
                self._bodies, self._times, self.position = [], [], self._read_to
                self._unread = 0
                self.outdate()
                return
            self._bodies += bodies
            self._times += [saved.at] * len(bodies)
            self.position = after

    def edit(self, seen: Position, edited: Edited) -> None:
        """Apply an own edit of a place that was at `seen`; fold only the affected facts again."""
        _, before, after, end = edited
        with self.lock:
            if self.position is not seen or end is None:
                return
            for number, entry in zip(before.numbers, before.entries, strict=True):
                if number > seen.extent.last:
                    self.ledger.apply(entry)
            ledger = refolded(self.ledger, before.entries, after)
            if ledger is not None:  # else the next read starts over, at the new snapshot
                self.ledger, self.position = ledger, end

    def clear(self) -> None:
        with self.lock:
            self.ledger, self.position = Ledger(), None
            self.is_warm = self.was_searched = False
            self.outdate()

    def outdate(self) -> None:
        self.checked, self.outdated = -inf, time.monotonic()


class Views:
    """A cache of views that evicts the least recently used."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._views: OrderedDict[Identity, View] = OrderedDict()
        self._lock = threading.Lock()

    def known(self, identity: Identity) -> View | None:
        view = self._views.get(identity)
        if view is not None:
            with self._lock, suppress(KeyError):  # dropped by another thread meanwhile
                self._views.move_to_end(identity)
        return view

    def of(self, identity: Identity) -> View:
        with self._lock:
            view = self._views.setdefault(identity, View())
            self._views.move_to_end(identity)
            if len(self._views) > self._most:
                self._views.popitem(last=False)
            return view

    def clear(self) -> None:
        """Drop all views, and clear them, as some are in use."""
        with self._lock:
            views = list(self._views.values())
            self._views.clear()
        for view in views:
            view.clear()

    def drop(self, identity: Identity) -> None:
        with self._lock:
            self._views.pop(identity, None)


MOST_LISTED = 1000
"""Places that one query lists or reads."""

_MOST_PROBED = 1024
"""Up to this many named places are looked up by key instead of listed and filtered."""


def identities(
    session: Session, reader: PlaceReader, wanted: Boundary, after: Identity | None = None
) -> Iterator[list[Identity]]:
    """Yield the places inside a boundary, some at a time, without reading their entries.

    Raise if a row was changed so that the listing misses it; only a boundary that is the whole
    store or that names its places reveals this.
    """
    where, given = _conditions(reader, wanted)
    if (levels := wanted.first_levels) is not None:
        yield from _below(session, reader, wanted, levels, after)
        return
    last, rows = sql.FIRST_PLACE if after is None else reader.key(after), []
    statement, number = sql.LIST.format(where=where), reader.store.number
    first, listed = last, set[bytes]()
    while rows := session.rows(statement, [number, last, *given, MOST_LISTED]):
        last = rows[-1][3]
        listed.update(row[3] for row in rows)
        yield list(filter(wanted.allows, reader.owners(rows)))
        if len(rows) < MOST_LISTED:
            break
    expected = [key for key in given if key > first] if "owner" in where else []
    if not where:
        expected = [key for (key,) in session.rows(sql.LIST_KEYS, [number, first, b""])]
    left = [key for key in expected if key not in listed]
    for begin in range(0, len(left), MOST_LISTED):
        rows = session.rows(*sql.among(sql.LIST_NAMED, left[begin : begin + MOST_LISTED]))
        yield list(_verified(reader, map(PlaceRow._make, rows)))


def _verified(reader: PlaceReader, rows: Iterable[PlaceRow]) -> Iterator[Identity]:
    """Verify rows that a listing missed, and yield those with entries."""
    for row in rows:
        identity = reader.names(row.place, row.names, row.data_key)
        if row.last or row.tail or row.size:
            reader.check_row(row, identity)
        if row.size:
            yield identity


def conversations(
    session: Session, reader: PlaceReader, places: Iterable[Identity]
) -> dict[Identity, tuple[int, int]]:
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
    """Yield the places of the entities that begin with some levels, ordered by subject."""
    start = subject_path(reader.store.sealing, *first)
    last, key = start, b""
    if after is not None:
        last, key = reader.new_row(after).subject, reader.key(after)
    end = (int.from_bytes(start) + 1).to_bytes(len(start))
    rows: list[Row] = []
    while rows := session.rows(sql.LIST_BELOW, [reader.store.number, last, key, end, MOST_LISTED]):
        _, _, _, key, last = rows[-1]
        yield list(filter(wanted.allows, reader.owners(rows)))
        if len(rows) < MOST_LISTED:
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
