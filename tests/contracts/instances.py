"""Fixtures of the stores under test."""

import pytest

from factmem.models.when import TimeProvider
from factmem.providers.store import FactStore
from factmem.testing.clock import SettableClock


class NewStores:
    """A new store for each test.

    Override `make_provider`; or the `provider` fixture, if creating one needs other fixtures:
    request the fixture `clock` there and pass it to the store.
    """

    def make_provider(self, clock: TimeProvider) -> FactStore:
        """Return a new, empty store that uses `clock`."""
        raise NotImplementedError("Override `make_provider` to return a new store on this clock")

    @pytest.fixture
    def clock(self) -> SettableClock:
        """Return the clock that the store and the test share."""
        return SettableClock()

    @pytest.fixture
    def provider(self, clock: SettableClock) -> FactStore:
        """Return a new, empty store on the test's clock."""
        return self.make_provider(clock)


class SecondInstances(NewStores):
    """A new store for each test, and perhaps a second instance on the same data."""

    @pytest.fixture
    def second(self, provider: FactStore) -> FactStore:
        """Return another instance on the data of `provider`, on the same clock.

        Override it if two instances can share their data. By default it is the same instance.
        """
        return provider
