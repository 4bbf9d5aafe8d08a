"""Copies of a folder, and what an erasure in the store means for them."""

import os
from itertools import pairwise
from pathlib import Path

import pytest

from factmem.encryption import Aes256GCMEncryptor, KeyFile
from factmem.errors import WrongKeyError
from factmem.providers.local_file import LocalFileMemoryProvider
from factmem.providers.storages import EncryptedStorage, SimpleStorage, Storage
from factmem.testing._facts import AGENT, theme
from tests.providers.local_stores import ALICE, BOB, KEY


@pytest.mark.parametrize(
    "storage",
    [SimpleStorage(), EncryptedStorage(Aes256GCMEncryptor(KEY))],
    ids=["plain", "encrypted"],
)
async def test_a_receipt_does_not_promise_that_copies_are_unreadable(
    tmp_path: Path, storage: Storage
) -> None:
    """A copy made before opens as the store did: without a key, or with the same one."""
    async with LocalFileMemoryProvider(tmp_path / "memory", storage=storage) as store:
        await store.save(theme("dark"), ALICE, AGENT)
        await store.backup(tmp_path / "copy")

        receipt = await store.erase(ALICE, AGENT)

    async with LocalFileMemoryProvider(tmp_path / "copy", storage=storage) as copy:
        assert len(await copy.load_all(ALICE, AGENT)) == 1
    assert not receipt.is_shreddable


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
