"""How the suites come by a store, and what they ask of one that recall is to be quick with."""

from typing import Protocol

import pytest

from factmem.models.clock import TimeProvider
from factmem.providers.base import FactStore
from factmem.providers.indexed import FollowedStore, IndexedStore
from factmem.providers.learning import LearningStore
from factmem.testing.clock import SettableClock


class IndexedFacts(FactStore, IndexedStore, Protocol):
    """A store that keeps indexes."""


class FollowedFacts(IndexedFacts, FollowedStore, Protocol):
    """A store that tells what has changed."""


class LearningFacts(FactStore, LearningStore, Protocol):
    """A store that learns from chats."""


class NewStores:
    """A new store for each test.

    Override `make_provider`; or the `provider` fixture, if making one needs other fixtures: let it
    ask for the fixture `clock` as well and hand that to the store.
    """

    def make_provider(self, clock: TimeProvider) -> FactStore:
        """Return a new, empty store that tells the time by `clock`."""
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
    """A new store for each test, and perhaps somebody else who writes to the same data."""

    @pytest.fixture
    def second(self, provider: FactStore) -> FactStore:
        """Return another instance on the data of `provider`, on the same clock.

        Override it where two instances can share their data; else it is the same instance.
        """
        return provider
