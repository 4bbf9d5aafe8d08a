"""What a store keeps so that recall need not begin anew: versions of places, and their indexes."""

import stat
import threading
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from factmem.encryption import Aes256GCMEncryptor, Key
from factmem.errors import StorageError, StoreBusyError
from factmem.provider import IndexedStore
from factmem.providers.in_memory import InMemoryProvider
from factmem.providers.local_file import LocalFileMemoryProvider
from factmem.storage.base import IndexedJournals, Storage
from factmem.storage.encrypted import EncryptedStorage
from factmem.storage.simple import SimpleStorage
from factmem.testing.clock import SettableClock
from factmem.testing.facts import AGENT, LANGUAGES, THEME, languages, theme
from tests.doors import Door, DoorStorage, FailingDoor
from tests.providers.local_stores import ALICE, BOB, KEY, disk

INDEX = bytes(range(256)) * 40
TALKATIVE = b"the safe opens with 4711 " * 40

Store = InMemoryProvider | LocalFileMemoryProvider


@pytest.fixture
def clock() -> SettableClock:
    return SettableClock()


@pytest.fixture(params=["memory", "plain", "encrypted"])
async def store(
    request: pytest.FixtureRequest, root: Path, clock: SettableClock
) -> AsyncIterator[Store]:
    made: Store
    if request.param == "memory":
        made = InMemoryProvider(clock=clock)
    else:
        storage: Storage = SimpleStorage()
        if request.param == "encrypted":
            storage = EncryptedStorage(Aes256GCMEncryptor(KEY))
        made = LocalFileMemoryProvider(root, storage=storage, clock=clock)
    async with made:
        yield made


async def keep(store: IndexedStore, index: bytes = INDEX) -> bool:
    version = await store.version(ALICE, AGENT)
    assert version is not None
    return await store.write_index(ALICE, AGENT, index, version=version)


async def kept(store: IndexedStore) -> bytes | None:
    return await store.read_index(ALICE, AGENT)


CHANGES: dict[str, Any] = {
    "save": lambda store: store.save(languages("c"), ALICE, AGENT),
    "confirm": lambda store: store.save(theme("dark"), ALICE, AGENT),
    "forget": lambda store: store.forget(ALICE, AGENT, concept=THEME),
    "purge": lambda store: store.forget(ALICE, AGENT, concept=THEME, purge=True),
    "erase": lambda store: store.erase(ALICE, AGENT),
}


@pytest.mark.parametrize("change", CHANGES)
async def test_a_version_tells_a_change(store: Store, change: str) -> None:
    """And nothing but a change of this very place."""
    await store.save(theme("dark"), ALICE, AGENT)
    before = await store.version(ALICE, AGENT)

    await store.save(theme("light"), BOB, AGENT)
    await store.load_all(ALICE, AGENT)
    await store.history(THEME, ALICE, AGENT)
    assert await store.version(ALICE, AGENT) == before
    await CHANGES[change](store)

    assert await store.version(ALICE, AGENT) != before
    assert isinstance(store, IndexedStore)


async def test_a_place_made_anew_has_another_version(store: Store) -> None:
    """Also when it has as many entries as the one before, saying the same."""
    versions = []
    for _ in range(3):
        await store.save(theme("dark"), BOB, AGENT)
        versions.append(await store.version(BOB, AGENT))
        await store.erase(BOB, AGENT)
    for value in ("dark", "light"):
        await store.save(theme(value), BOB, AGENT)
        versions.append(await store.version(BOB, AGENT))
        await store.forget(BOB, AGENT, concept=THEME, purge=True)

    assert len(set(versions)) == len(versions)
    assert await store.version(BOB, AGENT) not in versions


async def test_time_is_a_change_where_something_expires(store: Store, clock: SettableClock) -> None:
    """Each expiry is one; time alone is none."""
    expiries = [clock.now + timedelta(hours=hours) for hours in (1, 2)]
    await store.save(theme("dark", expires_at=expiries[0]), ALICE, AGENT)
    await store.save(languages("c", expires_at=expiries[1]), ALICE, AGENT)

    seen = []
    for _ in range(6):
        facts = await store.load_all(ALICE, AGENT)
        seen.append((await store.version(ALICE, AGENT), len(facts)))
        clock.advance(timedelta(minutes=30))

    assert [count for _, count in seen] == [2, 2, 1, 1, 0, 0]
    assert len({version for version, _ in seen}) == 3
    assert len(set(seen)) == 3


async def test_an_index_comes_back(store: Store) -> None:
    """The last one that was written, of its own place only."""
    assert await kept(store) is None
    await store.save(theme("dark"), ALICE, AGENT)
    await store.save(theme("light"), BOB, AGENT)
    assert await kept(store) is None

    assert await keep(store, b"")
    assert await kept(store) == b""
    assert await keep(store)
    assert await kept(store) == INDEX

    assert await store.read_index(BOB, AGENT) is None
    assert [fact.value for fact in await store.load(THEME, ALICE, AGENT)] == ["dark"]
    assert [info.subject.entity for info in await store.places()] == ["alice", "bob"]


async def test_an_index_of_facts_that_are_no_more_is_not_kept(store: Store) -> None:
    """Somebody was slow, and the place has changed meanwhile."""
    await store.save(theme("dark"), ALICE, AGENT)
    version = await store.version(ALICE, AGENT)
    await store.forget(ALICE, AGENT, concept=THEME, purge=True)

    assert not await store.write_index(ALICE, AGENT, INDEX, version=version)
    assert await kept(store) is None


async def test_no_index_without_a_place(store: Store) -> None:
    """Nothing is created for it."""
    assert not await keep(store)
    await store.save(theme("dark"), BOB, AGENT)
    assert not await keep(store)
    assert await kept(store) is None


async def test_an_erased_or_purged_place_has_no_index(store: Store) -> None:
    """What was forgotten without purging stays, as it does in history."""
    for takes_away in (False, True, True):
        await store.save_many([theme("dark"), languages("c")], ALICE, AGENT)
        assert await keep(store)
        if not takes_away:
            await store.forget(ALICE, AGENT, concept=THEME)
            assert await kept(store) == INDEX
            await store.erase(ALICE, AGENT)
        else:
            await store.forget(ALICE, AGENT, concept=LANGUAGES, value="c", purge=True)
        assert await kept(store) is None


# In files


def indexes(root: Path) -> dict[str, bytes]:
    return {name: data for name, data in disk(root).items() if name.startswith("indexes/")}


async def filled(root: Path, storage: Storage, **options: Any) -> LocalFileMemoryProvider:
    made = LocalFileMemoryProvider(root, storage=storage, **options)
    await made.save(theme("dark"), ALICE, AGENT)
    assert await keep(made, TALKATIVE)
    return made


async def test_an_index_outlives_the_instance(root: Path, storage: Storage) -> None:
    """One file, its owner's alone, that shows as much as its journal does."""
    await filled(root, storage)

    assert await kept(LocalFileMemoryProvider(root, storage=storage)) == TALKATIVE
    ((name, content),) = indexes(root).items()
    is_encrypted = isinstance(storage, EncryptedStorage)
    assert ("alice" in name) is not is_encrypted
    assert (b"4711" in content) is not is_encrypted
    modes = [stat.S_IMODE(path.stat().st_mode) for path in (root / "indexes", root / name)]
    assert modes == [0o700, 0o600]
    assert isinstance(storage.open(root), IndexedJournals)


async def test_a_damaged_index_is_none(root: Path, storage: Storage) -> None:
    """Cut anywhere, with any byte changed, of zeros, or something else altogether."""
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


async def test_an_index_is_read_for_its_own_place_only(root: Path) -> None:
    """Encrypted, another place's file does not open; nor does one of another store."""
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


async def test_another_instance_counts(root: Path, storage: Storage) -> None:
    """What one purged, another that had not noticed yet does not bring back."""
    one = await filled(root, storage)
    two = LocalFileMemoryProvider(root, storage=storage)
    version = await two.version(ALICE, AGENT)

    await one.forget(ALICE, AGENT, concept=THEME, purge=True)

    assert not await two.write_index(ALICE, AGENT, TALKATIVE, version=version)
    assert indexes(root) == {}
    assert await keep(two, b"what is left")
    assert await kept(one) == b"what is left"


@pytest.mark.parametrize("erases", [True, False])
async def test_what_was_erased_is_gone_from_the_disk(
    root: Path, storage: Storage, *, erases: bool
) -> None:
    """What a process that was killed while writing left behind, too."""
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
async def test_a_removal_is_durable_before_erase_returns(root: Path, key: Key | None) -> None:
    """The journal goes last, so that an erasure cut short is told by it; nothing else is synced."""
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

    removals = [at for at, (call, _) in enumerate(calls) if call == "remove"]
    synced = calls.index(("sync_folder", "indexes"))
    assert calls[removals[0]] == ("remove", name)
    assert removals[0] < synced < removals[1]
    assert (("destroy", name) in calls[: removals[0]]) is (key is not None)
    assert not is_synced


@pytest.mark.parametrize("call", ["create", "append", "rename"])
async def test_a_disk_that_refuses_an_index(root: Path, call: str) -> None:
    """An error that says so; the facts are as they were, and so is the index before."""
    door = FailingDoor()
    store = await filled(root, DoorStorage(lambda folder: Door(folder, door)))
    door.fails, door.times = {call}, 1

    with pytest.raises(StorageError):
        await keep(store)

    assert await kept(store) == TALKATIVE
    await store.save(theme("light"), ALICE, AGENT)
    assert await keep(store)


async def test_a_busy_store_keeps_no_index_waiting(root: Path) -> None:
    """It gives up after a second at most, far sooner than a save."""
    storage = DoorStorage(lambda folder: Door(folder, lambda *_: None), busy_timeout=0.02)
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
        with pytest.raises(StoreBusyError, match=r"for 0\.02 s"):
            await waiting.write_index(ALICE, AGENT, INDEX, version=version)
    finally:
        may_end.set()
        holder.join()
    assert await kept(store) == TALKATIVE


async def test_rotation_seals_indexes_anew(root: Path) -> None:
    """With the new keys they open, and what the old ones opened is gone."""
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
    """It is as good as none."""
    store = await filled(root, EncryptedStorage(Aes256GCMEncryptor(KEY)))
    (name,) = indexes(root)
    (root / name).write_bytes(b"damaged")

    await store.keys.rotate(Key.generate())

    assert indexes(root) == {}
    assert [fact.value for fact in await store.load(THEME, ALICE, AGENT)] == ["dark"]


async def test_a_storage_that_keeps_no_indexes(root: Path) -> None:
    """Is a storage all the same: nothing is kept, and nothing fails."""

    class Bare:
        """Hides what journals offer besides."""

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


async def test_a_closed_store_tells_no_version(store: Store) -> None:
    """As every other call does."""
    await store.aclose()

    for call in (store.version, store.read_index):
        with pytest.raises(ValueError, match="closed"):
            await call(ALICE, AGENT)
    with pytest.raises(ValueError, match="closed"):
        await store.write_index(ALICE, AGENT, INDEX, version="")
