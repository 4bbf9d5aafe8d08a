"""Conformance suites for providers.

Subclass one as `TestMyProvider` and override its factory. The methods are asynchronous tests:
set `anyio_mode = "auto"` in pytest's configuration or mark the class with `pytest.mark.anyio`. Call
`pytest.register_assert_rewrite("factmem.testing")` in `conftest.py` to see values in failures.
"""

import pytest

from factmem.providers.base import AgentMemoryProvider, FactStore
from factmem.testing._contracts.amending import Amending
from factmem.testing._contracts.batches import Batches
from factmem.testing._contracts.changes import Changes
from factmem.testing._contracts.concurrency import Concurrency
from factmem.testing._contracts.conversations import Queue, Turns
from factmem.testing._contracts.current import CurrentFacts, FactsByDescription
from factmem.testing._contracts.definitions import Definitions
from factmem.testing._contracts.faults import Faults
from factmem.testing._contracts.forgetting import Forgetting, Purging
from factmem.testing._contracts.history import History
from factmem.testing._contracts.indexes import Indexes
from factmem.testing._contracts.isolation import Isolation
from factmem.testing._contracts.metadata import FactMetadata, Rewriting
from factmem.testing._contracts.places import Closing, Places
from factmem.testing._contracts.renaming import Renaming
from factmem.testing._contracts.replay import Replay
from factmem.testing._contracts.reviewing import Reviewing
from factmem.testing._contracts.search_vectors import SearchVectors
from factmem.testing._contracts.searching import SearchBoundaries, SearchFilters, Searching
from factmem.testing._contracts.statements import Statements
from factmem.testing._contracts.stores import NewStores, SecondInstances
from factmem.testing._contracts.time import Clocks, Expiry, LookingBack
from factmem.testing._contracts.turn_changes import TurnChanges
from factmem.testing._contracts.values import Values
from factmem.testing._contracts.versions import Versions

__all__ = [
    "ConversationContract",
    "FactStoreContract",
    "FaultContract",
    "FollowedStoreContract",
    "IndexedStoreContract",
    "LearningStoreContract",
    "ProviderContract",
    "SearchedStoreContract",
]


class ProviderContract(CurrentFacts, FactsByDescription, Values, Isolation, Concurrency):
    """The contract of `AgentMemoryProvider`: its four methods.

    Override the `provider` fixture.
    """

    @pytest.fixture
    def provider(self) -> AgentMemoryProvider:
        """Return a new, empty provider."""
        raise NotImplementedError("Override the fixture `provider` to return a new provider")

    def test_it_is_a_provider(self, provider: AgentMemoryProvider) -> None:
        """The store has all four methods."""
        assert isinstance(provider, AgentMemoryProvider)


class FactStoreContract(
    NewStores,
    ProviderContract,
    Batches,
    Forgetting,
    Purging,
    Expiry,
    Clocks,
    LookingBack,
    History,
    Renaming,
    Places,
    Replay,
    Amending,
    FactMetadata,
    Rewriting,
    Closing,
):
    """The contract of `FactStore`, which includes that of a provider.

    Override `make_provider`. If creating a store needs other fixtures, override the fixture `provider`
    instead: request the fixture `clock` there and pass it to the store.
    """

    def test_it_is_a_store(self, provider: FactStore) -> None:
        """It is a subclass."""
        assert isinstance(provider, FactStore)


class IndexedStoreContract(SecondInstances, Versions, Indexes):
    """The contract of a store that keeps versions and indexes.

    Inherit from `FactStoreContract` too: both use the same `make_provider`, or the same `provider`
    fixture. If two instances can share their data, override the fixture `second` too: it returns
    another instance on the data of `provider`, on the same clock. The suite expects a version, not
    None, wherever something was saved.
    """


class FollowedStoreContract(SecondInstances, Changes):
    """The contract of a store that returns its `changes`.

    Inherit from `IndexedStoreContract` too; the same factory serves both. A store may return None
    if it does not know the changes, but not after a single save.
    """


class FaultContract(SecondInstances, Faults):
    """The contract of a `FactStore` whose storage is another process: each write is done once.

    Override the fixture `interrupt` too. It returns a function that makes the next answer of the
    storage get lost, for example a proxy that closes the connection. The fixture `second` returns an
    instance over the same facts, as another process has it.
    """


class ConversationContract(Turns, TurnChanges, Queue, Definitions):
    """The contract of a store that keeps conversations, and the definitions of concepts.

    Inherit from `FactStoreContract` too; the same factory serves both. If two instances can share
    their data, override the fixture `second` too.
    """


class LearningStoreContract(Statements, Reviewing):
    """The contract of a store that compares statements by their times in `learn`.

    What a model states never replaces a value that a person confirmed.

    Inherit from `FactStoreContract` too; the same factory serves both.
    """


class SearchedStoreContract(
    SecondInstances, Searching, SearchFilters, SearchBoundaries, SearchVectors
):
    """The contract of a store that searches its places itself: candidates and vectors.

    Inherit from `FactStoreContract` too; the same factory serves both. The store must search any
    place, however small, and compare vectors. If two instances can share their data, override the
    fixture `second` too.
    """
