"""Recalls leave the event loop to other tasks."""

import anyio
import pytest

from factmem import (
    AgentMemory,
    Concept,
    FactType,
    InMemoryProvider,
    MemoryScope,
    MemoryScopesProfile,
    MemorySubject,
    MultipleFacts,
)

AGENT = MemoryScope.Agent("desk")
ALICE = MemorySubject("user", "A person", 1, per_entity=True).of("alice")
NOTES = Concept("notes", "What was noted", FactType.MULTIPLE)


@pytest.fixture
async def store() -> InMemoryProvider:
    store = InMemoryProvider()
    facts = [MultipleFacts(NOTES, [f"note {number}"]) for number in range(300)]
    await store.save_many(facts, ALICE, AGENT)
    return store


@pytest.fixture
def memory(store: InMemoryProvider) -> AgentMemory:
    return AgentMemory(store, scopes=MemoryScopesProfile(agent="desk"), subjects=[ALICE])


async def values(memory: AgentMemory, question: str) -> list[object]:
    return [match.fact.values[0] for match in await memory.recall(question, limit=1)]


async def test_other_tasks_continue(memory: AgentMemory) -> None:
    """Recalls in a loop let other tasks run in between."""
    await values(memory, "note 7")
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await anyio.lowlevel.checkpoint()

    async with anyio.create_task_group() as group:
        group.start_soon(count)
        for _ in range(20):
            await memory.recall("note 8")
        group.cancel_scope.cancel()

    assert turns >= 20
