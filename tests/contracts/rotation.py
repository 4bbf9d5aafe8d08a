"""Rotations of the key of an encrypted store while others use it."""

import anyio
import anyio.to_thread
import pytest

from factmem.encryption.key import Key
from factmem.errors import DecryptionError, TamperedError, WrongKeyError
from factmem.providers._sql.store import SqlStore
from factmem.testing._facts import AGENT, PERSON, theme
from tests.contracts.erasing import MARK
from tests.contracts.folders import BOB, StoreFolder, StoreFolders, save, save_many_times, values
from tests.contracts.processes import OtherProcess

SAVES = 25


class Rotating(StoreFolders):
    """A rotation shuts out every older key, and loses nothing."""

    async def test_a_rotation_replaces_the_key(self, home: StoreFolder) -> None:
        """The instance goes on with the new key; an anchor from before stays true."""
        new = Key.generate().to_base64()
        async with home.open() as store:
            await save(store, "java")
            await save(store, "c", BOB)
            anchor = await store.anchor()

            await store.keys.rotate(new)

            await save(store, "rust")
            assert await values(store) == ["java", "rust"]
            await store.verify(anchor)
            assert len(await store.keys.ids()) == 1
        await _check_opens(home.with_keys(new), ["java", "rust"])
        await _check_refused(home)

    async def test_a_rotation_under_load(self, home: StoreFolder, anyio_backend: str) -> None:
        """Tasks of this process, another instance and another process save meanwhile."""
        keys = [*home.keys, *(Key.generate().to_base64() for _ in range(3))]
        others = home.with_keys(*reversed(keys))
        saved: list[str] = []
        async with home.open() as store, others.open() as second:
            await save(store, "first")
            with OtherProcess(others, anyio_backend) as other:
                assert other.run(values) == ["first"]
                other.begin(save_many_times, "theirs", SAVES)
                async with anyio.create_task_group() as tasks:

                    async def keep_saving(one: SqlStore, name: str) -> None:
                        saved.extend(await save_many_times(one, name, SAVES))

                    tasks.start_soon(keep_saving, store, "task")
                    tasks.start_soon(keep_saving, second, "second")
                    for number, key in enumerate(keys[1:]):
                        await store.keys.rotate(key)
                        await save(store, f"after {number}")
                        saved.append(f"after {number}")
                saved += await anyio.to_thread.run_sync(other.result)
                other.close()
        await _check_opens(home.with_keys(keys[-1]), ["first", *saved])
        for key in keys[:-1]:
            await _check_refused(home.with_keys(key))

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


async def _check_refused(home: StoreFolder) -> None:
    async with home.open() as store:
        with pytest.raises(WrongKeyError) as caught:
            await values(store)
        assert not isinstance(caught.value, TamperedError)
        with pytest.raises(WrongKeyError):
            await save(store, "never")
