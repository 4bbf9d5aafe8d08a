"""Histories of many concepts of one place."""

from random import Random
from typing import Any

import pytest
from pydantic import JsonValue

from factmem.ledger.history import Histories, history
from factmem.models.facts import Concept, FactType, MultipleFacts, SingleFact
from factmem.providers.store import FactStore
from factmem.testing.clock import SettableClock
from tests.world import AGENT, ALICE, KINDS, store_of

TOPICS: list[Any] = [
    Concept(f"k{n}", "", FactType.MULTIPLE if n % 2 else FactType.SINGLE) for n in range(6)
]


@pytest.fixture(params=KINDS)
def store(request: pytest.FixtureRequest, tmp_path: Any) -> FactStore:
    """Return a store of each kind that needs no server."""
    return store_of(request.param, tmp_path, SettableClock())


@pytest.mark.parametrize("seed", range(4))
async def test_they_are_those_of_all_entries(store: FactStore, seed: int) -> None:
    """Random saves, of several concepts at once and under shared ids, forgettings and retractions."""
    random = Random(seed)
    for step in range(30):
        facts: list[Any] = []
        for concept in random.sample(TOPICS, random.randint(1, 3)):
            fact_id = f"id{random.randint(0, 3)}" if random.random() < 0.3 else f"{step}"
            value = f"v{random.randint(0, 5)}"
            if concept.fact_type is FactType.SINGLE:
                facts.append(SingleFact(concept, value, id=fact_id))
            else:
                facts.append(MultipleFacts(concept, [value], id=fact_id))
        await store.save_many(facts, ALICE, AGENT)
        if random.random() < 0.3:
            await store.forget(ALICE, AGENT, concept=random.choice(TOPICS))
    entries = await store.entries(ALICE, AGENT)

    split = Histories(entries)

    asked: list[Any] = [
        *TOPICS,
        Concept("k1", "", FactType.MULTIPLE, was=["k3"]),
        Concept("none", ""),
    ]
    for concept in (*asked, *reversed(asked)):
        assert split.of(concept) == history(entries, concept)
        assert await store.history(concept, ALICE, AGENT) == history(entries, concept)


async def test_a_series_sees_what_changes(store: FactStore) -> None:
    """Saves, forgettings, purges and erasures between two histories, and no change of a caller."""
    one, two = Concept("one", ""), Concept("two", "", value_type=list[str])
    three: Concept[Any, Any] = Concept("three", "", value_type=JsonValue)
    await store.save(SingleFact(three, {"a": [1]}), ALICE, AGENT)
    await store.save(SingleFact(one, "secret"), ALICE, AGENT)
    await store.save(SingleFact(two, ["x"]), ALICE, AGENT)

    async def values(concept: Concept[Any, Any]) -> list[Any]:
        found = await store.history(concept, ALICE, AGENT)
        return [entry.fact.values[0] for entry in found if entry.fact is not None]

    for _ in range(2):
        assert (await values(one), await values(two)) == (["secret"], [["x"]])
    (await values(two))[0].append("changed")
    (await values(three))[0]["a"].append("changed")
    assert await values(three) == [{"a": [1]}]
    (await store.history(two, ALICE, AGENT)).clear()
    assert await values(two) == [["x"]]
    await store.save(SingleFact(one, "later"), ALICE, AGENT)
    assert await values(one) == ["secret", "later"]
    await store.forget(ALICE, AGENT, concept=one, purge=True)
    assert await values(one) == []
    await store.erase(ALICE, AGENT)
    assert await values(one) == await values(two) == []
