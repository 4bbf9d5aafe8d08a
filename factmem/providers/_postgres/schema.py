"""The tables, and their creation.

Names are not columns. Places, scopes and subjects are found by keys of 16 bytes, hashes of their
names, so that no collation, normal form or index length limit can confuse two of them. Lines are
`bytea`: `jsonb` refuses U+0000, and the database need not be in UTF-8. Times are microseconds since
1970 as `bigint`: they sort, and have no time zone.
"""

import time
from collections.abc import Iterator

from factmem.errors import CorruptJournalError, StorageError
from factmem.providers._postgres.driver import Session, failure_of, is_state
from factmem.providers._sql.session import DEFINITIONS, TABLES

VERSION = 1
"""The version of the tables."""

_OWN = "store = current_setting('factmem.store')::int"

_TYPES = {
    " STRICT, WITHOUT ROWID": "",
    " STRICT": "",
    "INTEGER PRIMARY KEY": "bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
    "INTEGER": "bigint",
    "REAL": "float8",
    "BLOB": "bytea",
    "TEXT": 'text COLLATE "C"',
    "CREATE TABLE ": "CREATE TABLE factmem.",
    " ON ": " ON factmem.",
}

_UPDATED = ("learning", "searches", "sources", "terms")
"""Tables whose pages keep room for new versions of their rows."""


def _shared() -> Iterator[str]:
    text = DEFINITIONS
    for name, other in _TYPES.items():
        text = text.replace(name, other)
    yield from filter(str.strip, text.split(";"))
    yield from (f"ALTER TABLE factmem.{table} SET (fillfactor = 80)" for table in _UPDATED)


_TABLES: tuple[str, ...] = (
    """
    CREATE TABLE factmem.stores (
        store int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        name text COLLATE "C" NOT NULL UNIQUE,
        id text NOT NULL,
        mode text NOT NULL,
        slots text NOT NULL,
        generation int NOT NULL,
        erasures bigint NOT NULL DEFAULT 0,
        anchors bigint NOT NULL DEFAULT 0
    )""",
    # A save updates its place's row. None of its indexed columns changes, and a fifth of each
    # page is free, so that the new version stays in the page and no index is touched (HOT).
    """
    CREATE TABLE factmem.places (
        place bytea PRIMARY KEY,
        store int NOT NULL,
        made bigint NOT NULL,
        snapshot int NOT NULL DEFAULT 0,
        last bigint NOT NULL,
        recorded_at bigint NOT NULL,
        bytes bigint NOT NULL,
        purged bigint NOT NULL DEFAULT 0,
        mark bigint NOT NULL,
        scope bytea NOT NULL,
        subject bytea NOT NULL,
        names bytea NOT NULL,
        data_key bytea,
        tail bytea,
        owner bytea NOT NULL,
        void_marks bigint[]
    ) WITH (fillfactor = 80)""",
    "CREATE INDEX places_by_store ON factmem.places (store, place)",
    "CREATE INDEX places_by_subject ON factmem.places (store, subject, owner)",
    "CREATE INDEX places_by_scope ON factmem.places (store, scope)",
    "CREATE INDEX places_by_owner ON factmem.places (store, owner)",
    """
    CREATE TABLE factmem.entries (
        place bytea NOT NULL,
        number bigint NOT NULL,
        at bigint NOT NULL,
        mark bigint NOT NULL,
        store int NOT NULL,
        line bytea NOT NULL,
        PRIMARY KEY (place, number)
    )""",
    *_shared(),
    "ALTER TABLE factmem.indexes ALTER bytes SET STORAGE EXTERNAL",
    "CREATE INDEX learning_by_due ON factmem.learning (store, due) WHERE due IS NOT NULL",
    "CREATE INDEX items_by_text ON factmem.items (search, text) WHERE text IS NOT NULL",
    """
    CREATE TABLE factmem.spaces (
        space int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        place bytea NOT NULL,
        store int NOT NULL,
        model uuid NOT NULL,
        dimensions int NOT NULL,
        upto bigint NOT NULL DEFAULT 0,
        counted bigint NOT NULL DEFAULT 0,
        total real[],
        is_indexed bool NOT NULL DEFAULT false,
        UNIQUE (place, model, dimensions)
    )""",
    # An unset parameter is an error here, never "all stores".
    "ALTER TABLE factmem.stores ENABLE ROW LEVEL SECURITY",
    "CREATE POLICY own ON factmem.stores USING (name = current_setting('factmem.name'))",
    *(
        statement
        for table in (
            *("places", "entries", "indexes", "erased", "learning"),
            *("searches", "sources", "items", "terms", "spaces"),
        )
        for statement in (
            f"ALTER TABLE factmem.{table} ENABLE ROW LEVEL SECURITY",
            f"CREATE POLICY own ON factmem.{table} USING ({_OWN})",
        )
    ),
)

_VECTORS = (
    """
    CREATE TABLE factmem.vectors (
        space int NOT NULL,
        text bytea NOT NULL,
        store int NOT NULL,
        vector {extension}.halfvec,
        PRIMARY KEY (space, text)
    ) PARTITION BY LIST (space)""",
    "CREATE TABLE factmem.vectors_rest PARTITION OF factmem.vectors DEFAULT",
    "ALTER TABLE factmem.vectors ENABLE ROW LEVEL SECURITY",
    f"CREATE POLICY own ON factmem.vectors USING ({_OWN})",
)
"""The vectors of texts, if the extension is installed. A large place has its own partition."""

_GRANTS = """
GRANT USAGE ON SCHEMA factmem TO {role};
GRANT SELECT ON factmem.format TO {role};
GRANT SELECT, INSERT, UPDATE ON factmem.stores TO {role};
GRANT SELECT, INSERT, UPDATE, DELETE
ON factmem.places, factmem.entries, factmem.indexes, factmem.erased, factmem.learning,
factmem.searches, factmem.sources, factmem.items, factmem.terms, factmem.spaces TO {role}
"""

_GRANT_VECTORS = "GRANT SELECT, INSERT, UPDATE, DELETE ON factmem.vectors TO {role}"

_ABSENT = ("42P01", "3F000")
"""No such table, no such schema."""

_RACED = (*_ABSENT, "23505", "42P06", "42P07", "XX000")
"""Raised by `CREATE ... IF NOT EXISTS`, and the statements after it, when another session creates
the same object concurrently."""

_DENIED = ("42501", "58P01", "0A000")
"""Only a superuser may create the extension, or its files are missing."""

_NO_HALFVEC = ("42704",)
"""pgvector before 0.7 has no vectors in half precision."""


def found_version(session: Session) -> int:
    try:
        rows = session.rows("SELECT version FROM factmem.format")
    except Exception as exc:
        if is_state(exc, *_ABSENT):
            return 0
        raise
    return int(rows[0][0]) if rows else 0


def check_version(version: int) -> None:
    """Raise unless this release knows a version, 0 for no tables."""
    if version not in {0, VERSION}:
        raise StorageError(
            f"The tables in the database have version {version}, and this release knows {VERSION}: "
            f"update factmem. Nothing was read or written"
        )


_FIND_ODD = """
SELECT c.relname,
    CASE WHEN c.relkind NOT IN ('r', 'p') THEN 'is no table' WHEN c.relhasrules THEN 'has a rule'
        WHEN p.oid IS NOT NULL THEN 'has a policy' ELSE 'has a trigger' END
FROM pg_catalog.pg_class c
LEFT JOIN pg_catalog.pg_policy p ON p.polrelid = c.oid AND p.polname <> 'own'
WHERE c.relnamespace = 'factmem'::regnamespace
    AND (c.relname = 'format' OR c.relname = ANY(%s))
    AND (c.relkind NOT IN ('r', 'p') OR c.relhasrules OR p.oid IS NOT NULL OR EXISTS (
        SELECT 1 FROM pg_catalog.pg_trigger t WHERE t.tgrelid = c.oid AND NOT t.tgisinternal))
LIMIT 1
"""


def check_objects(session: Session) -> None:
    """Raise if objects were added to the tables that could drop rows or keep copies of them."""
    for table, problem in session.rows(_FIND_ODD, [list(TABLES)]):
        raise CorruptJournalError(
            f"The table factmem.{table} {problem}, which no version of factmem makes: remove it. "
            f"Nothing was read or written"
        )


def migrate(session: Session, role: str | None = None) -> None:
    """Create the tables, atomically and once for concurrent callers; grant a role their use."""
    for attempt in range(10):
        try:
            with session.transaction():
                _migrate(session, role)
        except Exception as exc:
            if failure_of(exc) is None or not is_state(exc, *_RACED) or attempt == 9:
                raise
            time.sleep(0.05)
        else:
            return


def _migrate(session: Session, role: str | None) -> None:
    if not session.rows("SELECT 1 FROM pg_namespace WHERE nspname = 'factmem'"):
        session.rows("CREATE SCHEMA IF NOT EXISTS factmem")
    session.rows(
        "CREATE TABLE IF NOT EXISTS factmem.format "
        "(one bool PRIMARY KEY DEFAULT true CHECK (one), version int NOT NULL)"
    )
    session.rows("INSERT INTO factmem.format (version) VALUES (0) ON CONFLICT (one) DO NOTHING")
    # The lock is a row, not an advisory lock: those are stubs in some PostgreSQL-like databases.
    (row,) = session.rows("SELECT version FROM factmem.format FOR UPDATE")
    check_version(row[0])
    if row[0] == 0:
        for statement in _TABLES:
            session.rows(statement)
        session.rows("UPDATE factmem.format SET version = %s", [VERSION])
    has_vectors = _add_vectors(session)
    if role is not None:
        for statement in _GRANTS.format(role=quoted(role)).split(";"):
            session.rows(statement)
        if has_vectors:
            session.rows(_GRANT_VECTORS.format(role=quoted(role)))


def _add_vectors(session: Session) -> bool:
    """Create the table of vectors if pgvector is or can be installed; return whether it exists."""
    if session.rows("SELECT 1 WHERE to_regclass('factmem.vectors') IS NOT NULL"):
        return True
    if not session.rows("SELECT 1 FROM pg_available_extensions WHERE name = 'vector'"):
        return False
    try:
        with session.savepoint():
            session.rows("CREATE EXTENSION IF NOT EXISTS vector")
    except Exception as exc:
        if not is_state(exc, *_DENIED):
            raise
        return False
    extension = extension_schema(session)
    try:
        with session.savepoint():
            for statement in _VECTORS:
                session.rows(statement.format(extension=extension))
    except Exception as exc:
        if not is_state(exc, *_NO_HALFVEC):
            raise
        return False
    return True


def extension_schema(session: Session) -> str | None:
    """Return the schema that pgvector is in, as an SQL identifier; None without it."""
    rows = session.rows(
        "SELECT n.nspname FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace "
        "WHERE e.extname = 'vector'"
    )
    return quoted(rows[0][0]) if rows else None


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
