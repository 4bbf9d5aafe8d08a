"""A database that is deleted, replaced or put back under a process: the next call notices."""

# ruff: noqa: ASYNC240 - the tests arrange the disk themselves

import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from factmem import Key, LocalFileMemoryProvider
from factmem.errors import WrongKeyError
from factmem.providers.storages import Storage
from factmem.testing._facts import AGENT, LANGUAGES, THEME, languages, theme
from tests.providers.local_stores import ALICE, BOB, current, is_sound, sealed

Call = Callable[[LocalFileMemoryProvider], Awaitable[Any]]

LOOKS: dict[str, Call] = {
    "load": lambda store: store.load(LANGUAGES, ALICE, AGENT),
    "load_all": lambda store: store.load_all(ALICE, AGENT),
    "entries": lambda store: store.entries(ALICE, AGENT),
    "places": lambda store: store.places(),
    "save": lambda store: store.save(theme("light"), BOB, AGENT),
    "nothing": lambda store: store.load_all(BOB, AGENT),
}
"""The first call after the change: each kind of connection may be the first to notice."""


async def opened(root: Path, storage: Storage, *earlier: str) -> LocalFileMemoryProvider:
    """Return a store whose connections are all open."""
    store = LocalFileMemoryProvider(root, storage=storage)
    await store.save(languages("java"), ALICE, AGENT)
    for _ in range(2):
        assert await current(store) == [*earlier, "java"]
    return store


def remove(root: Path) -> None:
    for path in root.glob("facts.db*"):
        path.unlink()


def put(copy: Path, root: Path) -> None:
    """Put a closed copy in the place of the database, as a restored backup."""
    remove(root)
    shutil.copy(copy / "facts.db", root)


@pytest.mark.parametrize("look", LOOKS)
async def test_a_deleted_database_is_empty(root: Path, storage: Storage, look: str) -> None:
    """Nothing is read from it or written to it any more, and the next save creates another one."""
    store = await opened(root, storage)
    remove(root)

    found = await LOOKS[look](store)

    assert not found
    assert await current(store) == []
    await store.save(languages("rust"), ALICE, AGENT)
    for each in (store, LocalFileMemoryProvider(root, storage=storage)):
        assert await current(each) == ["rust"]
    await store.aclose()
    assert is_sound(root)


@pytest.mark.parametrize("look", LOOKS)
async def test_a_restored_backup_is_read(
    root: Path, storage: Storage, tmp_path: Path, look: str
) -> None:
    """It is the store itself as it was; others may have saved to it before this process looks."""
    backup = tmp_path / "backup"
    async with LocalFileMemoryProvider(root, storage=storage) as store:
        await store.save(languages("c"), ALICE, AGENT)
    shutil.copytree(root, backup)
    store = await opened(root, storage, "c")
    put(backup, root)

    await LOOKS[look](store)

    other = LocalFileMemoryProvider(root, storage=storage)
    assert await current(store) == ["c"]
    await other.save(languages("rust"), ALICE, AGENT)
    for value in ("go", "zig"):
        assert await current(store) == await current(other)
        await other.save(languages(value), ALICE, AGENT)
        await store.save(languages(f"my {value}"), ALICE, AGENT)
    wanted = ["c", "rust", "go", "my go", "zig", "my zig"]
    for each in (store, other, LocalFileMemoryProvider(root, storage=storage)):
        assert await current(each) == wanted
        await each.aclose()
    assert is_sound(root)


@pytest.mark.parametrize("look", LOOKS)
async def test_another_store_is_read(root: Path, storage: Storage, look: str) -> None:
    """Of the same key, if its folder is told: the facts of the first store are nowhere in it."""
    async with LocalFileMemoryProvider(root.with_name("other"), storage=storage) as other:
        await other.save(theme("dark"), ALICE, AGENT)
    store = await opened(root, storage)
    (root / "reserve").unlink()
    put(root.with_name("other"), root)

    await LOOKS[look](store)

    assert await current(store) == ["dark"]
    await store.forget(ALICE, AGENT, concept=THEME, purge=True)
    await store.save(languages("rust"), ALICE, AGENT)
    assert await current(LocalFileMemoryProvider(root, storage=storage)) == ["rust"]


async def test_a_folder_that_was_moved(root: Path, storage: Storage) -> None:
    """What the process saves next is in a new store at the old path, or refused."""
    store = await opened(root, storage)
    root.rename(root.with_name("moved"))

    await store.save(languages("rust"), ALICE, AGENT)

    assert await current(store) == ["rust"]
    moved = LocalFileMemoryProvider(root.with_name("moved"), storage=storage)
    assert await current(moved) == ["java"]


async def test_a_store_of_another_key(root: Path) -> None:
    """It is refused, and not read as if it were the first."""
    first, second = (sealed(Key.generate()) for _ in range(2))
    async with LocalFileMemoryProvider(root.with_name("other"), storage=second) as other:
        await other.save(theme("dark"), ALICE, AGENT)
    store = await opened(root, first)
    put(root.with_name("other"), root)

    for call in LOOKS.values():
        with pytest.raises(WrongKeyError):
            await call(store)
