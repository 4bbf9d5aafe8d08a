"""Indexes in local stores: rows that are sealed, checked, and removed with their places."""

import threading
from pathlib import Path

import pytest

from factmem.encryption.key import Key
from factmem.errors import StorageError, StoreBusyError
from factmem.providers.local_file import LocalFileMemoryProvider
from factmem.providers.storages import SimpleStorage, Storage
from factmem.providers.store import FactStore
from factmem.testing._facts import AGENT, THEME, theme
from tests.doors import FailingDoor, watched
from tests.providers.local_stores import ALICE, BOB, run, sealed

INDEX = bytes(range(256)) * 40
TALKATIVE = b"the safe opens with 4711 " * 40


async def keep(store: FactStore, index: bytes = INDEX) -> bool:
    version = await store.version(ALICE, AGENT)
    assert version is not None
    return await store.write_index(ALICE, AGENT, index, version=version)


async def kept(store: FactStore) -> bytes | None:
    return await store.read_index(ALICE, AGENT)


def indexes(root: Path) -> list[bytes]:
    return [stored for (stored,) in run(root, "SELECT bytes FROM indexes")]


async def filled(root: Path, storage: Storage) -> LocalFileMemoryProvider:
    made = LocalFileMemoryProvider(root, storage=storage)
    await made.save(theme("dark"), ALICE, AGENT)
    assert await keep(made, TALKATIVE)
    return made


async def test_an_index_survives_the_instance(root: Path, storage: Storage) -> None:
    """It reveals no more than the lines of its place."""
    await filled(root, storage)

    assert await kept(LocalFileMemoryProvider(root, storage=storage)) == TALKATIVE
    (stored,) = indexes(root)
    assert (b"4711" in stored) is isinstance(storage, SimpleStorage)


async def test_a_damaged_index_is_ignored(root: Path, storage: Storage) -> None:
    """It is truncated anywhere, has any byte changed, is zeroed, or is another one."""
    store = await filled(root, storage)
    (stored,) = indexes(root)
    damaged = [stored[:cut] for cut in range(0, len(stored), 37)]
    damaged += [b"", bytes(len(stored)), b"{}", stored + b" "]
    for at in (*range(0, 160, 7), len(stored) - 1):
        damaged.append(stored[:at] + bytes([stored[at] ^ 1]) + stored[at + 1 :])

    for data in damaged:
        run(root, "UPDATE indexes SET bytes = ?", data)
        assert await kept(store) is None

    assert [fact.value for fact in await store.load(THEME, ALICE, AGENT)] == ["dark"]
    assert await keep(store)
    assert await kept(store) == INDEX


async def test_an_index_is_read_only_for_its_own_place(root: Path, storage: Storage) -> None:
    """The row of another place or another store does not open."""
    store = await filled(root, storage)
    other = await filled(root.with_name("other"), storage)
    await store.save(theme("light"), BOB, AGENT)
    version = await store.version(BOB, AGENT)
    assert version is not None
    assert await store.write_index(BOB, AGENT, INDEX, version=version)
    hers, his = indexes(root)

    run(root, "UPDATE indexes SET bytes = CASE bytes WHEN ? THEN ? ELSE ? END", hers, his, hers)
    run(root.with_name("other"), "UPDATE indexes SET bytes = ?", his)

    assert await kept(store) is None
    assert await store.read_index(BOB, AGENT) is None
    assert await kept(other) is None


@pytest.mark.parametrize("part", ["INSERT INTO indexes", "COMMIT"])
async def test_a_disk_that_refuses_an_index(root: Path, storage: Storage, part: str) -> None:
    """The error says so; the facts and the earlier index do not change."""
    fault = FailingDoor()
    with watched(fault):
        store = await filled(root, storage)
        fault.fail(1, part=part)
        with pytest.raises(StorageError):
            await keep(store)

        assert fault.failed == 1
        assert await kept(store) == TALKATIVE
        await store.save(theme("light"), ALICE, AGENT)
        assert await keep(store)


async def test_a_busy_store_refuses_an_index_at_once(root: Path) -> None:
    """It waits much less than a save, because a recall waits for it."""
    await filled(root, SimpleStorage())
    is_held, may_end = threading.Event(), threading.Event()

    def hold() -> None:
        with lock.held():
            is_held.set()
            may_end.wait(60)

    lock = LocalFileMemoryProvider(root)._places.database._lock  # type: ignore[attr-defined]
    holder = threading.Thread(target=hold)
    holder.start()
    try:
        assert is_held.wait(60)
        waiting = LocalFileMemoryProvider(root, storage=SimpleStorage(busy_timeout=60))
        with pytest.raises(StoreBusyError, match=r"for 0\.05 s"):
            await keep(waiting)
    finally:
        may_end.set()
        holder.join()
    assert await kept(waiting) == TALKATIVE


async def test_a_rotation_leaves_no_index_under_an_old_key(root: Path) -> None:
    """It is sealed again, or gone."""
    store = await filled(root, sealed())
    before = indexes(root)
    new = Key.generate()

    await store.keys.rotate(new)

    assert not set(before) & set(indexes(root))
    reopened = LocalFileMemoryProvider(root, storage=sealed(new))
    assert await kept(reopened) in {TALKATIVE, None}
    assert await keep(reopened)
    assert await kept(reopened) == INDEX


async def test_the_size_of_an_index_reveals_little(root: Path) -> None:
    """There are four sizes per doubling in an encrypted store."""
    store = await filled(root, sealed())
    sizes: set[int] = set()
    for size in range(0, 65_536, 997):
        assert await keep(store, b"x" * size)
        (stored,) = indexes(root)
        sizes.add(len(stored))
        assert await kept(store) == b"x" * size

    assert len(sizes) <= 12
    assert max(sizes) < 65_536 * 5 / 4 + 100
