"""The types of concepts, facts and stores, for type checkers. Checked, never run."""

from collections.abc import Sequence
from datetime import date, datetime, timedelta
from typing import Annotated, Any, Literal, TypeVar, assert_type

from pydantic import BaseModel, Field

from factmem.ledger.entries import Entry
from factmem.ledger.history import HistoryEntry
from factmem.models.facts import (
    AnyFact,
    Concept,
    Fact,
    FactSource,
    FactType,
    MultipleFacts,
    SingleFact,
)
from factmem.models.places import MemoryScope, MemorySubject
from factmem.models.when import TimeProvider
from factmem.providers.in_memory import InMemoryProvider
from factmem.providers.no_memory import NoMemory
from factmem.providers.provider import AgentMemoryProvider
from factmem.providers.results import ErasureReceipt, Forgotten, PlaceInfo
from factmem.providers.store import FactStore
from factmem.testing.clock import SettableClock
from factmem.testing.providers import ProviderContract

L = TypeVar("L", bound="AnyFact")


class Cat(BaseModel):
    kind: Literal["cat"]


class Dog(BaseModel):
    kind: Literal["dog"]


NAME = Concept("name", "The user's name")
AGE = Concept("age", "The user's age", value_type=int)
BORN = Concept("born", "The user's birthday", FactType.SINGLE, value_type=date)
LANGUAGES = Concept("languages", "Languages", FactType.MULTIPLE)
SCORES = Concept("scores", "Scores", FactType.MULTIPLE, value_type=int)
TIER = Concept("tier", "The user's tier", value_type=Literal["free", "pro"])
PET = Annotated[Cat | Dog, Field(discriminator="kind")]
PETS = Concept("pets", "The user's pets", FactType.MULTIPLE, value_type=PET)
MAYBE = Concept("maybe", "A number or none", value_type=int | None)

assert_type(NAME, Concept[str])
assert_type(AGE, Concept[int])
assert_type(BORN, Concept[date])
assert_type(LANGUAGES, Concept[str, MultipleFacts[str]])
assert_type(SCORES, Concept[int, MultipleFacts[int]])
assert_type(SingleFact(AGE, 3), SingleFact[int])
assert_type(SingleFact(AGE, 3).value, int)
assert_type(SingleFact(AGE, 3).values, tuple[int, ...])
assert_type(MultipleFacts(SCORES, (1, 2)), MultipleFacts[int])
assert_type(SingleFact(NAME, "Ada").concept.keyword, str)

user = MemorySubject("user", "The user", 1, per_entity=True).of("alice")
scope = MemoryScope.Product("my-app")

small: AgentMemoryProvider = InMemoryProvider()
whole: FactStore = InMemoryProvider(clock=SettableClock())
nothing: FactStore = NoMemory()
clock: TimeProvider = SettableClock()


async def loading(provider: AgentMemoryProvider) -> None:
    ages = await provider.load(AGE, user, scope)
    assert_type(ages, list[SingleFact[int]])
    assert_type(ages[0].value, int)
    assert_type((await provider.load(NAME, user, scope))[0].value, str)
    assert_type((await provider.load(BORN, user, scope))[0].value, date)
    assert_type(await provider.load(LANGUAGES, user, scope), list[MultipleFacts[str]])
    assert_type((await provider.load(SCORES, user, scope))[0].values, tuple[int, ...])
    assert_type((await provider.load(PETS, user, scope))[0].values, tuple[Cat | Dog, ...])
    assert_type((await provider.load(MAYBE, user, scope))[0].value, int | None)
    tier: Literal["free", "pro"] = (await provider.load(TIER, user, scope))[0].value
    facts: Sequence[Fact[int]] = ages
    assert_type(await provider.load_all(user, scope), list[AnyFact])
    assert_type(await provider.load_by_description("age", user, scope), list[AnyFact])
    await provider.save(SingleFact(TIER, tier), user, scope)
    await provider.save(facts[0], user, scope)


async def storing(store: FactStore, moment: datetime, kind: FactType) -> None:
    assert_type(await store.load(AGE, user, scope, as_of=moment), list[SingleFact[int]])
    assert_type(await store.load_all(user, scope, concepts=[AGE, PETS]), list[AnyFact])
    await store.save_many([SingleFact(AGE, 3), MultipleFacts(LANGUAGES, ("c",))], user, scope)
    assert_type(await store.forget(user, scope, concept=AGE, value=3, purge=True), Forgotten)
    assert_type(await store.forget(user, scope, older_than=timedelta(days=30)), Forgotten)
    assert_type(await store.erase(user, scope), ErasureReceipt)
    for entry in await store.history(AGE, user, scope):
        assert_type(entry, HistoryEntry)
        assert_type(entry.fact, AnyFact | None)
    for info in await store.places():
        assert_type(info, PlaceInfo)
        assert_type(await store.entries(info.subject, info.scope), list[Entry])
    async with store as same:
        found = await same.load(AGE, user, scope)
        assert_type(found, list[SingleFact[int]])
    by_kind = Concept("any", "Known at run time only", kind, value_type=Any)
    for fact in await store.load(by_kind, user, scope):
        match fact:
            case SingleFact():
                await store.save(fact, user, scope)
            case MultipleFacts():
                await store.save(fact, user, scope)
            case _:
                pass


async def refused(provider: AgentMemoryProvider) -> None:
    """Mistakes that a type checker sees; both of them count an ignore that is not needed."""
    SingleFact(AGE, "three")  # type: ignore[misc]
    MultipleFacts(SCORES, ("one",))  # type: ignore[misc]
    text: str = (await provider.load(AGE, user, scope))[0].value  # type: ignore[assignment]
    await provider.save(text, user, scope)  # type: ignore[arg-type]
    await provider.load("age", user, scope)  # type: ignore[arg-type]


class Person(BaseModel):
    """Model types as fields of a user's own model."""

    age: SingleFact[int]
    tags: MultipleFacts[str]
    concept: Concept[int]
    where: MemoryScope
    source: FactSource | None = None


def reading(person: Person) -> None:
    assert_type(person.age.value, int)
    assert_type(person.tags.values, tuple[str, ...])


class OwnProvider:
    """A backend of one's own inherits from nothing."""

    async def save(self, fact: AnyFact, subject: MemorySubject, scope: MemoryScope) -> None: ...

    async def load(
        self, concept: Concept[Any, L], subject: MemorySubject, scope: MemoryScope
    ) -> list[L]:
        return []

    async def load_all(self, subject: MemorySubject, scope: MemoryScope) -> list[AnyFact]:
        return []

    async def load_by_description(
        self, description: str, subject: MemorySubject, scope: MemoryScope
    ) -> list[AnyFact]:
        return []


own_provider: AgentMemoryProvider = OwnProvider()
in_memory: FactStore = InMemoryProvider()


class TestOwnProvider(ProviderContract):
    """A suite over a provider of one's own."""
