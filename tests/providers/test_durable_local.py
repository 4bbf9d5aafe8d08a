"""The store in local files passes the contract of durable stores, plain and encrypted."""

from collections.abc import Sequence
from pathlib import Path

import tests.processes  # noqa: F401 - its server has imported what the other processes need
from factmem.encryption.aes256gcm import Aes256GCMEncryptor
from factmem.models.when import TimeProvider, system_clock
from factmem.providers.local_file import LocalFileMemoryProvider
from factmem.providers.storages import EncryptedStorage, SimpleStorage
from tests.contracts.durable import DurableStoreContract


class TestPlain(DurableStoreContract):
    def open_store(
        self, folder: Path, keys: Sequence[str], clock: TimeProvider = system_clock
    ) -> LocalFileMemoryProvider:
        storage = EncryptedStorage(Aes256GCMEncryptor(*keys)) if keys else SimpleStorage()
        return LocalFileMemoryProvider(folder, storage=storage, clock=clock)


class TestEncrypted(TestPlain):
    is_encrypted = True
