"""The interface of a store to its database: connections, sessions and the statements.

The core's SQL is common to both databases, with `%s` for each parameter and `factmem.` before each
table; SQLite's session translates it. Operations that are faster in, or need, a database's own SQL
are methods of `Session`. Everything needs READ COMMITTED, unique keys and row locks, and no more.

Keys of places, scopes and subjects are 16 bytes. Times are microseconds since 1970.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol, TypeVar

from factmem.providers._sql.sealing import Counters, Extent

K = TypeVar("K")
R = TypeVar("R")

Row = tuple[Any, ...]


class Head(NamedTuple):
    """The row of a place in a batch: its new counts, and the columns of a new row."""

    place: bytes
    scope: bytes
    subject: bytes
    names: bytes
    owner: bytes
    made: int
    """The number of the place if the row is new."""
    added: int
    """How many lines are added."""
    size: int
    """Their bytes, before they are sealed."""


class PlaceRow(NamedTuple):
    """The row of a place. `PlaceReader.check_row` verifies it."""

    place: bytes
    made: int
    snapshot: int
    last: int
    size: int
    recorded_at: int
    purged: int
    store: int
    scope: bytes
    subject: bytes
    owner: bytes
    names: bytes
    data_key: bytes | None
    tail: bytes | None

    @property
    def extent(self) -> Extent:
        return Extent._make(self[1:4])

    @property
    def counters(self) -> Counters:
        return Counters._make(self[1:7])


class Line(NamedTuple):
    """A row of the table of entries."""

    place: bytes
    number: int
    at: int
    mark: int
    stored: bytes


class End(NamedTuple):
    """Columns of a place's row to write after lines were added; None leaves a column as it is."""

    place: bytes
    counters: Counters
    """`take_numbers` may have written them already."""
    tail: bytes | None = None
    names: bytes | None = None
    data_key: bytes | None = None


class Session(Protocol):
    """A connection that one thread uses."""

    store: int = 1
    """The number of the store that the connection is configured for."""
    most_lines: int
    """The largest number of lines of a place in one answer."""
    most_bytes: int
    """An answer ends after the line that exceeds this many bytes."""
    appends_at_once: bool = False
    """Whether a plain batch is saved by one statement, because each statement is a round trip."""
    file: object = None
    """Identifies the database file, which others may delete or replace; None on a server."""

    @property
    def is_empty(self) -> bool:
        """Whether there was no database when the session began."""
        return False

    def rows(self, query: str, parameters: Sequence[object] = ()) -> list[Row]:
        """Run a statement and return its rows; outside a transaction it commits at once."""
        ...

    def transaction(self) -> AbstractContextManager[None]:
        """Commit what the block does, or roll all of it back, while no other writer writes."""
        ...

    def select_store(self, number: int) -> None:
        self.store = number

    def read_places(self, known: Mapping[bytes, Extent]) -> list[Row]:
        """Return the existing places, each with its lines after a known extent.

        A row has the columns of `PlaceRow`, of which the last four bytes columns may be NULL where
        they are not needed, then the numbers, times and lines. `known` has the extents by key.
        """
        ...

    def renew(self) -> bool:
        """Read the newest commit from now on; return False if each statement does that anyway."""
        return False

    def take_numbers(self, store: int, heads: Sequence[Head], mark: int, at: int) -> list[Row]:
        """Lock the rows of places, create missing ones, and increase their counters.

        Returns the columns of `PlaceRow` of each place. If lines are counted here, the caller must
        then `insert` them with their `End`.
        """
        ...

    def insert(self, store: int, lines: Sequence[Line], ends: Sequence[End]) -> None: ...

    def append_plain(
        self, store: int, heads: Sequence[Head], lines: Sequence[Line], mark: int, at: int
    ) -> list[Row]:
        """Do `take_numbers` and `insert` in one statement, if `appends_at_once`.

        The numbers of the lines count from 0 for each place. Returns what `take_numbers` does.
        """
        raise AssertionError("Its lines need their numbers first")

    # Marks of saves, for a database that may not confirm a commit

    def find_mark(self, places: Sequence[bytes], marks: Sequence[int]) -> int | None:
        """Return the mark among `marks` with which lines were committed, if there is one."""
        return None

    def read_marks(self, place: bytes) -> Mapping[int, int]:
        """Return the marks of the lines of a place by their numbers."""
        return {}

    def void_marks(self, places: Sequence[bytes], marks: Sequence[int]) -> None:
        """Make saves with these marks add nothing if they arrive later."""
        return

    def check_integrity(self) -> None:
        """Raise `CorruptJournalError` if the database finds its own structures damaged."""
        return

    def on_removal(self) -> None:
        """Record that entries are removed, of which the database keeps copies for a while."""
        return


DEFINITIONS = """
CREATE TABLE indexes (
    place BLOB NOT NULL,
    kind INT NOT NULL DEFAULT 0,
    store INT NOT NULL,
    bytes BLOB NOT NULL,
    PRIMARY KEY (place, kind)
) STRICT;
CREATE TABLE erased (
    place BLOB NOT NULL,
    made INTEGER NOT NULL,
    store INT NOT NULL,
    at INTEGER NOT NULL,
    PRIMARY KEY (place, made)
) STRICT, WITHOUT ROWID;
CREATE TABLE learning (
    place BLOB PRIMARY KEY,
    owner BLOB NOT NULL,
    scope BLOB NOT NULL,
    store INT NOT NULL,
    learnt INTEGER NOT NULL,
    since INTEGER,
    due INTEGER,
    lease INTEGER NOT NULL DEFAULT 0,
    leased_until INTEGER NOT NULL DEFAULT 0,
    attempts INT NOT NULL DEFAULT 0,
    is_failed INT NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;
CREATE TABLE searches (
    search INTEGER PRIMARY KEY,
    place BLOB NOT NULL,
    kind INT NOT NULL,
    store INT NOT NULL,
    form TEXT NOT NULL,
    next INTEGER NOT NULL DEFAULT 1,
    size INTEGER NOT NULL DEFAULT 0,
    length REAL NOT NULL DEFAULT 0,
    begins_at INTEGER,
    UNIQUE (place, kind)
) STRICT;
CREATE TABLE sources (
    source INTEGER PRIMARY KEY,
    search INT NOT NULL,
    place BLOB NOT NULL,
    store INT NOT NULL,
    made INTEGER NOT NULL,
    snapshot INT NOT NULL,
    last INTEGER NOT NULL,
    UNIQUE (search, place)
) STRICT;
CREATE TABLE items (
    search INT NOT NULL,
    item INTEGER NOT NULL,
    store INT NOT NULL,
    length REAL NOT NULL,
    counts BLOB NOT NULL,
    text BLOB,
    topic INTEGER,
    digest BLOB,
    line INTEGER,
    start INT,
    size INT,
    chat INTEGER,
    message INTEGER,
    said_at REAL,
    ends_at INTEGER,
    fact BLOB,
    PRIMARY KEY (search, item)
) STRICT, WITHOUT ROWID;
CREATE INDEX items_by_topic ON items (search, topic) WHERE topic IS NOT NULL;
CREATE INDEX items_by_message ON items (search, chat, message) WHERE message IS NOT NULL;
CREATE INDEX items_by_end ON items (search, ends_at) WHERE ends_at IS NOT NULL;
CREATE TABLE terms (
    search INT NOT NULL,
    term TEXT NOT NULL,
    first INTEGER NOT NULL,
    store INT NOT NULL,
    items BLOB NOT NULL,
    PRIMARY KEY (search, term, first)
) STRICT, WITHOUT ROWID;
"""
"""The tables that are alike in both databases, in the types of SQLite: `INT` has 32 bits."""

TABLES = ("stores", "places", "entries", "indexes", "erased", "learning")
"""The tables of the core."""

FIND_STORE = """
SELECT store, id, mode, slots, generation, anchors FROM factmem.stores WHERE name = %s
"""

MAKE_STORE = """
INSERT INTO factmem.stores (name, id, mode, slots, generation)
VALUES (%s, %s, %s, %s, 1) ON CONFLICT (name) DO NOTHING
"""

SET_KEYS = "UPDATE factmem.stores SET slots = %s, generation = %s WHERE store = %s"

COUNT_ANCHOR = """
UPDATE factmem.stores SET anchors = anchors + 1 WHERE store = %s RETURNING anchors
"""

COUNT_ERASURE = """
UPDATE factmem.stores SET erasures = erasures + 1 WHERE store = %s RETURNING erasures
"""

READ_MOMENT = """
SELECT s.erasures, p.made FROM factmem.stores s LEFT JOIN factmem.places p ON p.place = %s
WHERE s.store = %s
"""

READ_ERASURES = """
SELECT p.place, p.made, p.purged, s.erasures FROM factmem.places p, factmem.stores s
WHERE s.store = %s AND p.place IN ({keys})
"""

COLUMNS = """place, made, snapshot, last, bytes, recorded_at, purged, store, scope, subject, owner,
    names, data_key, tail"""
"""Those of `PlaceRow`."""

READ_ROW = f"SELECT {COLUMNS} FROM factmem.places WHERE place = %s"

LOCK = f"{READ_ROW} FOR UPDATE"

READ_SOME = """
SELECT number, at, line, (
    SELECT line FROM factmem.entries b WHERE b.place = e.place AND b.number < e.number
    ORDER BY b.number DESC LIMIT 1
) FROM factmem.entries e WHERE place = %s AND number IN ({keys}) ORDER BY number
"""
"""Lines of a place, each with the one before it."""

SET_EDITED = """
UPDATE factmem.places SET snapshot = snapshot + 1, bytes = %s WHERE place = %s
"""

SET_PURGED = "UPDATE factmem.places SET purged = %s, tail = %s WHERE place = %s"

LIST_OWNED = f"""
SELECT {COLUMNS} FROM factmem.places
WHERE store = %s AND owner = %s AND place <> owner AND bytes > 0 ORDER BY recorded_at DESC, place
"""
"""The conversations of a place, by its key."""

LIST_EXTENTS = """
SELECT owner, place, made, snapshot, last, names, data_key FROM factmem.places
WHERE store = %s AND owner IN ({keys}) AND place <> owner AND bytes > 0 ORDER BY place
"""

LOCK_OWNED = """
SELECT place, bytes FROM factmem.places WHERE owner = %s AND place <> owner
ORDER BY place FOR UPDATE
"""

COUNT_OWNED = """
SELECT owner, count(*), sum(bytes) FROM factmem.places
WHERE owner IN ({keys}) AND place <> owner AND bytes > 0 GROUP BY owner
"""

READ_NAMES = "SELECT names, data_key FROM factmem.places WHERE place = %s"

READ_LAST = """
SELECT number, at, line FROM factmem.entries
WHERE place = %s AND number < %s ORDER BY number DESC LIMIT %s
"""

READ_FIRST = """
SELECT number, at, line FROM factmem.entries WHERE place = %s ORDER BY number LIMIT %s
"""

COUNT_LINES = "SELECT count(*) FROM factmem.entries WHERE place = %s"

QUEUE = """
INSERT INTO factmem.learning AS l (place, owner, scope, store, learnt, due, since)
VALUES (%s, %s, %s, %s, %s, %s, %s)
ON CONFLICT (place) DO UPDATE SET
    since = coalesce(l.since, excluded.since), is_failed = 0,
    due = CASE WHEN l.since + %s < excluded.due THEN l.since + %s ELSE excluded.due END
"""
"""Queues a conversation: due when it has rested, or some time after its first new message."""

TAKE = """
UPDATE factmem.learning SET lease = %s, leased_until = %s, attempts = attempts + 1 WHERE place = (
    SELECT place FROM factmem.learning
    WHERE store = %s AND is_failed = 0 AND due <= %s AND leased_until <= %s {where}
    ORDER BY due LIMIT 1 FOR UPDATE SKIP LOCKED
) RETURNING place, learnt, attempts
"""

SET_LEARNT = """
UPDATE factmem.learning SET learnt = %s, attempts = 0, lease = 0, leased_until = 0,
    since = CASE WHEN is_left THEN CAST(%s AS bigint) END, due = CASE WHEN is_left THEN due END
FROM (
    SELECT EXISTS (SELECT 1 FROM factmem.entries WHERE place = %s AND number > %s) AS is_left
) AS rest
WHERE place = %s AND lease = %s RETURNING place
"""

SET_FAILED = """
UPDATE factmem.learning
SET lease = 0, leased_until = 0, due = %s, is_failed = %s
WHERE place = %s AND lease = %s RETURNING place
"""

QUEUE_FAILED = """
UPDATE factmem.learning SET is_failed = 0, attempts = 1, due = %s
WHERE store = %s AND is_failed = 1 {where} RETURNING place
"""

READ_QUEUE = """
SELECT count(*), coalesce(sum(is_failed), 0), min(since) FROM factmem.learning
WHERE store = %s AND since IS NOT NULL {where}
"""

DELETE_QUEUED = "DELETE FROM factmem.learning WHERE place = %s"

DELETE_EMPTY = "DELETE FROM factmem.places WHERE last = 0 AND place IN ({keys})"

DELETE_LINES = "DELETE FROM factmem.entries WHERE place = %s AND number IN ({keys})"

DELETE_ALL_LINES = "DELETE FROM factmem.entries WHERE place = %s"

DELETE_INDEX = "DELETE FROM factmem.indexes WHERE place = %s"

NOTE_ERASED = """
INSERT INTO factmem.erased (place, made, store, at) VALUES (%s, %s, %s, %s)
ON CONFLICT (place, made) DO NOTHING
"""
"""So that no backup and no bundle brings the place back. `place` is its key, a hash of its names,
and a tag of the row."""

READ_ERASED = "SELECT place, made, at FROM factmem.erased WHERE place > %s AND place < %s"

LIST_ERASED = """
SELECT e.place, e.made, e.at, p.place IS NOT NULL FROM factmem.erased e
LEFT JOIN factmem.places p ON p.place = substr(e.place, 1, 16) AND p.made = e.made
WHERE e.store = %s AND (e.place, e.made) > (%s, %s) ORDER BY e.place, e.made LIMIT %s
"""
"""Returns with each row whether the place is still there, which is a contradiction."""

DELETE_PLACE = "DELETE FROM factmem.places WHERE place = %s"

READ_INDEX = """
SELECT p.data_key, i.bytes FROM factmem.indexes i
JOIN factmem.places p ON p.place = i.place WHERE p.place = %s AND i.kind = %s
"""

WRITE_INDEX = """
INSERT INTO factmem.indexes (place, kind, store, bytes) VALUES (%s, %s, %s, %s)
ON CONFLICT (place, kind) DO UPDATE SET bytes = excluded.bytes
"""

VECTORS = 0
"""The kind of the stored index."""

LIST = """
SELECT place, names, data_key, owner FROM factmem.places
WHERE store = %s AND owner > %s AND bytes > 0 {where} ORDER BY owner LIMIT %s
"""
"""The owner of a place is itself, and that of a conversation is its place. A place whose history
was purged as a whole keeps its row, so that anchors stay true."""

LIST_BELOW = """
SELECT place, names, data_key, owner, subject FROM factmem.places
WHERE store = %s AND (subject, owner) > (%s, %s) AND subject < %s AND bytes > 0
ORDER BY subject, owner LIMIT %s
"""
"""The keys of the entities of one tenant have a common prefix, so they are one range."""

LIST_KEYS = """
SELECT place FROM factmem.places p
WHERE store = %s AND place > %s AND (owner = place OR owner <= %s) AND (
    bytes > 0 OR last <> 0 OR tail IS NOT NULL
    OR EXISTS (SELECT 1 FROM factmem.entries e WHERE e.place = p.place)
)
"""
"""All places of facts, by the table itself."""

LIST_NAMED = f"SELECT {COLUMNS} FROM factmem.places WHERE place IN ({{keys}})"

LIST_ENDS = """
SELECT p.place, p.made, p.snapshot, p.last, e.at, e.line
FROM factmem.places p LEFT JOIN factmem.entries e ON e.place = p.place AND e.number = p.last
WHERE p.store = %s AND p.place > %s ORDER BY p.place LIMIT %s
"""

LIST_STATES = """
SELECT place, names, data_key, made, snapshot, last, bytes, recorded_at FROM factmem.places
WHERE store = %s AND place > %s AND (owner = place) = %s AND bytes > 0 ORDER BY place LIMIT %s
"""
"""Lists those of facts, or of conversations."""

READ_LINE = "SELECT at, line FROM factmem.entries WHERE place = %s AND number = %s"

LIST_ROWS = """
SELECT place, made, names, data_key FROM factmem.places
WHERE store = %s AND place > %s ORDER BY place LIMIT %s
"""

FIND_END = """
SELECT p.place, p.made, p.snapshot, p.last, e.at, e.line FROM factmem.places p
LEFT JOIN factmem.entries e ON e.place = p.place AND e.number = %s
WHERE p.store = %s AND p.place = %s
"""
"""Returns the end of a place, and the line that an anchor recorded as its last."""

LIST_OUTDATED = """
SELECT place FROM factmem.places
WHERE store = %s AND place > %s AND substr(data_key, 1, 4) <> %s ORDER BY place LIMIT %s
"""

LOCK_DATA_KEYS = """
SELECT place, data_key FROM factmem.places WHERE place IN ({keys}) ORDER BY place FOR UPDATE
"""

SET_DATA_KEY = "UPDATE factmem.places SET data_key = %s WHERE place = %s"

COUNT_PLACES = "SELECT count(*) FROM factmem.places WHERE store = %s"

FIRST_PLACE = bytes(16)
"""Comes before every key of a place."""


def among(query: str, keys: Iterable[K]) -> tuple[str, list[K]]:
    """Return a statement about `{keys}`, and the keys as its last parameters."""
    given = list(keys)
    return query.format(keys=", ".join(["%s"] * len(given))), given


class View(Protocol):
    """The attributes of a cached place that a database compares with the stored one."""

    found: object
    """The database's version at which the view was current, if it has versions."""
    checked: float
    """The time at which the view was complete, on the monotonic clock."""

    @property
    def end(self) -> tuple[int, int, int] | None:
        """The extent up to which the place was read; None before the first read."""
        ...


class Database(Protocol):
    """The connections to a database, and its tables. Its methods block, and are thread-safe."""

    has_checksums: bool = True
    """Whether plain lines carry checksums."""
    has_one_store: bool = True
    """Whether all places belong to one store."""
    version: int
    """The version of the tables that this release creates."""
    warm_places: int = 10_000
    """How many places are kept in memory."""
    is_inline: bool = False
    """Whether work runs on the event loop, because it does no I/O."""
    shares_reads: bool = False
    """Whether concurrent reads share a query, because each is a round trip."""

    # Tables

    def where(self, session: Session) -> str:
        """Return the name of the folder or the database, for log messages and errors."""
        return ""

    def are_there(self, session: Session) -> bool:
        return not session.is_empty

    def make(self, session: Session) -> None:
        """Create the tables if they do not exist, once for concurrent callers."""
        ...

    def check_mark(self, mark: bytes) -> None:
        """Raise `TamperedError` if this is another encrypted store than the one opened before."""
        return

    # Work

    def read(self, work: Callable[[Session, int], R]) -> R:
        """Do work that reads; its second argument counts attempts that may have committed."""
        ...

    def apart(self, work: Callable[[Session, int], R]) -> R:
        """Do long work on one snapshot, without delaying other reads; a fork may restart it."""
        ...

    def write(self, work: Callable[[Session, int], R]) -> R:
        """Do work that may write; see `read`."""
        ...

    def forget(self, work: Callable[[Session, int], R]) -> R:
        """Do work that removes data, which must be possible on a full disk."""
        ...

    def write_soon(self, work: Callable[[Session, int], R]) -> R:
        """Do optional work; raise `StoreBusyError` if others hold the lock longer than a save."""
        ...

    # Checks on the event loop, which never wait

    def is_current(self, view: View, key: Callable[[], bytes | None]) -> bool:
        """Return True if a view surely has all lines of its place."""
        return False

    def has_extents(self, key: bytes, known: dict[bytes, tuple[int, ...]]) -> bool:
        """Return True if the conversations of a place surely have these extents."""
        return False

    # The end of work

    def finish_erasure(self) -> bool:
        """Remove remaining copies of erased values; return whether some are left."""
        return False

    def rest(self, is_wanted: Callable[[], bool]) -> None:
        """Do deferred work, after some idle seconds, until `is_wanted` returns True."""
        return

    def start_afresh(self) -> None:
        """Forget all connections, which in a forked child belong to the parent."""
        return

    def close(self) -> None: ...
