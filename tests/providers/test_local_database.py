"""The database of a folder as other tools see it, its creation, and opening it."""

# ruff: noqa: ASYNC240 - the tests look at the disk themselves

# ruff: noqa: ASYNC240 - the tests arrange the disk themselves
import json
import logging
import sqlite3
import stat
import threading
from collections.abc import Awaitable, Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import anyio
import pytest

from factmem import AgentMemory
from factmem.encryption.key import Key
from factmem.errors import StorageError
from factmem.models.facts import Concept, SingleFact
from factmem.models.places import MemoryScope, Place
from factmem.providers._sql.session import Session
from factmem.providers._sql.stores import Opening, StoreRow
from factmem.providers._sqlite import session
from factmem.providers.local_file import LocalFileMemoryProvider
from factmem.providers.storages import EncryptedStorage, SimpleStorage, Storage
from factmem.testing._facts import AGENT, LANGUAGES, SAID, THEME, languages, theme
from factmem.testing.clock import SettableClock
from tests.doors import watched
from tests.processes import Process, Tell
from tests.providers.local_stores import ALICE, BOB, KEY, current, disk, is_sound, run, sealed

COLUMNS = ["scope_type", "scope", "subject", "entity", "keyword", "value", "said_at",
           "recorded_at", "id", "fact"]  # fmt: skip


Call = Callable[[LocalFileMemoryProvider], Awaitable[Any]]


CALLS: dict[str, Call] = {
    "load": lambda store: store.load(THEME, ALICE, AGENT),
    "places": lambda store: store.places(),
    "list_places": lambda store: store.list_places(),
    "entries": lambda store: store.entries(ALICE, AGENT),
    "verify": lambda store: store.verify(),
    "anchor": lambda store: store.anchor(),
    "ping": lambda store: store.ping(),
    "save": lambda store: store.save(theme("dark"), ALICE, AGENT),
    "forget": lambda store: store.forget(ALICE, AGENT, concept=THEME),
    "erase": lambda store: store.erase(ALICE, AGENT),
    "conversations": lambda store: store.conversations.conversations(Place(AGENT, ALICE)),
    "open": lambda store: store.__aenter__(),
}


async def test_any_tool_reads_statements(root: Path) -> None:
    """A plain store has a view with readable values, while it is open too."""
    clock = SettableClock(datetime(2026, 5, 17, 13, tzinfo=UTC))
    store = LocalFileMemoryProvider(root, clock=clock)
    age = Concept("age", "The user's age", value_type=int)
    await store.save(theme("d\u00e4rk"), ALICE, AGENT)
    clock.advance(timedelta(seconds=1))
    await store.save_many([languages("java", "c"), SingleFact(age, 37, id="3")], ALICE, AGENT)
    clock.advance(timedelta(seconds=1))
    await store.save(theme("light"), ALICE, MemoryScope.CrossProduct())

    names = [row[1] for row in run(root, "PRAGMA table_info(statements)")]
    rows = [dict(zip(names, row, strict=True)) for row in run(root, "SELECT * FROM statements")]

    assert names == COLUMNS
    assert [(row["keyword"], row["value"]) for row in rows] == [
        (THEME.keyword, "d\u00e4rk"),
        (LANGUAGES.keyword, '["java","c"]'),
        ("age", 37),
        (THEME.keyword, "light"),
    ]
    first, _, third, last = rows
    assert (first["scope_type"], first["scope"]) == (AGENT.type.value, AGENT.name)
    assert (first["subject"], first["entity"]) == (ALICE.name, ALICE.entity)
    assert first["recorded_at"] == "2026-05-17T13:00:00Z"
    assert datetime.fromisoformat(first["said_at"]) == SAID
    assert json.loads(third["fact"])["id"] == third["id"] == "3"
    assert last["scope_type"] == MemoryScope.CrossProduct().type.value


async def test_statements_that_are_gone(root: Path) -> None:
    """Purged and erased values and definitions are not in the view; replaced values are."""
    store = LocalFileMemoryProvider(root)
    for value in ("light", "dark"):
        await store.save(theme(value), ALICE, AGENT)
    await store.save(languages("java", "c"), ALICE, AGENT)
    await store.define([THEME])
    await store.save(theme("dim"), BOB, AGENT)
    await store.forget(ALICE, AGENT, concept=LANGUAGES, value="c", purge=True)
    await store.erase(BOB, AGENT)

    values = [value for (value,) in run(root, "SELECT value FROM statements")]

    assert values == ["light", "dark", '["java"]']


async def test_an_encrypted_store_shows_no_statements(root: Path) -> None:
    """The view is there and empty."""
    storage = sealed()
    await LocalFileMemoryProvider(root, storage=storage).save(theme("dark"), ALICE, AGENT)

    assert run(root, "SELECT * FROM statements") == []


async def test_the_files_of_a_store(root: Path, storage: Storage) -> None:
    """The log is gone after the last close; the type of the file is known to tools."""
    async with LocalFileMemoryProvider(root, storage=storage) as store:
        await store.save(theme("dark"), ALICE, AGENT)
        assert set(disk(root)) >= {"facts.db", "facts.db-wal", "facts.db-shm", "lock"}
        modes = {stat.S_IMODE(path.stat().st_mode) for path in root.iterdir()}
        assert modes == {0o600}
    assert set(disk(root)) - {"reserve"} == {"facts.db", "lock"}
    assert run(root, "PRAGMA application_id") == [(int.from_bytes(b"FACT", "big"),)]
    assert run(root, "PRAGMA journal_mode") == [("wal",)]
    assert run(root, "PRAGMA auto_vacuum") == [(2,)]
    assert is_sound(root)


async def test_freed_pages_can_be_given_back(root: Path) -> None:
    """By `PRAGMA incremental_vacuum` of any tool, while the store is open."""
    store = LocalFileMemoryProvider(root)
    for number in range(30):
        await store.save(theme(f"{number} " * 4000), ALICE.of(f"p{number}"), AGENT)
    for number in range(30):
        await store.erase(ALICE.of(f"p{number}"), AGENT)
    await store.save(theme("dark"), ALICE, AGENT)
    before = (root / "facts.db").stat().st_size

    with closing(sqlite3.connect(root / "facts.db")) as tool:
        tool.executescript("PRAGMA incremental_vacuum; PRAGMA wal_checkpoint(truncate)")

    assert (root / "facts.db").stat().st_size < before / 2
    assert await current(store) == ["dark"]
    await store.save(theme("light"), ALICE, AGENT)
    assert await current(LocalFileMemoryProvider(root)) == ["light"]


@pytest.mark.parametrize("content", [b"my diary", b"SQLite format 3\0", bytes(5000)])
@pytest.mark.parametrize("call", [call for call in CALLS if call != "open"])
async def test_a_file_that_is_no_database_is_refused(root: Path, content: bytes, call: str) -> None:
    """It is not written over."""
    root.mkdir(parents=True)
    (root / "facts.db").write_bytes(content)

    with pytest.raises(StorageError):
        await CALLS[call](LocalFileMemoryProvider(root))

    assert (root / "facts.db").read_bytes() == content


async def test_a_lock_of_another_program(root: Path, storage: Storage) -> None:
    """A tool that writes holds the database: a save waits, and a read does not."""
    store = LocalFileMemoryProvider(root, storage=storage)
    await store.save(theme("dark"), ALICE, AGENT)
    with sqlite3.connect(root / "facts.db", isolation_level=None, check_same_thread=False) as tool:
        tool.execute("BEGIN IMMEDIATE")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(store.save, theme("light"), ALICE, AGENT)
            for _ in range(10):
                assert await current(store) == ["dark"]
            tool.execute("ROLLBACK")
    tool.close()
    assert await current(store) == ["light"]


async def test_a_store_that_is_created_during_a_look(root: Path, storage: Storage) -> None:
    """A reader that finds the empty file of a creation finds no facts, or its tables."""
    root.mkdir(parents=True)
    run(root, "PRAGMA journal_mode = wal")
    todo = [LocalFileMemoryProvider(root, storage=storage)]

    def look(sql: str) -> None:
        if todo and "sqlite_master" in sql:
            save = todo.pop().save
            thread = threading.Thread(target=anyio.run, args=(save, theme("dark"), ALICE, AGENT))
            thread.start()
            thread.join()

    with watched(look):
        store = LocalFileMemoryProvider(root, storage=storage)
        assert await current(store) in ([], ["dark"])
        assert not todo
        assert await current(store) == ["dark"]


async def test_a_database_appears_complete(root: Path, storage: Storage) -> None:
    """Readers hold no lock of the store: one could undo a creation whose locks were dropped."""
    seen: list[bytes] = []

    def look(sql: str) -> None:
        if (root / "facts.db").exists():
            seen.append((root / "facts.db").read_bytes()[:100])
        assert not (root / "facts.db-journal").exists()

    with watched(look):
        store = LocalFileMemoryProvider(root, storage=storage)
        await store.save(theme("dark"), ALICE, AGENT)

    assert seen
    assert {header[18:20] for header in seen} == {b"\2\2"}  # it writes ahead
    assert {header[60:64] for header in seen} == {
        (1).to_bytes(4, "big")
    }  # the version of its tables
    assert not list(root.glob(".facts-*"))


async def test_leftovers_of_a_killed_creation_are_removed(root: Path, storage: Storage) -> None:
    """The next creation is under the same lock."""
    root.mkdir(parents=True)
    for ending in ("", "-wal", "-shm", "-journal"):
        (root / f".facts-1-2{ending}").write_bytes(b"half of a database")

    await LocalFileMemoryProvider(root, storage=storage).save(theme("dark"), ALICE, AGENT)

    assert not list(root.glob(".facts-*"))


PROCESSES = 12


def creator(tell: Tell, wait: Callable[[], None], root: str, key: str, number: int) -> None:
    """Save first of all, and say so."""
    storage = sealed(key) if key else SimpleStorage()
    wait()
    store = LocalFileMemoryProvider(root, storage=storage)
    anyio.run(store.save, languages(f"v{number}"), ALICE, AGENT)
    tell(f"v{number}")


async def test_many_processes_create_a_store_at_once(root: Path, storage: Storage) -> None:
    """There is one store with one key ring, and no save is lost."""
    key = KEY.to_base64() if isinstance(storage, EncryptedStorage) else ""
    saved: list[str] = []
    crew = [Process(creator, str(root), key, each) for each in range(PROCESSES)]
    for process in crew:
        assert process.lines() == ["ready"]
    for process in crew:
        process.go()
    for process in crew:
        while not process.is_over:
            saved += process.lines()
        assert process.end() == 0

    assert sorted(saved) == sorted(f"v{number}" for number in range(PROCESSES))
    assert sorted(await current(LocalFileMemoryProvider(root, storage=storage))) == sorted(saved)
    assert run(root, "SELECT count(*) FROM stores") == [(1,)]
    assert not list(root.glob(".facts-*"))
    assert is_sound(root)


async def test_a_read_that_began_before_the_store_was_made_finds_nothing(root: Path) -> None:
    """Its connection is to no database, although this process knows the store meanwhile."""
    store = LocalFileMemoryProvider(root)
    places = store._places

    with places.database.snapshot() as session:  # type: ignore[attr-defined]
        await store.save(theme("dark"), ALICE, AGENT)
        assert places.reading(session) is None

    assert await current(store) == ["dark"]


@pytest.mark.parametrize("call", CALLS)
async def test_a_missing_store_that_must_exist_is_an_error(
    root: Path, storage: Storage, call: str
) -> None:
    """A wrong folder is not an empty memory, and no call creates anything in it."""
    store = LocalFileMemoryProvider(root, storage=storage, must_exist=True)

    with pytest.raises(
        StorageError, match=r"There is no store in '.*store', and must_exist is set"
    ):
        await CALLS[call](store)

    assert not root.exists()


async def test_a_deployment_creates_the_store(root: Path, storage: Storage) -> None:
    """Once; after that its workers open it, and a store that is deleted is an error again."""
    for _ in range(2):
        async with LocalFileMemoryProvider(root, storage=storage) as made:
            await made.create()

    async with LocalFileMemoryProvider(root, storage=storage, must_exist=True) as store:
        assert await store.places() == []
        await store.save(theme("dark"), ALICE, AGENT)
        for path in root.glob("facts.db*"):
            path.unlink()

        with pytest.raises(StorageError, match="There is no store"):
            await store.load(THEME, ALICE, AGENT)


async def test_a_memory_of_a_wrong_folder_does_not_open(root: Path) -> None:
    """The lifespan of a service fails instead of serving an empty memory."""
    with pytest.raises(StorageError, match="There is no store"):
        async with AgentMemory.open(root, user="alice", must_exist=True):
            pytest.fail("it was opened")

    assert not root.exists()


async def test_a_store_that_is_made_during_the_look_is_found(
    root: Path, storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process makes its row and a place between two statements: nothing was removed."""
    async with LocalFileMemoryProvider(root, storage=storage) as store:
        await store.save(theme("dark"), ALICE, AGENT)
    row, missing = Opening.row, [True]

    def late(self: Opening, session: Session, *, lock: str = "") -> StoreRow | None:
        return None if missing and missing.pop() else row(self, session, lock=lock)

    monkeypatch.setattr(Opening, "row", late)

    async with LocalFileMemoryProvider(root, storage=storage) as store:
        assert await store.load(THEME, ALICE, AGENT)


async def test_a_ping_writes_and_leaves_nothing(root: Path, storage: Storage) -> None:
    """It names the store, so that a deployment can compare it with the one that it expects."""
    async with LocalFileMemoryProvider(root, storage=storage) as store:
        assert (await store.ping()).is_encrypted == isinstance(storage, EncryptedStorage)
        await store.save(theme("dark"), ALICE, AGENT)
        anchor = await store.anchor()

        found = await store.ping()

        assert found.id == run(root, "SELECT id FROM stores")[0][0]
        assert found.version == 1
        assert found.is_encrypted == isinstance(storage, EncryptedStorage)
        assert len(run(root, "SELECT 1 FROM places")) == 1
        assert run(root, "SELECT 1 FROM erased") == []
        await store.verify(anchor)


async def test_one_line_tells_which_store_was_opened(
    root: Path, storage: Storage, caplog: pytest.LogCaptureFixture
) -> None:
    """A wrong folder is seen in the log of the application, even if nothing must exist."""
    kind = "encrypted" if isinstance(storage, EncryptedStorage) else "plain"
    with caplog.at_level(logging.INFO, "factmem"):
        async with LocalFileMemoryProvider(root, storage=storage) as store:
            for _ in range(3):
                await store.load(THEME, ALICE, AGENT)
            await store.save(theme("dark"), ALICE, AGENT)
            await store.load(THEME, ALICE, AGENT)
        async with LocalFileMemoryProvider(root, storage=storage) as store:
            await store.load_all(ALICE, AGENT)
            await store.save(theme("light"), ALICE, AGENT)

    assert caplog.messages == [
        (
            f"No store 'default' in {str(root)!r} yet: reads find nothing, "
            "and the first save creates it"
        ),
        f"Opened the new {kind} store 'default' in {str(root)!r} (places: 0)",
        f"Opened the {kind} store 'default' in {str(root)!r} (places: 1)",
    ]


def _sealed() -> EncryptedStorage:
    return sealed(Key.generate())


async def test_a_new_database_is_whole(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If its log could not be emptied, only the first page of it got its name, without the log."""
    create, others = session.create, list[sqlite3.Connection]()

    def held(db: sqlite3.Connection, *path: Path) -> None:
        (made,) = root.glob(".facts-*[0-9]")
        others.append(sqlite3.connect(made, check_same_thread=False))
        others[0].execute("BEGIN")
        others[0].execute("SELECT * FROM sqlite_master").fetchall()
        create(db, *path)

    with monkeypatch.context() as patch:
        patch.setattr(session, "create", held)
        async with LocalFileMemoryProvider(root, storage=SimpleStorage(busy_timeout=0.1)) as store:
            with pytest.raises(StorageError, match="try again"):
                await store.save(theme("dark"), ALICE, AGENT)
    others[0].close()

    async with LocalFileMemoryProvider(root) as store:
        await store.save(theme("dark"), ALICE, AGENT)
        await store.verify()
