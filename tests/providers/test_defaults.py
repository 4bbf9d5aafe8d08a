"""A store with only the methods that a subclass of `FactStore` must write."""

import pytest

from factmem.models.places import Place
from factmem.models.when import TimeProvider
from factmem.providers.base import FactStore
from factmem.providers.in_memory import InMemoryProvider
from factmem.providers.results import RetractedFact
from factmem.testing._facts import AGENT, LANGUAGES, PERSON, USER, languages, theme
from factmem.testing.clock import START
from factmem.testing.providers import FactStoreContract
from tests import world
from tests.world import memory_of


class Inheriting(InMemoryProvider):
    """Has the default of every method that has one."""

    save = FactStore.save
    save_many = FactStore.save_many
    load = FactStore.load
    load_by_description = FactStore.load_by_description
    history = FactStore.history  # type: ignore[assignment]
    amend_current = FactStore.amend_current
    list_places = FactStore.list_places
    version = FactStore.version  # type: ignore[assignment]
    changes = FactStore.changes
    read_index = FactStore.read_index
    write_index = FactStore.write_index
    moment = FactStore.moment
    learn = FactStore.learn


class TestInheriting(FactStoreContract):
    lacks = ("indexes", "changes", "learning", "conversations")

    def make_provider(self, clock: TimeProvider) -> Inheriting:
        return Inheriting(clock=clock)


def test_the_rest_has_no_default() -> None:
    """A subclass that forgets one of them cannot be created."""
    abstract = {
        name
        for name in dir(FactStore)
        if getattr(getattr(FactStore, name), "__isabstractmethod__", False)
    }

    assert abstract == {
        "load_all",
        "forget",
        "erase",
        "places",
        "entries",
        "replay",
        "amend",
        "rewrite",
    }


async def test_places_are_listed_in_pages() -> None:
    """Each is in one page, in the order of names."""
    store, found = Inheriting(), list[Place]()
    for number in range(5):
        await store.save(theme("dark"), PERSON.of(f"p{number}"), AGENT)

    while page := await store.list_places(after=found[-1] if found else None, limit=2):
        found += page

    assert [place.subject.entity for place in found] == ["p0", "p1", "p2", "p3", "p4"]
    with pytest.raises(ValueError, match="limit must be at least 1"):
        await store.list_places(limit=0)


async def test_the_statement_recorded_last_is_current() -> None:
    """Retractions end values."""
    store = Inheriting()
    await store.learn([languages("go", "java")], USER, AGENT)

    learned = await store.learn([], USER, AGENT, retracted=[RetractedFact(LANGUAGES, "go", START)])

    assert not learned.is_erased
    assert [fact.values for fact in await store.load(LANGUAGES, USER, AGENT)] == [("java",)]


async def test_a_recall_reads_the_places() -> None:
    """It has no versions, indexes or candidates."""
    store = Inheriting()
    memory = memory_of(store)

    for value in ("dark", "light"):
        await store.save(world.theme(value), world.ALICE, world.AGENT)
        assert [match.fact.values for match in await memory.recall("Which theme?")] == [(value,)]


async def test_keys_that_it_has_not_cannot_be_destroyed() -> None:
    with pytest.raises(ValueError, match="Inheriting has no keys that can be destroyed"):
        await Inheriting().shred()
