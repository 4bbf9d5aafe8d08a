"""Searches of small indexes run without a worker thread, and never for long."""

from typing import Any

import anyio
import pytest
from anyio import to_thread

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
from factmem.recall._places_index import PlacesIndex
from tests.doubles import TopicEmbedder

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


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Record the calls of worker threads."""
    made: list[object] = []
    run = to_thread.run_sync

    async def run_sync(call: Any, *args: Any, **options: Any) -> Any:
        made.append(call)
        return await run(call, *args, **options)

    monkeypatch.setattr(to_thread, "run_sync", run_sync)
    return made


async def values(memory: AgentMemory, question: str) -> list[object]:
    return [match.fact.values[0] for match in await memory.recall(question, limit=1)]


async def test_a_warm_search_by_words_uses_no_thread(
    memory: AgentMemory, store: InMemoryProvider, calls: list[object]
) -> None:
    """Reading, indexing and the first search after a save use one, because they may take longer."""
    assert await values(memory, "note 7") == ["note 7"]
    assert calls
    calls.clear()

    assert await values(memory, "note 8") == ["note 8"]
    assert calls == []

    await store.save(MultipleFacts(NOTES, ["the zeppelin"]), ALICE, AGENT)
    assert await values(memory, "zeppelin") == ["the zeppelin"]
    assert calls


async def test_other_tasks_continue(memory: AgentMemory, calls: list[object]) -> None:
    """Recalls in a loop let other tasks run in between."""
    await values(memory, "note 7")
    calls.clear()
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
    assert calls == []


@pytest.mark.parametrize("reason", ["large", "busy", "without numpy", "a long question"])
async def test_a_search_that_may_take_longer_uses_a_thread(
    reason: str, memory: AgentMemory, calls: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """There are many facts or words, an index in use by another thread, or plain Python."""
    question = "note 8"
    await values(memory, "note 7")
    calls.clear()
    if reason == "a long question":
        question += " please" * 100
    elif reason == "large":
        monkeypatch.setattr("factmem.recall._fact_index._QUICK", 299)
    elif reason == "without numpy":
        monkeypatch.setattr("factmem.recall._fact_index.numpy_or_none", lambda: None)
    else:
        search = PlacesIndex.search_at_once

        def while_busy(self: PlacesIndex, *args: Any) -> Any:
            with self._lock:
                return search(self, *args)

        monkeypatch.setattr(PlacesIndex, "search_at_once", while_busy)

    assert await values(memory, question) == ["note 8"]
    assert len(calls) == 1


@pytest.mark.parametrize(("count", "most_rows"), [(20, 20), (20, 19), (100, 256)])
async def test_a_warm_search_of_few_facts_by_meaning_uses_no_thread(
    count: int, most_rows: int, calls: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Facts and question must be embedded already; a search of many facts or vectors uses one."""
    monkeypatch.setattr("factmem.recall._place_vectors._FEW", most_rows)
    store = InMemoryProvider()
    facts = [MultipleFacts(NOTES, [f"note {number}"]) for number in range(count)]
    await store.save_many(facts, ALICE, AGENT)
    memory = AgentMemory(
        store,
        scopes=MemoryScopesProfile(agent="desk"),
        subjects=[ALICE],
        embedder=TopicEmbedder(),
    )
    await memory.recall("note 7", limit=1)
    calls.clear()

    result = await memory.recall("note 7", limit=1)

    assert result.is_semantic
    assert result[0].fact.values == ("note 7",)
    assert len(calls) == (count > 64 or most_rows < count)
