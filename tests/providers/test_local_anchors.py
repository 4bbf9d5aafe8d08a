"""Anchors of local stores."""

from pathlib import Path

import pytest

from factmem._concurrency.file_lock import FileLock
from factmem.providers.local_file import LocalFileMemoryProvider
from factmem.providers.storages import SimpleStorage
from factmem.testing._facts import AGENT, PERSON, theme

ALICE = PERSON.of("alice")


@pytest.mark.storm
async def test_an_anchor_of_a_plain_store_writes_nothing(tmp_path: Path) -> None:
    """So a store that is read-only, or busy, can be anchored and backed up."""
    root = tmp_path / "memory"
    async with LocalFileMemoryProvider(root) as store:
        await store.save(theme("dark"), ALICE, AGENT)

    with FileLock(str(root / "lock"), 0.0).held():
        async with LocalFileMemoryProvider(root, storage=SimpleStorage(busy_timeout=0.0)) as store:
            anchor = await store.anchor()
            copied = await store.backup(tmp_path / "copy")

    assert anchor == copied
