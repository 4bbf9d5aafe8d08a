"""PlaceReader: reads the entries of places, and verifies what it reads.

A place is a row with counters, and its lines. A reader knows the position up to which it has read a
place, and asks for what came later; `View` keeps that position and the ledger. An edit changes
`snapshot` and an erasure `made`, and either makes the reader start again.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache, partial
from typing import NamedTuple, Protocol

import orjson

from factmem._concurrency.garbage import paused_collection
from factmem.errors import CorruptJournalError, FactmemError, StorageError, TamperedError
from factmem.ledger._keyword_search import KeywordSearch
from factmem.ledger.entries import Entry
from factmem.ledger.ledger import Ledger
from factmem.models.places import Identity, levels_of
from factmem.providers._sql import statements as sql
from factmem.providers._sql.lines import entries_of, stamp_at, topic_of
from factmem.providers._sql.sealing import NO_TAG, Extent, Sealer, Sealing
from factmem.providers._sql.session import Row, Session
from factmem.providers._sql.stores import OpenStore
from factmem.providers.conversations import owner_of

FACT_BYTES = 256
"""The size of a usual fact in a line."""

_LARGE = 1000 * FACT_BYTES
"""A place with more bytes is searched for the first concept that is loaded from it."""

_MOST_LINES = 4096
"""The number of lines of one keyword that are read one by one. With more, the place is read."""

_MOST_KEYS = 10_000
"""Cached keys and sealers of places; each takes about 300 bytes."""

_STEP = 8
"""The bytes of one level in the key of a subject."""

UNKNOWN = -1
"""The bytes up to a position whose lines were not all read."""


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
    bodies: Sequence[bytes]
    """The added lines, before they were sealed."""


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


class Follower(Protocol):
    """Keeps the entries of a place up to the position that was read."""

    position: Position | None

    def take(self, before: Position | None, answer: Answer | None, asked: float) -> bool:
        """Apply an answer; return whether the place is now read to its end.

        Args:
            before: The position that the query started from.
            answer: None if the place does not exist.
            asked: When it was asked, on the monotonic clock.
        """
        ...


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
                last = owner
        return found

    def follow(self, session: Session, views: Mapping[Identity, Follower]) -> None:
        """Read each view's place to its end, with one query for all of them at a time."""
        rest = dict(views)
        while rest:
            asked = time.monotonic()
            before = {identity: view.position for identity, view in rest.items()}
            answers = self.read(session, before)
            for identity, view in list(rest.items()):
                if view.take(before[identity], answers.get(identity), asked):
                    del rest[identity]

    def read(
        self,
        session: Session,
        known: Mapping[Identity, Position | None],
        *,
        keyword: str | None = None,
    ) -> dict[Identity, Answer]:
        """Return the new entries of each place since a position; missing places are left out.

        With a keyword, lines that cannot be about it are verified and not parsed. Then the last entry
        has the time of the last line, and no facts.
        """
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
            found[identity] = self._answer(
                identity, known[identity], row, session.most_lines, keyword
            )
        return found

    def _answer(
        self, identity: Identity, known: Position | None, row: Row, most: int, keyword: str | None
    ) -> Answer:
        key, made, snapshot, end, size, names, data_key, tail, numbers, ats, lines = row
        is_from_start = known is None or (made, snapshot) != known.extent[:2]
        if known is not None and not is_from_start and end == known.extent.last:
            return Answer(known, False, [], [], [])
        last, tag, read = 0, NO_TAG, 0
        if known is not None and not is_from_start:
            last, tag, read = known.extent.last, known.tag, known.read
        if end == 0 and tail is None and not numbers:  # a row that was created as a lock
            return Answer(Position(Extent(made, snapshot, 0), 0, NO_TAG, 0, 0), True, [], [], [])
        sealer = self.sealer(key, data_key)
        if is_from_start and sealer.open_names(names) != identity:
            raise StorageError("Two places have one key: nothing was read")
        numbers, ats = numbers or [], ats or []
        bodies: list[bytes] = []
        for number, at, line in zip(numbers, ats, lines or (), strict=True):
            bodies.append(sealer.open(number, at, tag, line))
            tag = sealer.tag(line)
        sizes = list(map(len, bodies))
        read = UNKNOWN if read == UNKNOWN else read + sum(sizes)
        # A purge may have removed the last lines, so fewer lines than asked for are all of them.
        last = end if len(bodies) < most else numbers[-1]
        extent = Extent(made, snapshot, last)
        if last == end:
            sealer.check_tail(extent, tag, tail)
            if read not in {size, UNKNOWN}:
                raise self.damaged("Entries of a place are missing or were changed")
        with paused_collection(sum(sizes) // FACT_BYTES):
            entries = _about(keyword, bodies, ats) if keyword else entries_of(bodies, ats)
        position = Position(extent, end, tag, size, read)
        return Answer(position, is_from_start, entries, numbers, sizes)

    def damaged(self, problem: str) -> FactmemError:
        """Return the error for a damaged place."""
        error = TamperedError if self.store.is_sealed else CorruptJournalError
        return error(f"{problem}: restore it from a backup")

    def whole(
        self, session: Session, identity: Identity, *, keyword: str | None = None
    ) -> Answer | None:
        """Return all entries of a place, or those about a keyword; None if it does not exist."""
        entries: list[Entry] = []
        found: list[int] = []
        sizes: list[int] = []
        position: Position | None = None
        while True:
            answer = self.read(session, {identity: position}, keyword=keyword).get(identity)
            if answer is None:
                return None
            if answer.is_from_start:
                entries, found, sizes = [], [], []
            entries += answer.entries
            found += answer.numbers
            sizes += answer.sizes
            position = answer.position
            if position.extent.last == position.end:
                return Answer(position, True, entries, found, sizes)

    def searched(self, session: Session, identity: Identity, keyword: str) -> Ledger | None:
        """Return the ledger of one keyword of a large place; None if the place must be read.

        The rows of a sealed place do not reveal their keywords, so all of them are decrypted. In a
        plain place the index of topics finds the lines. Each is verified; that none is missing is
        checked when all of the place is read.
        """
        key, search = self.key(identity), KeywordSearch(keyword)
        for size, recorded_at, names, data_key in session.rows(sql.FIND_HEAD, [key]):
            if size <= _LARGE:
                return None
            if self.store.is_sealed:
                answer = self.whole(session, identity, keyword=keyword)
                search.take(() if answer is None else answer.entries)
                return search.ledger()
            sealer = self.sealer(key, data_key)
            if sealer.open_names(names) != identity:
                raise StorageError("Two places have one key: nothing was read")
            rows = session.rows(sql.FIND_BY_TOPIC, [key, topic_of(keyword)])
            if len(rows) > _MOST_LINES:
                return None
            bodies = [sealer.open(number, at, NO_TAG, line) for number, at, line in rows]
            search.take(entries_of(bodies, [at for _, at, _ in rows]))
            search.take([{"at": stamp_at(recorded_at)}])
            return search.ledger()
        return None


def subject_path(sealing: Sealing, name: str, entity: str | None) -> bytes:
    """Return the key of a subject: 8 bytes for its name and for each level of its entity.

    So the key of `USER.every("acme")` is a prefix of the keys of all users of this tenant. Different
    subjects may have one key: whoever reads it compares the names.
    """
    levels = () if entity is None else levels_of(entity)
    steps = (levels[:count] for count in range(len(levels) + 1))
    return b"".join(sealing.key("subject", (name, *step))[:_STEP] for step in steps)


def _about(keyword: str, bodies: Iterable[bytes], ats: Sequence[int]) -> list[Entry]:
    """Return the entries of the lines that may be about a keyword, found by the bytes of its JSON.

    JSON can write a keyword with escapes, so a line with an escape that is never needed is parsed too.
    """
    text = orjson.dumps(keyword)
    found = [
        (body, at)
        for body, at in zip(bodies, ats, strict=True)
        if text in body or (b"\\" in body and (b"\\u" in body or b"\\/" in body))
    ]
    entries = entries_of([body for body, _ in found], [at for _, at in found])
    return [*entries, {"at": stamp_at(max(ats))}] if ats else entries


NOWHERE = Extent(0, 0, 0)
"""The extent of a place that was not read."""


def _is_behind(rows: Sequence[Row], known: Mapping[bytes, Extent]) -> bool:
    """Whether rows are older than what is known: this process saved after their snapshot."""
    found = {row[0]: Extent(*row[1:4]) for row in rows}
    for key, then in known.items():
        extent = found.get(key, then._replace(last=0))
        if extent.made == then.made and extent < then:
            return True
    return False
