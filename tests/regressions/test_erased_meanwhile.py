"""Erasures while a detection is under way, on providers that compare no moments themselves."""

from pathlib import Path
from typing import Any

import anyio
import pytest

from factmem.memory.agent_memory import AgentMemory
from factmem.models.facts import AnyFact, Concept
from factmem.models.places import MemoryScope, MemorySubject
from factmem.providers.base import AgentMemoryProvider, FactStore
from factmem.providers.erasures import erasing
from factmem.providers.in_memory import InMemoryProvider
from factmem.providers.local_file import LocalFileMemoryProvider
from factmem.testing.chat import ScriptedChatModel
from tests.memory.test_remembering import DARK, TEXT, SlowModel
from tests.world import AGENT, ALICE, THEME, USER, memory_of, theme

BOB = USER.of("bob")


class FourMethods:
    """A provider of four methods, and a way of erasing of its own."""

    def __init__(self) -> None:
        self._store = InMemoryProvider()

    async def save(self, fact: AnyFact, subject: MemorySubject, scope: MemoryScope) -> None:
        await self._store.save(fact, subject, scope)

    async def load(
        self, concept: Concept[Any, Any], subject: MemorySubject, scope: MemoryScope
    ) -> list[Any]:
        return await self._store.load(concept, subject, scope)

    async def load_all(self, subject: MemorySubject, scope: MemoryScope) -> list[AnyFact]:
        return await self._store.load_all(subject, scope)

    async def load_by_description(
        self, description: str, subject: MemorySubject, scope: MemoryScope
    ) -> list[AnyFact]:
        return await self._store.load_by_description(description, subject, scope)

    async def wipe(self) -> None:
        await self._store.erase(ALICE, AGENT)


class WithoutMoments(InMemoryProvider):
    """A `FactStore` of the application that inherits `moment` and `learn`."""

    moment = FactStore.moment
    learn = FactStore.learn


async def _remembered(provider: AgentMemoryProvider, meanwhile: Any) -> Any:
    """Remember a text, and do something with the memory before the model answers."""
    model, reports = SlowModel(DARK), list[Any]()
    memory = memory_of(provider, model, concepts=[THEME])  # type: ignore[arg-type]

    async def remember() -> None:
        reports.append(await memory.remember(TEXT))

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(remember)
            await model.asked.wait()
            await meanwhile(memory)
            model.go.set()
    return reports[0]


@pytest.mark.parametrize("was_empty", [True, False])
async def test_a_store_without_moments_is_watched_in_one_process(was_empty: bool) -> None:
    """Its `erase` through any memory of the process counts."""
    provider: Any = WithoutMoments()
    if not was_empty:
        await provider.save(theme("light"), ALICE, AGENT)

    async def erase(_: AgentMemory) -> None:
        await memory_of(provider).store.erase(ALICE, AGENT)

    report = await _remembered(provider, erase)

    assert await provider.places() == []
    assert (report.saved, len(report.erased)) == ([], 1)


async def test_its_purge_counts_too() -> None:
    """Purged values are not learned again."""
    provider: Any = WithoutMoments()
    await provider.save(theme("dark"), ALICE, AGENT)

    async def purge(memory: AgentMemory) -> None:
        await memory.contents.forget(concept=THEME, purge=True, subjects=[ALICE])

    report = await _remembered(provider, purge)

    assert await provider.load(THEME, ALICE, AGENT) == []
    assert len(report.erased) == 1


async def test_another_place_of_it_is_written() -> None:
    """An erasure of Bob's keeps nothing of Alice's out."""
    provider: Any = WithoutMoments()
    await provider.save(theme("light"), BOB, AGENT)

    async def erase(memory: AgentMemory) -> None:
        await memory.store.erase(BOB, AGENT)

    report = await _remembered(provider, erase)

    assert [fact.value for fact in await provider.load(THEME, ALICE, AGENT)] == ["dark"]
    assert report.erased == []


async def test_an_erasure_waits_for_a_write_that_has_begun() -> None:
    """Whichever comes first, nothing is there after the receipt."""
    provider: Any = WithoutMoments()
    saving, go = anyio.Event(), anyio.Event()
    save_many = provider.save_many

    async def save_slowly(*args: Any) -> None:
        saving.set()
        await go.wait()
        await save_many(*args)

    provider.save_many = save_slowly
    memory = memory_of(provider, ScriptedChatModel(DARK), concepts=[THEME])
    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(memory.remember, TEXT)
            await saving.wait()
            tasks.start_soon(memory.store.erase, ALICE, AGENT)
            await anyio.sleep(0.02)
            go.set()

    assert await provider.places() == []


async def test_four_methods_that_lost_all_facts_take_nothing() -> None:
    """The provider erased by a method that factmem does not know."""
    provider = FourMethods()
    await provider.save(theme("light"), ALICE, AGENT)

    async def wipe(_: AgentMemory) -> None:
        await provider.wipe()

    report = await _remembered(provider, wipe)

    assert await provider.load_all(ALICE, AGENT) == []
    assert (report.saved, len(report.erased)) == ([], 1)


async def test_four_methods_can_announce_an_erasure() -> None:
    """Also of a place that was empty."""
    provider = FourMethods()

    async def wipe(_: AgentMemory) -> None:
        async with erasing(provider, ALICE, AGENT):
            await provider.wipe()

    report = await _remembered(provider, wipe)

    assert await provider.load_all(ALICE, AGENT) == []
    assert len(report.erased) == 1


async def test_four_methods_learn_as_ever() -> None:
    """Where nothing was erased."""
    provider = FourMethods()

    async def save(_: AgentMemory) -> None:
        await provider.save(theme("light"), ALICE, AGENT)

    report = await _remembered(provider, save)

    assert [placed.fact.value for placed in report.saved] == ["dark"]
    [fact] = await provider.load(THEME, ALICE, AGENT)
    assert fact.value == "dark"


async def test_an_erasure_counts_where_no_store_was_yet(tmp_path: Path) -> None:
    """The first process read the chat; the second erased; nothing was saved before."""

    async def erase(_: AgentMemory) -> None:
        async with LocalFileMemoryProvider(tmp_path) as other:
            await other.erase(ALICE, AGENT)

    report = await _remembered(LocalFileMemoryProvider(tmp_path), erase)

    assert (report.saved, len(report.erased)) == ([], 1)
    assert await LocalFileMemoryProvider(tmp_path).places() == []
