"""The shared core of stores on a third backend, and one contract for all providers."""

import inspect

import pytest

from factmem.models.clock import TimeProvider
from factmem.providers.base import FactStore
from factmem.providers.in_memory import InMemoryProvider
from factmem.providers.local_file import LocalFileMemoryProvider
from factmem.providers.no_memory import NoMemory
from factmem.testing._facts import AGENT, THEME, USER, theme
from factmem.testing.clock import SettableClock
from factmem.testing.providers import FactStoreContract
from tests.providers.delayed_backend import DelayedStore, Server


class TestDelayedStore(FactStoreContract):
    lacks = ("conversations",)

    @pytest.fixture
    def server(self, clock: SettableClock) -> Server:
        return Server(clock)

    @pytest.fixture
    def provider(self, server: Server) -> FactStore:
        return DelayedStore(server)

    @pytest.fixture
    def second(self, provider: FactStore, server: Server) -> FactStore:
        return DelayedStore(server)

    def make_provider(self, clock: TimeProvider) -> FactStore:
        return DelayedStore(Server(clock))


async def test_current_facts_are_read_without_the_history() -> None:
    """Only operations that need all entries load all entries."""
    server = Server()
    store = DelayedStore(server)
    for value in "abc":
        await store.save(theme(value), USER, AGENT)
    await store.load(THEME, USER, AGENT)
    assert server.rows_sent == 3

    await store.load_all(USER, AGENT)
    await store.load_by_description("theme", USER, AGENT)
    await store.version(USER, AGENT)
    assert await store.forget(USER, AGENT, concept=THEME) == 1
    assert server.rows_sent == 3
    await store.load(THEME, USER, AGENT)
    assert server.rows_sent == 4


@pytest.mark.parametrize("provider", [InMemoryProvider, LocalFileMemoryProvider, NoMemory])
def test_each_method_has_its_contract_as_docstring(provider: type[FactStore]) -> None:
    """Editors show the contract itself, not a reference to it."""
    contracts = {
        name: inspect.getdoc(method)
        for name, method in inspect.getmembers(FactStore, inspect.isfunction)
        if not name.startswith("_")
    }

    shown = {name: inspect.getdoc(getattr(provider, name)) for name in contracts}

    assert shown == contracts
    assert not [name for name, text in shown.items() if text is None or "See `" in text]
