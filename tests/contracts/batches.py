"""Saving several facts at once."""

import math

import anyio
import pytest

from factmem.models.facts import AnyFact, Concept, SingleFact
from factmem.providers.store import FactStore
from factmem.testing._facts import AGENT, LANGUAGES, USER, languages, theme


class Batches:
    """`save_many`: one step, all or nothing."""

    async def test_a_batch_is_kept_in_its_order(self, provider: FactStore) -> None:
        """The result is the same as after single saves."""
        facts: list[AnyFact] = [theme("dark"), languages("java"), theme("light"), languages("c")]

        await provider.save_many(iter(facts), USER, AGENT)

        assert await provider.load_all(USER, AGENT) == [facts[1], facts[3], facts[2]]

    async def test_one_bad_fact_refuses_the_batch(self, provider: FactStore) -> None:
        """At any position in the batch, and the error names its concept."""
        ratio = Concept("ratio", "A ratio", value_type=float)
        await provider.save(theme("dark"), USER, AGENT)
        facts: list[AnyFact]
        facts = [theme("light"), languages("java"), SingleFact(ratio, math.nan), languages("c")]

        with pytest.raises(ValueError, match=r"'ratio'.*value_type"):
            await provider.save_many(facts, USER, AGENT)

        assert [fact.values for fact in await provider.load_all(USER, AGENT)] == [("dark",)]
        assert len(await provider.entries(USER, AGENT)) == 1

    async def test_no_reader_sees_a_part(self, provider: FactStore) -> None:
        """Concurrent loads see a whole batch or nothing of it."""
        seen: list[tuple[str, set[str]]] = []

        async def read() -> None:
            for _ in range(20):
                loaded = await provider.load_all(USER, AGENT)
                known = {value for fact in loaded for value in fact.values}
                for fact in loaded:
                    if fact.concept.keyword == "ide-theme":
                        seen.append((fact.values[0], known))  # noqa: PERF401
                await anyio.lowlevel.checkpoint()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read)
            for number in range(10):
                batch: list[AnyFact] = [theme(f"v{number}"), languages(f"also v{number}")]
                tasks.start_soon(provider.save_many, batch, USER, AGENT)
            tasks.start_soon(read)

        await read()
        assert [value for value, known in seen if f"also {value}" not in known] == []
        assert len(await provider.load(LANGUAGES, USER, AGENT)) == 10

    async def test_a_cancelled_batch_is_whole_or_not_there(self, provider: FactStore) -> None:
        """Also when many are cancelled in the middle."""
        async with anyio.create_task_group() as tasks:
            for number in range(20):
                batch = [languages(f"{part}{number}") for part in "abc"]
                tasks.start_soon(provider.save_many, batch, USER, AGENT)
            await anyio.lowlevel.checkpoint()
            tasks.cancel_scope.cancel()

        kept = [fact.values[0] for fact in await provider.load(LANGUAGES, USER, AGENT)]
        for number in range(20):
            assert len([value for value in kept if value[1:] == str(number)]) in {0, 3}
