"""Large places: reads in parts, one concept by its topic, and saves of many facts in several lines.

The limits are a few lines here, so that small places exceed them.
"""

from collections.abc import Callable
from datetime import timedelta
from random import Random
from typing import Any

import psycopg
import pytest

from factmem.encryption import Aes256GCMEncryptor
from factmem.ledger.entries import Entry, decoded, keywords_of, stamped, stored
from factmem.models.facts import Concept, FactType, MultipleFacts, SingleFact
from factmem.models.places import identity_of
from factmem.providers._postgres.session import PostgresSession
from factmem.providers._sql import places
from factmem.providers._sql import places as lines
from factmem.providers._sql.topics import Topics, topic_of
from factmem.providers.in_memory import InMemoryProvider
from factmem.providers.postgres import PostgresMemoryProvider
from factmem.testing._facts import AGENT, LANGUAGES, THEME, USER, languages, theme
from factmem.testing.clock import START, SettableClock
from tests.postgres.conftest import NewStore

KEY = Aes256GCMEncryptor.generate_key()
MANY: list[Concept[Any, Any]] = [
    Concept(f"many {n}", "Things", FactType.MULTIPLE) for n in range(4)
]
ONE: list[Concept[Any, Any]] = [Concept(f"one {n}", "A thing") for n in range(4)]
CONCEPTS: list[Concept[Any, Any]] = [*MANY, *ONE]

Opened = Callable[..., PostgresMemoryProvider]
Rows = Callable[[str], list[tuple[Any, ...]]]


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PostgresSession, "most_lines", 5)
    monkeypatch.setattr(places, "_LARGE", 0)
    monkeypatch.setattr(lines, "_MOST_FACTS", 3)


@pytest.fixture(params=["plain", "sealed"])
def opened(request: pytest.FixtureRequest, new_store: NewStore) -> Opened:
    """Return a function that makes instances on the test's store, in the clear or encrypted."""
    encryption = Aes256GCMEncryptor(KEY) if request.param == "sealed" else None
    return lambda **options: new_store(encryption=encryption, **options)


@pytest.fixture
def rows(dsn: str, store: str) -> Rows:
    """Return a function that runs a statement about the rows of the test's store."""

    def run(query: str) -> list[tuple[Any, ...]]:
        mine = query.format(
            mine=f"store = (SELECT store FROM factmem.stores WHERE name = '{store}')"
        )
        with psycopg.connect(dsn, autocommit=True) as connection:
            cursor = connection.execute(mine.encode())
            return cursor.fetchall() if cursor.description else []

    return run


def _lines(rows: Rows) -> int:
    ((count,),) = rows("SELECT count(*) FROM factmem.entries WHERE {mine}")
    return int(count)


def _check_topics(rows: Rows) -> None:
    """Compare the index of the only plain place with its lines."""
    stored_rows = rows("SELECT bytes FROM factmem.indexes WHERE {mine} AND kind > 0")
    index = Topics(stored for (stored,) in stored_rows)
    assert sorted(index.pairs()) == sorted(
        {
            (topic, number)
            for number, line in rows("SELECT number, line FROM factmem.entries WHERE {mine}")
            for topic in map(topic_of, keywords_of(decoded(stamped(line, ""))))
        }
    )


async def _fill(provider: PostgresMemoryProvider, count: int) -> None:
    for number in range(count):
        await provider.save(languages(f"v{number}"), USER, AGENT)


async def _everything(store: Any) -> list[object]:
    """Return what a store holds; a save of many facts may be several entries."""
    held: list[object] = [await store.load_all(USER, AGENT)]
    entries = await store.entries(USER, AGENT)
    held += [
        (entry["at"], part, each)
        for part in ("facts", "forget", "retract")
        for entry in entries
        for each in entry.get(part, ())
    ]
    for concept in CONCEPTS:
        held.append(await store.load(concept, USER, AGENT))
        held.append(await store.history(concept, USER, AGENT))
    return held


def _fact(random: Random) -> Any:
    concept, value = random.choice(CONCEPTS), f"v{random.randrange(12)}"
    return MultipleFacts(concept, [value]) if concept in MANY else SingleFact(concept, value)


async def _one_step(random: Random, stores: list[Any]) -> None:
    """Do the same to each store."""
    concept, value = random.choice(CONCEPTS), f"v{random.randrange(12)}"
    facts = [_fact(random) for _ in range(random.choice([1, 1, 1, 7]))]
    step = random.random()
    for store in stores:
        if step < 0.65:
            await store.save_many(facts, USER, AGENT)
        elif step < 0.7:
            await store.amend(
                lambda _, at: [{"at": at, "facts": [stored(each)]} for each in facts], USER, AGENT
            )
        elif step < 0.85:
            await store.forget(USER, AGENT, concept=concept, value=value)
        elif step < 0.93:
            await store.forget(USER, AGENT, concept=concept, value=value, purge=True)
        elif step < 0.96:
            await store.forget(USER, AGENT, concept=concept)
        elif isinstance(store, PostgresMemoryProvider):
            await store.compact(USER, AGENT, keep_history=timedelta(days=1))


@pytest.mark.parametrize("seed", range(6))
async def test_it_is_a_place_like_any_other(opened: Opened, rows: Rows, seed: int) -> None:
    """After every kind of change, warm, cold, and searched for one concept."""
    clock, random = SettableClock(START), Random(seed)
    model = InMemoryProvider(clock=clock)
    first, second = opened(clock=clock), opened(clock=clock)
    for _ in range(3):
        for _step in range(20):
            clock.advance()
            await _one_step(random, [random.choice([first, second]), model])
        expected = await _everything(model)
        for each in (first, second, opened(clock=clock)):
            assert await _everything(each) == expected
        for concept in CONCEPTS:
            alone = await opened(clock=clock).load(concept, USER, AGENT)
            assert alone == await model.load(concept, USER, AGENT)
        if rows("SELECT 1 FROM factmem.stores WHERE {mine} AND mode = 'plain'"):
            _check_topics(rows)


async def test_a_small_place_is_read_at_once(
    new_store: NewStore, monkeypatch: pytest.MonkeyPatch, rows: Rows
) -> None:
    """Its second concept needs no other query then."""
    monkeypatch.setattr(places, "_LARGE", 10**6)
    await _fill(new_store(), 4)
    await new_store().save(theme("dark"), USER, AGENT)
    cold = new_store()
    assert len(await cold.load(LANGUAGES, USER, AGENT)) == 4
    rows("UPDATE factmem.entries SET line = 'damaged' WHERE {mine} AND number = 5")
    assert [fact.value for fact in await cold.load(THEME, USER, AGENT)] == ["dark"]


async def test_a_save_of_many_facts_is_several_lines(opened: Opened, rows: Rows) -> None:
    """They share a commit and a time."""
    wide = Concept[int, Any]("wide", "A number", value_type=int)
    facts: list[Any] = [MultipleFacts(MANY[n % 4], [f"v{n}"]) for n in range(10)]
    provider = opened()

    await provider.save_many(facts, USER, AGENT)

    assert _lines(rows) == 4
    assert len({entry["at"] for entry in await provider.entries(USER, AGENT)}) == 1
    await provider.save_many([SingleFact(wide, 2**70)], USER, AGENT)
    for reader in (provider, opened()):
        assert len(await reader.load_all(USER, AGENT)) == 11
    for cold, number in ((opened(), n) for n in range(4)):
        found = await cold.load(MANY[number], USER, AGENT)
        assert [fact.values for fact in found] == [(f"v{n}",) for n in range(number, 10, 4)]
    assert (await opened().load(wide, USER, AGENT))[0].value == 2**70


async def test_a_purge_leaves_nothing_in_any_row(opened: Opened, rows: Rows) -> None:
    """In the clear the other lines stay as they are; a line without values says what was purged."""
    provider = opened()
    await provider.save(theme("secret"), USER, AGENT)
    await _fill(provider, 30)
    before = rows("SELECT number, line FROM factmem.entries WHERE {mine}")

    assert await provider.forget(USER, AGENT, concept=LANGUAGES, value="v7", purge=True) == 1
    assert await provider.forget(USER, AGENT, concept=THEME, purge=True) == 1

    after = rows("SELECT number, line FROM factmem.entries WHERE {mine}")
    is_plain = rows("SELECT 1 FROM factmem.stores WHERE {mine} AND mode = 'plain'") != []
    assert len(set(before) & set(after)) == (29 if is_plain else 0)
    for table in ("places", "entries", "indexes"):
        found = str(rows(f"SELECT t::text FROM factmem.{table} t WHERE {{mine}}"))
        assert not any(text.encode().hex() in found for text in ('"v7"', "secret"))
    assert len(await opened().load(LANGUAGES, USER, AGENT)) == 29
    assert await opened().load(THEME, USER, AGENT) == []
    if is_plain:
        _check_topics(rows)


async def test_changes_keep_what_was_read(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process that forgets, purges or amends does not read a large place again after it."""
    provider, other = opened(), opened()
    await _fill(provider, 30)
    await provider.save(theme("dark"), USER, AGENT)
    await provider.load_all(USER, AGENT)

    await provider.forget(USER, AGENT, concept=LANGUAGES, value="v3")
    await provider.forget(USER, AGENT, concept=LANGUAGES, value="v7", purge=True)
    entry: Entry = {"at": "", "facts": [stored(theme("light"))]}
    await provider.amend_current(lambda ledger, at: {**entry, "at": at}, USER, AGENT)
    await other.save(languages("v30"), USER, AGENT)

    read: list[int] = []
    answer = places.PlaceReader._answer

    def count(self: Any, *arguments: Any, **options: Any) -> Any:
        found = answer(self, *arguments, **options)
        read.append(len(found.entries))
        return found

    with monkeypatch.context() as patched:
        patched.setattr(places.PlaceReader, "_answer", count)
        found = await provider.load_all(USER, AGENT)
    assert sum(read) <= 2
    assert found == await opened().load_all(USER, AGENT)
    assert len(found) == 30
    assert [fact.value for fact in await provider.load(THEME, USER, AGENT)] == ["light"]


async def test_keywords_with_one_hash_are_distinguished(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lines of both are read, and those of one are taken."""
    monkeypatch.setattr("factmem.providers._sql.topics.topic_of", lambda _: 7)
    await _fill(opened(), 30)
    await opened().save(theme("dark"), USER, AGENT)

    for _ in range(2):
        assert [fact.value for fact in await opened().load(THEME, USER, AGENT)] == ["dark"]


async def test_a_keyword_of_many_lines_is_not_searched_for(
    new_store: NewStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The place is read instead, which is as fast then."""
    monkeypatch.setattr(places, "_MOST_LINES", 3)
    await _fill(new_store(), 8)
    assert await new_store().load(THEME, USER, AGENT) == []  # it makes the index
    cold = new_store()

    assert len(await cold.load(LANGUAGES, USER, AGENT)) == 8
    assert cold._places.known(identity_of(USER, AGENT)).is_warm  # type: ignore[union-attr]
