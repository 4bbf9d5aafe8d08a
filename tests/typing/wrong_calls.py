"""Calls that both type checkers must refuse. Checked, never run.

Each ignore comment names the error; a checker that saw none would report the comment. The calls in
`right` must stay without one.
"""

from collections.abc import Sequence
from typing import Any

from factmem import (
    AgentMemory,
    Concept,
    FactStore,
    FactType,
    MemoryScope,
    MemorySubject,
    SingleFact,
)
from factmem.memory.contents import MemoryContents
from factmem.models import AnyFact, MultipleFacts
from factmem.providers.provider import AgentMemoryProvider

NAME = Concept("name", "The user's name")
AGE = Concept("age", "The user's age", value_type=int)
TAGS = Concept("tags", "The user's tags", FactType.MULTIPLE)

USER = MemorySubject("user", "The user", 1, per_entity=True).of("alice")
APP = MemoryScope.Product("my-app")


async def wrong(provider: AgentMemoryProvider, store: FactStore, contents: MemoryContents) -> None:
    await provider.save(SingleFact(AGE, "36"), USER, APP)  # type: ignore[misc]
    await store.save(SingleFact(AGE, "36"), USER, APP)  # type: ignore[misc]
    await store.save(MultipleFacts(TAGS, [1]), USER, APP)  # type: ignore[misc]
    await store.save_many([SingleFact(AGE, "36")], USER, APP)  # type: ignore[misc]
    await store.save_many(
        [SingleFact(AGE, "36"), MultipleFacts(TAGS, ["a"])],  # type: ignore[misc]
        USER,
        APP,
    )
    await store.forget(USER, APP, concept=AGE, value="36")  # type: ignore[misc]
    await contents.forget(concept=AGE, value="36")  # type: ignore[misc]
    SingleFact(TAGS, "a")  # type: ignore[arg-type]
    MultipleFacts(NAME, ["a"])  # type: ignore[arg-type]
    await store.save(SingleFact(TAGS, "a"), USER, APP)  # type: ignore[arg-type]


async def wrong_in_a_memory(memory: AgentMemory) -> None:
    await memory.value(TAGS)  # type: ignore[arg-type]
    await memory.save(AGE, "36")  # type: ignore[misc]
    await memory.save(NAME, ["Ada"])  # type: ignore[misc]
    await memory.save(TAGS, [1])  # type: ignore[arg-type]


CONCEPTS = [AGE, NAME, TAGS]


async def right_in_a_memory(store: FactStore) -> None:
    memory = AgentMemory(store, concepts=CONCEPTS)
    print(await memory.value(NAME), await memory.value(AGE))
    await memory.save(AGE, 36)
    await memory.save(TAGS, ["a"])
    for concept in CONCEPTS:
        print(concept.keyword, await memory.current(concept), await memory.values(concept))
        await memory.clear(concept)


async def right(store: FactStore, facts: Sequence[AnyFact], any_: Concept[Any, Any]) -> None:
    await store.save(SingleFact(AGE, 36), USER, APP)
    await store.save_many(facts, USER, APP)
    await store.save_many([SingleFact(AGE, 36), SingleFact(NAME, "Ada")], USER, APP)
    await store.save_many([SingleFact(AGE, 36), MultipleFacts(TAGS, ["a"])], USER, APP)
    await store.save_many((fact for fact in facts), USER, APP)
    await store.save(SingleFact(any_, 36), USER, APP)
    await store.forget(USER, APP, concept=AGE)
    await store.forget(USER, APP, concept=AGE, value=36)
    await store.forget(USER, APP, concept=any_, value="36")
    await store.forget(USER, APP, fact_ids=[facts[0].id])
