"""Restored and salvaged stores: nobody who was erased comes back or writes to a replaced one."""

import os
import shutil
import sqlite3
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import anyio
import pytest

from factmem.encryption import KeyFile
from factmem.encryption.aes256gcm import Aes256GCMEncryptor
from factmem.encryption.key import Key
from factmem.errors import StorageError, StoreBusyError, TamperedError, WrongKeyError
from factmem.models.facts import Concept, SingleFact
from factmem.models.places import MemorySubject, Place
from factmem.providers.conversations import NewTurn, new_turn
from factmem.providers.local_file import LocalFileMemoryProvider, SalvagedStore
from factmem.providers.results import ErasureReceipt
from factmem.providers.storages import EncryptedStorage, SimpleStorage, Storage
from factmem.testing._facts import AGENT, THEME, languages, theme
from tests.processes import Process, Tell
from tests.providers.local_stores import ALICE, BOB, current, is_sound, run

PEOPLE = [MemorySubject("person", "", 1, per_entity=True).of(f"p{n}") for n in range(3)]


async def test_a_removed_conversation_does_not_come_back(
    tmp_path: Path, root: Path, storage: Storage
) -> None:
    """Though its place does, which was not erased."""
    place = Place(AGENT, PEOPLE[0])
    turn = new_turn({"role": "user", "content": "hello"})
    async with LocalFileMemoryProvider(root, storage=storage) as store:
        await store.save(theme("dark"), PEOPLE[0], AGENT)
        for chat in ("removed", "kept"):
            await store.conversations.append([turn], chat, place)
        await store.backup(tmp_path / "copy")
        await store.conversations.remove("removed", place)

        assert await store.restore(tmp_path / "copy") == 0

        assert [each.id for each in await store.conversations.conversations(place)] == ["kept"]
        assert await current(store, PEOPLE[0]) == ["dark"]
    assert is_sound(root)


async def test_receipts_replace_the_memory_of_a_lost_store(
    tmp_path: Path, root: Path, storage: Storage
) -> None:
    """What was recorded after the time of a receipt stays."""
    receipts: list[ErasureReceipt] = []
    async with LocalFileMemoryProvider(root, storage=storage) as store:
        for each in PEOPLE[:3]:
            await store.save(theme("dark"), each, AGENT)
        receipts.append(await store.erase(PEOPLE[0], AGENT))
        await store.save(theme("new"), PEOPLE[0], AGENT)
        anchor = await store.backup(tmp_path / "copy")
        receipts += [await store.erase(each, AGENT) for each in PEOPLE[1:3]]
    shutil.rmtree(root)

    async with LocalFileMemoryProvider(root, storage=storage) as store:
        assert await store.restore(tmp_path / "copy", anchor=anchor, erased=receipts) == 2
        [fact] = await store.load(THEME, PEOPLE[0], AGENT)
        assert fact.value == "new"
        assert len(await store.places()) == 1


async def test_receipts_reach_conversations(tmp_path: Path, root: Path, storage: Storage) -> None:
    """Of a person who has only talked, and of one who came back after the erasure."""
    async with LocalFileMemoryProvider(root, storage=storage) as store:
        for each in (ALICE, BOB):
            await store.conversations.append(
                [
                    NewTurn(
                        {"id": "before", "message": {"role": "user", "content": "before"}}, "before"
                    )
                ],
                "c",
                Place(AGENT, each),
            )
        await store.backup(tmp_path / "before")
        receipts = [await store.erase(each, AGENT) for each in (ALICE, BOB)]
        await store.conversations.append(
            [NewTurn({"id": "after", "message": {"role": "user", "content": "after"}}, "after")],
            "c",
            Place(AGENT, BOB),
        )
        await store.backup(tmp_path / "after")

    for name, left in ("before", 0), ("after", 1):
        async with LocalFileMemoryProvider(tmp_path / f"new-{name}", storage=storage) as store:
            assert await store.restore(tmp_path / name, erased=receipts) == 2 * (not left)
            assert await store.conversations.conversations(Place(AGENT, ALICE)) == []
            assert len(await store.conversations.conversations(Place(AGENT, BOB))) == left


async def test_a_moved_place_is_not_an_erased_one(
    tmp_path: Path, root: Path, storage: Storage
) -> None:
    """Its facts are in the backup under the former name only."""
    async with LocalFileMemoryProvider(root, storage=storage) as store:
        await store.save(theme("dark"), ALICE, AGENT)
        await store.backup(tmp_path / "copy")
        entries = await store.entries(ALICE, AGENT)
        await store.replay(entries, BOB, AGENT)
        await store.rewrite(lambda entries: [None for _ in entries], ALICE, AGENT)
        await store.erase(ALICE, AGENT, only_empty=True)

        assert await store.restore(tmp_path / "copy") == 0
        assert len(await store.load_all(ALICE, AGENT)) == 1


def hold(tell: Tell, wait: object, root: str) -> None:
    async def main() -> None:
        async with LocalFileMemoryProvider(root) as store:
            await store.load_all(ALICE, AGENT)
            tell("open")
            wait()  # type: ignore[operator]

    anyio.run(main)


async def test_a_store_that_others_have_open_is_not_replaced(tmp_path: Path, root: Path) -> None:
    """In this process or another one; a worker would go on in the replaced file."""
    async with LocalFileMemoryProvider(root) as store:
        await store.save(languages("java"), ALICE, AGENT)
        await store.backup(tmp_path / "copy")
        await store.save(languages("rust"), ALICE, AGENT)
    async with LocalFileMemoryProvider(root) as other, LocalFileMemoryProvider(root) as store:
        assert len(await current(other)) == 2
        with pytest.raises(StoreBusyError, match="stop them"):
            await store.restore(tmp_path / "copy")
        assert len(await current(store)) == len(await current(other)) == 2
    holder = Process(hold, str(root))
    assert holder.is_heard(30)
    async with LocalFileMemoryProvider(root) as store:
        with pytest.raises(StoreBusyError, match="stop them"):
            await store.restore(tmp_path / "copy")
        holder.go()
        assert holder.end() == 0
        await store.restore(tmp_path / "copy")
        assert await current(store) == ["java"]
        await store.save(languages("c"), ALICE, AGENT)
    assert is_sound(root)


async def test_what_cannot_be_restored_changes_nothing(
    tmp_path: Path, root: Path, storage: Storage
) -> None:
    """No backup, another store's, one that is older than its anchor, another key's."""
    other, anchor = tmp_path / "other", ""
    for each in (root, other):
        async with LocalFileMemoryProvider(each, storage=storage) as store:
            await store.save(languages("java"), ALICE, AGENT)
            await store.backup(tmp_path / f"copy-{each.name}")
            await store.save(languages("rust"), ALICE, AGENT)
            anchor = await store.anchor()
    is_encrypted = isinstance(storage, EncryptedStorage)
    wrong = [
        (tmp_path / "nothing", None, ValueError),
        (tmp_path / "nothing", anchor, ValueError),
        (tmp_path / f"copy-{other.name}", None, ValueError),
        (tmp_path / f"copy-{other.name}", anchor, TamperedError if is_encrypted else StorageError),
    ]
    for backup, anchor_of, error in wrong:
        async with LocalFileMemoryProvider(root, storage=storage) as store:
            with pytest.raises(error, match=r"\w"):
                await store.restore(backup, anchor=anchor_of)
        assert is_sound(root)
        async with LocalFileMemoryProvider(root, storage=storage) as store:
            assert len(await current(store)) == 2
    with (root / "facts.db").open("r+b") as file:
        file.write(bytes(4096))
    async with LocalFileMemoryProvider(root, storage=storage) as store:
        with pytest.raises(StorageError, match=r"move the folder.*erased="):
            await store.restore(tmp_path / f"copy-{root.name}")


async def test_drafts_of_killed_processes_are_removed(tmp_path: Path, root: Path) -> None:
    """They have what is erased later; the draft of a living one stays."""
    from factmem.providers._sqlite.copies import Draft

    dead, alive = tmp_path / f".copy-{'0' * 16}.tmp", Draft(tmp_path / "copy")
    mine, link = tmp_path / ".copy-old.tmp", tmp_path / f".copy-{'1' * 16}.tmp"
    for folder in (dead, mine):
        folder.mkdir()
        (folder / "facts.db").write_bytes(b"old")
    (dead / "draft").touch()
    link.symlink_to(mine)
    async with LocalFileMemoryProvider(root) as store:
        await store.save(languages("java"), ALICE, AGENT)

        await store.backup(tmp_path / "copy")

    assert not dead.exists()
    assert os.listdir(mine) == ["facts.db"]  # another name, or a link: no draft
    assert alive.folder.exists()
    alive.close()
    assert not alive.folder.exists()
    assert sorted(os.listdir(tmp_path / "copy")) == ["facts.db"]


async def test_a_store_whose_restoration_was_killed_is_written(root: Path) -> None:
    """Its database had no log, and the locks of a process that read it kept it from having one."""
    async with LocalFileMemoryProvider(root) as store:
        await store.save(theme("dark"), ALICE, AGENT)
    assert run(root, "PRAGMA journal_mode = delete") == [("delete",)]

    async with LocalFileMemoryProvider(root, storage=SimpleStorage(busy_timeout=5)) as store:
        assert await current(store) == ["dark"]
        await store.save(theme("light"), ALICE, AGENT)
        assert await current(store) == ["light"]

    assert run(root, "PRAGMA journal_mode") == [("wal",)]


async def test_shredding_makes_all_copies_unreadable(tmp_path: Path) -> None:
    """With keys that are kept outside of the copied folder; the store itself goes on."""
    storage = EncryptedStorage(KeyFile(tmp_path / "keys"))
    async with LocalFileMemoryProvider(tmp_path / "memory", storage=storage) as store:
        for each in (ALICE, BOB):
            await store.save(theme("dark"), each, AGENT)
        await store.backup(tmp_path / "copy")
        receipt = await store.erase(ALICE, AGENT)
        assert receipt.is_shreddable

        assert (await store.shred()).places == 1

        assert len(await store.load_all(BOB, AGENT)) == 1
    async with LocalFileMemoryProvider(tmp_path / "copy", storage=storage) as copy:
        with pytest.raises(WrongKeyError):
            await copy.load_all(ALICE, AGENT)


def test_a_key_file_in_the_folder_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every copy of the folder would have the keys, and no erasure could make it unreadable."""
    monkeypatch.chdir(tmp_path)
    for path in ("memory/keys", tmp_path / "other" / ".." / "memory" / "sub" / "keys"):
        with pytest.raises(ValueError, match="use a file elsewhere"):
            LocalFileMemoryProvider("memory", storage=EncryptedStorage(KeyFile(path)))
    LocalFileMemoryProvider("memory", storage=EncryptedStorage(KeyFile("memory.keys")))


async def test_a_backup_is_flushed_as_it_grows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A flush of the log waits for what other files have written: a save waited for 500 MB."""
    flush, sizes = os.fsync, [0]

    def noted(fd: int) -> None:
        sizes.append(os.fstat(fd).st_size)
        flush(fd)

    async with LocalFileMemoryProvider(tmp_path / "memory") as store:
        for number in range(12):
            await store.save(theme(f"{number}" * 1_000_000), ALICE, AGENT)
        monkeypatch.setattr(os, "fsync", noted)
        await store.backup(tmp_path / "copy")

    assert max(sizes) > 12e6
    assert max(later - earlier for earlier, later in pairwise(sizes)) < 6e6


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
