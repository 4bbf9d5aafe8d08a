"""The tables of a folder's database, as any SQLite tool shows them.

The view `statements` is for people and tools; factmem does not use it. In an
encrypted store it is empty.
"""

import sqlite3
from pathlib import Path

from factmem.errors import StorageError

VERSION = 1
"""The version of the tables, in `user_version`."""

_LEAST_LIBRARY = (3, 37)
"""The first release of SQLite with STRICT tables."""

_APPLICATION = 0x46414354
"""The application id, "FACT" in ASCII: `file` and others show it."""

_TABLES = """
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
) STRICT, WITHOUT ROWID;
CREATE TABLE topics (
    place BLOB NOT NULL,
    topic INTEGER NOT NULL,
    number INTEGER NOT NULL,
    PRIMARY KEY (place, topic, number)
) STRICT, WITHOUT ROWID;
CREATE TABLE indexes (
    place BLOB NOT NULL,
    kind INTEGER NOT NULL DEFAULT 0,
    store INTEGER NOT NULL,
    bytes BLOB NOT NULL,
    PRIMARY KEY (place, kind)
) STRICT;
CREATE TABLE erased (
    place BLOB NOT NULL,
    made INTEGER NOT NULL,
    store INTEGER NOT NULL,
    at INTEGER NOT NULL,
    PRIMARY KEY (place, made)
) STRICT, WITHOUT ROWID;
CREATE TABLE learning (
    place BLOB PRIMARY KEY,
    owner BLOB NOT NULL,
    scope BLOB NOT NULL,
    store INTEGER NOT NULL,
    learnt INTEGER NOT NULL,
    since INTEGER,
    due INTEGER,
    lease INTEGER NOT NULL DEFAULT 0,
    leased_until INTEGER NOT NULL DEFAULT 0,
    attempts INTEGER NOT NULL DEFAULT 0,
    is_failed INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;
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


_STATE = "SELECT user_version, EXISTS (SELECT 1 FROM sqlite_master) FROM pragma_user_version"
"""In one statement: another process may be creating the tables."""


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
    """Whether there are tables.

    Raises:
        StorageError: They are of a later version, or another program's, or SQLite is too old.
    """
    if sqlite3.sqlite_version_info < _LEAST_LIBRARY:
        raise StorageError(
            f"Local stores need SQLite 3.37 or newer, and this Python has {sqlite3.sqlite_version}: "
            f"use a newer build of Python"
        )
    version, has_tables = db.execute(_STATE).fetchone()
    if version == 0:
        if has_tables:
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
    return True
