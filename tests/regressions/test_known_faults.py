"""Faults of other agent memories, each by its name, and each not here."""

import json
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import anyio
import pytest
from anyio.lowlevel import checkpoint

from factmem.models.places import MemoryScope, MemorySubject
from factmem.providers.in_memory import InMemoryProvider
from factmem.providers.local_file import LocalFileMemoryProvider
from factmem.testing.chat import ScriptedChatModel
from tests.world import AGENT, ALICE, THEME, USER, item, memory_of, note, theme

EVERYTHING = MemorySubject.EVERYTHING
TEXT = "I prefer the dark theme."


async def test_records_at_a_parent_lost_once_a_child_exists() -> None:
    """A scope whose name begins like another's holds what it held before that one came."""
    store = InMemoryProvider()
    parent, child = MemoryScope.Product("team"), MemoryScope.Product("team/alice")
    await store.save(theme("parent's"), EVERYTHING, parent)
    contents = memory_of(store).contents
    before = await contents.records()

    await store.save(theme("child's"), EVERYTHING, child)

    assert before[0] in await contents.records()
    view = memory_of(store).view(scopes=[parent], subjects=[EVERYTHING])
    assert [fact.value for fact in await view.current(THEME)] == ["parent's"]
    assert (await view.contents.tree()).count == 1


async def test_model_chosen_place_outside_the_view() -> None:
    """A model that answers with another user's place writes nothing there."""
    store = InMemoryProvider()
    items = [item(subject="bob"), item(scope="organization"), item(entity="bob"), item(scope="/")]
    view = memory_of(store, ScriptedChatModel({"facts": items})).view(subjects=[ALICE])

    report = await view.remember(TEXT)

    assert len(report.rejected) == 3
    assert {info.subject.entity for info in await store.places()} == {"alice"}


async def test_forget_that_deletes_siblings() -> None:
    """Forgetting in one place leaves every place that is named alike."""
    store = InMemoryProvider()
    names = ["team", "team2", "team/a", "Team", "tea"]
    for name in names:
        await store.save(theme(name), USER.of(name), AGENT)

    view = memory_of(store).view(subjects=[USER.of("team")])
    assert await view.contents.forget(concept=THEME) == 1
    await view.contents.reset(confirm=True)

    left = {info.subject.entity for info in await store.places()}
    assert left == set(names) - {"team"}


async def test_second_instance_stale(tmp_path: Path) -> None:
    """Saves and removals of one instance are seen by another at its next call."""
    async with LocalFileMemoryProvider(tmp_path) as one, LocalFileMemoryProvider(tmp_path) as two:
        first, second = memory_of(one), memory_of(two)
        assert await second.contents.records() == []

        await one.save(theme("dark"), ALICE, AGENT)
        assert [placed.fact.values for placed in await second.contents.records()] == [("dark",)]

        await first.contents.forget(concept=THEME)
        assert await second.current(THEME) == []


async def test_newest_first_listing() -> None:
    """A page of the newest is cut after the sorting, over all places."""
    store = InMemoryProvider()
    for number in range(30):
        scope = MemoryScope.Agent(f"agent-{number % 7}")
        await store.save(note(f"n{number}"), EVERYTHING, scope)

    contents = memory_of(store).contents
    pages = [await contents.records(limit=7, offset=offset) for offset in range(0, 35, 7)]

    listed = [placed.fact.concept.keyword for page in pages for placed in page]
    assert listed == [f"n{number}" for number in reversed(range(30))]


async def test_aware_and_naive_datetimes() -> None:
    """A naive moment is refused at the door, and every other time zone is the same moment."""
    store = InMemoryProvider()
    naive = datetime(2026, 8, 3, 12)  # noqa: DTZ001
    seoul = datetime(2026, 8, 3, 21, tzinfo=timezone(timedelta(hours=9)))
    contents = memory_of(store).contents

    with pytest.raises(ValueError, match="naive"):
        theme("dark", timestamp=naive)
    with pytest.raises(ValueError, match="naive"):
        await contents.forget(older_than=naive)

    await store.save(theme("dark", timestamp=seoul), ALICE, AGENT)
    (record,) = await contents.records()
    assert record.fact.timestamp == datetime(2026, 8, 3, 12, tzinfo=UTC)


async def test_async_call_that_blocks_the_loop() -> None:
    """While a model takes its time, other tasks of the loop go on."""
    go, steps = anyio.Event(), 0

    class Slow(ScriptedChatModel):
        async def extract(self, messages, output_type):  # type: ignore[no-untyped-def]
            await go.wait()
            return await super().extract(messages, output_type)

    async def others() -> None:
        nonlocal steps
        for _ in range(100):
            steps += 1
            await checkpoint()
        go.set()

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(others)
            report = await memory_of(model=Slow({"facts": [item()]})).remember(TEXT)

    assert (steps, len(report.saved)) == (100, 1)


async def test_fresh_unrelated_fact_returned_by_a_tool() -> None:
    """A fact of this moment that shares no word with the query is not an answer to it."""
    store = InMemoryProvider()
    await store.save(theme("dark", timestamp=datetime(2020, 1, 1, tzinfo=UTC)), ALICE, AGENT)
    await store.save(note("lunch", "noodles", timestamp=datetime.now(UTC)), ALICE, AGENT)
    recall, *_ = memory_of(store).tools()

    told = json.loads(await recall.call('{"query": "Which theme?"}'))

    assert [row["concept"] for row in told["facts"]] == ["ide-theme"]
