"""Rotations of the key of an encrypted store while others use it."""

from factmem.encryption.key import Key
from factmem.errors import DecryptionError
from factmem.testing._facts import AGENT, PERSON, theme
from tests.contracts.erasing import MARK
from tests.contracts.folders import StoreFolder, StoreFolders, save, values


class Rotating(StoreFolders):
    """A rotation shuts out every older key, and loses nothing."""

    async def test_an_old_key_saves_nothing_that_is_lost(self, home: StoreFolder) -> None:
        """An instance that was open during a rotation is refused, or its saves can be read."""
        new = Key.generate().to_base64()
        async with home.open() as store, home.open() as stale:
            await save(stale, "java")
            await store.keys.rotate(new)

            wanted = ["java"]
            for value in ("rust", "c"):
                try:
                    await save(stale, value)
                except DecryptionError:
                    continue
                wanted.append(value)
            assert await values(store) == wanted
        await _check_opens(home.with_keys(new), wanted)

    async def test_an_old_copy_opens_nothing_after_a_rotation(self, home: StoreFolder) -> None:
        """No single file of the folder from before gives the old key access to the new facts."""
        new = Key.generate().to_base64()
        async with home.open() as store:
            await save(store, "java")
        older = home.files()
        async with home.open() as store:
            await store.keys.rotate(new)
        async with home.with_keys(new).open() as store:
            await save(store, "rust")
        newer = home.files()

        for name in older.keys() & newer.keys():
            (home.path / name).write_bytes(older[name])
            async with home.open() as store:
                try:
                    found = await values(store)
                except DecryptionError:
                    found = []
            assert "rust" not in found, name
            (home.path / name).write_bytes(newer[name])

    async def test_no_value_and_no_name_is_readable(self, home: StoreFolder) -> None:
        """In no file, at any time."""
        place = PERSON.of(MARK)
        async with home.open() as store:
            await store.save(theme(MARK), place, AGENT)
            assert home.names_with(MARK) == []
            await store.compact(place, AGENT)
            await store.places()
            assert home.names_with(MARK) == []
            await store.keys.rotate(Key.generate().to_base64())
            assert home.names_with(MARK) == []
        assert home.names_with(MARK) == []


async def _check_opens(home: StoreFolder, wanted: list[str]) -> None:
    async with home.open() as store:
        assert sorted(await values(store)) == sorted(wanted)
        await store.verify()
