"""Links and other objects instead of a store's folders: no call leaves the store."""

# ruff: noqa: ASYNC240 - the tests arrange the disk themselves

import logging
from collections.abc import Callable
from pathlib import Path

import pytest

from factmem.errors import CorruptJournalError
from factmem.providers.local_file import LocalFileMemoryProvider
from factmem.providers.storages import Storage
from factmem.testing.facts import AGENT, theme
from tests.providers.local_stores import ALICE, current, disk


async def written(store: LocalFileMemoryProvider) -> bool:
    version = await store.version(ALICE, AGENT)
    assert version is not None
    return await store.write_index(ALICE, AGENT, b"vectors", version=version)


async def test_linked_journals_are_not_followed(root: Path, storage: Storage) -> None:
    """Reads and writes refuse, also in a store that knew them; restored, they are read."""
    warm = LocalFileMemoryProvider(root, storage=storage)
    await warm.save(theme("dark"), ALICE, AGENT)
    outside = root.parent / "outside"
    (root / "journals").rename(outside)
    (root / "journals").symlink_to(outside)
    before = disk(outside)

    for store in (warm, LocalFileMemoryProvider(root, storage=storage)):
        with pytest.raises(CorruptJournalError, match=r"journals' is a symbolic link.*replace it"):
            await store.save(theme("light"), ALICE, AGENT)
        with pytest.raises(CorruptJournalError, match="symbolic link"):
            await store.places()
        with pytest.raises(CorruptJournalError, match="symbolic link"):
            await store.erase(ALICE, AGENT)
    with pytest.raises(CorruptJournalError, match="symbolic link"):
        await current(LocalFileMemoryProvider(root, storage=storage))
    assert disk(outside) == before

    (root / "journals").unlink()
    outside.rename(root / "journals")
    assert await current(warm) == ["dark"]


@pytest.mark.parametrize("target", ["outside", "nowhere"])
async def test_no_store_is_created_in_linked_journals(
    root: Path, storage: Storage, target: str
) -> None:
    """A link that existed before the store is not followed either."""
    outside = root.parent / "outside"
    outside.mkdir(parents=True)
    root.mkdir(exist_ok=True)
    (root / "journals").symlink_to(root.parent / target)

    with pytest.raises(CorruptJournalError, match="symbolic link"):
        await LocalFileMemoryProvider(root, storage=storage).save(theme("dark"), ALICE, AGENT)

    assert list(outside.iterdir()) == []
    assert not (root.parent / "nowhere").exists()


async def test_the_stores_own_folder_may_be_a_link(root: Path, storage: Storage) -> None:
    """Its owner chose the location."""
    store = LocalFileMemoryProvider(root, storage=storage)
    await store.save(theme("dark"), ALICE, AGENT)
    moved = root.parent / "moved"
    root.rename(moved)
    root.symlink_to(moved)

    again = LocalFileMemoryProvider(root, storage=storage)
    await again.save(theme("light"), ALICE, AGENT)
    assert await written(again)

    assert await current(again) == ["light"]
    assert await again.read_index(ALICE, AGENT) == b"vectors"


def linked(path: Path) -> None:
    path.symlink_to(path.parents[1] / "outside")


def dangling(path: Path) -> None:
    path.symlink_to("nowhere")


def a_file(path: Path) -> None:
    path.write_text("my diary")


@pytest.mark.parametrize("put", [linked, dangling, a_file])
async def test_indexes_in_another_folder_are_ignored(
    root: Path, storage: Storage, put: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing is read, written or removed there, and facts can be saved and erased."""
    store = LocalFileMemoryProvider(root, storage=storage)
    await store.save(theme("dark"), ALICE, AGENT)
    assert await written(store)
    outside = root.parent / "outside"
    (root / "indexes").rename(outside)
    put(root / "indexes")
    before = disk(outside)
    caplog.set_level(logging.WARNING)

    assert await store.read_index(ALICE, AGENT) is None
    assert not await written(store)
    assert not await written(store)
    await store.save(theme("light"), ALICE, AGENT)
    assert await current(store) == ["light"]
    await store.forget(ALICE, AGENT, concept=theme("dark").concept, purge=True)
    await store.erase(ALICE, AGENT)

    assert await current(store) == []
    assert disk(outside) == before
    assert caplog.text.count("indexes' is a link, or no folder") == 1
