"""SearchedFileProvider: recalls by stored indexes of words, which a change outdates."""

import random
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from factmem import AgentMemory, Concept, FactType, MemoryScopesProfile, MultipleFacts, SingleFact
from factmem.errors import CorruptJournalError, TamperedError
from factmem.models.facts import AnyFact
from factmem.providers._arguments import stored_fact
from factmem.providers.in_memory import InMemoryProvider
from factmem.providers.local_file import LocalFileMemoryProvider, SearchedFileProvider
from factmem.providers.results import RetractedFact
from factmem.providers.storages import Storage
from factmem.testing._facts import AGENT, LANGUAGES, SAID, THEME, USER, languages, theme
from factmem.testing.clock import START, SettableClock
from tests.contracts.instances import SecondInstances
from tests.contracts.search_questions import HERE, asking, describe, found_in
from tests.contracts.searching import SearchBoundaries, SearchFilters, Searching
from tests.providers.local_stores import ALICE, run

Searched = Callable[[], SearchedFileProvider]


@pytest.fixture
def clock() -> SettableClock:
    return SettableClock()


@pytest.fixture
def searched(root: Path, storage: Storage, clock: SettableClock) -> Searched:
    """Return new instances, as other processes have them."""
    return lambda: SearchedFileProvider(root, storage=storage, stems="none", large=0, clock=clock)


class TestSearching(SecondInstances, Searching, SearchFilters, SearchBoundaries):
    """The shipped suite of searched stores, without vectors."""

    @pytest.fixture
    def provider(self, searched: Searched) -> SearchedFileProvider:
        return searched()

    @pytest.fixture
    def second(self, searched: Searched) -> SearchedFileProvider:
        return searched()


def kinds(root: Path) -> list[int]:
    return [kind for (kind,) in run(root, "SELECT kind FROM indexes ORDER BY kind")]


async def values(store: SearchedFileProvider, *terms: str) -> list[tuple[str, ...]]:
    async with store:
        return found_in(await store.candidates([HERE], asking(*terms), describe))


async def test_a_second_process_reads_no_entry(root: Path, searched: Searched) -> None:
    """It has all that it needs in the index: the entries could be gone."""
    async with searched() as store:
        await store.save(theme("dark"), USER, AGENT)
    assert await values(searched(), "dark") == [("dark",)]
    assert kinds(root) == [1]

    run(root, "DELETE FROM entries")

    assert await values(searched(), "dark") == [("dark",)]


async def test_an_index_is_followed_by_what_was_saved_since(root: Path, searched: Searched) -> None:
    """Only the new entries are read: the old ones could be gone."""
    async with searched() as store:
        await store.save(theme("dark"), USER, AGENT)
    await values(searched(), "dark")
    async with searched() as store:
        await store.save(theme("light"), USER, AGENT)

    assert await values(searched(), "dark", "light") == [("light",)]

    run(root, "DELETE FROM entries WHERE number = 1")
    assert await values(searched(), "dark", "light") == [("light",)]
    run(root, "DELETE FROM entries")
    with pytest.raises((CorruptJournalError, TamperedError)):
        await values(searched(), "dark")


OPERATIONS = (
    "theme",
    "language",
    "languages",
    "forget",
    "forget all",
    "learn",
    "retract",
    "purge",
    "pass",
)


@pytest.mark.parametrize("seed", range(6))
async def test_a_followed_index_is_as_good_as_a_new_one(
    root: Path, searched: Searched, clock: SettableClock, seed: int
) -> None:
    """After each of some random changes: the same facts, counts and statistics."""
    chance = random.Random(seed)
    words = ("dark", "light", "java", "rust", "python", "green")
    async with searched() as first:
        await first.save_many([theme("dark"), languages("java", "rust")], USER, AGENT)
    await values(searched(), "dark")
    for _ in range(12):
        async with searched() as store:
            await _change(store, chance.choice(OPERATIONS), chance.choice(words), clock)

        async def asked() -> list[object]:
            async with searched() as store:
                answer = await store.candidates([HERE], asking(*words), describe)
            found = [(found_in(answer), sorted(str(dict(c.counts)) for c in answer.candidates))]
            return [found, [(e.facts, e.length, dict(e.holders)) for e in answer.places.values()]]

        followed = await asked()
        kept = run(root, "SELECT * FROM indexes")
        run(root, "DELETE FROM indexes")
        assert followed == await asked()
        if kept and chance.random() < 0.7:  # else go on with the new index
            run(root, "DELETE FROM indexes")
            run(root, "INSERT INTO indexes VALUES (?, ?, ?, ?)", *kept[0])


async def _change(
    store: SearchedFileProvider, operation: str, word: str, clock: SettableClock
) -> None:
    clock.now += timedelta(minutes=10)
    if operation == "theme":
        await store.save(theme(word), USER, AGENT)
    elif operation == "language":
        until = clock.now + timedelta(minutes=25)
        await store.save(MultipleFacts(LANGUAGES, [word], expires_at=until), USER, AGENT)
    elif operation == "languages":
        await store.save(languages(word, "green"), USER, AGENT)
    elif operation == "forget":
        await store.forget(USER, AGENT, concept=LANGUAGES, value=word)
    elif operation == "forget all":
        await store.forget(USER, AGENT, concept=LANGUAGES)
    elif operation == "learn":
        said = MultipleFacts(LANGUAGES, [word], timestamp=clock.now - timedelta(minutes=15))
        await store.learn([said], USER, AGENT)
    elif operation == "retract":
        await store.learn([], USER, AGENT, retracted=[RetractedFact(LANGUAGES, word, clock.now)])
    elif operation == "purge":
        await store.forget(USER, AGENT, concept=LANGUAGES, value=word, purge=True)


async def test_an_expired_fact_outdates_an_index(searched: Searched, clock: SettableClock) -> None:
    """Nothing was written since, so only the time tells."""
    async with searched() as store:
        until = START + timedelta(hours=1)
        await store.save(SingleFact(THEME, "dark", expires_at=until), USER, AGENT)
    assert await values(searched(), "dark") == [("dark",)]

    clock.now = until

    assert await values(searched(), "dark") == []


async def test_a_purge_removes_an_index(root: Path, searched: Searched) -> None:
    """It has the purged value. An erasure removes it too."""
    async with searched() as store:
        await store.save(theme("dark"), USER, AGENT)
        await store.save(theme("dark"), ALICE, AGENT)
        for place in (HERE, HERE):
            await store.candidates([place], asking("dark"), describe)
        assert kinds(root) == [1]
        await store.forget(USER, AGENT, concept=THEME, purge=True)
        assert kinds(root) == []
        await store.save(theme("light"), USER, AGENT)
        await store.candidates([HERE], asking("dark"), describe)
        assert kinds(root) == [1]
        await store.erase(USER, AGENT)
    assert kinds(root) == []


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE indexes SET bytes = x''",
        "UPDATE indexes SET bytes = substr(bytes, 1, length(bytes) - 9)",
        "UPDATE indexes SET bytes = zeroblob(length(bytes))",
        "UPDATE indexes SET bytes = CAST('my diary' AS BLOB)",
    ],
)
async def test_a_damaged_index_is_made_again(root: Path, searched: Searched, damage: str) -> None:
    """Whatever is there in its place."""
    async with searched() as store:
        await store.save(theme("dark"), USER, AGENT)
    await values(searched(), "dark")

    run(root, damage)

    assert await values(searched(), "dark") == [("dark",)]


async def test_an_index_for_other_stems_is_made_again(root: Path, searched: Searched) -> None:
    """Its terms are others: the extra `recall` was installed or removed since."""
    async with searched() as store:
        await store.save(theme("dark"), USER, AGENT)
    await values(searched(), "dark")
    (before,) = run(root, "SELECT bytes FROM indexes")

    other = searched()
    other._words._stems = "snowball_stem"

    assert await values(other, "dark") == [("dark",)]
    assert run(root, "SELECT bytes FROM indexes") != [before]


async def test_it_finds_what_a_recall_in_memory_finds(root: Path, clock: SettableClock) -> None:
    """With the same scores, from an index that was made and from one that was read."""
    texts = ("Anna lives in Busan", "She has two dogs", "A dog named Rex", "Rex likes the sea")
    said = Concept("said", "What was said", FactType.MULTIPLE)
    facts: list[AnyFact] = [MultipleFacts(said, [text]) for text in texts]
    facts.append(SingleFact(Concept("city", "Where Anna lives"), "Busan"))
    everywhere = [(USER, facts[:3]), (ALICE, facts[3:])]

    async def found(store: LocalFileMemoryProvider | InMemoryProvider) -> list[object]:
        profile = MemoryScopesProfile(agent=AGENT.name)
        memory = AgentMemory(store, scopes=profile, subjects=[USER, ALICE], clock=clock)
        asked = [await memory.recall(text) for text in ("Which dogs?", "Where does Anna live?")]
        return [(each.fact.values, round(each.score, 9)) for each in (*asked[0], *asked[1])]

    plain = InMemoryProvider(clock=clock)
    async with LocalFileMemoryProvider(root, clock=clock) as local:
        for subject, saved in everywhere:
            for store in (plain, local):
                await store.save_many(saved, subject, AGENT)
    expected = await found(plain)

    for _ in ("made", "read"):
        async with SearchedFileProvider(root, stems="plain", large=0, clock=clock) as store:
            assert await found(store) == expected
            assert await store.is_searched([HERE])
    assert kinds(root) == [1, 1]
    assert len(expected) == 4


async def test_a_small_store_is_left_alone(root: Path) -> None:
    """Reading it takes less time than it would take to store an index."""
    async with SearchedFileProvider(root, stems="plain") as store:
        await store.save(theme("dark"), USER, AGENT)
        assert not await store.is_searched([HERE])


async def test_a_keyword_with_proposals_makes_a_new_index(root: Path, searched: Searched) -> None:
    """An index has no proposals, and what people decide later depends on them."""

    async def confirm(value: str, said: datetime = SAID) -> None:
        fact = stored_fact(SingleFact(THEME, value, timestamp=said))
        confirmed: Any = {**fact, "confirmed": True}
        async with searched() as store:
            await store.amend(lambda _, now: [{"at": now, "facts": [confirmed]}], USER, AGENT)

    await confirm("dark")
    async with searched() as store:
        await store.learn([SingleFact(THEME, "light", timestamp=START)], USER, AGENT)
    assert await values(searched(), "dark", "light") == [("dark",)]
    (before,) = run(root, "SELECT bytes FROM indexes")

    await confirm("green", START)

    assert await values(searched(), "dark", "light", "green") == [("green",)]
    assert run(root, "SELECT bytes FROM indexes") != [before]
