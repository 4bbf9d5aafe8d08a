"""Concepts with value types: values keep their type, and values of another type are rejected."""

from datetime import date
from decimal import Decimal
from typing import Annotated, Literal

import anyio
from pydantic import BaseModel, Field

from factmem import AgentMemory, Concept, FactType
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


async def main() -> None:
    """Save and load typed values. Type checkers know the types, and both calls check them."""
    async with AgentMemory.open("memory", user="alice") as memory:
        await memory.save(AGE, 36)
        await memory.save(BORN, date(1990, 4, 1))
        await memory.save(BUDGET, Decimal("19.90"))
        await memory.save(TIER, "pro")
        await memory.save(PETS, (Cat(lives=9), Dog(tricks=["roll"])))

        age, budget = await memory.value(AGE), await memory.value(BUDGET)
        assert age is not None
        assert budget is not None
        print(f"next year {age + 1}; half the budget {budget / 2}")
        for pet in await memory.values(PETS):
            print(f"a {pet.kind}: {pet!r}")

        try:
            await memory.save(BUDGET, "a lot")  # type: ignore[misc]
        except ValueError as error:
            print(f"rejected: {error}")

        as_date = Concept("age", "The user's age in years", value_type=date)
        try:
            await memory.value(as_date)
        except StoredFactError as error:
            print(f"stored, but not of that type: {error}")


if __name__ == "__main__":
    anyio.run(main)
