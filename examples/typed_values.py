"""Concepts with value types: values keep their type, and values of another type are rejected."""

from datetime import date
from decimal import Decimal
from typing import Annotated, Literal

import anyio
from pydantic import BaseModel, Field

from factmem import (
    Concept,
    FactType,
    LocalFileMemoryProvider,
    MemoryScope,
    MemorySubject,
    MultipleFacts,
    SingleFact,
)
from factmem.errors import StoredFactError


class Cat(BaseModel):
    """A cat."""

    kind: Literal["cat"] = "cat"
    lives: int = Field(ge=0, le=9)


class Dog(BaseModel):
    """A dog."""

    kind: Literal["dog"] = "dog"
    tricks: list[str]


Pet = Annotated[Cat | Dog, Field(discriminator="kind")]

AGE = Concept("age", "The user's age in years", value_type=int)
BORN = Concept("born", "The user's birthday", value_type=date)
BUDGET = Concept("budget", "What the user may spend", value_type=Decimal)
TIER = Concept("tier", "The user's plan", value_type=Literal["free", "pro"])
PETS = Concept("pets", "The user's pets", FactType.MULTIPLE, value_type=Pet)

ALICE = MemorySubject("user", "The person the agent talks to", 1, per_entity=True).of("alice")
APP = MemoryScope.Product("my-app")


async def main() -> None:
    """Save and load typed values. Type checkers know the types, and both calls check them."""
    async with LocalFileMemoryProvider("memory") as store:
        await store.save(SingleFact(AGE, 36), ALICE, APP)
        await store.save(SingleFact(BORN, date(1990, 4, 1)), ALICE, APP)
        await store.save(SingleFact(BUDGET, Decimal("19.90")), ALICE, APP)
        await store.save(SingleFact(TIER, "pro"), ALICE, APP)
        await store.save(MultipleFacts(PETS, (Cat(lives=9), Dog(tricks=["roll"]))), ALICE, APP)

        [age] = await store.load(AGE, ALICE, APP)
        [budget] = await store.load(BUDGET, ALICE, APP)
        [pets] = await store.load(PETS, ALICE, APP)
        print(f"next year {age.value + 1}; half the budget {budget.value / 2}")
        for pet in pets.values:
            print(f"a {pet.kind}: {pet!r}")

        try:
            SingleFact(BUDGET, "a lot")  # type: ignore[misc]
        except ValueError as error:
            print(f"rejected: {error}")

        as_date = Concept("age", "The user's age in years", value_type=date)
        try:
            await store.load(as_date, ALICE, APP)
        except StoredFactError as error:
            print(f"stored, but not of that type: {error}")


if __name__ == "__main__":
    anyio.run(main)
