"""Memories over each kind of store."""

import pytest

from factmem.memory.agent_memory import AgentMemory
from factmem.providers.store import FactStore
from factmem.testing.clock import START, SettableClock
from tests.recall.conftest import store
from tests.world import memory_of

__all__ = ["store"]


@pytest.fixture
def clock() -> SettableClock:
    return SettableClock(START)


@pytest.fixture
def memory(store: FactStore, clock: SettableClock) -> AgentMemory:
    return memory_of(store, clock=clock)
