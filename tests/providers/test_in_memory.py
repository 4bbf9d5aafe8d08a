"""The store in memory: the whole contract."""


from factmem.provider import TimeProvider
from factmem.providers.in_memory import InMemoryProvider
from factmem.testing.providers import FactStoreContract


class TestInMemoryProvider(FactStoreContract):
    def make_provider(self, clock: TimeProvider) -> InMemoryProvider:
        return InMemoryProvider(clock=clock)
