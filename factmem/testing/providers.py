"""The conformance suites: what every provider owes its callers, as tests.

Subclass one as `TestMyProvider` and say how to make a provider. The methods are asynchronous tests:
set `anyio_mode = "auto"` in pytest's configuration or mark the class with `pytest.mark.anyio`. Call
`pytest.register_assert_rewrite("factmem.testing")` in `conftest.py` to see values in failures.
"""

import pytest

from factmem.provider import AgentMemoryProvider, FactStore, TimeProvider
from factmem.testing._amending import Amending
from factmem.testing._batches import Batches
from factmem.testing._concurrency import Concurrency
from factmem.testing._current import CurrentFacts, FactsByDescription
from factmem.testing._forgetting import Forgetting, Purging
from factmem.testing._history import History
from factmem.testing._isolation import Isolation
from factmem.testing._places import Closing, Places
from factmem.testing._replay import Replay
from factmem.testing._time import Clocks, Expiry, LookingBack
from factmem.testing._values import Values
from factmem.testing.clock import SettableClock

__all__ = ["FactStoreContract", "ProviderContract"]


class ProviderContract(CurrentFacts, FactsByDescription, Values, Isolation, Concurrency):
    """What every `AgentMemoryProvider` owes its callers: the four methods.

    Override the `provider` fixture.
    """

    @pytest.fixture
    def provider(self) -> AgentMemoryProvider:
        """Return a new, empty provider."""
        raise NotImplementedError("Override the fixture `provider` to return a new provider")

    def test_it_is_a_provider(self, provider: AgentMemoryProvider) -> None:
        """All four methods are there."""
        assert isinstance(provider, AgentMemoryProvider)


class FactStoreContract(
    ProviderContract,
    Batches,
    Forgetting,
    Purging,
    Expiry,
    Clocks,
    LookingBack,
    History,
    Places,
    Replay,
    Amending,
    Closing,
):
    """What every `FactStore` owes its callers, the contract of a provider included.

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

    def test_it_is_a_store(self, provider: FactStore) -> None:
        """All methods are there."""
        assert isinstance(provider, FactStore)
