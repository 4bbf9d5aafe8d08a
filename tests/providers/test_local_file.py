"""The store in local files: the contract, plain and encrypted, and what only files bring along."""

from pathlib import Path

import pytest

from factmem.encryption import Aes256GCMEncryptor, Key
from factmem.provider import FactStore
from factmem.providers.local_file import LocalFileMemoryProvider
from factmem.storage.encrypted import EncryptedStorage
from factmem.testing.clock import SettableClock
from factmem.testing.providers import FactStoreContract

KEY = Key.generate()


class TestPlain(FactStoreContract):
    """A store in the clear is a store."""

    @pytest.fixture
    def provider(self, tmp_path: Path, clock: SettableClock) -> FactStore:
        return LocalFileMemoryProvider(tmp_path / "store", clock=clock)


class TestEncrypted(FactStoreContract):
    """And so is an encrypted one."""

    @pytest.fixture
    def provider(self, tmp_path: Path, clock: SettableClock) -> FactStore:
        storage = EncryptedStorage(Aes256GCMEncryptor(KEY))
        return LocalFileMemoryProvider(tmp_path / "store", storage=storage, clock=clock)
