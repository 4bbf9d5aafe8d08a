"""A full disk: saves are refused, and what is there can still be erased in the room of the reserve."""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from factmem.errors import StorageError
from factmem.models.facts import MultipleFacts, SingleFact
from factmem.providers._sqlite import database
from factmem.providers._sqlite.database import SqliteDatabase
from factmem.providers._sqlite.files import DiskFullError
from factmem.providers._sqlite.session import SqliteSession
from factmem.providers.local_file import LocalFileMemoryProvider
from factmem.providers.storages import Storage
from factmem.testing._facts import AGENT, LANGUAGES, THEME
from tests.providers.local_stores import ALICE, BOB, current

ROOM = 1 << 20
"""What the reserve keeps free."""


@pytest.fixture
def full(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Return the folders whose disk is full; a write needs the room of their reserve."""
    folders: list[Path] = []
    writing = SqliteDatabase.writing

    @contextmanager
    def refused(self: SqliteDatabase) -> Generator[SqliteSession]:
        with writing(self) as session:
            reserve = self.root / "reserve"
            if self.root in folders and reserve.exists() and reserve.stat().st_size == ROOM:
                raise DiskFullError("The disk is full")
            yield session

    monkeypatch.setattr(database.SqliteDatabase, "writing", refused)
    return folders


async def test_facts_can_be_erased_on_a_full_disk(
    root: Path, storage: Storage, full: list[Path]
) -> None:
    """A user who asks to be erased does not wait for an administrator."""
    async with LocalFileMemoryProvider(root, storage=storage) as store:
        await store.save(SingleFact(THEME, "dark"), ALICE, AGENT)
        await store.save(MultipleFacts(LANGUAGES, ["Kotlin", "Rust"]), BOB, AGENT)
        full.append(root)

        with pytest.raises(StorageError, match="full"):
            await store.save(SingleFact(THEME, "light"), ALICE, AGENT)
        receipt = await store.erase(ALICE, AGENT)
        forgotten = await store.forget(BOB, AGENT, concept=LANGUAGES, value="Rust", purge=True)

        assert (receipt.count, receipt.copies_remain, forgotten) == (1, False, 1)
        assert await current(store, ALICE) == []
        assert await current(store, BOB) == ["Kotlin"]
        assert (root / "reserve").stat().st_size == ROOM
        full.clear()
        await store.save(SingleFact(THEME, "light"), ALICE, AGENT)
        assert await current(store, ALICE) == ["light"]


async def test_a_full_disk_fails_a_ping(root: Path, storage: Storage, full: list[Path]) -> None:
    """A health check is not green while every save fails."""
    async with LocalFileMemoryProvider(root, storage=storage) as store:
        await store.save(SingleFact(THEME, "dark"), ALICE, AGENT)
        full.append(root)

        with pytest.raises(StorageError, match="full"):
            await store.ping()

        full.clear()
        assert (await store.ping()).version == 1
