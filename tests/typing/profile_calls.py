"""Uses of profiles that both type checkers must accept. Checked, never run.

`test_profile_calls.py` adds the uses that they must refuse.
"""

from typing import assert_type

from pydantic import BaseModel

from factmem import AgentMemory, Concept, Profile, SingleFact, remembered
from factmem.detection.report import Detection
from factmem.memory import FactOrigin
from factmem.memory.listing import CurrentFacts
from factmem.models import AnyFact


class Pet(BaseModel):
    """A nested model."""

    name: str


class Traveller(Profile):
    """The person the agent talks to."""

    home_city: str | None = remembered("The city where the user lives")
    age: int | None = remembered("The user's age", was=["years"], read=int)
    pets: list[Pet] = remembered("The user's pets")
    languages: set[str] = remembered("Languages that the user speaks")
    units: str = remembered("Units", default="metric", keyword="system", detect=False)


class Guest(Traveller):
    """A subclass."""

    nights: int | None = remembered("How long the guest stays")


CITY = Concept("city", "A city")


async def right(memory: AgentMemory) -> None:
    me = await memory.current(Traveller)
    assert_type(me, Traveller)
    assert_type(me.home_city, str | None)
    assert_type(me.age, int | None)
    assert_type(me.pets, list[Pet])
    assert_type(me.languages, set[str])
    assert_type(me.units, str)
    assert_type((await memory.current(Guest)).nights, int | None)
    assert_type((await memory.current(Guest)).home_city, str | None)
    assert_type(await memory.current(CITY), list[SingleFact[str]])
    assert_type(await memory.current(), CurrentFacts)
    await memory.save(Traveller(home_city="Busan", pets=[Pet(name="Miso")]))
    await memory.save(Guest(nights=2, age=36))
    assert_type(await memory.save(CITY, "Seoul"), SingleFact[str])
    async with memory.edit(Traveller) as traveller:
        assert_type(traveller, Traveller)
        traveller.home_city = None
        traveller.pets.append(Pet(name="Rex"))
        traveller.languages |= {"ko"}
    assert_type(me.profile_facts("home_city"), tuple[AnyFact, ...])
    assert_type(await memory.why(me.profile_facts("home_city")[0]), FactOrigin | None)
    AgentMemory(memory.provider, concepts=[Traveller, CITY], instructions=[Guest])
    Detection(only=[Traveller])
