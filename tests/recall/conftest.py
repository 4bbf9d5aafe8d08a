"""Recall over each way of keeping facts."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from factmem.providers.in_memory import InMemoryProvider
from factmem.providers.local_file import LocalFileMemoryProvider
from factmem.storage.encrypted import EncryptedStorage
from factmem.storage.encryption.aes256gcm import Aes256GCMEncryptor
from factmem.storage.encryption.key import Key
from factmem.testing.clock import SettableClock
from tests.world import NOW, LocalStore

KEY = Key.generate()


@pytest.fixture
def clock() -> SettableClock:
    """What the stores tell the time by."""
    return SettableClock(NOW)


@pytest.fixture(params=["memory", "plain", "encrypted"])
async def store(
    request: pytest.FixtureRequest, tmp_path: Path, clock: SettableClock
) -> AsyncIterator[LocalStore]:
    """An empty store of each kind."""
    made: LocalStore
    if request.param == "memory":
        made = InMemoryProvider(clock=clock)
    elif request.param == "plain":
        made = LocalFileMemoryProvider(tmp_path / "store", clock=clock)
    else:
        storage = EncryptedStorage(Aes256GCMEncryptor(KEY))
        made = LocalFileMemoryProvider(tmp_path / "store", storage=storage, clock=clock)
    async with made:
        yield made
