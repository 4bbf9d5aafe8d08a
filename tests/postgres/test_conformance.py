"""The shipped suites over a real server, in the clear and encrypted."""

from collections.abc import Iterator
from typing import Any, ClassVar

import pytest

from factmem.providers.postgres import PostgresMemoryProvider
from factmem.storage.encryption import Aes256GCMEncryptor
from factmem.testing.clock import SettableClock
from factmem.testing.providers import (
    FactStoreContract,
    FollowedStoreContract,
    IndexedStoreContract,
)

KEY = Aes256GCMEncryptor.generate_key()


class Suites(FactStoreContract, IndexedStoreContract, FollowedStoreContract):
    """All suites over one kind of store."""

    options: ClassVar[dict[str, Any]] = {}

    @pytest.fixture
    def provider(
        self, dsn: str, store: str, clock: SettableClock
    ) -> Iterator[PostgresMemoryProvider]:
        made = PostgresMemoryProvider(dsn, store=store, clock=clock, **self.options)
        yield made
        made._places.connections.close()

    @pytest.fixture
    def second(
        self, dsn: str, store: str, clock: SettableClock
    ) -> Iterator[PostgresMemoryProvider]:
        made = PostgresMemoryProvider(dsn, store=store, clock=clock, **self.options)
        yield made
        made._places.connections.close()


class TestPlain(Suites):
    """A store in the clear, as the role that owns the tables."""


class TestEncrypted(Suites):
    """A store whose names and lines are sealed."""

    options: ClassVar[dict[str, Any]] = {"encryption": Aes256GCMEncryptor(KEY)}
