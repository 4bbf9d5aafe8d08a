"""The shipped suites over a real server; `all_kinds.py` runs them over every kind of store."""

from typing import Any, ClassVar

import pytest

from factmem.providers.postgres import PostgresMemoryProvider
from factmem.testing.clock import SettableClock
from factmem.testing.providers import (
    ConversationContract,
    FactStoreContract,
    FollowedStoreContract,
    IndexedStoreContract,
    LearningStoreContract,
)
from tests.postgres.conftest import NewStore


class Suites(
    FactStoreContract,
    IndexedStoreContract,
    FollowedStoreContract,
    LearningStoreContract,
    ConversationContract,
):
    """All suites over one kind of store."""

    options: ClassVar[dict[str, Any]] = {}

    @pytest.fixture
    def provider(self, new_store: NewStore, clock: SettableClock) -> PostgresMemoryProvider:
        return new_store(clock=clock, **self.options)

    @pytest.fixture
    def second(self, new_store: NewStore, clock: SettableClock) -> PostgresMemoryProvider:
        return new_store(clock=clock, **self.options)


class TestPlain(FactStoreContract):
    """A store in the clear, as the role that owns the tables."""

    @pytest.fixture
    def provider(self, new_store: NewStore, clock: SettableClock) -> PostgresMemoryProvider:
        return new_store(clock=clock)

    @pytest.fixture
    def second(self, new_store: NewStore, clock: SettableClock) -> PostgresMemoryProvider:
        return new_store(clock=clock)


@pytest.mark.postgres
class TestAllOfPlain(Suites):
    """The suites of indexes, of followers and of detections as well."""
