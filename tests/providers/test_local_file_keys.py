"""The keys of a store in local files, and opening a store in a way that it was not made."""

import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from factmem.errors import (
    CorruptJournalError,
    FactmemError,
    KeyRequiredError,
    StorageError,
    TamperedError,
    WrongKeyError,
)
from factmem.providers.local_file import LocalFileMemoryProvider
from factmem.storage.encrypted import EncryptedStorage
from factmem.storage.encryption.aes256gcm import Aes256GCMEncryptor, Encryption
from factmem.storage.encryption.key import Key
from factmem.testing.facts import (
    AGENT,
    LANGUAGES,
    THEME,
    languages,
    theme,
)
from tests.doors import Door, DoorStorage, FailingDoor
from tests.providers.local_stores import ALICE, BOB, KEY, current, disk, journals

NEW = Key.generate()

AS: dict[str, Callable[[Key], Key | str | Encryption]] = {
    "key": lambda key: key,
    "text": lambda key: key.to_base64(),
    "encryption": Aes256GCMEncryptor,
}
"""The ways of giving a key."""


def opened(root: Path, *keys: Key) -> LocalFileMemoryProvider:
    """Return a store that is opened with some keys."""
    return LocalFileMemoryProvider(root, storage=EncryptedStorage(Aes256GCMEncryptor(*keys)))


async def made(root: Path) -> LocalFileMemoryProvider:
    """Return an encrypted store of two places."""
    store = opened(root, KEY)
    await store.save(theme("dark"), ALICE, AGENT)
    await store.save(languages("java"), BOB, AGENT)
    return store


async def is_open_to(root: Path, *keys: Key) -> bool:
    """Return True if a store opens with some keys and is whole then."""
    store = opened(root, *keys)
    try:
        found = [*await current(store, ALICE), *await current(store, BOB)]
    except WrongKeyError:
        return False
    assert found == ["dark", "java"]
    return True


@pytest.mark.parametrize("given", AS)
async def test_a_second_key_opens_the_store_until_it_is_removed(root: Path, given: str) -> None:
    """As a key, as its text, or as an encryption; ids come and go with it."""
    store, other = await made(root), AS[given](NEW)
    (mine,) = await store.keys.ids()

    await store.keys.add(other)
    await store.keys.add(other)

    assert len(set(await store.keys.ids())) == len(await store.keys.ids()) == 2
    assert await is_open_to(root, NEW)
    assert await is_open_to(root, KEY)

    await store.keys.remove(other)

    assert await store.keys.ids() == [mine]
    assert not await is_open_to(root, NEW)
    assert await is_open_to(root, KEY)


@pytest.mark.parametrize("given", AS)
@pytest.mark.parametrize("rewrite", [True, False])
async def test_a_rotation_leaves_one_key(root: Path, given: str, *, rewrite: bool) -> None:
    """The provider goes on with the new key, and rewrites every file if asked to."""
    store, extra = await made(root), Key.generate()
    if rewrite:
        await store.keys.add(extra)
    before = {path: path.read_bytes() for path in journals(root)}

    await store.keys.rotate(AS[given](NEW), rewrite=rewrite)

    assert len(await store.keys.ids()) == 1
    assert await is_open_to(root, NEW)
    assert not await is_open_to(root, KEY, extra)
    is_new = {path.read_bytes() != data for path, data in before.items()}
    assert is_new == {rewrite}
    await store.save(languages("rust"), ALICE, AGENT)
    assert await current(store) == ["dark", "rust"]
    assert await current(opened(root, NEW)) == ["dark", "rust"]


async def test_rewrapping_keeps_the_other_keys(root: Path) -> None:
    """Changing one passphrase does not change the others."""
    store, extra = await made(root), Key.generate()
    await store.keys.add(extra)

    await store.keys.rotate(NEW, rewrite=False)

    assert await is_open_to(root, NEW)
    assert await is_open_to(root, extra)
    assert not await is_open_to(root, KEY)


async def test_an_old_copy_of_the_manifest_opens_nothing_after_a_rotation(root: Path) -> None:
    """An attacker who kept it and the old key cannot read the files as they are now."""
    store = await made(root)
    old = (root / "factmem.json").read_bytes()
    await store.keys.rotate(NEW)
    (root / "factmem.json").write_bytes(old)

    with pytest.raises(TamperedError, match="no longer has"):
        await current(opened(root, KEY))


async def test_a_passphrase_is_a_key_too(root: Path) -> None:
    """It is derived in a worker thread, with the cost that its slot names."""
    phrase = Key.from_passphrase("correct horse", cost="interactive")
    store = await made(root)

    await store.keys.rotate(phrase, rewrite=False)

    assert await is_open_to(root, Key.from_passphrase("correct horse"))
    assert not await is_open_to(root, Key.from_passphrase("correct mule", cost="interactive"))


async def test_the_last_key_stays(root: Path) -> None:
    """Removing the last key is refused; so is a key that does not open the store."""
    store = await made(root)
    before = disk(root)

    with pytest.raises(ValueError, match="last key of a store cannot be removed: add another"):
        await store.keys.remove(KEY)
    with pytest.raises(WrongKeyError, match="None of the"):
        await store.keys.remove(NEW)
    with pytest.raises(ValueError, match="44"):
        await store.keys.add("not a key")

    assert disk(root) == before


async def test_keys_of_no_store_are_refused(root: Path) -> None:
    """One in the clear has none, one that does not exist has none yet; nothing is created."""
    with pytest.raises(ValueError, match=r"EncryptedStorage\(Aes256GCMEncryptor\(key\)\)"):
        _ = LocalFileMemoryProvider(root).keys
    keys = opened(root, KEY).keys
    for call in (
        keys.ids,
        lambda: keys.add(NEW),
        lambda: keys.remove(KEY),
        lambda: keys.rotate(NEW),
    ):
        with pytest.raises(StorageError, match="save a fact first"):
            await call()

    assert not root.parent.exists()


KEPT = ("open", "read", "append", "sync", "rename", "sync_folder", "create", "content", "lock")


def through(root: Path, look: FailingDoor, key: Key) -> LocalFileMemoryProvider:
    """Return a store whose file calls go through a door."""
    storage = DoorStorage(lambda folder: Door(folder, look, is_quick=True), key)
    return LocalFileMemoryProvider(root, storage=storage)


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("finisher", ["old key", "new key"])
async def test_a_rotation_that_was_cut_short_can_be_finished(
    root: Path, finisher: str, stride: int
) -> None:
    """Cut anywhere, by the same call, from a provider with either key."""
    await made(root)
    shutil.copytree(root, root.with_name("made"))
    key = {"old key": KEY, "new key": NEW}[finisher]
    cuts = 0
    while True:
        shutil.rmtree(root)
        shutil.copytree(root.with_name("made"), root)
        failing = FailingDoor(set(KEPT), times=10**6, skip=cuts)
        try:
            await through(root, failing, KEY).keys.rotate(NEW)
        except StorageError:
            cuts += stride
        else:
            break
        if finisher == "new key" and not await is_open_to(root, NEW):
            continue  # it had not begun: the old key is needed, and is there
        await through(root, FailingDoor(), key).keys.rotate(NEW)
        assert await is_open_to(root, NEW)
        assert not await is_open_to(root, KEY)
    assert cuts > 30


NOBODY = ALICE.of("nobody yet")
"""A user without facts: an empty result would be wrong as well."""

Call = Callable[[LocalFileMemoryProvider], Awaitable[Any]]

CALLS: dict[str, Call] = {
    "save": lambda store: store.save(theme("light"), ALICE, AGENT),
    "save elsewhere": lambda store: store.save(theme("light"), NOBODY, AGENT),
    "load": lambda store: store.load(THEME, ALICE, AGENT),
    "load elsewhere": lambda store: store.load(THEME, NOBODY, AGENT),
    "load_all": lambda store: store.load_all(ALICE, AGENT),
    "history": lambda store: store.history(THEME, ALICE, AGENT),
    "forget": lambda store: store.forget(ALICE, AGENT, concept=THEME),
    "erase": lambda store: store.erase(ALICE, AGENT),
    "erase elsewhere": lambda store: store.erase(NOBODY, AGENT),
    "places": lambda store: store.places(),
    "entries": lambda store: store.entries(ALICE, AGENT),
    "compact": lambda store: store.compact(ALICE, AGENT),
    "salvage": lambda store: store.salvage(ALICE, AGENT),
    "anchor": lambda store: store.anchor(),
}


@pytest.mark.parametrize("call", CALLS)
async def test_a_store_is_opened_as_it_was_made_or_not_at_all(root: Path, call: str) -> None:
    """Each mistake has its own error; nothing is read, written or taken for empty."""
    sealed, plain, bare = root / "sealed", root / "plain", root / "bare"
    await made(sealed)
    for folder in (plain, bare):
        await LocalFileMemoryProvider(folder).save(theme("dark"), ALICE, AGENT)
    (bare / "factmem.json").unlink()
    before = disk(root)
    mistakes: list[tuple[LocalFileMemoryProvider, type[FactmemError], str]] = [
        (LocalFileMemoryProvider(sealed), KeyRequiredError, "is encrypted: open it with"),
        (opened(sealed, NEW), WrongKeyError, "None of the"),
        (opened(plain, KEY), TamperedError, "is not encrypted"),
        (LocalFileMemoryProvider(bare), CorruptJournalError, "restore that file"),
        (opened(bare, KEY), CorruptJournalError, "restore that file"),
    ]

    for store, error, message in mistakes:
        with pytest.raises(error, match=message) as caught:
            await CALLS[call](store)
        assert type(caught.value) is error

    assert disk(root) == before


async def test_keys_are_changed_by_who_has_one_only(root: Path) -> None:
    """A wrong key adds, removes and rotates nothing."""
    await made(root)
    before = disk(root)
    keys = opened(root, NEW).keys

    for call in (keys.ids, lambda: keys.add(NEW), lambda: keys.remove(NEW)):
        with pytest.raises(WrongKeyError, match="None of the"):
            await call()
    with pytest.raises(WrongKeyError, match="None of the"):
        await keys.rotate(NEW)

    assert disk(root) == before


async def test_two_providers_with_two_keys_share_a_store(root: Path) -> None:
    """Each opens its own slot; what one saves the other reads."""
    mine = await made(root)
    await mine.keys.add(NEW)
    other = opened(root, NEW)

    await other.save(languages("rust"), ALICE, AGENT)

    assert await current(mine) == ["dark", "rust"]
    await mine.forget(ALICE, AGENT, concept=LANGUAGES)
    assert await current(other) == ["dark"]
