"""Erasures while a detection is under way, on providers that compare no moments themselves."""

from pathlib import Path
from typing import Any

import anyio

from factmem.memory.agent_memory import AgentMemory
from factmem.models.facts import AnyFact, Concept
from factmem.models.places import MemoryScope, MemorySubject
from factmem.providers.in_memory import InMemoryProvider
from factmem.providers.local_file import LocalFileMemoryProvider
from factmem.providers.provider import AgentMemoryProvider
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


async def test_four_methods_that_lost_all_facts_take_nothing() -> None:
    """The provider erased by a method that factmem does not know."""
    provider = FourMethods()
    await provider.save(theme("light"), ALICE, AGENT)

    async def wipe(_: AgentMemory) -> None:
        await provider.wipe()

    report = await _remembered(provider, wipe)

    assert await provider.load_all(ALICE, AGENT) == []
    assert (report.saved, len(report.erased)) == ([], 1)


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
