"""Indexes in files: their content on disk, and their removal."""

import stat
import threading
from pathlib import Path
from typing import Any

import pytest
from factmem.storage.base import IndexedJournals, Storage

from factmem.encryption.aes256gcm import Aes256GCMEncryptor
from factmem.encryption.key import Key
from factmem.errors import StorageError, StoreBusyError
from factmem.providers.indexed import IndexedStore
from factmem.providers.local_file import LocalFileMemoryProvider
from factmem.providers.storages import EncryptedStorage, SimpleStorage
from factmem.testing.facts import (
    AGENT,
    THEME,
    theme,
)
from tests.doors import Door, DoorStorage, FailingDoor
from tests.providers.local_stores import ALICE, BOB, KEY, disk

INDEX = bytes(range(256)) * 40
TALKATIVE = b"the safe opens with 4711 " * 40


async def keep(store: IndexedStore, index: bytes = INDEX) -> bool:
    version = await store.version(ALICE, AGENT)
    assert version is not None
    return await store.write_index(ALICE, AGENT, index, version=version)


async def kept(store: IndexedStore) -> bytes | None:
    return await store.read_index(ALICE, AGENT)


def indexes(root: Path) -> dict[str, bytes]:
    return {name: data for name, data in disk(root).items() if name.startswith("indexes/")}


async def filled(root: Path, storage: Storage, **options: Any) -> LocalFileMemoryProvider:
    made = LocalFileMemoryProvider(root, storage=storage, **options)
    await made.save(theme("dark"), ALICE, AGENT)
    assert await keep(made, TALKATIVE)
    return made


async def test_without_a_place_there_is_no_index(root: Path, storage: Storage) -> None:
    """Nothing is created for it."""
    store = LocalFileMemoryProvider(root, storage=storage)
    assert not await keep(store)
    assert disk(root) == {}

    await store.save(theme("dark"), BOB, AGENT)

    assert not await keep(store)
    assert indexes(root) == {}


async def test_an_index_survives_the_instance(root: Path, storage: Storage) -> None:
    """It is one file with owner permissions, and reveals no more than its journal."""
    await filled(root, storage)

    assert await kept(LocalFileMemoryProvider(root, storage=storage)) == TALKATIVE
    ((name, content),) = indexes(root).items()
    is_encrypted = isinstance(storage, EncryptedStorage)
    assert ("alice" in name) is not is_encrypted
    assert (b"4711" in content) is not is_encrypted
    modes = [stat.S_IMODE(path.stat().st_mode) for path in (root / "indexes", root / name)]
    assert modes == [0o700, 0o600]
    assert isinstance(storage.open(root), IndexedJournals)


async def test_a_damaged_index_is_ignored(root: Path, storage: Storage) -> None:
    """It is truncated anywhere, has any byte changed, is zeroed, or is another file."""
    store = await filled(root, storage)
    ((name, content),) = indexes(root).items()
    damaged = [content[:cut] for cut in range(0, len(content), 7)]
    damaged += [bytes(len(content)), b"\n", b"{}\n", b"[]\n" + content, content + b" "]
    for at in (*range(160), len(content) - 1):
        damaged.append(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])

    for data in damaged:
        (root / name).write_bytes(data)
        assert await kept(store) is None

    assert [fact.value for fact in await store.load(THEME, ALICE, AGENT)] == ["dark"]
    assert await keep(store)
    assert await kept(store) == INDEX


async def test_an_index_is_read_only_for_its_own_place(root: Path) -> None:
    """The encrypted file of another place or another store does not open."""
    storage = EncryptedStorage(Aes256GCMEncryptor(KEY))
    store = await filled(root, storage)
    other = await filled(root.parent / "other", storage)
    ((name, content),) = indexes(root).items()
    await store.save(theme("light"), BOB, AGENT)
    version = await store.version(BOB, AGENT)
    assert await store.write_index(BOB, AGENT, INDEX, version=version)
    (bobs,) = indexes(root).keys() - {name}
    ((others, _),) = indexes(root.parent / "other").items()

    (root / bobs).write_bytes(content)
    (root.parent / "other" / others).write_bytes(content)

    assert await store.read_index(BOB, AGENT) is None
    assert await kept(other) is None


@pytest.mark.parametrize("erases", [True, False])
async def test_erased_indexes_leave_the_disk(root: Path, storage: Storage, *, erases: bool) -> None:
    """So do files that a killed process left behind."""
    store = await filled(root, storage)
    ((name, content),) = indexes(root).items()
    (root / f"{name}.tmp").write_bytes(content[:100])
    size = sum(map(len, disk(root).values())) - len(disk(root)["factmem.json"])

    if erases:
        receipt = await store.erase(ALICE, AGENT)
        assert receipt.bytes == size
    else:
        await store.forget(ALICE, AGENT, concept=THEME, purge=True)

    assert indexes(root) == {}


@pytest.mark.parametrize("key", [None, KEY], ids=["plain", "encrypted"])
async def test_a_removal_is_durable_when_erase_returns(root: Path, key: Key | None) -> None:
    """The journal goes last and reveals an interrupted erasure; nothing else is synced."""
    calls: list[tuple[str, object]] = []

    def look(call: str, args: tuple[Any, ...]) -> None:
        calls.append((call, args[0] if args else None))

    storage = DoorStorage(lambda folder: Door(folder, look), key)
    store = await filled(root, storage)
    calls.clear()
    await keep(store)
    is_synced = any(call.startswith("sync") for call, _ in calls)
    ((name, _),) = indexes(root).items()
    calls.clear()

    await store.erase(ALICE, AGENT)

    # the manifest, which counts erasures, is written first
    own = [(call, file) for call, file in calls if file != "factmem.json.tmp"]
    removals = [at for at, (call, _) in enumerate(own) if call == "remove"]
    synced = own.index(("sync_folder", "indexes"), removals[0])  # names are removed first
    assert own[removals[0]] == ("remove", name)
    assert removals[0] < synced < removals[1]
    assert (("destroy", name) in own[: removals[0]]) is (key is not None)
    assert not is_synced


@pytest.mark.parametrize("call", ["create", "append", "rename"])
async def test_a_disk_that_refuses_an_index(root: Path, call: str) -> None:
    """The error says so; the facts and the earlier index do not change."""
    door = FailingDoor()
    store = await filled(root, DoorStorage(lambda folder: Door(folder, door)))
    door.fails, door.times = {call}, 1

    with pytest.raises(StorageError):
        await keep(store)

    assert await kept(store) == TALKATIVE
    await store.save(theme("light"), ALICE, AGENT)
    assert await keep(store)


async def test_a_busy_store_refuses_an_index_at_once(root: Path) -> None:
    """It waits much less than a save, because a recall waits for it."""
    storage = DoorStorage(lambda folder: Door(folder, lambda *_: None), busy_timeout=60)
    store = await filled(root, SimpleStorage())
    other = storage.open(root)
    is_held, may_end = threading.Event(), threading.Event()

    def hold() -> None:
        with other.exclusive():
            is_held.set()
            may_end.wait(10)

    holder = threading.Thread(target=hold)
    holder.start()
    try:
        assert is_held.wait(10)
        waiting = LocalFileMemoryProvider(root, storage=storage)
        version = await waiting.version(ALICE, AGENT)
        with pytest.raises(StoreBusyError, match=r"for 0\.05 s"):
            await waiting.write_index(ALICE, AGENT, INDEX, version=version)
    finally:
        may_end.set()
        holder.join()
    assert await kept(store) == TALKATIVE


async def test_a_rotation_encrypts_indexes_again(root: Path) -> None:
    """The new keys open them, and files under the old keys are gone."""
    store = await filled(root, EncryptedStorage(Aes256GCMEncryptor(KEY)))
    before = indexes(root)
    new = Key.generate()

    await store.keys.rotate(new)

    after = indexes(root)
    assert after.keys() == before.keys()
    assert after != before
    assert b'"gen":2' in next(iter(after.values()))
    reopened = LocalFileMemoryProvider(root, storage=EncryptedStorage(Aes256GCMEncryptor(new)))
    assert await kept(reopened) == TALKATIVE


async def test_rotation_drops_a_damaged_index(root: Path) -> None:
    """It counts as missing."""
    store = await filled(root, EncryptedStorage(Aes256GCMEncryptor(KEY)))
    (name,) = indexes(root)
    (root / name).write_bytes(b"damaged")

    await store.keys.rotate(Key.generate())

    assert indexes(root) == {}
    assert [fact.value for fact in await store.load(THEME, ALICE, AGENT)] == ["dark"]


async def test_a_storage_without_indexes(root: Path) -> None:
    """It is valid: no index is stored, and nothing fails."""

    class Bare:
        """Hides the optional methods of journals."""

        def __init__(self, journals: Any) -> None:
            self._journals = journals

        def __getattr__(self, name: str) -> Any:
            if name in {"read_index", "write_index"}:
                raise AttributeError(name)
            return getattr(self._journals, name)

    class BareStorage:
        def open(self, folder: Path) -> Any:
            return Bare(SimpleStorage().open(folder))

    store = LocalFileMemoryProvider(root, storage=BareStorage())
    await store.save(theme("dark"), ALICE, AGENT)

    assert not await keep(store)
    assert await kept(store) is None
