"""What a memory tells a store about its concepts, and how it learns of other definitions."""

from pathlib import Path
from typing import Any

import pytest

from factmem.errors import StorageError
from factmem.events import MemoryEvent, MemoryOperation
from factmem.memory.agent_memory import AgentMemory
from factmem.models.facts import Concept, FactType
from factmem.models.profile import Profile, remembered
from factmem.providers.in_memory import InMemoryProvider
from factmem.providers.local_file import LocalFileMemoryProvider
from factmem.providers.no_memory import NoMemory
from factmem.providers.store import FactStore
from tests.doubles import BareProvider
from tests.world import AGENT, ALICE, PROFILE


class Old(Profile):
    """The profile of an older program."""

    pet: str | None = remembered("The user's pet")
    age: int | None = remembered("The user's age")


class New(Profile):
    """That of a newer one."""

    pet: list[str] = remembered("The user's pets")
    age: int | None = remembered("The user's age")


def memory_on(store: Any, profile: type[Profile], *listeners: Any) -> AgentMemory:
    """Return a memory with the concepts of a profile."""
    return AgentMemory(
        store, concepts=[profile], scopes=PROFILE, subjects=[ALICE], listeners=listeners
    )


async def test_two_programs_are_told(store: FactStore) -> None:
    """Opening compares, once: the older program gets an event that names what differs."""
    events: list[MemoryEvent] = []
    async with memory_on(store, Old, events.append), memory_on(store, New, events.append):
        pass
    assert [each.concepts for each in events] == [(), ()]

    old = memory_on(store, Old, events.append)
    async with old, old.view(scopes=[AGENT]):
        found = await old.contents.definitions()

    (event,) = [each for each in events[2:] if each.operation is MemoryOperation.DEFINE]
    assert (event.concepts, event.count) == (("pet",), 2)
    assert [(each.keyword, each.version, each.differs is None) for each in found] == [
        ("age", 1, True),
        ("pet", 2, False),
    ]
    assert found[1].fact_type is FactType.MULTIPLE


async def test_a_memory_without_a_context_compares_when_asked(store: FactStore) -> None:
    """`concepts` tells the store what is declared; undeclared concepts have no difference."""
    await store.define([Concept("city", "A city")])

    found = await memory_on(store, New).contents.definitions()

    assert [(each.keyword, each.differs) for each in found] == [
        ("age", None),
        ("city", None),
        ("pet", None),
    ]


async def test_a_read_only_view_tells_nothing(store: FactStore) -> None:
    """It sees what others told."""
    view = memory_on(store, New).view(read_only=True)
    async with view:
        assert await view.contents.definitions() == []
    with pytest.raises(Exception, match="read-only"):
        await view.store.define([])


async def test_a_store_that_fails_is_reported_in_the_event() -> None:
    """The comparison is no condition of any other call; asked for, it raises."""

    class Broken(InMemoryProvider):
        async def define(self, concepts: Any) -> None:
            raise StorageError("The disk is full")

        async def concepts(self) -> Any:
            raise StorageError("The disk is gone")

    events: list[MemoryEvent] = []
    async with memory_on(Broken(), New, events.append) as memory:
        await memory.save(New(age=3))
        with pytest.raises(StorageError):
            await memory.contents.definitions()

    assert events[0].error_type == "StorageError"


async def test_stores_without_definitions_have_none() -> None:
    """An agent without memory, and a provider with four methods."""
    for store in (NoMemory(), BareProvider()):
        async with memory_on(store, New) as memory:
            assert await memory.contents.definitions() == []


async def test_copies_of_a_store_have_its_definitions(tmp_path: Path) -> None:
    """A backup, and what is salvaged."""
    async with LocalFileMemoryProvider(tmp_path / "store") as store:
        await store.define([Concept("city", "A city")])
        await store.backup(tmp_path / "copy")
        await store.salvage(tmp_path / "rest")

    for folder in ("copy", "rest"):
        async with LocalFileMemoryProvider(tmp_path / folder) as store:
            assert [each.keyword for each in await store.concepts()] == ["city"]
