"""The shipped suite of searched stores over a real server."""

import pytest

from factmem.providers.postgres import PostgresMemoryProvider
from factmem.testing.clock import SettableClock
from tests.contracts.stores import SearchedStoreContract
from tests.postgres.conftest import NewStore


class SearchSuite(SearchedStoreContract):
    """Places are searched in the database from the first fact on."""

    @pytest.fixture
    def provider(self, new_store: NewStore, clock: SettableClock) -> PostgresMemoryProvider:
        return new_store(clock=clock, search_from=1)

    @pytest.fixture
    def second(self, new_store: NewStore, clock: SettableClock) -> PostgresMemoryProvider:
        return new_store(clock=clock, search_from=1)


@pytest.mark.postgres
class TestSearching(SearchSuite):
    """As the role that owns the tables."""
