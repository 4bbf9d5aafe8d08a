"""A memory that updates its index finds what a new memory finds, after every change."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from factmem.events import MemoryEvent, MemoryOperation
from factmem.memory.agent_memory import AgentMemory
from factmem.models.facts import (
    Concept,
    FactSource,
    FactType,
    MultipleFacts,
    SingleFact,
    SourceKind,
)
from factmem.providers.in_memory import InMemoryProvider
from factmem.providers.local_file import LocalFileMemoryProvider
from factmem.recall.match import RecallResult
from factmem.testing.clock import SettableClock
from tests.doubles import TopicEmbedder
from tests.properties import examples
from tests.world import (
    AGENT,
    ALICE,
    BOB,
    COMPANY,
    NOW,
    PRODUCT,
    LocalStore,
    bare_note,
    bare_notes,
    found_values,
    recall_memory,
)

SUBJECTS = [ALICE, BOB, COMPANY]
KEYWORDS = ["pets", "count"]
VALUES = ["cat", "cat in a house", "cat 7", 7]
COUNT = Concept("count", "How many there are", FactType.MULTIPLE, value_type=int)
SOURCES = [FactSource(SourceKind.USER, conversation=name, quote="the cat") for name in ("c1", "c2")]

places = st.sampled_from([(ALICE, AGENT), (ALICE, PRODUCT), (BOB, AGENT), (COMPANY, AGENT)])
keywords = st.sampled_from(KEYWORDS)
few_values = st.lists(st.sampled_from(VALUES), min_size=1, max_size=3)
options = st.fixed_dictionaries(
    {"description": st.sampled_from(["", "a cat"]), "id": st.sampled_from(["a", "b", None])},
    optional={
        "importance": st.sampled_from([0.1, 0.9]),
        "expires_at": st.sampled_from([NOW + timedelta(hours=n) for n in (1, 2, 5)]),
        "source": st.sampled_from(SOURCES),
    },
)
saves = st.tuples(
    st.just("save"), places, keywords, st.sampled_from([False, False, True]), few_values, options
)
steps = st.one_of(
    saves,
    saves,
    saves,
    st.tuples(st.just("forget"), places, keywords, st.booleans()),
    st.tuples(st.just("forget value"), places, keywords, st.sampled_from(VALUES)),
    st.tuples(st.just("forget source"), places, st.sampled_from(SOURCES)),
    st.tuples(st.just("wait"), st.sampled_from([1, 90])),
    st.one_of(
        st.tuples(st.just("erase"), places),
        st.tuples(st.just("replay"), places, places),
        st.tuples(st.just("forget id"), places, st.sampled_from(["a", "b"])),
    ),
)


def fact_of(keyword: str, is_single: bool, chosen: list[Any], fields: dict[str, Any]) -> Any:
    fields = {"timestamp": NOW, **fields}
    description, fact_id = fields.pop("description"), fields.pop("id")
    if fact_id is not None:
        fields["id"] = fact_id
    kind = FactType.SINGLE if is_single else FactType.MULTIPLE
    concept: Any = Concept(keyword, description, kind, value_type=Any)
    return (
        SingleFact(concept, chosen[0], **fields)
        if is_single
        else MultipleFacts(concept, chosen, **fields)
    )


async def begun(store: LocalStore) -> None:
    """Save a fact in each place: a place without one is read as a whole."""
    for subject, scope in [(ALICE, AGENT), (ALICE, PRODUCT), (BOB, AGENT), (COMPANY, AGENT)]:
        await store.save(bare_note("beginning", "no dog"), subject, scope)


class Unfollowed(InMemoryProvider):
    """Reports that a place has changed, but not how."""

    async def changes(self, *_: Any, **__: Any) -> None:
        return None


class Doing:
    """Applies steps to a store."""

    def __init__(self, store: LocalStore, clock: SettableClock) -> None:
        self.store = store
        self.clock = clock

    async def do(self, step: Any) -> None:
        match step:
            case "save", place, keyword, is_single, chosen, fields:
                await self.store.save(fact_of(keyword, is_single, chosen, fields), *place)
            case "forget", place, keyword, purge:
                await self.store.forget(*place, concept=Concept(keyword, ""), purge=purge)
            case "forget value", place, keyword, value:
                concept = Concept(keyword, "", value_type=Any)
                await self.store.forget(*place, concept=concept, value=value)
            case "forget id", place, fact_id:
                await self.store.forget(*place, fact_ids=[fact_id])
            case "forget source", place, source:
                await self.store.forget(*place, source=source)
            case "erase", place:
                await self.store.erase(*place)
            case "wait", minutes:
                self.clock.advance(timedelta(minutes=minutes))
            case "replay", place, other:
                await self.store.replay(await self.store.entries(*place), *other)


def outcome(result: RecallResult) -> Any:
    """Return a result, except rounding in the last digits of a cosine."""
    matches: list[Any] = []
    for match in result:
        parts = (match.score, match.relevance, match.lexical, match.semantic, match.recency)
        fact, rounded = match.fact, [round(part, 6) for part in parts]
        matches.append((match.place, fact, fact.concept, fact.confirmed_at, rounded))
    return matches, sorted((each.keyword, str(each.place)) for each in result.unreadable)


MEMORIES: dict[str, Callable[[LocalStore], AgentMemory]] = {
    "one person": recall_memory,
    "several": lambda store: recall_memory(store, subjects=SUBJECTS),
    "of known types": lambda store: recall_memory(
        store, subjects=[ALICE, COMPANY], concepts=[COUNT]
    ),
    "with vectors": lambda store: recall_memory(store, subjects=SUBJECTS, embedder=TopicEmbedder()),
}


async def agree(followers: dict[str, AgentMemory], stores: Sequence[LocalStore]) -> None:
    for name, follower in followers.items():
        for limit in (2, 20):
            asked: dict[str, Any] = {"limit": limit}
            fresh = MEMORIES[name](stores[-1])
            assert outcome(await follower.recall("7 cats", **asked)) == outcome(
                await fresh.recall("7 cats", **asked)
            )


@pytest.mark.storm
@settings(max_examples=examples(30))
@given(
    st.lists(st.tuples(steps, st.booleans()), min_size=2, max_size=14),
    st.sampled_from([InMemoryProvider, InMemoryProvider, Unfollowed]),
)
async def test_an_updated_index_equals_a_rebuilt_one(
    done: list[tuple[Any, bool]], kind: type[InMemoryProvider]
) -> None:
    """Matches, scores and order are the same at any time."""
    clock = SettableClock(NOW)
    store = kind(clock=clock)
    await begun(store)
    followers = {name: make(store) for name, make in MEMORIES.items()}
    await agree(followers, [store])
    for step, is_asked in done:
        await Doing(store, clock).do(step)
        if is_asked:
            await agree(followers, [store])


@pytest.mark.storm
@settings(max_examples=examples(8))
@given(st.lists(st.tuples(st.integers(0, 1), st.booleans(), st.booleans(), steps), max_size=8))
async def test_following_changes_of_other_processes(
    tmp_path_factory: pytest.TempPathFactory, done: list[Any]
) -> None:
    """Two providers on one folder write, one of them compacts, and questions come in between."""
    clock, folder = SettableClock(NOW), tmp_path_factory.mktemp("shared")
    async with (
        LocalFileMemoryProvider(folder, clock=clock) as one,
        LocalFileMemoryProvider(folder, clock=clock) as two,
    ):
        await begun(one)
        followers = {name: make(one) for name, make in MEMORIES.items()}
        await agree(followers, [one])
        for which, is_compacted, is_asked, step in done:
            await Doing([one, two][which], clock).do(step)
            if is_compacted:
                await two.compact(ALICE, AGENT)
            if is_asked:
                await agree(followers, [one, two])
        await agree(followers, [one, two])


async def test_a_view_follows_its_places(store: LocalStore) -> None:
    """It gets no change from outside, and none from a store without a log of changes."""
    await store.save(bare_note("pet", "cat"), ALICE, AGENT)
    view = recall_memory(store).view(subjects=[ALICE], scopes=[AGENT])
    shown: Any = view.provider
    assert found_values(await view.recall("cat")) == ["cat"]
    since = await store.version(ALICE, AGENT)
    await store.save(bare_note("pet", "big cat"), ALICE, AGENT)

    assert found_values(await view.recall("cat")) == ["big cat"]
    changes = await shown.changes(ALICE, AGENT, since=since)
    assert [fact.value for fact in changes.facts["pet"]] == ["big cat"]
    assert await shown.changes(BOB, AGENT, since=since) is None
    unfollowed: Any = recall_memory(Unfollowed()).view(subjects=[ALICE]).provider
    assert await unfollowed.changes(ALICE, AGENT, since=since) is None


async def test_a_hidden_fact_returns(store: LocalStore) -> None:
    """Alice's fact hides the company's until she forgets it, also if both change at once."""
    memory = recall_memory(store, subjects=[ALICE, COMPANY])
    await store.save(bare_notes("pets", "cat", "old cat"), ALICE, AGENT)
    await store.save(bare_notes("pets", "cat", "grey cat", id="company"), COMPANY, AGENT)
    await store.save(bare_notes("pets", "old cat", id="other"), COMPANY, AGENT)
    assert sorted(found_values(await memory.recall("cat"))) == ["cat", "grey cat", "old cat"]

    await store.forget(ALICE, AGENT, concept=Concept("pets", ""))
    await store.save(bare_notes("pets", "grey cat", importance=1.0), COMPANY, AGENT)

    found = await memory.recall("cat")
    assert sorted(found_values(found)) == ["cat", "grey cat", "old cat"]
    assert {match.place.subject for match in found} == {COMPANY}


async def test_only_touched_facts_are_loaded(store: LocalStore) -> None:
    """Listeners notice it: a save of one fact costs a load of one."""
    events: list[MemoryEvent] = []
    memory = recall_memory(store, listeners=[events.append], embedder=TopicEmbedder())
    await store.save_many([bare_notes("pets", f"cat {n}") for n in range(50)], ALICE, AGENT)

    async def loaded() -> list[int]:
        events.clear()
        await memory.recall("cat")
        return [e.count for e in events if e.operation is MemoryOperation.LOAD and e.count]

    assert await loaded() == [50]
    await store.save(bare_notes("pets", "cat 50"), ALICE, AGENT)
    assert await loaded() == [1]
    await store.save(bare_note("home", "a house"), ALICE, AGENT)
    assert await loaded() == [1]
    await store.save_many([bare_notes("pets", "cat 50"), bare_notes("pets", "cat 7")], ALICE, AGENT)
    assert await loaded() == [2]
    await store.forget(ALICE, AGENT, concept=Concept("pets", ""), value="cat 3")
    assert await loaded() == []
    assert "cat 3" not in found_values(await memory.recall("cat", limit=99))


async def test_after_too_many_changes_the_place_is_read_again(store: LocalStore) -> None:
    """A store does not keep all changes."""
    memory = recall_memory(store)
    await store.save(bare_note("pet", "cat"), ALICE, AGENT)
    assert len(await memory.recall("cat", limit=9999)) == 1
    since = await store.version(ALICE, AGENT)

    await store.save_many([bare_notes("pets", f"cat {n}") for n in range(2000)], ALICE, AGENT)

    assert await store.changes(ALICE, AGENT, since=since) is None
    assert len(await memory.recall("cat", limit=9999)) == 2001
    await store.save(bare_notes("pets", "cat 2000"), ALICE, AGENT)
    assert len(await memory.recall("cat", limit=9999)) == 2002


async def test_unknown_versions_have_no_changes(store: LocalStore) -> None:
    """The version is of another ledger, or None."""
    await store.save(bare_note("pet", "cat"), ALICE, AGENT)
    await store.save(bare_note("pet", "cat"), BOB, AGENT)
    ours, theirs = await store.version(ALICE, AGENT), await store.version(BOB, AGENT)

    assert await store.changes(ALICE, AGENT, since=theirs) is None
    assert await store.changes(ALICE, AGENT, since="") is None
    assert await store.changes(COMPANY, AGENT, since=ours) is None
    nothing = await store.changes(ALICE, AGENT, since=ours)
    assert nothing is not None
    assert (nothing.version, nothing.facts) == (ours, {})
    await store.erase(ALICE, AGENT)
    assert await store.changes(ALICE, AGENT, since=ours) is None
