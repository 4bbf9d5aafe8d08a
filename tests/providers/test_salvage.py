"""Salvage of local stores."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from factmem.encryption.aes256gcm import Aes256GCMEncryptor
from factmem.encryption.key import Key
from factmem.models.facts import Concept, SingleFact
from factmem.models.places import Place
from factmem.providers.conversations import new_turn
from factmem.providers.local_file import LocalFileMemoryProvider, SalvagedStore
from factmem.providers.storages import EncryptedStorage, Storage
from factmem.testing._facts import AGENT, THEME, theme
from tests.providers.local_stores import ALICE


async def test_nothing_is_missing_after_a_purge(tmp_path: Path, storage: Storage) -> None:
    """A purge and a compaction leave gaps in the numbers of entries."""
    async with LocalFileMemoryProvider(tmp_path / "memory", storage=storage) as store:
        for value in ("red", "green", "blue"):
            await store.save(theme(value), ALICE, AGENT)
        await store.forget(ALICE, AGENT, concept=THEME, value="green", purge=True)
        await store.compact(ALICE, AGENT)

        assert await store.salvage(tmp_path / "saved") == SalvagedStore(1, 0, 0)

    async with LocalFileMemoryProvider(tmp_path / "saved", storage=storage) as saved:
        assert [fact.values for fact in await saved.load_all(ALICE, AGENT)] == [("blue",)]


async def test_entries_around_a_damaged_page_are_saved(tmp_path: Path, storage: Storage) -> None:
    """They are read from both ends."""
    root = tmp_path / "memory"
    notes = [SingleFact(Concept(f"note-{n}", "A note"), "x" * 1000) for n in range(100)]
    async with LocalFileMemoryProvider(root, storage=storage) as store:
        for note in notes:
            await store.save(note, ALICE, AGENT)
    with closing(sqlite3.connect(root / "facts.db")) as database:
        ((size,),) = database.execute("PRAGMA page_size")
        ((line,),) = database.execute("SELECT line FROM entries WHERE number = 50")
    file = root / "facts.db"
    disk = bytearray(file.read_bytes())
    page = disk.index(line[:100]) // size * size
    disk[page : page + size] = b"\xff" * size
    file.write_bytes(disk)

    async with LocalFileMemoryProvider(root, storage=storage) as store:
        salvaged = await store.salvage(tmp_path / "saved")
    assert (salvaged.places, salvaged.lost) == (1, 0)
    assert 0 < salvaged.missing < 20

    async with LocalFileMemoryProvider(tmp_path / "saved", storage=storage) as saved:
        facts = await saved.load_all(ALICE, AGENT)
    assert len(facts) == 100 - salvaged.missing
    assert {facts[0].concept.keyword, facts[-1].concept.keyword} == {"note-0", "note-99"}


async def test_conversations_are_saved(tmp_path: Path, storage: Storage) -> None:
    """Their messages keep the numbers that facts cite, as in a backup and a rotation."""
    async with LocalFileMemoryProvider(tmp_path / "memory", storage=storage) as store:
        turns = [new_turn({"role": "user", "content": str(n)}, None, f"m-{n}") for n in range(9)]
        await store.conversations.append(turns, "chat", Place(AGENT, ALICE))
        stored = await store.conversations.turns("chat", Place(AGENT, ALICE))

        assert await store.salvage(tmp_path / "saved") == SalvagedStore(1, 0, 0)
        await store.verify(await store.backup(tmp_path / "copy"))

    for folder in ("saved", "copy"):
        async with LocalFileMemoryProvider(tmp_path / folder, storage=storage) as saved:
            assert await saved.conversations.turns("chat", Place(AGENT, ALICE)) == stored
            await saved.verify()


async def test_rotated_conversations(tmp_path: Path) -> None:
    """Their lines are sealed under the new key, and the old key opens nothing."""
    old, new = Aes256GCMEncryptor(Key.generate()), Aes256GCMEncryptor(Key.generate())
    storage = EncryptedStorage(old)
    async with LocalFileMemoryProvider(tmp_path / "memory", storage=storage) as store:
        turns = [new_turn({"role": "user", "content": "secret"})]
        await store.conversations.append(turns, "chat", Place(AGENT, ALICE))
        await store.keys.rotate(new)
        assert len(await store.conversations.turns("chat", Place(AGENT, ALICE))) == 1
        await store.verify()

    again = LocalFileMemoryProvider(tmp_path / "memory", storage=EncryptedStorage(new))
    async with again as store:
        assert [
            turn.text for turn in await store.conversations.turns("chat", Place(AGENT, ALICE))
        ] == ["secret"]
    assert b"secret" not in (tmp_path / "memory" / "facts.db").read_bytes()


@pytest.mark.parametrize("is_purged", [True, False])
async def test_erased_messages_leave_no_byte(
    tmp_path: Path, storage: Storage, is_purged: bool
) -> None:
    """Neither an erasure nor a purge of a value leaves it in a file."""
    root = tmp_path / "memory"
    async with LocalFileMemoryProvider(root, storage=storage) as store:
        turns = [new_turn({"role": "user", "content": f"My theme is xyzzy{n}y"}) for n in range(50)]
        await store.conversations.append(turns, "chat", Place(AGENT, ALICE))
        await store.save(theme("xyzzy7y"), ALICE, AGENT)
        if is_purged:
            await store.forget(ALICE, AGENT, concept=THEME, purge=True)
        else:
            await store.erase(ALICE, AGENT)
        files = b"".join(file.read_bytes() for file in root.iterdir())
        assert (b"xyzzy7y" if is_purged else b"xyzzy") not in files
