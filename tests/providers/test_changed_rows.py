"""Rows, lines and objects of a schema that no program of ours wrote: an error, or all is right."""

import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import closing, suppress
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import orjson
import pytest

from factmem import AgentMemory, LocalFileMemoryProvider, MemoryScopesProfile, export_facts
from factmem.errors import CorruptJournalError, FactmemError, StorageError, TamperedError
from factmem.models.places import Place
from factmem.models.when import EPOCH
from factmem.providers.conversations import new_turn
from factmem.providers.storages import SimpleStorage, Storage
from factmem.testing._facts import AGENT, PERSON, THEME, languages, theme
from factmem.testing.clock import SettableClock
from tests.providers.local_stores import ALICE, BOB, current, disk, run, sealed
from tests.storms.hostile_changes import bodies_of, resealed

CHANGES: dict[str, object] = {
    "owner": b"x" * 16,
    "owner ": b"",
    "subject": b"x" * 16,
    "scope": b"x" * 16,
    "store": 2,
    "bytes": 0,
    "bytes ": 10**6,
    "recorded_at": 2**52,
    "recorded_at ": 1,
    "purged": 5,
    "made": 3,
    "snapshot": 7,
    "last": 1,
    "tail": None,
    "tail ": b"x" * 40,
}


def change(root: Path, column: str, value: object, *, chat: bool = False) -> None:
    longest = "SELECT place FROM entries GROUP BY place ORDER BY count(*) DESC LIMIT 1"
    which = "place <> owner" if chat else f"place = ({longest})"
    run(root, f"UPDATE places SET {column} = ? WHERE {which}", value)


async def of_bob(root: Path, storage: Storage, *, chat: bool) -> LocalFileMemoryProvider:
    """Return a store with a place of Bob, which may have a conversation, and one of Alice."""
    async with LocalFileMemoryProvider(root, storage=storage) as store:
        await store.save(theme("dark"), BOB, AGENT)
        await store.save(languages("java"), BOB, AGENT)
        await store.save(theme("light"), ALICE, AGENT)
        if chat:
            memory = AgentMemory(
                store, scopes=MemoryScopesProfile(agent=AGENT.name), subjects=[PERSON]
            )
            await memory.of("bob").conversation("c").append({"role": "user", "content": "a secret"})
    return LocalFileMemoryProvider(root, storage=storage)


@pytest.mark.parametrize("column", CHANGES)
async def test_a_changed_row_of_a_place_is_not_read(
    root: Path, storage: Storage, column: str
) -> None:
    """It could hide a user from listings, exports and erasures, and still be read."""
    await (await of_bob(root, storage, chat=False)).aclose()
    change(root, column.strip(), CHANGES[column])

    async with LocalFileMemoryProvider(root, storage=storage) as store:
        with pytest.raises((CorruptJournalError, TamperedError)):
            await store.load(THEME, BOB, AGENT)
    async with LocalFileMemoryProvider(root, storage=storage) as store:
        with pytest.raises((CorruptJournalError, TamperedError)):
            # A save moves the time of a row: an earlier one decides nothing for it.
            await (
                store.verify() if column == "recorded_at " else store.save(theme("dim"), BOB, AGENT)
            )
    async with LocalFileMemoryProvider(root, storage=storage) as store:
        with pytest.raises((CorruptJournalError, TamperedError)):
            await store.forget(BOB, AGENT, concept=THEME, purge=True)
    if column.strip() in {"owner", "store", "bytes"}:
        async with LocalFileMemoryProvider(root, storage=storage) as store:
            for call in (
                store.places,
                store.verify,
                partial(export_facts, store, root.with_name("bundle")),
                partial(store.places, subjects=[ALICE, BOB], scopes=[AGENT]),
            ):
                with pytest.raises((CorruptJournalError, TamperedError)):
                    await call()


@pytest.mark.parametrize("column", ["owner", "subject", "scope", "bytes ", "recorded_at", "tail "])
async def test_a_changed_row_of_a_conversation_is_not_read(
    root: Path, storage: Storage, column: str
) -> None:
    """It would outlive the erasure of its user."""
    store = await of_bob(root, storage, chat=True)
    change(root, column.strip(), CHANGES[column], chat=True)
    async with store:
        memory = AgentMemory(store, scopes=MemoryScopesProfile(agent=AGENT.name), subjects=[PERSON])
        chat = memory.of("bob").conversation("c")

        with pytest.raises((CorruptJournalError, TamperedError)):
            await chat.turns()
        with pytest.raises((CorruptJournalError, TamperedError)):
            await chat.append({"role": "user", "content": "more"})


async def test_a_receipt_does_not_lie_in_the_future(root: Path, storage: Storage) -> None:
    """`replay_erasures` would erase what is said until then."""
    await (await of_bob(root, storage, chat=False)).aclose()
    change(root, "recorded_at", 2**52)  # in 2112

    async with LocalFileMemoryProvider(root, storage=storage) as store:
        assert (await store.erase(BOB, AGENT)).erased_at.year < 2100


ROWS = {
    "of a place that is there": "place, made, store, recorded_at FROM places LIMIT 1",
    "of a place that is there, with a tag": (
        "CAST(p.place || substr(e.place, 17) AS BLOB), p.made, 1, e.at FROM places p, erased e"
    ),
    "of a place that is not": "zeroblob(16), 1, 1, 1",
    "without a key": "x'', 1, 1, 1",
    "moved in time": "place, made, store, at + 1 FROM erased",
    "moved to another place": (
        "CAST(zeroblob(16) || substr(place, 17) AS BLOB), made, store, at FROM erased"
    ),
    "of another life": "place, made + 1, store, at FROM erased",
}


@pytest.mark.parametrize("row", ROWS)
async def test_an_erasure_that_was_not_is_noticed(root: Path, storage: Storage, row: str) -> None:
    """Each backup would lack a user without a word, and no import would bring them back."""
    async with LocalFileMemoryProvider(root, storage=storage) as store:
        for person in (ALICE, BOB):
            await store.save(theme("dark"), person, AGENT)
        await store.erase(ALICE, AGENT)
        await store.backup(root.with_name("sound"))
    run(root, f"INSERT OR REPLACE INTO erased SELECT {ROWS[row]}")

    async with LocalFileMemoryProvider(root, storage=storage) as store:
        with pytest.raises((CorruptJournalError, TamperedError)):
            await store.verify()
        with pytest.raises((CorruptJournalError, TamperedError)):
            await store.backup(root.with_name("copy"))
    assert not root.with_name("copy").exists()
    async with LocalFileMemoryProvider(root, storage=storage) as store:
        with pytest.raises((CorruptJournalError, TamperedError)):
            await store.restore(root.with_name("sound"))


async def test_an_erasure_is_known_after_a_restore(root: Path, storage: Storage) -> None:
    """Also by the store that was restored, whose rows were copied."""
    async with LocalFileMemoryProvider(root, storage=storage) as store:
        for person in (ALICE, BOB):
            await store.save(theme("dark"), person, AGENT)
        await store.backup(root.with_name("sound"))
        erased = await store.erase(ALICE, AGENT)
        await store.save(theme("again"), ALICE, AGENT)
        await store.erase(ALICE, AGENT)

        assert await store.restore(root.with_name("sound")) == 1
        await store.verify()
        assert [info.subject.entity for info in await store.places()] == ["bob"]
        known = await store.erased_at(ALICE, AGENT)
        assert known is not None
        assert known >= erased.erased_at


async def test_a_corrected_clock_changes_no_row(root: Path, storage: Storage) -> None:
    """Times of a place never go back, and its row says so."""
    clock = SettableClock()
    async with LocalFileMemoryProvider(root, storage=storage, clock=clock) as store:
        await store.save(theme("dark"), BOB, AGENT)
        for days in (400, -800, 3):
            clock.advance(timedelta(days=days))
            await store.save(theme(f"after {days}"), BOB, AGENT)
            await store.forget(BOB, AGENT, concept=THEME, purge=True)
            await store.save(languages(f"l{days}"), BOB, AGENT)
    async with LocalFileMemoryProvider(root, storage=storage) as store:
        await store.verify()
        assert await current(store, BOB) == ["l400", "l-800", "l3"]


FACT = {
    "id": "f", "keyword": "ide-theme", "description": "d", "type": "SINGLE", "value": "dim",
    "timestamp": "2026-01-01T00:00:00.000000Z",
}  # fmt: skip


LINES: dict[str, Any] = {
    "no object": [],
    "facts that are none": {"facts": 5},
    "a time that is none": {"facts": [{**FACT, "timestamp": "yesterday"}]},
    "an expiry that is a number": {"facts": [{**FACT, "expires_at": 7}]},
    "a source of no kind": {"facts": [{**FACT, "source": {"kind": "oracle"}}]},
    "forgotten numbers": {"forget": [1]},
    "a retraction of nothing": {"retract": [{}]},
}


async def filled(root: Path, storage: Storage) -> None:
    async with LocalFileMemoryProvider(root, storage=storage) as store:
        for person in (ALICE, BOB):
            await store.save(theme("dark"), person, AGENT)
            await store.save(languages("en"), person, AGENT)


def key_of(root: Path, name: str) -> bytes:
    ((key,),) = run(root, "SELECT place FROM places WHERE CAST(names AS TEXT) LIKE ?", f"%{name}%")
    return bytes(key)


@pytest.mark.parametrize("line", LINES)
async def test_a_line_that_is_no_entry_is_an_error(root: Path, line: str) -> None:
    """Others can be read and salvaged, and its place can still be erased."""
    await filled(root, SimpleStorage())
    with closing(sqlite3.connect(root / "facts.db")) as db, db:
        place = key_of(root, "alice")
        first, (number, at, _) = bodies_of(db, place)
        resealed(db, place, [first, (number, at, orjson.dumps(LINES[line]))])

    async with LocalFileMemoryProvider(root) as store:
        for read in (store.load_all, partial(store.history, THEME)):
            with pytest.raises(CorruptJournalError, match="A line of a place cannot be read"):
                await read(ALICE, AGENT)
        assert [fact.value for fact in await store.load(THEME, BOB, AGENT)] == ["dark"]
        with suppress(FactmemError):  # an import would refuse the line
            await export_facts(store, root.with_name("bundle"))
        saved = await store.salvage(root.with_name("salvaged"))
        await store.erase(ALICE, AGENT)
        assert await store.load_all(ALICE, AGENT) == []
    assert (saved.places, saved.missing) == (2, 1)


@pytest.mark.parametrize(
    "names",
    [
        b'"abcd"', b"[]", b'["agent",5,"person","alice"]', b'["agent","a","person",0]',
        b'["conversation","no JSON","person","alice"]',
        b'["conversation","[1,2,3]","person","alice"]',
    ],
)  # fmt: skip
async def test_names_of_another_form_are_an_error(root: Path, names: bytes) -> None:
    """Of whatever reads them, and of no user of Python's types."""
    await filled(root, SimpleStorage())
    run(root, "UPDATE places SET names = ? WHERE place = ?", names, key_of(root, "alice"))

    async with LocalFileMemoryProvider(root) as store:
        for call in (store.list_places, store.places, store.verify):
            with pytest.raises(CorruptJournalError, match="place"):
                await call()


LAST = "SELECT max(owner) FROM places"


MOVED = f"place <> owner AND owner < ({LAST})"


async def test_a_conversation_does_not_take_the_place_of_another_user(
    root: Path, storage: Storage
) -> None:
    """Its row would be the first of the other's rows, and the other missing in each list."""
    await filled(root, storage)
    turn, number = new_turn({"role": "user", "content": "hello"}), 0
    async with LocalFileMemoryProvider(root, storage=storage) as store:
        while not run(root, f"SELECT 1 FROM places WHERE {MOVED} AND place < ({LAST})"):
            await store.conversations.append([turn], f"chat {number}", Place(AGENT, ALICE))
            await store.conversations.append([turn], f"chat {number}", Place(AGENT, BOB))
            number += 1
    run(root, f"DELETE FROM places WHERE place <> owner AND owner = ({LAST})")
    run(root, f"UPDATE places SET owner = ({LAST}) WHERE {MOVED}")

    async with LocalFileMemoryProvider(root, storage=storage) as store:
        with pytest.raises((TamperedError, CorruptJournalError), match="keys of other names"):
            await store.list_places()


async def test_lines_without_their_row_are_noticed(root: Path, storage: Storage) -> None:
    """By what looks at the whole store, too; else a backup would lack a user."""
    await filled(root, storage)
    run(root, "DELETE FROM places WHERE place = (SELECT max(place) FROM places)")

    async with LocalFileMemoryProvider(root, storage=storage) as store:
        for call in (store.verify, partial(store.backup, root.with_name("backup"))):
            with pytest.raises(CorruptJournalError, match="row of a place is missing"):
                await call()


async def test_a_database_of_one_byte_was_overwritten(root: Path, storage: Storage) -> None:
    """SQLite takes it for a new one, and a save would make an empty store of it."""
    await filled(root, storage)
    (root / "facts.db").write_bytes(b"x")

    async with LocalFileMemoryProvider(root, storage=storage) as store:
        with pytest.raises(CorruptJournalError, match="is empty: it was overwritten"):
            await store.save(theme("dim"), ALICE, AGENT)
    assert (root / "facts.db").read_bytes() == b"x"


async def test_another_database_without_tables_is_not_filled(root: Path, storage: Storage) -> None:
    """The store was deleted, and another program has begun a database in its place."""
    await filled(root, storage)
    (root / "facts.db").unlink()
    run(root, "PRAGMA application_id = 7")

    async with LocalFileMemoryProvider(root, storage=storage) as store:
        with pytest.raises(CorruptJournalError, match="is empty: it was overwritten"):
            await store.save(theme("dim"), ALICE, AGENT)
    assert run(root, "SELECT * FROM sqlite_master") == []


async def test_places_with_an_unknown_key_are_not_salvaged(root: Path) -> None:
    """Others are; without the key of the first, no place is known to belong to the store."""
    await filled(root, sealed())
    first, last = (bytes(key) for (key,) in run(root, "SELECT place FROM places ORDER BY place"))
    change = "UPDATE places SET data_key = CAST(x'000000ff' || substr(data_key, 5) AS BLOB)"
    run(root, f"{change} WHERE place = ?", last)
    async with LocalFileMemoryProvider(root, storage=sealed()) as store:
        saved = await store.salvage(root.with_name("salvaged"))
    assert (saved.places, saved.lost) == (1, 1)

    run(root, f"{change} WHERE place = ?", first)
    async with LocalFileMemoryProvider(root, storage=sealed()) as store:
        with pytest.raises(TamperedError, match="a key that its store does not have"):
            await store.salvage(root.with_name("again"))


async def test_a_number_without_a_next_one_is_an_error(root: Path) -> None:
    """A line has a number of 64 bits."""
    await filled(root, SimpleStorage())
    with closing(sqlite3.connect(root / "facts.db")) as db, db:
        place = key_of(root, "alice")
        resealed(db, place, bodies_of(db, place), last=2**63 - 1)

    async with LocalFileMemoryProvider(root) as store:
        with pytest.raises(CorruptJournalError, match="a number that no place has"):
            await store.save(theme("dim"), ALICE, AGENT)


async def test_a_message_that_is_none_is_an_error(root: Path) -> None:
    """Its conversation can still be erased with its user."""
    async with LocalFileMemoryProvider(root) as store:
        turn = new_turn({"role": "user", "content": "hello"})
        await store.conversations.append([turn], "chat", Place(AGENT, ALICE))
    with closing(sqlite3.connect(root / "facts.db")) as db, db:
        place = key_of(root, "chat")
        ((number, at, _),) = bodies_of(db, place)
        resealed(db, place, [(number, at, b'{"turn":{"id":"x","message":{"content":"hello"}}}')])

    async with LocalFileMemoryProvider(root) as store:
        with pytest.raises(CorruptJournalError, match="A message of a conversation"):
            await store.conversations.turns("chat", Place(AGENT, ALICE))
        receipt = await store.erase(ALICE, AGENT)
        assert receipt.conversations == 1


READS: dict[str, Callable[[LocalFileMemoryProvider], Awaitable[object]]] = {
    "load_all": lambda store: store.load_all(ALICE, AGENT),
    "watch": lambda store: anext(store.watch([Place(AGENT, ALICE)], since=EPOCH)),
    "entries": lambda store: store.entries(ALICE, AGENT),
}


@pytest.mark.parametrize(
    ("read", "old", "new"),
    [
        *((read, b"{", b'{"at":7,') for read in READS),
        *((read, b"{", b'{"wide":true,"at":7,') for read in READS),
        *((read, b'"ide-theme"', b"true") for read in ("load_all", "watch")),
    ],
)
async def test_a_line_with_an_odd_time_or_keyword_is_an_error(
    root: Path, read: str, old: bytes, new: bytes
) -> None:
    """A time in the JSON would take the place of the one in its column."""
    async with LocalFileMemoryProvider(root) as store:
        await store.save_many([theme("dark"), theme("dim")], ALICE, AGENT)
    with closing(sqlite3.connect(root / "facts.db")) as db, db:
        place = key_of(root, "alice")
        lines = bodies_of(db, place)
        resealed(db, place, [(n, at, body.replace(old, new, 1)) for n, at, body in lines])

    async with LocalFileMemoryProvider(root) as store:
        with pytest.raises(CorruptJournalError, match="cannot be read"):
            await READS[read](store)


async def test_definitions_of_another_form_are_an_error(root: Path) -> None:
    """They are facts of a place that no application names."""
    async with LocalFileMemoryProvider(root) as store:
        await store.define([THEME])
    with closing(sqlite3.connect(root / "facts.db")) as db, db:
        place = key_of(root, "concepts")
        ((number, at, body),) = bodies_of(db, place)
        entry = orjson.loads(body)
        entry["facts"][0]["value"] = "text"
        resealed(db, place, [(number, at, orjson.dumps(entry))])

    async with LocalFileMemoryProvider(root) as store:
        with pytest.raises(CorruptJournalError, match="definitions of concepts"):
            await store.concepts()


async def test_a_backup_without_its_store_is_refused(root: Path, storage: Storage) -> None:
    """With an error that names it."""
    await filled(root, storage)
    run(root, "DELETE FROM stores")
    run(root, "DELETE FROM places")
    run(root, "DELETE FROM entries")

    async with LocalFileMemoryProvider(root.with_name("new"), storage=storage) as store:
        with pytest.raises(StorageError, match="has no row of its store"):
            await store.restore(root)


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
