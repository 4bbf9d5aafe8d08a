"""Concurrent and cancelled calls."""

import anyio
import pytest

from factmem.models.facts import MultipleFacts
from factmem.providers.base import AgentMemoryProvider
from factmem.testing._facts import AGENT, LANGUAGES, THEME, USER, languages, theme

TASKS = 50


class Concurrency:
    """Any number of tasks may call at once, and any of them may be cancelled."""

    async def test_concurrent_saves_all_land(self, provider: AgentMemoryProvider) -> None:
        """No save of many tasks is lost."""
        facts = [languages(f"a{number}", f"b{number}") for number in range(TASKS)]

        async with anyio.create_task_group() as tasks:
            for fact in facts:
                tasks.start_soon(provider.save, fact, USER, AGENT)

        loaded = await provider.load(LANGUAGES, USER, AGENT)
        assert sorted(fact.id for fact in loaded) == sorted(fact.id for fact in facts)
        assert {fact.values for fact in loaded} == {fact.values for fact in facts}

    async def test_concurrent_saves_leave_one_current_value(
        self, provider: AgentMemoryProvider
    ) -> None:
        """The last one is current, completely. The same value from all tasks is stored once."""
        async with anyio.create_task_group() as tasks:
            for number in range(TASKS):
                tasks.start_soon(provider.save, theme(f"v{number}"), USER, AGENT)
                tasks.start_soon(provider.save, languages("java"), USER, AGENT)

        (last,) = await provider.load(THEME, USER, AGENT)
        assert last.value in {f"v{number}" for number in range(TASKS)}
        assert [fact.values for fact in await provider.load(LANGUAGES, USER, AGENT)] == [("java",)]

    async def test_each_task_reads_what_it_saved(self, provider: AgentMemoryProvider) -> None:
        """After a save has returned, every later read sees it, during other calls too."""
        seen: list[bool] = []

        async def save_and_load(number: int) -> None:
            fact = languages(f"v{number}")
            await provider.save(fact, USER, AGENT)
            seen.append(fact in await provider.load(LANGUAGES, USER, AGENT))

        async with anyio.create_task_group() as tasks:
            for number in range(TASKS):
                tasks.start_soon(save_and_load, number)

        assert seen == [True] * TASKS

    async def test_one_task_saves_in_its_order(self, provider: AgentMemoryProvider) -> None:
        """Also while others save into the same place."""

        async def save(task: str) -> None:
            for number in range(5):
                await provider.save(languages(f"{task}{number}"), USER, AGENT)

        async with anyio.create_task_group() as tasks:
            for task in "abcdef":
                tasks.start_soon(save, task)

        values = [fact.values[0] for fact in await provider.load(LANGUAGES, USER, AGENT)]
        for task in "abcdef":
            own = [value for value in values if value.startswith(task)]
            assert own == [f"{task}{number}" for number in range(5)]

    async def test_a_save_in_a_cancelled_scope_is_whole_or_not_there(
        self, provider: AgentMemoryProvider
    ) -> None:
        """If it returns, the fact is stored; if it raises, the fact is stored completely or not at all."""
        fact, is_acknowledged = languages("kotlin", "java", "rust"), False

        with anyio.CancelScope() as scope:
            scope.cancel()
            await provider.save(fact, USER, AGENT)
            is_acknowledged = True

        kept = await provider.load(LANGUAGES, USER, AGENT)
        assert kept in ([[fact]] if is_acknowledged else [[fact], []])
        await _check_alive(provider)

    async def test_a_save_that_runs_out_of_time_is_whole_or_not_there(
        self, provider: AgentMemoryProvider
    ) -> None:
        """At any moment."""
        acknowledged: list[MultipleFacts[str]] = []
        attempted: list[MultipleFacts[str]] = []
        for microseconds in (0, 1, 10, 50, 100, 200, 500, 1000):
            fact = languages(f"a{microseconds}", f"b{microseconds}")
            attempted.append(fact)
            with anyio.move_on_after(microseconds / 1_000_000):
                await provider.save(fact, USER, AGENT)
                acknowledged.append(fact)

        kept = await provider.load(LANGUAGES, USER, AGENT)

        assert [fact for fact in kept if fact not in attempted] == []
        assert [fact for fact in acknowledged if fact not in kept] == []
        await _check_alive(provider)

    @pytest.mark.parametrize("steps", [0, 1, 2, 5])
    async def test_cancelled_tasks_disturb_no_other(
        self, provider: AgentMemoryProvider, steps: int
    ) -> None:
        """Cancelled tasks leave whole facts, and other tasks continue."""
        doomed = [languages(f"a{number}", f"b{number}") for number in range(20)]
        acknowledged: list[MultipleFacts[str]] = []

        async def save(fact: MultipleFacts[str]) -> None:
            await provider.save(fact, USER, AGENT)
            acknowledged.append(fact)

        async with anyio.create_task_group() as others:
            others.start_soon(save, languages("other1", "other2"))
            async with anyio.create_task_group() as tasks:
                for fact in doomed:
                    tasks.start_soon(save, fact)
                for _ in range(steps):
                    await anyio.lowlevel.checkpoint()
                tasks.cancel_scope.cancel()

        kept = await provider.load(LANGUAGES, USER, AGENT)
        values = {fact.values for fact in kept}
        assert ("other1", "other2") in values
        assert {fact.values for fact in acknowledged} <= values
        assert values <= {("other1", "other2"), *(fact.values for fact in doomed)}
        await _check_alive(provider)


async def _check_alive(provider: AgentMemoryProvider) -> None:
    """After an interruption a provider still stores facts."""
    await provider.save(theme("after"), USER, AGENT)
    assert [fact.value for fact in await provider.load(THEME, USER, AGENT)] == ["after"]
