"""The store in memory: the whole contract."""

import pytest

from factmem.providers.in_memory import InMemoryProvider
from factmem.testing.providers import ProviderContract


class TestInMemoryProvider(ProviderContract):
    @pytest.fixture
    def provider(self) -> InMemoryProvider:
        return InMemoryProvider()
