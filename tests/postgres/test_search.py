"""Recall in the database: it finds what a search in memory finds, and nothing that is gone.

Places are large from the second fact on here. What held at other times is searched in small places
only, so no question here names a time of the past.
"""

import threading
import zlib
from collections.abc import Sequence
from datetime import timedelta
from random import Random
from typing import Any

import psycopg
import pytest

from factmem import CallableEmbedder, MultipleFacts
from factmem._text import analysis
from factmem.encryption import Aes256GCMEncryptor
from factmem.memory.agent_memory import AgentMemory
from factmem.models.facts import FactSource, SingleFact, SourceKind
from factmem.models.places import MemoryScopesProfile, MemorySubject, identity_of
from factmem.providers._postgres import schema
from factmem.providers._postgres.driver import Session
from factmem.providers._sql.stored_places import StoredPlaces
from factmem.providers.in_memory import InMemoryProvider
from factmem.providers.postgres import PostgresMemoryProvider
from factmem.recall import _store_search as store_search
from factmem.recall.match import RecallResult
from factmem.testing.clock import START, SettableClock
from tests.postgres.cluster import Cluster
from tests.postgres.conftest import Login, NewStore
from tests.postgres.pooler import Pooler
from tests.providers.test_stored_search import ANN, APP, BEN, CITY, NOTES, USER, sentence, step

QUESTIONS = (
    "Where is the bicycle in the garden?",
    "자전거 여행",
    "Does Ann play chess, violin or the piano",
    "Which strasse is C++ and IONIQ 5 of 01012345678",
    "library printer window orange concert",
    "what was said on 2026-11-02",
)


def embed(texts: Sequence[str]) -> list[list[float]]:
    """Return the sum of a random vector for each word."""
    vectors = []
    for text in texts:
        whole = [0.01] * 24
        for word in text.lower().split():
            chance = Random(zlib.crc32(word.encode()))
            whole = [each + chance.gauss() + 0.2 for each in whole]
        vectors.append(whole)
    return vectors


FUSED = CallableEmbedder(embed, model="sums")


def memory_of(
    store: Any, embedder: Any = None, *people: MemorySubject, **options: Any
) -> AgentMemory:
    return AgentMemory(
        store,
        scopes=MemoryScopesProfile(product="app"),
        subjects=list(people) or [ANN],
        embedder=embedder,
        clock=SettableClock(START + timedelta(days=3)),
        **options,
    )


def values_in(result: RecallResult) -> list[object]:
    return [value for match in result for value in match.fact.values]


def rows_of(dsn: str, query: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(dsn) as connection:
        return connection.execute(query).fetchall()


async def fill(store: Any, count: int, person: MemorySubject = ANN) -> None:
    random = Random(1)
    facts = [MultipleFacts(NOTES, [f"{sentence(random)} number{n}"]) for n in range(count)]
    await store.save_many(facts, person, APP)


async def same(memory: AgentMemory, model: AgentMemory, **options: Any) -> None:
    """Assert that both find nearly the same; vectors are in half precision in one of them."""
    for question in QUESTIONS:
        ours = await memory.recall(question, limit=8, **options)
        theirs = await model.recall(question, limit=8, **options)
        assert not ours.failures
        assert ours.is_semantic == theirs.is_semantic
        found = {match.fact.id: match for match in ours}
        if len(theirs) > 1 and theirs[1].score < 0.8 * theirs[0].score:
            assert theirs[0].fact.id in found
        # Facts that only the words around them tell of are no candidates in the database.
        best = [match for match in theirs if match.score > 0.55 * theirs[0].score]
        common = [match for match in best if match.fact.id in found]
        assert len(common) >= 0.7 * len(best)
        for match in common:
            assert found[match.fact.id].fact == match.fact
            assert found[match.fact.id].place == match.place


@pytest.mark.parametrize("embedder", [None, FUSED], ids=["words", "fused"])
@pytest.mark.parametrize("seed", range(2))
async def test_it_finds_what_a_search_in_memory_finds(
    new_store: NewStore, seed: int, embedder: Any
) -> None:
    """After any change, from several instances, cold and warm."""
    clock, random = SettableClock(START), Random(seed)
    model = InMemoryProvider(clock=clock)
    stores = [new_store(clock=clock, search_from=1) for _ in range(2)]
    theirs = memory_of(model, embedder, ANN, BEN)
    memories = [memory_of(store, embedder, ANN, BEN) for store in stores]
    for _ in range(4):
        for _step in range(12):
            clock.advance(timedelta(minutes=2))
            await step(random, [ANN, ANN, BEN], [random.choice(stores), model])
        cold = new_store(clock=clock, search_from=1)
        for memory in (random.choice(memories), memory_of(cold, embedder, ANN, BEN)):
            await same(memory, theirs)


async def test_purged_words_are_in_no_row(new_store: NewStore, dsn: str) -> None:
    """Neither in facts, terms and vectors, nor in rows with others."""
    store = new_store(search_from=1)
    await fill(store, 20)
    source = FactSource(SourceKind.USER, "a chat", 3, quote="my zanzibar is blue")
    beside = FactSource(SourceKind.USER, "a chat", 4, quote="so is my garden")
    await store.save(MultipleFacts(NOTES, ["zanzibar blue"], source=source), ANN, APP)
    await store.save(SingleFact(CITY, "garden", source=beside), ANN, APP)
    memory = memory_of(store, FUSED)
    assert (await memory.recall("zanzibar")).is_semantic
    assert len(await memory_of(store).recall("zanzibar")) == 2
    query = (
        "SELECT text FROM factmem.items i JOIN factmem.terms t ON i.search = t.search "
        "AND i.item = t.first WHERE term = 'zanzibar'"
    )
    texts = rows_of(dsn, query)
    assert len(texts) == 1
    with psycopg.connect(dsn) as connection:
        given = [[text for (text,) in texts]]
        query = "SELECT 1 FROM factmem.vectors WHERE text = ANY (%s)"
        assert connection.execute(query, given).fetchall()

        await store.forget(ANN, APP, concept=NOTES, value="zanzibar blue", purge=True)

        assert connection.execute(query, given).fetchall() == []
        assert connection.execute("SELECT 1 FROM factmem.vectors").fetchall()
    query = "SELECT 1 FROM factmem.items WHERE encode(fact, 'escape') LIKE '%zanzibar%'"
    assert rows_of(dsn, query) == []
    assert rows_of(dsn, "SELECT 1 FROM factmem.terms WHERE term = 'zanzibar'") == []
    assert not await memory_of(store).recall("zanzibar")
    assert values_in(await memory.recall("city garden", limit=1)) == ["garden"]
    assert rows_of(dsn, "SELECT 1 FROM factmem.terms WHERE term = 'zanzibar'") == []


async def test_an_erased_place_has_no_rows(new_store: NewStore, dsn: str, store: str) -> None:
    """And one of the same name begins with none."""
    provider = new_store(search_from=1)
    await fill(provider, 20)
    memory = memory_of(provider, FUSED)
    assert await memory.recall("library")
    tables = ("searches", "sources", "items", "terms", "spaces", "vectors")

    def counts() -> list[int]:
        where = f"JOIN factmem.stores USING (store) WHERE name = '{store}'"
        return [
            rows_of(dsn, f"SELECT count(*) FROM factmem.{table} {where}")[0][0] for table in tables
        ]

    assert min(counts()) > 0
    await provider.erase(ANN, APP)
    assert counts() == [0] * len(tables)
    assert not await memory.recall("library")
    await provider.save_many([MultipleFacts(NOTES, ["a new library"])] * 2, ANN, APP)
    assert values_in(await memory.recall("library")) == ["a new library"]


async def test_nothing_of_another_place_or_store_is_found(new_store: NewStore, store: str) -> None:
    """By words and by meaning, however near it is, through views too."""
    one, other = new_store(search_from=1), new_store(search_from=1, store=f"{store} 2")
    await fill(one, 30)
    await fill(one, 3, BEN)
    await other.save_many([MultipleFacts(NOTES, ["secret harbour"])] * 2, ANN, APP)
    await one.save(MultipleFacts(NOTES, ["secret mountain"]), BEN, APP)
    for embedder in (None, FUSED):
        both = memory_of(one, embedder, ANN, BEN)
        assert "secret mountain" in values_in(await both.recall("secret mountain harbour"))
        for memory in (memory_of(one, embedder), both.view(subjects=[ANN])):
            found = await memory.recall("secret mountain harbour", limit=40)
            assert found
            assert {match.place.subject for match in found} == {ANN}
            assert not any("secret" in str(value) for value in values_in(found))


async def test_a_large_place_has_an_index_of_its_own(
    new_store: NewStore, login: Login, dsn: str, store: str
) -> None:
    """Its owner makes it; a role that may not goes on without, until the owner migrates."""
    model = InMemoryProvider()
    facts = [MultipleFacts(NOTES, [f"{sentence(Random(n))} {n}"]) for n in range(60)]
    await model.save_many(facts, ANN, APP)
    theirs = memory_of(model, FUSED)
    for name, options in (("owner", {}), ("app", {"dsn": login.dsn})):
        provider = new_store(search_from=40, store=f"{store}-{name}", **options)
        await provider.save_many(facts, ANN, APP)
        await same(memory_of(provider, FUSED), theirs)
        query = (
            "SELECT is_indexed, to_regclass('factmem.vectors_' || space) IS NOT NULL "
            "FROM factmem.spaces JOIN factmem.stores USING (store) "
            f"WHERE name = '{store}-{name}'"
        )
        assert rows_of(dsn, query) == [(name == "owner",) * 2]
        await new_store(search_from=40).migrate()
        assert rows_of(dsn, query) == [(True, True)]
        await same(memory_of(provider, FUSED), theirs)
        await provider.save(MultipleFacts(NOTES, ["piano lesson"]), ANN, APP)
        assert "piano lesson" in values_in(await memory_of(provider, FUSED).recall("piano lesson"))


async def test_without_pgvector_words_decide(
    cluster: Cluster, new_store: NewStore, store: str, caplog: pytest.LogCaptureFixture
) -> None:
    """One warning says so, and a migration after its installation brings the vectors."""
    with psycopg.connect(cluster.dsn(), autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{store}"')
    dsn = cluster.dsn(database=store)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(schema, "_add_vectors", lambda _: False)
        await fill(new_store(dsn=dsn), 20)
    provider = new_store(dsn=dsn, search_from=1)
    memory = memory_of(provider, FUSED)
    for _ in range(3):
        result = await memory.recall("number7")
        assert not result.is_semantic
        assert not result.failures
        assert "number7" in str(values_in(result))
    assert len([record for record in caplog.records if "pgvector" in record.message]) == 1

    await provider.migrate()

    assert (await memory_of(new_store(dsn=dsn, search_from=1), FUSED).recall("number7")).is_semantic


async def test_an_encrypted_store_is_searched_in_memory(new_store: NewStore, dsn: str) -> None:
    """Its words and vectors are never stored in a row."""
    before = rows_of(dsn, "SELECT count(*) FROM factmem.items")
    key = Aes256GCMEncryptor(Aes256GCMEncryptor.generate_key())
    provider = new_store(search_from=1, encryption=key)
    await fill(provider, 20)

    result = await memory_of(provider, FUSED).recall("number7")

    assert "number7" in str(values_in(result))
    assert result.is_semantic
    assert rows_of(dsn, "SELECT count(*) FROM factmem.items") == before


async def test_it_works_behind_a_pooler_and_row_level_security(
    new_store: NewStore, login: Login, pooler: Pooler
) -> None:
    """Settings of an index scan hold for one transaction."""
    model = InMemoryProvider()
    facts = [MultipleFacts(NOTES, [f"{sentence(Random(n))} {n}"]) for n in range(30)]
    await model.save_many(facts, ANN, APP)
    store = new_store(search_from=1, dsn=pooler.dsn(), role=login.role)
    await store.save_many(facts, ANN, APP)

    await same(memory_of(store, FUSED), memory_of(model, FUSED))


async def test_a_searched_place_is_not_read(
    new_store: NewStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that recalls needs none of it in memory."""
    first = new_store(search_from=1)
    await fill(first, 30)
    assert await memory_of(first).recall("number3")
    monkeypatch.setattr("factmem.providers._sql.stored_places.StoredPlaces.view", lambda *_: 1 / 0)
    cold = new_store(search_from=1)

    assert "number7" in str(values_in(await memory_of(cold).recall("number7")))
    view = cold._places.known(identity_of(ANN, APP))
    assert view is None or not view.is_warm


@pytest.mark.parametrize("wrong", [0, -1, "5", True])
def test_search_from_is_a_positive_number(wrong: Any) -> None:
    """Or None."""
    with pytest.raises((TypeError, ValueError), match="search_from"):
        PostgresMemoryProvider("host=db", search_from=wrong)


@pytest.fixture
def statements(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the statements that are sent."""
    sent: list[str] = []
    rows = Session._rows

    def _rows(self: Session, query: str, *args: Any, **options: Any) -> Any:
        sent.append(query)
        return rows(self, query, *args, **options)

    monkeypatch.setattr(Session, "_rows", _rows)
    return sent


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> list[None]:
    """Return an item for each time that a worker thread takes over."""
    begun: list[None] = []
    work = StoredPlaces.work

    async def _work(self: StoredPlaces, given: Any) -> Any:
        begun.append(None)
        return await work(self, given)

    monkeypatch.setattr(StoredPlaces, "work", _work)
    return begun


@pytest.mark.parametrize("embedder", [None, FUSED], ids=["words", "fused"])
async def test_a_warm_recall_takes_some_statements_and_two_threads(
    new_store: NewStore, statements: list[str], threads: list[None], embedder: Any
) -> None:
    """Four ask whether the index is current, the others find candidates and load them."""
    store = new_store(search_from=1)
    await fill(store, 30)
    memory = memory_of(store, embedder)
    await memory.recall("the first one makes the rows")
    del statements[:], threads[:]

    assert "number7" in str(values_in(await memory.recall("number7")))

    assert len(statements) <= (14 if embedder else 10)
    assert len(threads) <= 4


@pytest.mark.parametrize("embedder", [None, FUSED], ids=["words", "fused"])
async def test_a_question_with_thousands_of_words_is_answered(
    new_store: NewStore, monkeypatch: pytest.MonkeyPatch, embedder: Any
) -> None:
    """The server limits an expression's size; the event loop does not analyse the words."""
    store = new_store(search_from=1)
    words = [f"{number}st" for number in range(6000)]
    await store.save(MultipleFacts(NOTES, [" ".join(words[:300])]), ANN, APP)
    await fill(store, 30)
    memory = memory_of(store, embedder)
    used: list[threading.Thread] = []
    analyse = analysis.words

    def analysed(text: str) -> Any:
        used.append(threading.current_thread())
        return analyse(text)

    monkeypatch.setattr(store_search, "words", analysed)

    found = await memory.recall(" ".join(words))

    assert " 3st " in str(values_in(found))
    assert threading.main_thread() not in used
    assert used


async def test_a_recall_after_a_save_finds_it_by_meaning(new_store: NewStore) -> None:
    """The store names the places whose facts lack vectors, and is asked again."""
    store = new_store(search_from=1)
    await fill(store, 10)
    memory = memory_of(store, FUSED)
    await memory.recall("the first one makes the rows")
    await store.save(MultipleFacts(NOTES, ["kilimanjaro spices"]), ANN, APP)

    result = await memory.recall("kilimanjaro")

    assert result.is_semantic
    assert values_in(result)[0] == "kilimanjaro spices"
    assert result[0].semantic > 0
    assert result.embedded_texts == 2


async def test_a_search_in_the_store_asks_a_failing_embedder_once(new_store: NewStore) -> None:
    """The words of the question still find the fact."""
    store = new_store(search_from=1)
    await fill(store, 10)
    calls: list[int] = []

    def failing(texts: Sequence[str]) -> list[list[float]]:
        calls.append(len(texts))
        raise OSError("unreachable")

    memory = memory_of(store, CallableEmbedder(failing, model="down"))

    result = await memory.recall("What was number7?")

    assert "number7" in str(values_in(result))
    assert calls == [1]
    assert len(result.failures) == 1


async def test_a_recall_in_memory_asks_about_all_places_together(
    new_store: NewStore, statements: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Eight places take as many statements as one: two for the facts, one for the messages."""
    monkeypatch.setattr("factmem.recall._search._FAR", 0.0)
    store = new_store()
    people = [USER.of(f"person{number}") for number in range(8)]
    for person in people:
        await fill(store, 3, person)
    memory = memory_of(store, None, *people)
    await memory.recall("number1")
    del statements[:]

    assert len(await memory.recall("number1", limit=20)) >= 8

    assert len(statements) == 3
