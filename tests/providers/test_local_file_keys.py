"""Keys of a local store, and opening it with wrong options."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from factmem import Aes256GCMEncryptor, Key, LocalFileMemoryProvider
from factmem.encryption.aes256gcm import Encryption
from factmem.errors import TamperedError, WrongKeyError
from factmem.testing._facts import AGENT, languages, theme
from tests.providers.local_stores import ALICE, BOB, KEY, current, disk, opened, run

NEW = Key.generate()

AS: dict[str, Callable[[Key], Key | str | Encryption]] = {
    "key": lambda key: key,
    "text": lambda key: key.to_base64(),
    "encryption": Aes256GCMEncryptor,
}
"""The ways to pass a key."""


async def made(root: Path) -> LocalFileMemoryProvider:
    """Return an encrypted store with two places."""
    store = opened(root, KEY)
    await store.save(theme("dark"), ALICE, AGENT)
    await store.save(languages("java"), BOB, AGENT)
    return store


async def is_open_to(root: Path, *keys: Key) -> bool:
    """Return True if a store opens with some keys and is complete."""
    store = opened(root, *keys)
    try:
        found = [*await current(store, ALICE), *await current(store, BOB)]
    except WrongKeyError:
        return False
    assert found == ["dark", "java"]
    return True


@pytest.mark.parametrize("given", AS)
async def test_a_second_key_opens_the_store_until_it_is_removed(root: Path, given: str) -> None:
    """It may be a key, a string or an encryption; ids are added and removed with it."""
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
    """The provider continues with the new key, rewrites files on request; anchors hold."""
    store, extra = await made(root), Key.generate()
    if rewrite:
        await store.keys.add(extra)
    before, anchor = (
        run(root, "SELECT place, number, line FROM entries ORDER BY place, number"),
        await store.anchor(),
    )

    await store.keys.rotate(AS[given](NEW), rewrite=rewrite)

    await store.verify(anchor)
    assert len(await store.keys.ids()) == 1
    assert await is_open_to(root, NEW)
    assert not await is_open_to(root, KEY, extra)
    after = run(root, "SELECT place, number, line FROM entries ORDER BY place, number")
    assert [row[:2] for row in after] == [row[:2] for row in before]
    assert {row[2] != old[2] for row, old in zip(after, before, strict=True)} == {rewrite}
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


async def test_old_key_slots_open_nothing_after_a_rotation(root: Path) -> None:
    """An attacker with a copy of the row and the old key cannot read the current lines."""
    store = await made(root)
    [(slots, generation)] = run(root, "SELECT slots, generation FROM stores")
    await store.keys.rotate(NEW)
    run(root, "UPDATE stores SET slots = ?, generation = ?", slots, generation)

    with pytest.raises(TamperedError, match="put back to an older copy"):
        await current(opened(root, KEY))


async def test_a_removed_key_opens_nothing_in_the_log(root: Path) -> None:
    """A thief with that key and a copy of all files, while the store is open, reads nothing."""
    async with await made(root) as store:
        await store.keys.add(NEW)
        [(slots,)] = run(root, "SELECT slots FROM stores")
        first, second = (slot["wrap"].encode() for slot in json.loads(slots))
        assert second in b"".join(disk(root).values())

        await store.keys.remove(NEW)
        assert second not in b"".join(disk(root).values())
        await store.keys.rotate(Key.generate())
        assert first not in b"".join(disk(root).values())


async def test_a_passphrase_can_be_a_key(root: Path) -> None:
    """It is derived in a worker thread, with the cost that its slot states."""
    phrase = Key.from_passphrase("correct horse")
    store = await made(root)

    await store.keys.rotate(phrase, rewrite=False)

    assert await is_open_to(root, Key.from_passphrase("correct horse"))
    assert not await is_open_to(root, Key.from_passphrase("correct mule"))


async def test_the_last_key_cannot_be_removed(root: Path) -> None:
    """A key that does not open the store cannot be removed either."""
    store = await made(root)
    before = run(root, "SELECT * FROM stores")

    with pytest.raises(ValueError, match="last key of a store cannot be removed: add another"):
        await store.keys.remove(KEY)
    with pytest.raises(WrongKeyError, match="None of the"):
        await store.keys.remove(NEW)
    with pytest.raises(ValueError, match="44"):
        await store.keys.add("not a key")

    assert run(root, "SELECT * FROM stores") == before


async def test_keys_of_a_plain_store_raise(root: Path) -> None:
    """It has none, and the error shows how to make an encrypted one."""
    with pytest.raises(ValueError, match=r"EncryptedStorage\(Aes256GCMEncryptor\(key\)\)"):
        _ = LocalFileMemoryProvider(root).keys


async def test_keys_before_the_first_save(root: Path) -> None:
    """Listing them creates nothing; a store whose keys change is created for that."""
    store = opened(root, KEY)
    assert await store.keys.ids() == []
    assert not root.parent.exists()

    await store.keys.add(NEW)

    assert len(await store.keys.ids()) == 2
    await store.save(theme("dark"), ALICE, AGENT)
    await store.save(languages("java"), BOB, AGENT)
    assert await is_open_to(root, NEW)


async def test_a_place_that_is_created_after_a_rotation(root: Path) -> None:
    """By an instance that was open before: its key is not wrapped under keys that are gone."""
    store, stale = await made(root), opened(root, NEW, KEY)
    await stale.keys.add(NEW)
    assert await current(stale) == ["dark"]
    await store.keys.rotate(NEW)

    await stale.save(theme("new"), ALICE.of("carol"), AGENT)

    assert await current(opened(root, NEW), ALICE.of("carol")) == ["new"]
    await opened(root, NEW).verify()


async def test_a_wrong_key_cannot_change_keys(root: Path) -> None:
    """It can neither add, remove nor rotate."""
    await made(root)
    before = run(root, "SELECT * FROM stores")
    keys = opened(root, NEW).keys

    for call in (keys.ids, lambda: keys.add(NEW), lambda: keys.remove(NEW)):
        with pytest.raises(WrongKeyError, match="None of the"):
            await call()
    with pytest.raises(WrongKeyError, match="None of the"):
        await keys.rotate(NEW)

    assert run(root, "SELECT * FROM stores") == before
