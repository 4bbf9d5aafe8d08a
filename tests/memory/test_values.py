"""One value in one call, and the notice to a program that looks in another place than its facts."""

import logging
from pathlib import Path
from typing import Any

import pytest

from factmem import (
    AgentMemory,
    Concept,
    FactType,
    InMemoryProvider,
    LocalFileMemoryProvider,
    MemoryScope,
    MemoryScopesProfile,
    MemorySubject,
    Profile,
    remembered,
)
from factmem.errors import StoredFactError
from tests.doubles import BareProvider
from tests.world import USER

CITY = Concept("city", "Where the user lives")
AGE = Concept("age", "The age of the user", value_type=int)
TAGS = Concept("tags", "The tags of the user", FactType.MULTIPLE)


class Traveller(Profile):
    """A profile of the same concept."""

    city: str | None = remembered("Where the user lives")


def memory_on(store: Any, product: str = "app", subject: MemorySubject = USER) -> AgentMemory:
    profile = MemoryScopesProfile(product=product)
    return AgentMemory(store, scopes=profile, subjects=[subject]).of("alice")


async def test_a_value_in_one_call() -> None:
    """A new user has none, and needs no list to say so."""
    memory = memory_on(InMemoryProvider())
    assert await memory.value(CITY) is None
    assert await memory.values(TAGS) == []

    await memory.save(CITY, "Seoul")
    await memory.save(CITY, "Busan")
    await memory.save(AGE, 36)
    await memory.save(TAGS, ["b", "a"])
    await memory.save(TAGS, ["c"])

    assert (await memory.value(CITY), await memory.value(AGE)) == ("Busan", 36)
    assert sorted(await memory.values(TAGS)) == ["a", "b", "c"]
    assert await memory.values(CITY) == ["Busan"]


async def test_a_value_of_another_type_raises() -> None:
    memory = memory_on(InMemoryProvider())
    await memory.save(Concept("age", "The age of the user"), "thirty")
    with pytest.raises(StoredFactError):
        await memory.value(AGE)
    assert await memory.clear(AGE) == 1
    assert await memory.value(AGE) is None


async def test_a_cleared_concept_stays_in_history() -> None:
    """A second call forgets nothing that has held before."""
    memory = memory_on(InMemoryProvider())
    await memory.save(TAGS, ["a", "b"])
    await memory.save(CITY, "Busan")
    (place,) = memory.places
    before = await memory.store.history(TAGS, place.subject, place.scope)

    assert [await memory.clear(TAGS), await memory.clear(TAGS)] == [2, 0]

    assert (await memory.values(TAGS), await memory.value(CITY)) == ([], "Busan")
    after = await memory.store.history(TAGS, place.subject, place.scope)
    assert [entry.fact for entry in before] == [entry.fact for entry in after[: len(before)]]


@pytest.mark.parametrize(
    "look",
    [
        lambda memory: memory.value(CITY),
        lambda memory: memory.current(),
        lambda memory: memory.current(Traveller),
        lambda memory: memory.load_facts_to_agent([]),
        lambda memory: memory.recall("Where does she live?"),
    ],
    ids=["value", "current", "profile", "load", "recall"],
)
async def test_a_memory_that_looks_elsewhere_says_where_the_facts_are(
    look: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Once, in the log and in repr: the store is not empty, it has them under another product."""
    async with AgentMemory.open(tmp_path, user="alice", product="shop") as memory:
        await memory.save(CITY, "Busan")
        assert "the store has facts" not in repr(memory)
    async with LocalFileMemoryProvider(tmp_path) as store:
        memory = memory_on(store)
        with caplog.at_level(logging.WARNING, "factmem.memory"):
            await look(memory)
            await look(memory)
    (line,) = [each.getMessage() for each in caplog.records]
    assert "user in product/shop" in line
    assert "user in product/app" in line
    assert "alice" not in line
    assert "the store has facts of user in product/shop" in repr(memory)


async def test_another_subject_is_another_place(caplog: pytest.LogCaptureFixture) -> None:
    store = InMemoryProvider()
    await memory_on(store).save(CITY, "Busan")
    customer = MemorySubject("customer", "The customer", 1, per_entity=True)
    assert await memory_on(store, subject=customer).value(CITY) is None
    assert "has some of user in product/app" in caplog.text


async def test_a_memory_without_subjects_looks_nowhere_else(
    caplog: pytest.LogCaptureFixture,
) -> None:
    store = InMemoryProvider()
    await memory_on(store).save(CITY, "Busan")
    memory = AgentMemory(store, scopes=MemoryScopesProfile(product="shop"), subjects=[])
    assert list(await memory.current()) == []
    assert not caplog.records


async def test_documents_are_no_facts_elsewhere(caplog: pytest.LogCaptureFixture) -> None:
    """A memory that has only notes is not in the wrong place."""
    memory = memory_on(InMemoryProvider())
    await memory.documents(MemoryScope.Feature("notes")).write("/a.md", "Be brief.")

    assert list(await memory.current()) == []
    assert caplog.text == ""


async def test_a_new_user_is_no_mistake(caplog: pytest.LogCaptureFixture) -> None:
    """Neither is an empty store, nor one of four methods, which cannot list its places."""
    store = InMemoryProvider()
    memory = memory_on(store)
    assert await memory.value(CITY) is None
    await memory.save(CITY, "Busan")
    others = AgentMemory(store, scopes=MemoryScopesProfile(product="app"), subjects=[USER])
    assert await others.of("bob").value(CITY) is None
    assert await memory_on(BareProvider()).value(CITY) is None
    assert not caplog.records


async def test_open_names_its_product(tmp_path: Path) -> None:
    async with AgentMemory.open(tmp_path, user="alice", product="shop") as memory:
        assert [str(place) for place in memory.places] == ["product/shop user(alice)"]
    async with AgentMemory.open(tmp_path, user="alice") as memory:
        assert "user(alice) in product/app" in repr(memory)
