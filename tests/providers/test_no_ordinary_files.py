"""Other objects than files in a store's folder: they raise at once, and are never opened."""

# ruff: noqa: ASYNC240 - the tests arrange the disk themselves

import os
import re
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from factmem.errors import CorruptJournalError, StorageError
from factmem.providers.local_file import LocalFileMemoryProvider
from factmem.providers.storages import Storage
from factmem.testing.facts import AGENT, theme
from tests.providers.local_stores import ALICE, current, disk, journal_of


def pipe(path: Path) -> None:
    os.mkfifo(path)


def folder(path: Path) -> None:
    path.mkdir()


def link(path: Path) -> None:
    """Create a link to the original file, which was moved out of the store."""
    path.symlink_to(path.parents[2] / "moved")


def dangling_link(path: Path) -> None:
    path.symlink_to("nowhere")


def loop(path: Path) -> None:
    path.symlink_to(path)


def device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def listener(path: Path) -> None:
    here = os.open(".", os.O_RDONLY)
    with socket.socket(socket.AF_UNIX) as made:  # its path may have at most a hundred bytes
        os.chdir(path.parent)
        try:
            made.bind(path.name)
        finally:
            os.chdir(here)
            os.close(here)


INSTEAD: dict[Callable[[Path], None], str] = {
    pipe: "a named pipe",
    folder: "a folder",
    link: "a symbolic link",
    dangling_link: "a symbolic link",
    loop: "a symbolic link",
    device: "a symbolic link",
    listener: "a socket",
}
THINGS = pytest.mark.parametrize("thing", INSTEAD, ids=lambda thing: thing.__name__)


def put_in_place(path: Path, thing: Callable[[Path], None]) -> None:
    path.rename(path.parents[2] / "moved")
    thing(path)


def without_erasures(files: dict[str, bytes]) -> dict[str, bytes]:
    """Return the files of a store without the count of erasures, which changes first."""
    return {path: re.sub(rb',"erased":\d+', b"", content) for path, content in files.items()}


@THINGS
async def test_a_journal_that_is_not_a_file(
    root: Path, storage: Storage, thing: Callable[[Path], None]
) -> None:
    """Reads and writes name the object, also in an instance that knew the file."""
    warm = LocalFileMemoryProvider(root, storage=storage)
    await warm.save(theme("dark"), ALICE, AGENT)
    assert await current(warm) == ["dark"]
    journal = journal_of(root)
    put_in_place(journal, thing)
    before = without_erasures(disk(root.parent))

    for store in (warm, LocalFileMemoryProvider(root, storage=storage)):
        with pytest.raises(CorruptJournalError, match=INSTEAD[thing]) as caught:
            await current(store)
        assert str(journal) in str(caught.value)
        assert "restore" in str(caught.value)
        with pytest.raises(CorruptJournalError, match=INSTEAD[thing]):
            await store.save(theme("light"), ALICE, AGENT)
        with pytest.raises(CorruptJournalError, match=INSTEAD[thing]):
            await store.erase(ALICE, AGENT)

    assert without_erasures(disk(root.parent)) == before
    journal.rmdir() if thing is folder else journal.unlink()
    (root.parent / "moved").rename(journal)
    assert await current(warm) == ["dark"]


@THINGS
async def test_a_manifest_that_is_not_a_file(
    root: Path, storage: Storage, thing: Callable[[Path], None]
) -> None:
    """No new store is created over the journals."""
    warm = LocalFileMemoryProvider(root, storage=storage)
    await warm.save(theme("dark"), ALICE, AGENT)
    manifest = root / "factmem.json"
    manifest.rename(root.parent / "moved.json")
    thing(manifest)
    before = disk(root.parent)

    for store in (warm, LocalFileMemoryProvider(root, storage=storage)):
        with pytest.raises(CorruptJournalError, match=INSTEAD[thing]):
            await store.save(theme("light"), ALICE, AGENT)
        with pytest.raises(CorruptJournalError, match=INSTEAD[thing]):
            await store.places()

    assert disk(root.parent) == before


@THINGS
async def test_a_lock_that_is_not_a_file(
    root: Path, storage: Storage, thing: Callable[[Path], None]
) -> None:
    """Reads need no lock; the error of a write says that the object can be removed."""
    store = LocalFileMemoryProvider(root, storage=storage)
    await store.save(theme("dark"), ALICE, AGENT)
    (root / "lock").unlink()
    thing(root / "lock")

    assert await current(store) == ["dark"]
    with pytest.raises(CorruptJournalError, match=f"{INSTEAD[thing]}.*remove it"):
        await store.save(theme("light"), ALICE, AGENT)

    (root / "lock").rmdir() if thing is folder else (root / "lock").unlink()
    await store.save(theme("light"), ALICE, AGENT)
    assert await current(store) == ["light"]


@THINGS
async def test_an_index_that_is_not_a_file(
    root: Path, storage: Storage, thing: Callable[[Path], None]
) -> None:
    """It counts as missing and is written again; a folder is never removed for that."""
    store = LocalFileMemoryProvider(root, storage=storage)
    await store.save(theme("dark"), ALICE, AGENT)
    version = await store.version(ALICE, AGENT)
    assert await store.write_index(ALICE, AGENT, b"vectors", version=version)
    (index,) = (root / "indexes").iterdir()
    index.unlink()
    thing(index)

    assert await store.read_index(ALICE, AGENT) is None
    if thing is folder:
        with pytest.raises(StorageError, match="directory"):
            await store.write_index(ALICE, AGENT, b"vectors", version=version)
        index.rmdir()
    assert await store.write_index(ALICE, AGENT, b"vectors", version=version)

    assert await store.read_index(ALICE, AGENT) == b"vectors"
    index.unlink()
    thing(index)
    if thing is not folder:
        await store.erase(ALICE, AGENT)
        assert not os.path.lexists(index)


async def test_a_folder_that_is_not_a_folder(root: Path, storage: Storage) -> None:
    """A pipe instead of the journals' folder does not block either."""
    store = LocalFileMemoryProvider(root, storage=storage)
    await store.save(theme("dark"), ALICE, AGENT)
    (root / "journals").rename(root / "moved")
    pipe(root / "journals")

    with pytest.raises(StorageError, match="Not a directory"):
        await current(LocalFileMemoryProvider(root, storage=storage))
    with pytest.raises(StorageError, match="Not a directory"):
        await store.save(theme("light"), ALICE, AGENT)
