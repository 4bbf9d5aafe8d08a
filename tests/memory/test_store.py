"""`memory.store`: the provider as a `FactStore`."""

from pathlib import Path

import pytest

from factmem.providers.in_memory import InMemoryProvider
from factmem.transfer.bundle import export_facts
from tests.doubles import BareProvider
from tests.world import AGENT, ALICE, THEME, USER, memory_of, theme

BOB = USER.of("bob")


async def test_the_store_of_a_memory_is_its_provider(tmp_path: Path) -> None:
    """It can forget, erase, and be exported to a bundle."""
    store = InMemoryProvider()
    memory = memory_of(store)
    await memory.store.save(theme("dark"), ALICE, AGENT)

    assert memory.store is store
    assert (await export_facts(memory.store, tmp_path / "facts.jsonl")).entries == 1
    assert await memory.store.forget(ALICE, AGENT, concept=THEME) == 1


async def test_a_small_provider_is_not_a_store() -> None:
    """The error of any other method names the missing one and the caller's class."""
    memory = memory_of(BareProvider())

    for ask in (lambda: memory.store, memory.tools):
        with pytest.raises(TypeError, match="BareProvider is not a FactStore"):
            ask()
