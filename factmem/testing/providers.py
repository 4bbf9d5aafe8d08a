"""The conformance suites: what every provider owes its callers, as tests.

Subclass one as `TestMyProvider` and say how to make a provider. The methods are asynchronous tests:
set `anyio_mode = "auto"` in pytest's configuration or mark the class with `pytest.mark.anyio`. Call
`pytest.register_assert_rewrite("factmem.testing")` in `conftest.py` to see values in failures.
"""

import pytest

from factmem.provider import AgentMemoryProvider
from factmem.testing._concurrency import Concurrency
from factmem.testing._current import CurrentFacts, FactsByDescription
from factmem.testing._isolation import Isolation
from factmem.testing._values import Values

__all__ = ["ProviderContract"]


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
