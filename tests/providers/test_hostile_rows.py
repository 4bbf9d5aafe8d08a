"""Rows and lines that no program of factmem wrote: a clear error, or all that is right."""

import sqlite3
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import Any

import orjson
import pytest

from factmem import LocalFileMemoryProvider, export_facts
from factmem.errors import CorruptJournalError, FactmemError, StorageError, TamperedError
from factmem.models.places import Place
from factmem.providers.conversations import new_turn
from factmem.providers.storages import SimpleStorage, Storage
from factmem.testing._facts import AGENT, THEME, languages, theme
from tests.providers.local_stores import ALICE, BOB, run
from tests.storms.hostile_changes import bodies_of, resealed

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
