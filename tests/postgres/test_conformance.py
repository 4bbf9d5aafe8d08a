"""The shipped suites over a real server; `all_kinds.py` runs them over every kind of store."""

from typing import Any, ClassVar

import pytest

from factmem.providers.postgres import PostgresMemoryProvider
from factmem.testing.clock import SettableClock
from tests.contracts.stores import WholeStoreContract
from tests.postgres.conftest import NewStore


class Stores:
    """The fixtures of one kind of store."""

    options: ClassVar[dict[str, Any]] = {}

    @pytest.fixture
    def provider(self, new_store: NewStore, clock: SettableClock) -> PostgresMemoryProvider:
        return new_store(clock=clock, **self.options)

    @pytest.fixture
    def second(self, new_store: NewStore, clock: SettableClock) -> PostgresMemoryProvider:
        return new_store(clock=clock, **self.options)


class Suites(Stores, WholeStoreContract):
    """All suites over one kind of store."""


class TestPlain(Suites):
    """A store in the clear, as the role that owns the tables."""
