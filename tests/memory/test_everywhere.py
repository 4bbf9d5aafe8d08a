"""Recall, records and statistics over all entities of a subject."""

import tracemalloc
from collections.abc import Awaitable, Callable

import pytest

from factmem.errors import MemoryAccessError, UnboundSubjectError
from factmem.memory.agent_memory import AgentMemory
from factmem.models.places import Boundary, MemorySubject, Place
from factmem.providers.in_memory import InMemoryProvider
from factmem.providers.store import FactStore
from factmem.testing.chat import ScriptedChatModel
from tests.tables import table
from tests.world import AGENT, PRODUCT, THEME, USER, memory_of, theme

NAMES = ["acme", "acme2", "acme/a", "acme%", "*", "//acme", "한국"]
OTHER = MemorySubject("device", "A device", 2, per_entity=True)


async def filled(store: FactStore) -> AgentMemory:
    for number in range(70):
        await store.save(theme(f"shade {number}"), USER.of(f"user-{number}"), AGENT)
    await store.save(theme("dark"), USER.of("acme", "alice"), AGENT)
    await store.save(theme("light"), USER.of("acme", "alice"), PRODUCT)
    await store.save(theme("dim"), USER.of("acme2"), AGENT)
    await store.save(theme("grey"), OTHER.of("x1"), AGENT)
    return memory_of(store, subjects=[USER])


async def test_all_entities_are_found_and_no_other_subject(store: FactStore) -> None:
    everyone = (await filled(store)).view(subjects=[USER.every()])
    stats = await everyone.contents.stats()

    assert (stats.places, stats.entities, stats.count) == (73, 72, 73)
    assert {info.subject.name for info in await everyone.contents.places()} == {"user"}
    pages = [await everyone.contents.records(limit=40, offset=offset) for offset in (0, 40, 80)]
    assert [len(page) for page in pages] == [40, 33, 0]
    assert len({each.fact.values for page in pages for each in page}) == pages[0].total == 73
    [concept] = await everyone.contents.concepts()
    assert (concept.count, concept.places) == (73, 73)
    match, *_ = await everyone.recall("Whose theme is dark?")
    assert (match.fact.values, match.place.subject) == (("dark",), match.place.subject)
    assert match.place.subject.levels == ("acme", "alice")
    assert len(await everyone.recall("shade", limit=100)) == 70


async def test_every_entity_is_never_the_default(store: FactStore) -> None:
    memory = await filled(store)

    with pytest.raises(UnboundSubjectError):
        await memory.recall("theme")
    assert len(await memory.recall("shade", subjects=[USER.every()], limit=99)) == 70


CALLS: dict[str, Callable[[AgentMemory], Awaitable[object]]] = {
    "current": lambda memory: memory.current(),
    "load": lambda memory: memory.load_facts_to_agent([]),
    "recall-to-agent": lambda memory: memory.recall_facts_to_agent([], "theme"),
    "remember": lambda memory: memory.remember("I like it dark."),
    "forget": lambda memory: memory.contents.forget(concept=THEME),
    "save": lambda memory: memory.store.save(theme("x"), USER.every(), AGENT),
    "load-all": lambda memory: memory.store.load_all(USER.every(), AGENT),
}


@table("call", CALLS)
async def test_no_other_call_accepts_every_entity(call: str) -> None:
    """No prompt shows them, and nothing is saved or forgotten for all at once."""
    memory = memory_of(InMemoryProvider(), ScriptedChatModel(), subjects=[USER])
    with pytest.raises(UnboundSubjectError, match="every entity"):
        await CALLS[call](memory.view(subjects=[USER.every()]))


async def test_a_view_narrows_every_entity_to_one(store: FactStore) -> None:
    memory = await filled(store)
    everyone = memory.view(subjects=[USER.every()], read_only=True)

    assert len(await everyone.view(subjects=[USER.of("user-7")]).current(THEME)) == 1
    assert (await everyone.view(subjects=[USER.every("acme")]).contents.stats()).places == 2
    alone = memory.view(subjects=[USER.of("user-7")])
    assert (await alone.view(subjects=[USER.every()]).contents.stats()).places == 1
    assert (await alone.view(subjects=[USER.every("acme")]).contents.stats()).places == 0
    with pytest.raises(MemoryAccessError, match="read-only"):
        await everyone.contents.reset(confirm=True)
    assert repr(everyone) == (
        f"<AgentMemory in {type(store).__name__}: user(every) in agent/support-bot, "
        "product/my-app, read-only view>"
    )


@table("tenant", NAMES)
def test_levels_are_matched_as_a_whole(tenant: str) -> None:
    """A prefix of letters is not a level, whatever names contain; a bound user is never all."""
    boundary = Boundary().narrowed(subjects=[USER.every(tenant)])
    for other in NAMES:
        for subject in ([] if other.startswith("//") else [USER.of(other)]) + [USER.of(other, "a")]:
            is_inside = boundary.allows(Place(AGENT, subject).identity)
            assert is_inside is (other == tenant), (tenant, other)
            assert not subject.is_every
    assert not boundary.allows(Place(AGENT, OTHER.of(tenant, "a")).identity)


@pytest.mark.parametrize("name", ["///", "///acme"])
def test_a_user_cannot_have_the_name_of_every_user(name: str) -> None:
    with pytest.raises(ValueError, match="must not begin"):
        MemorySubject("user", "", 1, per_entity=True, entity=name)
    with pytest.raises(ValueError, match="levels"):
        USER.of(name)
    with pytest.raises(ValueError, match="no entities"):
        MemorySubject("team", "", 1).every()


async def test_memory_does_not_grow_with_the_number_of_entities() -> None:
    """With four times the users, the peak memory of records and recall stays."""
    peaks: list[int] = []
    for users in (25, 100):
        store = InMemoryProvider()
        for number in range(users):
            facts = [theme(f"shade {number}", id=f"{number}")]
            await store.save_many(facts, USER.of(f"user-{number}"), AGENT)
        everyone = memory_of(store, subjects=[USER]).view(subjects=[USER.every()])
        await everyone.recall("shade")
        tracemalloc.start()
        await everyone.contents.records(limit=5)
        await everyone.recall("shade 7")
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()

    assert peaks[1] < peaks[0] * 2, peaks
