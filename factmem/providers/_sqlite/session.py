"""SqliteSession: a connection to the database of a folder; the tables, as SQLite tools show them.

`Database` makes one for each unit of work. Statements of the core are translated from PostgreSQL's
form. A transaction takes the lock of the store before it begins, so row locks are not needed, and
`FOR UPDATE` is dropped. A session that writes may begin without a database, which its first write
creates.

The view `statements` is for people and tools; factmem does not use it. In an encrypted store it is
empty.
"""

import re
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from factmem.errors import CorruptJournalError, StorageError
from factmem.providers._sql.sealing import Extent
from factmem.providers._sql.session import COLUMNS, DEFINITIONS, End, Head, Line, Row, Session

_FIND = f"SELECT {COLUMNS} FROM places WHERE place = ?"

_HAS_LINES = "SELECT 1 FROM entries WHERE place = ? LIMIT 1"

_LINES = """
SELECT number, at, line FROM entries WHERE place = ? AND number > ? ORDER BY number LIMIT ?
"""

_ORPHANS = """
SELECT 1 FROM entries e WHERE NOT EXISTS (SELECT 1 FROM places p WHERE p.place = e.place) LIMIT 1
"""

_ROW_MISSING = "The row of a place is missing or damaged: restore the place from a backup"

_MAKE = """
INSERT INTO places (place, scope, subject, names, owner, made, last, bytes, recorded_at, store)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""

_INSERT = "INSERT INTO entries (place, number, at, line) VALUES (?, ?, ?, ?)"

_SET_END = """
UPDATE places SET
    last = ?, bytes = ?, recorded_at = ?, tail = ?,
    names = coalesce(?, names), data_key = coalesce(?, data_key)
WHERE place = ?
"""


class SqliteSession(Session):
    """A connection, or None while there is no database.

    A session that may write gets `create`, which creates the database and identifies its file, and
    `lock`, which locks it. One that only reads gets `renew`, which begins another snapshot.
    """

    most_lines, most_bytes = 2000, 1 << 20
    """Few, because an answer costs no round trip, and all of its lines are in memory."""

    def __init__(
        self,
        db: sqlite3.Connection | None,
        create: Callable[[], tuple[sqlite3.Connection, object]] | None = None,
        lock: Callable[[], AbstractContextManager[None]] = nullcontext,
        renew: Callable[[], None] | None = None,
        *,
        file: object = None,
    ) -> None:
        self.file = file
        self.give_way: Callable[[], None] = lambda: None
        """Raises `StorageError` if a thread waits for this session to fork."""
        self.db = db
        self._create = create
        self._lock = lock
        self._renew = renew

    @property
    def is_empty(self) -> bool:
        return self.db is None

    @property
    def connection(self) -> sqlite3.Connection:
        assert self.db is not None  # noqa: S101 - the core asks first whether there are tables
        return self.db

    def create(self) -> None:
        assert self._create is not None  # noqa: S101 - only writes create a store
        self.db, self.file = self._create()

    def rows(self, query: str, parameters: Sequence[object] = ()) -> list[Row]:
        self.give_way()
        db, text = self.connection, _translated(query)
        # Reads take no lock, so that they never wait for writers.
        if db.in_transaction or text.startswith("SELECT"):
            return db.execute(text, parameters).fetchall()
        with self.transaction():
            return db.execute(text, parameters).fetchall()

    @contextmanager
    def transaction(self) -> Any:
        db = self.connection
        with self._lock():
            db.execute("BEGIN IMMEDIATE")
            try:
                yield
                db.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):
                    if db.in_transaction:
                        db.execute("ROLLBACK")
                raise

    def read_places(self, known: Mapping[bytes, Extent]) -> list[Row]:
        """See `Session.read_places`; the caller reads a snapshot."""
        self.give_way()
        found: list[Row] = []
        execute = self.connection.execute
        for place, extent in known.items():
            rows = execute(_FIND, (place,)).fetchall()
            if not rows and execute(_HAS_LINES, (place,)).fetchone():
                raise CorruptJournalError(_ROW_MISSING)
            for row in rows:
                after = extent.last if row[1:3] == extent[:2] else 0
                lines: list[Row] = []
                if row[1:4] != extent:
                    size = 0
                    for line in execute(_LINES, (place, after, self.most_lines)):
                        lines.append(line)
                        if (size := size + len(line[2])) >= self.most_bytes:
                            break
                columns = zip(*lines, strict=True) if lines else ((), (), ())
                found.append((*row, *map(list, columns)))
        return found

    def renew(self) -> bool:
        if self._renew is None:
            return False
        self._renew()
        return True

    def take_numbers(self, store: int, heads: Sequence[Head], mark: int, at: int) -> list[Row]:
        # For places with new lines, `insert` writes the row once, with its new tail.
        execute = self.connection.execute
        found: list[Row] = []
        for head in heads:
            row = execute(_FIND, (head.place,)).fetchone()
            if row is None:
                execute(_MAKE, (*head, at, store))
                row = execute(_FIND, (head.place,)).fetchone()
            elif head.added:
                last, size, then = row[3:6]
                row = (*row[:3], last + head.added, size + head.size, max(then, at), *row[6:])
            found.append(row)
        return found

    def insert(self, store: int, lines: Sequence[Line], ends: Sequence[End]) -> None:
        many = self.connection.executemany
        many(_INSERT, [(place, number, at, line) for place, number, at, _, line in lines])
        many(_SET_END, [(*each[2:5], *end, place) for place, each, *end in ends])

    def check_rows(self) -> None:
        """Raise `CorruptJournalError` if there are lines whose place has no row."""
        if self.connection.execute(_ORPHANS).fetchone():
            raise CorruptJournalError(_ROW_MISSING)

    def check_integrity(self) -> None:
        self.check_rows()
        found = self.connection.execute("PRAGMA integrity_check(1)").fetchone()
        if found != ("ok",):
            # A failed read of the disk gives the same result, so the caller repeats the check.
            error = sqlite3.DatabaseError("integrity_check")
            error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
            error.sqlite_errorname = "SQLITE_CORRUPT"
            raise error

    def on_removal(self) -> None:
        """Note that the log has copies of removed values until it is truncated."""
        self.connection.execute("UPDATE stores SET remains = 1")


@lru_cache(maxsize=1024)
def _translated(query: str) -> str:
    """Return a statement of the core as SQLite parses it."""
    for name in (" FOR UPDATE SKIP LOCKED", " FOR UPDATE", " FOR SHARE", "factmem."):
        query = query.replace(name, "")
    return _OF_STORE.sub("%s IS NOT NULL AND", query).replace("%s", "?").strip()


_OF_STORE = re.compile(r"(?<!s\.)\b(?:[ep]\.)?store = %s AND")
"""Removed: there is one store, and a row with another number must raise, not be skipped."""


VERSION = 1
"""The version of the tables, in `user_version`."""

_LEAST_LIBRARY = (3, 37)
"""The first release of SQLite with STRICT tables."""

_APPLICATION = 0x46414354
"""The application id, "FACT" in ASCII: `file` and others show it."""

_TABLES = f"""
CREATE TABLE stores (
    store INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    id TEXT NOT NULL,
    mode TEXT NOT NULL,
    slots TEXT NOT NULL,
    generation INTEGER NOT NULL,
    erasures INTEGER NOT NULL DEFAULT 0,
    anchors INTEGER NOT NULL DEFAULT 0,
    remains INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE TABLE places (
    place BLOB PRIMARY KEY,
    store INTEGER NOT NULL,
    made INTEGER NOT NULL,
    snapshot INTEGER NOT NULL DEFAULT 0,
    last INTEGER NOT NULL,
    recorded_at INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    purged INTEGER NOT NULL DEFAULT 0,
    scope BLOB NOT NULL,
    subject BLOB NOT NULL,
    names BLOB NOT NULL,
    data_key BLOB,
    tail BLOB,
    owner BLOB NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX places_by_subject ON places (subject, owner);
CREATE INDEX places_by_scope ON places (scope);
CREATE INDEX places_by_owner ON places (owner);
CREATE TABLE entries (
    place BLOB NOT NULL,
    number INTEGER NOT NULL,
    at INTEGER NOT NULL,
    line BLOB NOT NULL,
    PRIMARY KEY (place, number)
) STRICT;
{DEFINITIONS.strip()}
CREATE INDEX learning_by_due ON learning (due) WHERE due IS NOT NULL;
CREATE VIEW statements AS
SELECT json_extract(CAST(p.names AS TEXT), '$[0]') AS scope_type,
       json_extract(CAST(p.names AS TEXT), '$[1]') AS scope,
       json_extract(CAST(p.names AS TEXT), '$[2]') AS subject,
       json_extract(CAST(p.names AS TEXT), '$[3]') AS entity,
       json_extract(f.value, '$.keyword') AS keyword,
       coalesce(json_extract(f.value, '$.value'), json_extract(f.value, '$.values')) AS value,
       json_extract(f.value, '$.timestamp') AS said_at,
       strftime('%Y-%m-%dT%H:%M:%SZ', e.at / 1000000, 'unixepoch') AS recorded_at,
       json_extract(f.value, '$.id') AS id,
       f.value AS fact
FROM stores s CROSS JOIN places p CROSS JOIN entries e CROSS JOIN
     json_each(CAST(e.line AS TEXT), '$.facts') f
WHERE s.mode = 'plain' AND p.store = s.store AND e.place = p.place
      AND json_extract(CAST(p.names AS TEXT), '$[0]') <> 'concepts'
ORDER BY e.at;
"""
"""`entries` has row ids, so that saves of many places share pages: ordered by place, each line
would change a page of its own, and the pages above it would hold lines, too."""

_OBJECTS = """
SELECT type, CAST(name AS BLOB), CAST(tbl_name AS BLOB), CAST(sql AS BLOB) FROM main.sqlite_master
"""
"""Bytes, as Python raises an error for a name that is not UTF-8."""

_OBJECT = re.compile(r"\s*(CREATE (\w+) (\w+)(?: ON (\w+))?.*)", re.DOTALL)

_WITH_INDEX = re.compile(r"(UNIQUE|PRIMARY KEY \().*STRICT$", re.DOTALL)
"""A table whose key SQLite keeps in an index of its own."""

_STATISTICS = (
    "CREATE TABLE sqlite_stat1(tbl,idx,stat)",
    "CREATE TABLE sqlite_stat4(tbl,idx,neq,nlt,ndlt,sample)",
)
"""Made by ANALYZE of any tool."""


def create(db: sqlite3.Connection, path: Path = Path("facts.db")) -> None:
    """Create the tables, once for concurrent callers; the caller holds the lock of the store."""
    if is_there(db, path):
        return
    db.execute("BEGIN IMMEDIATE")
    try:
        for statement in _TABLES.split(";"):
            db.execute(statement)
        db.execute(f"PRAGMA application_id = {_APPLICATION}")
        db.execute(f"PRAGMA user_version = {VERSION}")
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


def is_there(db: sqlite3.Connection, path: Path = Path("facts.db")) -> bool:
    """Whether there are tables; raise if they are another program's, or of a later version."""
    if sqlite3.sqlite_version_info < _LEAST_LIBRARY:
        raise StorageError(
            "Local stores need SQLite 3.37 or newer, and this Python has "
            f"{sqlite3.sqlite_version}: use a newer build of Python"
        )
    db.execute("BEGIN")  # one state: another process may be creating the tables
    try:
        ((version,),) = db.execute("PRAGMA user_version")
        objects = _objects(db)
    finally:
        if db.in_transaction:
            db.execute("COMMIT")
    if version == 0:
        if objects:
            raise StorageError(
                f"{str(path)!r} has the tables of another program: use a folder of its own for the "
                f"store"
            )
        return False
    if version != VERSION:
        raise StorageError(
            f"{str(path)!r} has tables of version {version}, and this release knows {VERSION}: "
            f"update factmem. Nothing was read or written"
        )
    _check_objects(objects, path)
    return True


@cache
def _own_objects() -> frozenset[Row]:
    """Return the objects of a store. To make them in memory would take 3 ms at each start."""
    found: set[Row] = set()
    for each in filter(None, map(_OBJECT.match, _TABLES.split(";"))):
        sql, kind, name, table = each.groups()
        found.add((kind.lower(), name, table or name, sql))
        if _WITH_INDEX.search(sql):
            found.add(("index", f"sqlite_autoindex_{name}_1", name, ""))
    return frozenset(found)


def _objects(db: sqlite3.Connection) -> list[Row]:
    return [
        (kind, *((column or b"").decode(errors="replace") for column in columns))
        for kind, *columns in db.execute(_OBJECTS)
    ]


def _check_objects(objects: Sequence[Row], path: Path) -> None:
    """Raise unless the database has all tables of a store, and nothing else.

    A trigger or a view would swallow saves, keep what is erased, or never end.
    """
    rest = set(objects)
    if missing := _own_objects() - rest:
        kind, name, _, _ = min(missing, key=lambda row: row[:2])
        raise _odd(path, f"another {kind} {name!r} than a store, or none")
    for kind, name, table, sql in rest - _own_objects():
        if kind != "table" or name != table or sql not in _STATISTICS:
            raise _odd(path, f"the {kind} {name[:60]!r}, which no store has")


def _odd(path: Path, what: str) -> CorruptJournalError:
    return CorruptJournalError(
        f"{str(path)!r} has {what}: another program changed it. Remove that by DROP, or restore "
        "the store from a backup. Nothing was read or written"
    )
