"""Subjects with several levels: tenants and their users."""

from typing import Any

import pytest

from factmem.memory.agent_memory import AgentMemory
from factmem.models.places import Place
from factmem.providers.in_memory import InMemoryProvider
from factmem.providers.results import PlaceInfo
from factmem.providers.store import FactStore
from tests.tables import table
from tests.world import AGENT, THEME, USER, memory_of, theme

NAMES = ["acme", "acme2", "acme/a", "acme%", "%2F", "a/b%2Fc", "//", "한국"]


@table("tenant", NAMES)
@table("user", NAMES)
def test_levels_survive_a_round_trip(tenant: str, user: str) -> None:
    """They may contain any character."""
    subject = USER.of(tenant, user)

    assert subject.levels == (tenant, user)
    assert Place.of_identity(Place(AGENT, subject).identity).subject.levels == (tenant, user)


def test_no_two_entities_are_equal() -> None:
    """One level or two, all names differ, and no single level equals two."""
    pairs = {USER.of(one, two).entity for one in NAMES for two in NAMES}
    single = {USER.of(name).entity for name in NAMES if not name.startswith("//")}

    assert len(pairs) == len(NAMES) ** 2
    assert not pairs & single
    with pytest.raises(ValueError, match="levels"):
        USER.of("//acme/alice")


async def test_a_tenant_is_listed_and_erased_alone(store: FactStore, memory: AgentMemory) -> None:
    """A prefix ends at a whole level."""
    hers = [USER.of("acme"), USER.of("acme", "alice"), USER.of("acme", "bob")]
    others = [
        USER.of("acme2"),
        USER.of("acme2", "alice"),
        USER.of("acme/a"),
        USER.of("acme/a", "alice"),
        USER.of("acme%", "alice"),
    ]
    for subject in (*hers, *others):
        await store.save(theme("dark"), subject, AGENT)

    found = await memory.contents.places(within=["acme"])
    tenant = memory.view(places=[info.place for info in found])

    assert {info.subject.entity for info in found} == {each.entity for each in hers}
    assert len(await memory.contents.places(within=["acme", "alice"])) == 1
    assert len((await tenant.contents.reset(confirm=True)).receipts) == 3
    left = await memory.contents.places()
    assert {info.subject.entity for info in left} == {each.entity for each in others}
    with pytest.raises(ValueError, match="within"):
        await memory.contents.places(within=[])
    with pytest.raises(TypeError, match="within"):
        await memory.contents.places(within="acme")


async def test_of_takes_levels(store: FactStore) -> None:
    """`of` of a memory takes levels like `of` of a subject."""
    unbound = memory_of(store, subjects=[USER])
    await store.save(theme("dark"), USER.of("acme", "alice"), AGENT)

    assert [each.value for each in await unbound.of("acme", "alice").current(THEME)] == ["dark"]
    assert await unbound.of("acme/alice").current(THEME) == []


class Reads(InMemoryProvider):
    """Counts the places that are read."""

    def __init__(self) -> None:
        super().__init__()
        self.read: list[Place] = []

    async def places(self, **options: Any) -> list[PlaceInfo]:
        found = await super().places(**options)
        self.read += [info.place for info in found]
        return found


async def test_the_counts_of_a_tenant_read_no_others() -> None:
    """With 20,000 users in a store, they took two seconds."""
    store = Reads()
    for tenant in ("acme", "acme2", "other"):
        for user in ("alice", "bob", None):
            subject = USER.of(tenant) if user is None else USER.of(tenant, user)
            await store.save(theme("dark"), subject, AGENT)
    memory = memory_of(store, subjects=[USER]).view(subjects=[USER.every("acme")])

    stats = await memory.contents.stats()
    places = await memory.contents.places()

    assert (stats.places, stats.entities, stats.count) == (3, 3, 3)
    levels = {info.subject.levels for info in places}
    assert levels == {("acme",), ("acme", "alice"), ("acme", "bob")}
    assert {place.subject.levels[0] for place in store.read} == {"acme"}
    assert len(await memory.recall("Which theme?", subjects=[USER.every("acme")])) == 3
    assert {place.subject.levels[0] for place in store.read} == {"acme"}
