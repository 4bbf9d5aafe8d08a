"""SearchedFileProvider: recalls by stored indexes of words, which a change outdates."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from factmem import AgentMemory, Concept, FactType, MemoryScopesProfile, MultipleFacts, SingleFact
from factmem.models.facts import AnyFact
from factmem.providers._searched_files import SearchedFileProvider
from factmem.providers.in_memory import InMemoryProvider
from factmem.providers.local_file import LocalFileMemoryProvider
from factmem.providers.storages import Storage
from factmem.testing._contracts.search_questions import HERE, asking, describe, found_in
from factmem.testing._contracts.searching import SearchBoundaries, SearchFilters, Searching
from factmem.testing._contracts.stores import SecondInstances
from factmem.testing._facts import AGENT, THEME, USER, theme
from factmem.testing.clock import START, SettableClock
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


async def test_a_change_of_another_process_outdates_an_index(
    root: Path, searched: Searched
) -> None:
    """The next recall reads the place, and stores a new index."""
    async with searched() as store:
        await store.save(theme("dark"), USER, AGENT)
    await values(searched(), "dark")
    async with searched() as store:
        await store.save(theme("light"), USER, AGENT)

    assert await values(searched(), "dark", "light") == [("light",)]

    run(root, "DELETE FROM entries")
    assert await values(searched(), "dark", "light") == [("light",)]


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


async def test_a_store_that_cannot_be_written_is_searched(root: Path, searched: Searched) -> None:
    """A recall is a read: an index that cannot be stored is no reason to fail."""
    async with searched() as store:
        await store.save(theme("dark"), USER, AGENT)
    refusal = "BEGIN SELECT RAISE(ABORT, 'refused'); END"
    run(root, f"CREATE TRIGGER refuse BEFORE INSERT ON indexes {refusal}")

    assert await values(searched(), "dark") == [("dark",)]
    assert kinds(root) == []


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
