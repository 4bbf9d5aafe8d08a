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


class Stores:
    """The fixtures of one kind of store."""

    options: ClassVar[dict[str, Any]] = {}

    @pytest.fixture
    def provider(self, new_store: NewStore, clock: SettableClock) -> PostgresMemoryProvider:
        return new_store(clock=clock, **self.options)

    @pytest.fixture
    def second(self, new_store: NewStore, clock: SettableClock) -> PostgresMemoryProvider:
        return new_store(clock=clock, **self.options)


class OtherSuites(
    Stores, IndexedStoreContract, FollowedStoreContract, LearningStoreContract, ConversationContract
):
    """The suites of indexes, of followers, of detections and of conversations."""


class Suites(OtherSuites, FactStoreContract):
    """All suites over one kind of store."""


class TestPlain(Stores, FactStoreContract):
    """A store in the clear, as the role that owns the tables."""


@pytest.mark.postgres
class TestPlainToo(OtherSuites):
    """The rest of its suites."""
