"""The faults of CrewAI's memory that concern recall: one test for each, named after the fault."""

from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import anyio
import pytest

from factmem.models.places import MemoryScope
from factmem.models.recall_filter import RecallFilter
from factmem.providers.in_memory import InMemoryProvider
from factmem.providers.local_file import LocalFileMemoryProvider
from tests.doubles import TopicEmbedder
from tests.world import (
    AGENT,
    ALICE,
    NOW,
    LocalStore,
    bare_note,
    bare_notes,
    found_values,
    recall_memory,
)


@pytest.mark.parametrize("embedder", [None, TopicEmbedder()], ids=["words", "meaning"])
async def test_fresh_unrelated_fact_is_not_relevant(embedder: Any) -> None:
    """Saved this second, of the greatest importance, and about something else: not relevant."""
    store = InMemoryProvider(clock=lambda: NOW)
    await store.save(
        bare_note("mornings", "black coffee", timestamp=NOW, importance=1.0), ALICE, AGENT
    )

    found = await recall_memory(store, embedder=embedder).recall("Where is the bicycle?")
    assert all(match.relevance < 0.01 for match in found)
    assert embedder or not found


async def test_records_at_a_parent_lost_once_a_child_exists(store: LocalStore) -> None:
    """A scope has no children: one whose name looks like a child's is another scope."""
    parent, child = MemoryScope.Agent("a"), MemoryScope.Agent("a/b")
    await store.save(bare_note("pet", "the cat of the parent"), ALICE, parent)
    memory = recall_memory(store)
    assert found_values(await memory.recall("cat", scopes=[parent])) == ["the cat of the parent"]

    await store.save(bare_note("pet", "the cat of the child"), ALICE, child)

    assert found_values(await memory.recall("cat", scopes=[parent])) == ["the cat of the parent"]
    assert found_values(await memory.recall("cat", scopes=[child])) == ["the cat of the child"]


async def test_second_instance_stale(tmp_path: Path) -> None:
    """Saves, removals and purges of one process are seen by another at its next recall."""
    stores = [LocalFileMemoryProvider(tmp_path) for _ in range(2)]
    here, there = (recall_memory(store, embedder=TopicEmbedder()) for store in stores)
    assert await there.recall("cat") == []

    for number in range(3):
        await stores[0].save(bare_note("pet", f"cat {number}"), ALICE, AGENT)
        assert found_values(await there.recall("cat")) == [f"cat {number}"]
    await stores[1].forget(ALICE, AGENT, concept=bare_note("pet", "").concept, purge=True)
    assert await here.recall("cat") == []


async def test_aware_and_naive_datetimes(store: LocalStore) -> None:
    """Any zone will do, none is guessed."""
    seoul = timezone(timedelta(hours=9))
    said = datetime(2026, 5, 17, 8, 0, tzinfo=seoul)
    await store.save(bare_note("pet", "cat", timestamp=said), ALICE, AGENT)
    memory = recall_memory(store)

    midnight = datetime(2026, 5, 16, 23, 0, tzinfo=UTC)
    assert found_values(
        await memory.recall("cat", where=RecallFilter(since=said, until=said + timedelta(1)))
    ) == ["cat"]
    assert found_values(await memory.recall("cat", where=RecallFilter(since=midnight))) == ["cat"]
    assert await memory.recall("cat", where=RecallFilter(until=midnight)) == []
    with pytest.raises(ValueError, match="naive"):
        RecallFilter(since=datetime(2026, 5, 17))  # noqa: DTZ001 - is refused


@pytest.mark.storm
async def test_async_call_that_blocks_the_loop() -> None:
    """Building an index of thousands of facts, with vectors, leaves the event loop free."""
    store = InMemoryProvider()
    words = [f"cat{number} likes tea{number % 7} and house{number % 5}" for number in range(3000)]
    await store.save(bare_notes("pets", *words), ALICE, AGENT)
    await store.save_many(
        [bare_note(f"k{n}", value) for n, value in enumerate(words)], ALICE, AGENT
    )
    ticks, is_done = 0, False
    memory = recall_memory(store, embedder=TopicEmbedder())

    async def tick() -> None:
        nonlocal ticks
        while not is_done:
            await anyio.lowlevel.checkpoint()
            ticks += 1

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(tick)
        result = await memory.recall("cat17")
        is_done = True

    assert found_values(result)
    assert ticks > 500
