"""Conformance suites for providers.

Subclass one as `TestMyProvider` and override its factory. The methods are asynchronous tests:
set `anyio_mode = "auto"` in pytest's configuration or mark the class with `pytest.mark.anyio`. Call
`pytest.register_assert_rewrite("factmem.testing")` in `conftest.py` to see values in failures.
"""

from collections.abc import Collection
from typing import Any, ClassVar

import pytest

from factmem.providers.base import AgentMemoryProvider, FactStore
from factmem.testing._contracts.amending import Amending
from factmem.testing._contracts.batches import Batches
from factmem.testing._contracts.changes import Changes
from factmem.testing._contracts.concurrency import Concurrency
from factmem.testing._contracts.conversations import Queue, Turns
from factmem.testing._contracts.current import CurrentFacts, FactsByDescription
from factmem.testing._contracts.definitions import Definitions
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
from factmem.testing._contracts.stores import SecondInstances
from factmem.testing._contracts.time import Clocks, Expiry, LookingBack
from factmem.testing._contracts.turn_changes import TurnChanges
from factmem.testing._contracts.validity import ValidTime
from factmem.testing._contracts.values import Values
from factmem.testing._contracts.versions import Versions

__all__ = ["FactStoreContract", "ProviderContract", "SearchedStoreContract"]

_OPTIONAL: dict[str, tuple[type, ...]] = {
    "indexes": (Versions, Indexes),
    "changes": (Changes,),
    "learning": (Statements, Reviewing),
    "conversations": (Turns, TurnChanges, Queue, Definitions),
}
"""What a store may leave to the defaults of `FactStore`, and the tests of it."""


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
    Turns,
    TurnChanges,
    Queue,
    Definitions,
    Batches,
    Forgetting,
    Purging,
    Expiry,
    Clocks,
    LookingBack,
    ValidTime,
    History,
    Renaming,
    Places,
    Replay,
    Amending,
    FactMetadata,
    Rewriting,
    Closing,
    Versions,
    Indexes,
    Changes,
    Statements,
    Reviewing,
    ProviderContract,
):
    """The contract of `FactStore`, which includes that of a provider.

    Override `make_provider`. If creating a store needs other fixtures, override the fixture `provider`
    instead: request the fixture `clock` there and pass it to the store. If two instances can share
    their data, override the fixture `second` too: it returns another instance on the data of
    `provider`, on the same clock.

    - `indexes`: the suite expects a version, not None, wherever something was saved.
    - `changes`: a store may return None if it does not know the changes, but not after a single save.
    - `learning`: statements are compared by their times, and what a model states never replaces a
      value that a person confirmed.
    - `conversations`: messages, the queue of learning, and the definitions of concepts.
    """

    lacks: ClassVar[Collection[str]] = ()
    """Those of these four groups that the store leaves to the defaults of `FactStore`."""

    def __init_subclass__(cls, **options: Any) -> None:
        """Leave out the tests of what the store lacks."""
        super().__init_subclass__(**options)
        for group in cls.lacks:
            if group not in _OPTIONAL:
                raise ValueError(f"{group!r} is none of {', '.join(_OPTIONAL)}")
            for name in (name for suite in _OPTIONAL[group] for name in vars(suite)):
                if name.startswith("test_"):
                    setattr(cls, name, None)

    def test_it_is_a_store(self, provider: FactStore) -> None:
        """It is a subclass."""
        assert isinstance(provider, FactStore)


class SearchedStoreContract(
    SecondInstances, Searching, SearchFilters, SearchBoundaries, SearchVectors
):
    """The contract of a store that searches its places itself: candidates and vectors.

    Inherit from `FactStoreContract` too; the same factory serves both. The store must search any
    place, however small, and compare vectors. If two instances can share their data, override the
    fixture `second` too.
    """
