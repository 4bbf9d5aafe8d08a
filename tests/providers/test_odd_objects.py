"""Objects of a database's schema that no store has: no tag covers them."""

import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from factmem.errors import CorruptJournalError
from factmem.providers.local_file import LocalFileMemoryProvider
from factmem.providers.storages import Storage
from factmem.testing._facts import AGENT, THEME, theme
from tests.providers.local_stores import ALICE, BOB, current, disk

ENDLESS = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c)"

ODD = {
    "a trigger that drops saves": """
        CREATE TRIGGER t BEFORE INSERT ON entries BEGIN SELECT RAISE(IGNORE); END""",
    "a trigger that keeps what is erased": """
        CREATE TRIGGER t BEFORE DELETE ON entries BEGIN SELECT RAISE(IGNORE); END""",
    "a trigger that never ends": f"""
        CREATE TRIGGER t AFTER INSERT ON entries BEGIN
        INSERT INTO erased SELECT randomblob(33), x, 1, 1 FROM ({ENDLESS} SELECT x FROM c); END""",
    "a view in the place of a table": f"""
        ALTER TABLE stores RENAME TO s0;
        CREATE VIEW stores AS SELECT s0.* FROM s0 WHERE ({ENDLESS} SELECT count(*) FROM c) > 0""",
    "a view in the place of a pragma": f"""
        CREATE VIEW pragma_user_version AS {ENDLESS} SELECT count(*) AS user_version FROM c""",
    "a view in the place of a function": f"CREATE VIEW json_each AS {ENDLESS} SELECT x FROM c",
    "a table": "CREATE TABLE notes (a)",
    "a table with a hostile name": 'CREATE TABLE "a\' ; DROP TABLE entries --" (a)',
    "a table with a name of half a character": "h\\xed",
    "an index": "CREATE INDEX i ON entries (at)",
    "an index on an expression": "CREATE INDEX i ON entries (substr(line, 1, 40))",
    "a table less": "DROP TABLE erased",
    "an index less": "DROP INDEX places_by_owner",
    "a table of other columns": """
        DROP TABLE erased;
        CREATE TABLE erased (place, made, store, at, PRIMARY KEY (place, made))""",
    "a column that is computed": "ALTER TABLE erased ADD COLUMN c INTEGER AS (made + 1)",
    "a full-text index": "CREATE VIRTUAL TABLE f USING fts5(line)",
    "another virtual table": "CREATE VIRTUAL TABLE r USING rtree(id, a, b)",
}

Call = Callable[[LocalFileMemoryProvider, Path], Awaitable[Any]]

CALLS: dict[str, Call] = {
    "load": lambda store, _: store.load(THEME, ALICE, AGENT),
    "save": lambda store, _: store.save(theme("dim"), ALICE, AGENT),
    "erase": lambda store, _: store.erase(ALICE, AGENT),
    "places": lambda store, _: store.places(),
    "verify": lambda store, _: store.verify(),
    "anchor": lambda store, _: store.anchor(),
    "backup": lambda store, root: store.backup(root.with_name("backup")),
    "restore": lambda store, root: LocalFileMemoryProvider(root.with_name("new")).restore(root),
    "salvage": lambda store, root: store.salvage(root.with_name("salvaged")),
}


@pytest.mark.parametrize("odd", ODD)
async def test_it_is_refused(root: Path, storage: Storage, odd: str) -> None:
    """Each call says so, ends, and changes nothing."""
    async with LocalFileMemoryProvider(root, storage=storage) as store:
        await store.save(theme("dark"), ALICE, AGENT)
    with closing(sqlite3.connect(root / "facts.db", isolation_level=None)) as db:
        if odd.endswith("half a character"):
            db.execute("PRAGMA writable_schema = on")
            db.execute(
                "INSERT INTO sqlite_master VALUES ('table', CAST(x'68ed' AS TEXT), "
                "CAST(x'68ed' AS TEXT), 0, CAST(x'435245415445205441424c4520' || x'68ed' || "
                "x'286129' AS TEXT))"
            )
        else:
            db.executescript(ODD[odd])
    before = disk(root)["facts.db"]

    for name, call in CALLS.items():
        with pytest.raises(CorruptJournalError) as caught:
            await call(LocalFileMemoryProvider(root, storage=storage), root)
        assert "facts.db" in str(caught.value), name
        if odd == "a trigger that drops saves":
            assert "has the trigger 't', which no store has" in str(caught.value)
            assert "by DROP" in str(caught.value)

    assert disk(root)["facts.db"] == before


async def test_what_tools_make_is_accepted(root: Path, storage: Storage) -> None:
    """ANALYZE and VACUUM of any tool."""
    async with LocalFileMemoryProvider(root, storage=storage) as store:
        await store.save(theme("dark"), ALICE, AGENT)
    with closing(sqlite3.connect(root / "facts.db", isolation_level=None)) as db:
        db.executescript("ANALYZE; VACUUM; REINDEX")

    async with LocalFileMemoryProvider(root, storage=storage) as store:
        await store.save(theme("dim"), BOB, AGENT)
        assert await current(store) == ["dark"]
        await store.verify()
