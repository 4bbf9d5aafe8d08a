"""Profiles: a memory shaped like a class."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, IntEnum
from ipaddress import IPv4Address
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field, RootModel, ValidationError, create_model, field_validator
from typing_extensions import TypedDict

from factmem.detection.report import Detection
from factmem.memory.agent_memory import AgentMemory
from factmem.models.facts import Concept, FactSource, FactType, MultipleFacts, SourceKind
from factmem.models.profile import Profile, remembered
from factmem.providers.in_memory import InMemoryProvider
from factmem.providers.store import FactStore
from factmem.testing.chat import ScriptedChatModel
from tests.properties import examples
from tests.world import AGENT, ALICE, PROFILE, USER, item, user


class Pet(BaseModel):
    """A pet."""

    name: str
    age: int = 0


class Diet(Enum):
    """What somebody eats."""

    VEGAN = "vegan"
    ALL = "all"


class Traveller(Profile):
    """The person the agent talks to."""

    home_city: str | None = remembered("The city where the user lives")
    diet: Diet | None = remembered("What the user does not eat")
    pets: list[Pet] = remembered("The user's pets")
    languages: set[str] = remembered("Languages that the user speaks")
    units: Literal["metric", "imperial"] = remembered("Units", default="metric")
    session: str = "not stored"


MISO, REX = Pet(name="Miso", age=3), Pet(name="Rex")


def memory_on(store: FactStore, *answers: object, **more: Any) -> AgentMemory:
    """Return Alice's memory."""
    model = ScriptedChatModel(*answers) if answers else None
    return AgentMemory(store, chat_model=model, scopes=PROFILE, subjects=[ALICE], **more)


def test_fields_are_concepts() -> None:
    """With keyword, description, number and type of the values."""
    concepts = Traveller.profile_concepts()

    assert list(concepts) == ["home_city", "diet", "pets", "languages", "units"]
    assert concepts["home_city"] == Concept("home-city", "The city where the user lives")
    assert concepts["pets"].fact_type is FactType.MULTIPLE
    assert concepts["pets"].value_type is Pet
    me = Traveller()
    assert (me.home_city, me.pets, me.languages, me.units) == (None, [], set(), "metric")
    assert me.pets is not Traveller().pets


async def test_what_is_saved_is_loaded(store: FactStore) -> None:
    """The fields that were set, and no other."""
    memory = memory_on(store)
    empty = await memory.current(Traveller)
    assert empty == Traveller()
    me = Traveller(home_city="Busan", diet=Diet.VEGAN, pets=[MISO, REX], languages={"ko", "en"})

    await memory.save(me)

    assert await memory.current(Traveller) == me
    assert [fact.concept.keyword for fact in await memory.current()] == [
        "diet", "home-city", "languages", "pets",
    ]  # fmt: skip
    await memory.save(Traveller(home_city="Seoul"))
    assert (await memory.current(Traveller)).home_city == "Seoul"
    assert (await memory.current(Traveller)).pets == [MISO, REX]
    await memory.save(Traveller(diet=Diet.ALL))
    assert (await memory.current(Traveller)).home_city == "Seoul"


async def test_an_edit_writes_the_difference(store: FactStore) -> None:
    """Changed values are saved, removed ones forgotten; what others save meanwhile stays."""
    memory = memory_on(store)
    await memory.save(Traveller(home_city="Busan", diet=Diet.ALL, pets=[MISO, REX]))

    async with memory.edit(Traveller) as me:
        me.home_city = "Seoul"
        me.diet = None
        me.pets.remove(REX)
        me.pets.append(Pet(name="Bori"))
        await memory.save(Traveller(languages={"ko"}))

    now = await memory.current(Traveller)
    assert (now.home_city, now.diet, now.languages) == ("Seoul", None, {"ko"})
    assert sorted(pet.name for pet in now.pets) == ["Bori", "Miso"]
    (fact,) = now.profile_facts("home_city")
    history = await store.history(fact.concept, ALICE, AGENT)
    assert [entry.fact.values for entry in history if entry.fact] == [("Busan",), ("Seoul",)]
    before = await store.entries(ALICE, AGENT)
    async with memory.edit(Traveller) as me:
        assert me.home_city == "Seoul"
    assert await store.entries(ALICE, AGENT) == before


async def test_an_edit_that_raises_writes_nothing(store: FactStore) -> None:
    """Also if a value that was added to a list is wrong."""
    memory = memory_on(store)
    await memory.save(Traveller(home_city="Busan"))
    before = await store.entries(ALICE, AGENT)

    async def edit(change: Callable[[Traveller], object]) -> None:
        async with memory.edit(Traveller) as me:
            me.home_city = "Seoul"
            change(me)

    with pytest.raises(ZeroDivisionError):
        await edit(lambda me: 1 / len(me.pets))
    with pytest.raises(ValidationError):
        await edit(lambda me: setattr(me, "home_city", 5))
    with pytest.raises(ValueError, match="pets"):
        await edit(lambda me: me.pets.append("Miso"))  # type: ignore[arg-type]

    assert await store.entries(ALICE, AGENT) == before


async def test_each_field_says_why(store: FactStore) -> None:
    """By the facts that it was loaded from."""
    memory = memory_on(store)
    await memory.save(Traveller(home_city="Busan"))

    (fact,) = (await memory.current(Traveller)).profile_facts("home_city")

    origin = await memory.why(fact)
    assert origin is not None
    assert fact.values == ("Busan",)
    assert Traveller().profile_facts("pets") == ()
    with pytest.raises(ValueError, match="no remembered field 'session'"):
        Traveller().profile_facts("session")


async def test_a_class_is_accepted_where_concepts_are(store: FactStore) -> None:
    """As declared concepts, and as the only ones of a detection."""
    found = item(
        keyword="home-city", value="Busan", quote="I live in Busan", description="The city"
    )
    memory = memory_on(store, {"facts": [found]}, concepts=[Traveller])

    said = [user("I live in Busan now.")]
    await memory.auto_detect_facts(said, detection=Detection(only=[Traveller]))

    assert (await memory.current(Traveller)).home_city == "Busan"
    with pytest.raises(ValueError, match="Two concepts have the keyword"):
        memory_on(store, concepts=[Traveller, Concept("pets", "Other")])
    with pytest.raises(TypeError, match="AGE"):
        memory_on(store, concepts=[Pet])
    with pytest.raises(TypeError, match="class of Profile"):
        await memory.current(Pet)  # type: ignore[type-var]
    messages = [user("Hello")]
    await memory.load_facts_to_agent(messages)
    assert "Busan" in str(messages)


async def test_a_changed_class_reads_older_values(store: FactStore) -> None:
    """A renamed field, a changed type; what cannot be read is named, and does not disturb."""

    class Old(Profile):
        city: str | None = remembered("The city")
        age: str | None = remembered("The age")
        size: str | None = remembered("The size")

    class New(Profile):
        home_city: str | None = remembered("The city", was=["city"])
        age: int | None = remembered("The age", read=lambda old: int(str(old).split()[0]))
        size: int | None = remembered("The size")

    memory = memory_on(store)
    await memory.save(Old(city="Busan", age="36 years", size="large"))

    me = await memory.current(New)

    assert (me.home_city, me.age, me.size) == ("Busan", 36, None)
    assert list(me.profile_unreadable) == ["size"]
    async with memory.edit(New) as me:
        me.age = 37
    assert (await memory.current(New)).age == 37
    assert (await memory.current(Old)).size == "large"


def test_wrong_classes_say_what_to_do() -> None:
    """When they are made."""
    with pytest.raises(TypeError, match=r"'age' of Wrong needs a value for a user without one"):

        class Wrong(Profile):
            age: int = remembered("The age")

    with pytest.raises(TypeError, match="Later: define the type before the class"):

        class Early(Profile):
            pet: "Later | None" = remembered("A pet")  # type: ignore[name-defined]  # noqa: F821

    with pytest.raises(TypeError, match="description must be a str"):
        remembered(None)  # type: ignore[arg-type]


async def test_validators_and_aliases_are_those_of_pydantic() -> None:
    """An alias names an argument, and a subclass has the fields of its bases."""

    class Guest(Traveller):
        nights: Annotated[int, Field(ge=1)] | None = remembered("Nights", keyword="stay")

        @field_validator("home_city")
        @classmethod
        def check(cls, city: str | None) -> str | None:
            return None if city is None else city.title()

    memory = memory_on(InMemoryProvider())
    await memory.save(Guest(home_city="busan", nights=3))

    me = await memory.current(Guest)
    assert (me.home_city, me.nights) == ("Busan", 3)
    assert (await memory.current(Traveller)).home_city == "Busan"
    with pytest.raises(ValidationError, match="nights") as caught:
        me.nights = -4711
    assert "4711" not in str(caught.value)


class Size(IntEnum):
    """A size."""

    SMALL = 1
    LARGE = 2


class Seat(NamedTuple):
    """A seat."""

    row: int
    letter: str


class Stay(TypedDict):
    """A stay."""

    nights: int
    hotel: str


@dataclass(frozen=True)
class Money:
    """An amount."""

    amount: Decimal
    currency: str


class Walk(BaseModel):
    """A walk, told apart from a ride by its kind."""

    kind: Literal["walk"] = "walk"
    steps: int


class Ride(BaseModel):
    """A ride."""

    kind: Literal["ride"] = "ride"
    pets: list[Pet] = []
    stops: frozenset[str] = frozenset()


Names = RootModel[list[str]]
Trip = Annotated[Walk | Ride, Field(discriminator="kind")]

TYPES: dict[Any, st.SearchStrategy[Any]] = {
    str: st.text(),
    int: st.integers(),
    float: st.floats(allow_nan=False, allow_infinity=False),
    bool: st.booleans(),
    date: st.dates(),
    time: st.times(),
    timedelta: st.timedeltas(),
    datetime: st.datetimes(timezones=st.just(UTC)),
    Decimal: st.decimals(allow_nan=False, allow_infinity=False),
    UUID: st.uuids(),
    Diet: st.sampled_from(Diet),
    Pet: st.builds(Pet, name=st.text(), age=st.integers()),
    Literal["a", 1]: st.sampled_from(["a", 1]),
    int | bool: st.integers() | st.booleans(),
    dict[str, int]: st.dictionaries(st.text(), st.integers()),
    dict[str, list[float]]: st.dictionaries(st.text(), st.lists(st.integers(0, 9).map(float))),
    tuple[int, str]: st.tuples(st.integers(), st.text()),
    bytes: st.text().map(str.encode),
    Size: st.sampled_from(Size),
    Seat: st.builds(Seat, st.integers(), st.text()),
    Stay: st.builds(Stay, nights=st.integers(), hotel=st.text()),
    Money: st.builds(Money, st.decimals(allow_nan=False, allow_infinity=False), st.text()),
    Names: st.lists(st.text()).map(Names),
    Trip: st.builds(Walk, steps=st.integers())
    | st.builds(
        Ride, pets=st.lists(st.builds(Pet, name=st.text())), stops=st.frozensets(st.text())
    ),
    IPv4Address: st.ip_addresses(v=4),
    Path: st.just(Path("home") / "notes.txt"),
    Annotated[str, Field(min_length=1, max_length=9)]: st.text(min_size=1, max_size=9),
    Annotated[int, Field(ge=0)]: st.integers(min_value=0),
    dict[str, Pet | None]: st.dictionaries(
        st.text(), st.none() | st.builds(Pet, name=st.text()), max_size=3
    ),
    datetime | date: st.dates(),
}
SINGLE = st.sampled_from(list(TYPES)).flatmap(
    lambda kind: st.tuples(st.just(kind | None), TYPES[kind] | st.none())
)


def many_of(kind: Any) -> st.SearchStrategy[tuple[Any, Any]]:
    """Draw a list or a tuple of values of a type, or a set of strings."""
    values = st.lists(TYPES[kind], max_size=4, unique_by=repr)
    return (
        values.map(lambda each: (list[kind], each))
        | values.map(lambda each: (tuple[kind, ...], tuple(each)))
        | st.sets(st.text(), max_size=4).map(lambda each: (set[str], each))
    )


MANY = st.sampled_from(list(TYPES)).flatmap(many_of)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(60))
@given(fields=st.lists(SINGLE | MANY, min_size=1, max_size=6))
async def test_any_profile_is_loaded_as_it_was_saved(fields: list[tuple[Any, Any]]) -> None:
    """Each type of a field, alone and in lists."""
    kinds: dict[str, Any] = {
        f"field_{n}": (kind, remembered("A value")) for n, (kind, _) in enumerate(fields)
    }
    profile = create_model("Drawn", __base__=Profile, **kinds)
    saved = profile(**{f"field_{n}": value for n, (_, value) in enumerate(fields)})
    memory = AgentMemory(InMemoryProvider(), scopes=PROFILE, subjects=[USER.of("alice")])

    await memory.save(saved)

    assert (await memory.current(profile)).model_dump() == saved.model_dump()


class Folders(Profile):
    """Lists of strings."""

    favourites: list[str] = remembered("Favourite folders")
    tags: set[str] = remembered("Tags")
    best: tuple[str, ...] = remembered("The best folders")


async def test_none_clears_a_value_and_an_omitted_field_does_not(store: FactStore) -> None:
    """The history says so."""
    memory = memory_on(store)
    await memory.save(Traveller(home_city="Seoul", diet=Diet.VEGAN))
    await memory.save(Traveller(home_city=None, pets=[]))

    me = await memory.current(Traveller)
    assert (me.home_city, me.diet) == (None, Diet.VEGAN)
    concept = Traveller.profile_concepts()["home_city"]
    history = await memory.store.history(concept, ALICE, AGENT)
    assert [entry.action for entry in history] == ["saved", "forgotten"]
    me.home_city, me.diet = "Busan", None
    await memory.save(me)
    assert (await memory.current(Traveller)).model_dump()["diet"] is None
    assert (await memory.current(Traveller)).home_city == "Busan"


async def test_a_deleted_field_has_its_default_again(store: FactStore) -> None:
    memory = memory_on(store)
    await memory.save(Traveller(units="imperial", pets=[MISO], languages={"ko"}, home_city="Seoul"))
    async with memory.edit(Traveller) as me:
        del me.units, me.pets, me.home_city
        assert (me.units, me.pets, me.home_city) == ("metric", [], None)

    me = await memory.current(Traveller)
    assert (me.units, me.pets, me.languages) == ("metric", [], {"ko"})
    assert [fact.concept.keyword for fact in await memory.current()] == ["languages"]
    async with memory.edit(Traveller) as me:
        del me.units
        me.units = "imperial"
    assert (await memory.current(Traveller)).units == "imperial"


@pytest.mark.parametrize(
    "lists",
    [
        [["b", "a", "c"], ["a", "b", "c"]],
        [["b", "a"], ["x", "b", "a"], ["x", "a", "b", "x"], ["x"], []],
        [["a", "a"], ["a"], ["a", "b", "a", "b"], ["b", "b"]],
        [[], ["c", "b", "c"], ["d", "c", "b", "c"]],
    ],
)
async def test_a_list_keeps_its_order_and_duplicates(store: FactStore, lists: Any) -> None:
    """After every edit; the values of sets have no order."""
    memory = memory_on(store)
    await memory.save(Folders(favourites=lists[0], best=tuple(lists[0]), tags=set(lists[0])))
    for values in lists:
        async with memory.edit(Folders) as me:
            me.favourites = values
            me.best, me.tags = tuple(values), set(values)
        me = await memory.current(Folders)
        assert (me.favourites, me.best, me.tags) == (values, tuple(values), set(values))
    assert (await memory.current(Folders)).favourites == lists[-1]


async def test_a_saved_list_with_duplicates_adds_to_what_is_there(store: FactStore) -> None:
    memory = memory_on(store)
    await memory.save(Folders(favourites=["a", "b"]))
    await memory.save(Folders(favourites=["c", "a", "c"]))
    assert (await memory.current(Folders)).favourites == ["b", "c", "a", "c"]


async def test_a_moved_value_keeps_its_source_and_a_new_one_comes_last(store: FactStore) -> None:
    """What is learnt or forgotten after the order was set changes no other position."""
    memory = memory_on(store)
    concept = Folders.profile_concepts()["favourites"]
    source = FactSource(SourceKind.USER, "chat", 0, "I use /a and /b")
    await store.save(MultipleFacts(concept, ["a", "b"], source=source), ALICE, AGENT)
    async with memory.edit(Folders) as me:
        me.favourites.reverse()
        await memory.save(concept, ["meanwhile"])
    await memory.save(concept, ["late"])

    me = await memory.current(Folders)
    assert me.favourites == ["b", "a", "meanwhile", "late"]
    sources = {fact.values: fact.source for fact in me.profile_facts("favourites")}
    assert sources["a",] == sources["b",] == source
    await memory.contents.forget(concept=concept, value="a")
    assert (await memory.current(Folders)).favourites == ["b", "meanwhile", "late"]


def test_an_unknown_field_is_refused() -> None:
    """When an instance is made, validated or changed."""
    with pytest.raises(ValidationError, match="home_ctiy"):
        Traveller(home_ctiy="Busan")  # type: ignore[call-arg]
    with pytest.raises(ValidationError, match="no attribute 'pet'"):
        Traveller().pet = [MISO]  # type: ignore[attr-defined]
    with pytest.raises(ValidationError):
        Traveller.model_validate({"home_ctiy": "Busan"})
    with pytest.raises(ValidationError):
        Traveller(pets=[{"nme": "Miso"}])

    class Loose(Profile, extra="allow"):
        city: str | None = remembered("City", default=None)

    assert Loose(other=1).model_dump() == {"city": None, "other": 1}


def test_a_class_without_a_remembered_field_raises() -> None:
    with pytest.raises(TypeError, match="Plain has no remembered field, so nothing of it"):

        class Plain(Profile):
            home_city: str | None = None


class Sized(Profile):
    """A size as an older program saved it."""

    window: dict[str, int] | None = remembered("The size of the window")


class Text(Profile):
    """A size as text; older values are read."""

    window: str | None = remembered(
        "The size of the window", read=lambda old: f"{old['w']}x{old['h']}"
    )


async def test_read_applies_to_history_as_to_the_current_value(store: FactStore) -> None:
    """In `why`, in a store's history, and in changes."""
    memory = memory_on(store)
    await memory.save(Sized(window={"w": 1, "h": 2}))
    await memory.save(Sized(window={"w": 3, "h": 4}))
    memory = memory_on(store, concepts=[Text])

    me = await memory.current(Text)
    origin = await memory.why(me.profile_facts("window")[0])
    assert origin is not None
    for history in (
        origin.history or [],
        await store.history(Text.profile_concepts()["window"], ALICE, AGENT),
    ):
        assert [entry.fact and entry.fact.values for entry in history] == [("1x2",), ("3x4",)]
        assert not any(entry.is_unreadable for entry in history)
    changes = await memory.review.changes()
    assert {value for each in changes for fact in each.added for value in fact.values} == {
        "1x2", "3x4",
    }  # fmt: skip
