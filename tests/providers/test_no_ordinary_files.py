"""Links, pipes and other objects instead of a store's files: calls raise at once."""

# ruff: noqa: ASYNC240 - the tests arrange the disk themselves

import os
import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from factmem.errors import CorruptJournalError, StorageError
from factmem.providers.local_file import LocalFileMemoryProvider
from factmem.providers.storages import Storage
from factmem.testing._facts import AGENT, theme
from tests.providers.local_stores import ALICE, BOB, current, is_sound


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


OBJECTS = [pipe, folder, link, dangling_link, loop, device, listener]
THINGS = pytest.mark.parametrize("thing", OBJECTS, ids=lambda thing: thing.__name__)
OUTSIDE = "not a byte of this may change"


def put_in_place(path: Path, thing: Callable[[Path], None]) -> None:
    """Move a file out of the store, and put an object there."""
    path.rename(path.parents[2] / "moved")
    thing(path)


def restore(path: Path, thing: Callable[[Path], None]) -> None:
    path.rmdir() if thing is folder else path.unlink()
    (path.parents[2] / "moved").rename(path)


@THINGS
async def test_a_database_that_is_not_a_file(
    root: Path, storage: Storage, thing: Callable[[Path], None]
) -> None:
    """Reads and writes name it, also in an instance that knew the file; put back, it is read."""
    warm = LocalFileMemoryProvider(root, storage=storage)
    await warm.save(theme("dark"), ALICE, AGENT)
    assert await current(warm) == ["dark"]
    await warm.aclose()
    warm = LocalFileMemoryProvider(root, storage=storage)
    assert await current(warm) == ["dark"]
    database = root / "facts.db"
    put_in_place(database, thing)
    before = (root.parent.parent / "moved").read_bytes()

    for store in (warm, LocalFileMemoryProvider(root, storage=storage)):
        for call in (
            lambda store=store: current(store),
            lambda store=store: store.save(theme("light"), ALICE, AGENT),
            lambda store=store: store.erase(ALICE, AGENT),
            lambda store=store: store.places(),
        ):
            with pytest.raises(
                CorruptJournalError, match="is not a regular file: remove it"
            ) as caught:
                await call()
            assert str(database) in str(caught.value)

    assert (root.parent.parent / "moved").read_bytes() == before
    restore(database, thing)
    assert await current(warm) == ["dark"]


@THINGS
async def test_a_lock_that_is_not_a_file(
    root: Path, storage: Storage, thing: Callable[[Path], None]
) -> None:
    """Reads need no lock; a write raises, and says which file it is."""
    store = LocalFileMemoryProvider(root, storage=storage)
    await store.save(theme("dark"), ALICE, AGENT)
    put_in_place(root / "lock", thing)

    assert await current(store) == ["dark"]
    with pytest.raises(StorageError, match=str(root / "lock")):
        await store.save(theme("light"), ALICE, AGENT)

    restore(root / "lock", thing)
    await store.save(theme("light"), ALICE, AGENT)
    assert await current(store) == ["light"]


def hard_link(path: Path) -> None:
    path.hardlink_to(path.parents[2] / "moved")


@pytest.mark.parametrize("name", ["facts.db-wal", "facts.db-shm", "facts.db-journal", "reserve"])
@pytest.mark.parametrize("thing", [*OBJECTS, hard_link], ids=lambda thing: thing.__name__)
async def test_a_log_or_reserve_that_is_not_a_file(
    root: Path, storage: Storage, thing: Callable[[Path], None], name: str
) -> None:
    """It was there before the store was opened. It is refused, or done without."""
    async with LocalFileMemoryProvider(root, storage=storage) as store:
        await store.save(theme("dark"), ALICE, AGENT)
    (outside := root.parent.parent / "moved").write_text(OUTSIDE)
    (root / name).unlink(missing_ok=True)
    thing(root / name)
    store = LocalFileMemoryProvider(root, storage=storage)

    with suppress(StorageError):
        assert await current(store) == ["dark"]
        await store.save(theme("light"), ALICE, AGENT)
        await store.erase(BOB, AGENT)
    await store.aclose()

    assert outside.read_text() == OUTSIDE
    if os.path.lexists(root / name):
        (root / name).rmdir() if thing is folder else (root / name).unlink()
    assert await current(LocalFileMemoryProvider(root, storage=storage)) in (["dark"], ["light"])
    assert is_sound(root)


@pytest.mark.parametrize("name", ["facts.db", "lock"])
async def test_no_store_is_created_through_a_link(root: Path, storage: Storage, name: str) -> None:
    """A link that existed before the store is not followed."""
    root.mkdir(parents=True)
    (root / name).symlink_to(root.parent / "elsewhere")

    with pytest.raises(StorageError):
        await LocalFileMemoryProvider(root, storage=storage).save(theme("dark"), ALICE, AGENT)

    assert not (root.parent / "elsewhere").exists()


async def test_the_stores_own_folder_may_be_a_link(root: Path, storage: Storage) -> None:
    """Its owner chose the location. Both paths are one store."""
    store = LocalFileMemoryProvider(root, storage=storage)
    await store.save(theme("dark"), ALICE, AGENT)
    link = root.with_name("link")
    link.symlink_to(root)
    again = LocalFileMemoryProvider(link, storage=storage)

    await again.save(theme("light"), ALICE, AGENT)

    assert await current(store) == ["light"]
    await store.save(theme("dim"), ALICE, AGENT)
    assert await current(again) == ["dim"]
