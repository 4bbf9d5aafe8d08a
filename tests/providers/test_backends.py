"""One contract for all providers."""

import inspect

import pytest

from factmem import FactStore, InMemoryProvider, LocalFileMemoryProvider, NoMemory


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
