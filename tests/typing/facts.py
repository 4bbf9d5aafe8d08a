"""What type checkers know of facts: checked by mypy and pyright, never run.

An ignore that is not needed is an error for both, so each one here is a mistake that they must see.
"""

from collections.abc import Sequence
from datetime import date
from typing import Annotated, Any, Literal, assert_type

from pydantic import BaseModel, Field

from factmem import (
    AgentMemoryProvider,
    AnyFact,
    Concept,
    Fact,
    FactStore,
    FactType,
    InMemoryProvider,
    LocalFileMemoryProvider,
    MemoryScope,
    MemorySubject,
    MultipleFacts,
    NoMemory,
    SingleFact,
)


class Cat(BaseModel):
    kind: Literal["cat"] = "cat"


class Dog(BaseModel):
    kind: Literal["dog"] = "dog"


NAME = Concept("name", "What the user is called")
AGE = Concept("age", "The user's age", value_type=int)
BORN = Concept("born", "The user's birthday", FactType.SINGLE, value_type=date)
TIER = Concept("tier", "The user's plan", value_type=Literal["free", "pro"])
CAT = Concept("cat", "The user's cat", value_type=Cat)
NICKNAME = Concept("nickname", "What friends call the user", value_type=str | None)
LANGUAGES = Concept("languages", "What the user speaks", FactType.MULTIPLE)
SCORES = Concept("scores", "What the user scored", FactType.MULTIPLE, value_type=int)
PETS = Concept(
    "pets",
    "The user's pets",
    FactType.MULTIPLE,
    value_type=Annotated[Cat | Dog, Field(discriminator="kind")],
)

assert_type(NAME, Concept[str])
assert_type(AGE, Concept[int])
assert_type(BORN, Concept[date])
assert_type(CAT, Concept[Cat])
assert_type(LANGUAGES, Concept[str, MultipleFacts[str]])
assert_type(SCORES, Concept[int, MultipleFacts[int]])

assert_type(SingleFact(AGE, 36), SingleFact[int])
assert_type(MultipleFacts(SCORES, (1, 2)), MultipleFacts[int])

SingleFact(AGE, "36")  # type: ignore[misc]
SingleFact(CAT, Dog())  # type: ignore[misc]
SingleFact(AGE)  # type: ignore[call-arg]
SingleFact(AGE, 36).value = 37  # type: ignore[misc]

USER = MemorySubject("user", "The person the agent talks to", 1, per_entity=True)
APP = MemoryScope.Product("my-app")


async def loads(provider: AgentMemoryProvider) -> None:
    """The concept decides the kind of fact and the type of its value."""
    ages = await provider.load(AGE, USER, APP)
    assert_type(ages, list[SingleFact[int]])
    assert_type(ages[0].value, int)
    assert_type((await provider.load(NAME, USER, APP))[0].value, str)
    assert_type((await provider.load(BORN, USER, APP))[0].value, date)
    assert_type((await provider.load(CAT, USER, APP))[0].value, Cat)
    assert_type((await provider.load(LANGUAGES, USER, APP))[0].values, tuple[str, ...])
    assert_type((await provider.load(SCORES, USER, APP))[0].values, tuple[int, ...])
    assert_type((await provider.load(PETS, USER, APP))[0].values, tuple[Cat | Dog, ...])
    assert_type(await provider.load_all(USER, APP), list[SingleFact[Any] | MultipleFacts[Any]])

    tier: Literal["free", "pro"] = (await provider.load(TIER, USER, APP))[0].value
    nickname: str | None = (await provider.load(NICKNAME, USER, APP))[0].value
    either: Sequence[Fact[int]] = ages
    print(tier, nickname, either)

    ages[0].values.count(36)
    print((await provider.load(LANGUAGES, USER, APP))[0].value)  # type: ignore[attr-defined]
    await provider.load("age", USER, APP)  # type: ignore[arg-type]
    await provider.load(AGE, USER, APP, as_of=None)  # type: ignore[call-arg]


async def stores(store: FactStore, loaded: AnyFact, kind: FactType) -> None:
    """A store takes facts of both kinds together; a concept may be made from data."""
    await store.save_many([SingleFact(AGE, 36), MultipleFacts(LANGUAGES, ("Korean",))], USER, APP)
    assert_type((await store.load(AGE, USER, APP, as_of=None))[0].value, int)
    assert_type(loaded.concept, Concept[Any, Any])
    made = Concept("made", "At run time", kind)
    for fact in await store.load(made, USER, APP):
        print(fact.values)
    match loaded:
        case SingleFact(value=value):
            print(value)
        case MultipleFacts(values=values):
            print(values)


PROVIDERS: list[AgentMemoryProvider] = [
    NoMemory(),
    InMemoryProvider(),
    LocalFileMemoryProvider("memory"),
]
STORES: list[FactStore] = [NoMemory(), InMemoryProvider(), LocalFileMemoryProvider("memory")]
