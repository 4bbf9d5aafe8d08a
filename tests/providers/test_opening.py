"""Stores that must exist, health checks, and the line that says which store was opened."""

# ruff: noqa: ASYNC240 - the tests arrange the disk themselves

import logging
import sqlite3
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from factmem import AgentMemory
from factmem.encryption.key import Key
from factmem.errors import StorageError
from factmem.models.places import Place
from factmem.providers._sql.session import Session
from factmem.providers._sql.stores import Opening, StoreRow
from factmem.providers._sqlite import session
from factmem.providers.local_file import LocalFileMemoryProvider
from factmem.providers.storages import EncryptedStorage, SimpleStorage, Storage
from factmem.testing._facts import AGENT, THEME, theme
from tests.providers.local_stores import ALICE, run, sealed

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
