"""Large places: older lines in chunks, and what is read, changed and noticed there.

Chunks are a few lines here, so that small places have many of them.
"""

from array import array
from collections.abc import Callable
from datetime import timedelta
from random import Random
from typing import Any

import psycopg
import pytest
from factmem.providers._postgres.batches import Save

from factmem.encryption import Aes256GCMEncryptor
from factmem.errors import CorruptJournalError, DecryptionError, FactmemError
from factmem.ledger.entries import Entry, encoded, stored
from factmem.models.facts import Concept, FactType, MultipleFacts, SingleFact
from factmem.models.places import identity_of
from factmem.providers._postgres import chunks, rewriting
from factmem.providers._postgres.driver import Session
from factmem.providers.in_memory import InMemoryProvider
from factmem.providers.postgres import PostgresMemoryProvider
from factmem.testing.clock import START, SettableClock
from factmem.testing.facts import AGENT, LANGUAGES, THEME, USER, languages, theme
from tests.postgres.conftest import NewStore

KEY = Aes256GCMEncryptor.generate_key()
MANY: list[Concept[Any, Any]] = [
    Concept(f"many {n}", "Things", FactType.MULTIPLE) for n in range(4)
]
ONE: list[Concept[Any, Any]] = [Concept(f"one {n}", "A thing") for n in range(4)]
CONCEPTS: list[Concept[Any, Any]] = [*MANY, *ONE]

Opened = Callable[..., PostgresMemoryProvider]


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "LINES", 5)
    monkeypatch.setattr(rewriting, "FOLD_FROM", 8)
    monkeypatch.setattr(rewriting, "LOOSE", 2)


@pytest.fixture(params=["plain", "sealed"])
def opened(request: pytest.FixtureRequest, new_store: NewStore) -> Opened:
    """Return a function that makes instances on the test's store, in the clear or encrypted."""
    encryption = Aes256GCMEncryptor(KEY) if request.param == "sealed" else None
    return lambda **options: new_store(encryption=encryption, **options)


def _chunks(dsn: str, store: str) -> int:
    with psycopg.connect(dsn) as connection:
        query = (
            "SELECT count(*) FROM factmem.chunks JOIN factmem.stores USING (store) WHERE name = %s"
        )
        row = connection.execute(query, [store]).fetchone()
        assert row is not None
        count: int = row[0]
        return count


async def _fill(provider: PostgresMemoryProvider, count: int) -> None:
    for number in range(count):
        await provider.save(languages(f"v{number}"), USER, AGENT)


async def _everything(store: Any, concepts: list[Concept[Any, Any]]) -> list[object]:
    held: list[object] = [await store.load_all(USER, AGENT), await store.entries(USER, AGENT)]
    for concept in concepts:
        held.append(await store.load(concept, USER, AGENT))
        held.append(await store.history(concept, USER, AGENT))
    return held


async def _one_step(random: Random, stores: list[Any]) -> None:
    """Do the same to each store."""
    concept, value = random.choice(CONCEPTS), f"v{random.randrange(12)}"
    is_many = concept in MANY
    fact: Any = MultipleFacts(concept, [value]) if is_many else SingleFact(concept, value)
    step = random.random()
    for store in stores:
        if step < 0.7:
            await store.save(fact, USER, AGENT)
        elif step < 0.85:
            await store.forget(USER, AGENT, concept=concept, value=value)
        elif step < 0.93:
            await store.forget(USER, AGENT, concept=concept, value=value, purge=True)
        else:
            await store.forget(USER, AGENT, concept=concept)


@pytest.mark.parametrize("seed", [0, *(pytest.param(n, marks=pytest.mark.storm) for n in (1, 2))])
async def test_it_is_a_place_like_any_other(
    opened: Opened, dsn: str, store: str, seed: int
) -> None:
    """After every kind of change, warm, cold, and searched for one concept."""
    clock, random = SettableClock(START), Random(seed)
    model = InMemoryProvider(clock=clock)
    first, second = opened(clock=clock), opened(clock=clock)
    for _ in range(4):
        for _step in range(25):
            clock.advance()
            await _one_step(random, [random.choice([first, second]), model])
        expected = await _everything(model, CONCEPTS)
        for each in (first, second, opened(clock=clock)):
            assert await _everything(each, CONCEPTS) == expected
        for concept in CONCEPTS:
            alone = await opened(clock=clock).load(concept, USER, AGENT)
            assert alone == await model.load(concept, USER, AGENT)
        assert _chunks(dsn, store) > 0


async def test_a_concept_is_loaded_without_the_rest(
    opened: Opened, dsn: str, store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first load of a cold place reads no whole chunk; the next one reads all of it."""
    await _fill(opened(), 40)
    await opened().save(theme("dark"), USER, AGENT)
    assert _chunks(dsn, store) == 7
    cold = opened()
    with monkeypatch.context() as patched:
        patched.setattr("factmem.providers._postgres.places.opened", lambda *_: 1 / 0)
        assert [fact.value for fact in await cold.load(THEME, USER, AGENT)] == ["dark"]
        with pytest.raises(ZeroDivisionError):
            await cold.load(LANGUAGES, USER, AGENT)
    assert len(await cold.load(LANGUAGES, USER, AGENT)) == 40


async def test_followers_read_on_across_a_fold(opened: Opened) -> None:
    """What was read stays, whether the next lines are loose or in chunks by now."""
    writer, follower = opened(), opened()
    for count in range(1, 30):
        await writer.save(languages(f"v{count}"), USER, AGENT)
        if count % 4 == 0:
            assert len(await follower.load(LANGUAGES, USER, AGENT)) == count


async def test_a_large_import_is_folded(opened: Opened, dsn: str, store: str) -> None:
    """All of it at once; a value beyond 64 bits takes the slow reader."""
    wide = Concept[int, Any]("wide", "A number", value_type=int)
    facts = [stored(languages(f"v{number}")) for number in range(50)]
    facts.append(stored(SingleFact(wide, 2**70)))
    provider = opened()

    await provider.amend(lambda _, at: [{"at": at, "facts": [fact]} for fact in facts], USER, AGENT)
    await _fill(provider, 8)

    assert _chunks(dsn, store) == 11
    assert len(await opened().load(LANGUAGES, USER, AGENT)) == 50
    assert (await opened().load(wide, USER, AGENT))[0].value == 2**70
    assert (await opened().load_all(USER, AGENT)) == (await provider.load_all(USER, AGENT))


async def test_compaction_empties_chunks(opened: Opened, dsn: str, store: str) -> None:
    """And erasure removes them."""
    provider = opened()
    for number in range(30):
        await provider.save(theme(f"v{number}"), USER, AGENT)
    await _fill(provider, 10)
    before = _chunks(dsn, store)

    assert await provider.compact(USER, AGENT, keep_history=timedelta(0)) > 0

    assert _chunks(dsn, store) < before
    assert len(await opened().entries(USER, AGENT)) == 11
    assert [fact.value for fact in await opened().load(THEME, USER, AGENT)] == ["v29"]
    receipt = await provider.erase(USER, AGENT)
    assert (receipt.count, _chunks(dsn, store)) == (11, 0)
    assert await opened().load_all(USER, AGENT) == []


async def test_a_purge_leaves_nothing_in_a_chunk(
    opened: Opened, dsn: str, store: str, request: pytest.FixtureRequest
) -> None:
    """In the clear the other chunks stay as they are."""
    provider = opened()
    await _fill(provider, 30)
    with psycopg.connect(dsn, autocommit=True) as connection:
        mine = "store = (SELECT store FROM factmem.stores WHERE name = %s)"
        query = f"SELECT first, lines, directory FROM factmem.chunks WHERE {mine} ORDER BY first"
        before = connection.execute(query, [store]).fetchall()

        assert await provider.forget(USER, AGENT, concept=LANGUAGES, value="v7", purge=True) == 1

        after = connection.execute(query, [store]).fetchall()
    assert not any(b'"v7"' in row[1] for row in after)
    is_plain = "plain" in request.node.name
    assert len(set(before) & set(after)) == (len(before) - 1 if is_plain else 0)
    assert len(await opened().load(LANGUAGES, USER, AGENT)) == 29


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

    with monkeypatch.context() as patched:
        patched.setattr("factmem.providers._postgres.places.opened", lambda *_: 1 / 0)
        found = await provider.load_all(USER, AGENT)
        with pytest.raises(ZeroDivisionError):
            await opened().load_all(USER, AGENT)
    assert found == await opened().load_all(USER, AGENT)
    assert len(found) == 30
    assert [fact.value for fact in await provider.load(THEME, USER, AGENT)] == ["light"]


async def test_keys_are_rotated_and_anchors_stay_true(
    new_store: NewStore, dsn: str, store: str
) -> None:
    """An anchor from before its last line was folded still verifies."""
    other = Aes256GCMEncryptor.generate_key()
    provider = new_store(encryption=Aes256GCMEncryptor(KEY))
    await _fill(provider, 9)
    anchor = await provider.anchor()
    await _fill(provider, 30)
    await provider.verify(anchor)

    await provider.keys.rotate(other)

    fresh = new_store(encryption=Aes256GCMEncryptor(other))
    await fresh.verify(anchor)
    assert len(await fresh.load(LANGUAGES, USER, AGENT)) == 30
    assert _chunks(dsn, store) > 4
    clear = new_store(store="clear chunks")
    await _fill(clear, 9)
    anchor = await clear.anchor()
    await _fill(clear, 30)
    await clear.verify(anchor)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(
            "UPDATE factmem.chunks SET lines = convert_to(replace(convert_from(lines, 'UTF8'), "
            "'v8', 'v0'), 'UTF8') WHERE 9 BETWEEN first AND last AND store = "
            "(SELECT store FROM factmem.stores WHERE name = 'clear chunks')"
        )
    with pytest.raises(CorruptJournalError, match="another entry 9"):
        await clear.verify(anchor)


async def test_a_save_that_was_folded_is_not_repeated(opened: Opened) -> None:
    """Its mark is in the chunk."""
    provider = opened()
    await _fill(provider, 3)
    places = provider._places
    save = Save(identity_of(USER, AGENT), encoded([stored(languages("marked"))]))

    def append(session: Session, unknown: int) -> object:
        _, writer = places.writing(session)
        return writer.append_checked(session, [save], 0, 17)

    def again(session: Session, unknown: int) -> int:
        _, writer = places.writing(session)
        return writer.append_checked(session, [save], 0, 18, earlier=[17]).committed

    places.run(append)
    await _fill(provider, 20)

    assert places.run(again) == 17
    assert len(await provider.entries(USER, AGENT)) == 24


CHANGES = {
    "a bit of a line": "UPDATE factmem.chunks SET lines = set_byte(lines, 40, get_byte(lines, 40) # 1) "
    "WHERE place = {p} AND first = 6",
    "a bit of a directory": "UPDATE factmem.chunks SET directory = set_byte(directory, 40, "
    "get_byte(directory, 40) # 1) WHERE place = {p} AND first = 6",
    "a chunk removed": "DELETE FROM factmem.chunks WHERE place = {p} AND first = 6",
    "the last chunk removed": "DELETE FROM factmem.chunks WHERE place = {p} AND first = 21",
    "all chunks removed": "DELETE FROM factmem.chunks WHERE place = {p}",
    "all chunks removed, and the count of them": "DELETE FROM factmem.chunks WHERE place = {p}; "
    "UPDATE factmem.places SET folded = 0 WHERE place = {p}",
    "chunks swapped": "UPDATE factmem.chunks SET first = -first WHERE place = {p} AND first IN (1, 6); "
    "UPDATE factmem.chunks SET first = 7 + first WHERE place = {p} AND first < 0",
    "a chunk put in twice": "INSERT INTO factmem.chunks SELECT place, 26, 30, store, marks, directory, "
    "lines FROM factmem.chunks WHERE place = {p} AND first = 21; "
    "UPDATE factmem.places SET folded = 30 WHERE place = {p}",
}


@pytest.mark.parametrize("change", CHANGES)
async def test_changed_chunks_do_not_verify(
    new_store: NewStore, dsn: str, store: str, change: str
) -> None:
    """Read whole, or searched for a concept."""

    def sealed() -> PostgresMemoryProvider:
        return new_store(encryption=Aes256GCMEncryptor(KEY))

    await _fill(sealed(), 30)
    place = f"(SELECT place FROM factmem.places JOIN factmem.stores USING (store) WHERE name = '{store}')"
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(CHANGES[change].format(p=place))

    with pytest.raises(DecryptionError):
        await sealed().load_all(USER, AGENT)
    with pytest.raises(DecryptionError):
        await sealed().load(LANGUAGES, USER, AGENT)


async def test_missing_chunks_are_noticed_in_the_clear(
    new_store: NewStore, dsn: str, store: str
) -> None:
    """Where there is nothing after them."""
    await _fill(new_store(), 30)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(
            "DELETE FROM factmem.chunks WHERE first = 21 AND store = "
            "(SELECT store FROM factmem.stores WHERE name = %s)",
            [store],
        )
    with pytest.raises(FactmemError, match="missing"):
        await new_store().load_all(USER, AGENT)


async def test_a_damaged_chunk_does_not_keep_a_place_from_being_erased(
    opened: Opened, dsn: str, store: str
) -> None:
    """It could not be counted."""
    await _fill(opened(), 30)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(
            "DELETE FROM factmem.chunks WHERE store = "
            "(SELECT store FROM factmem.stores WHERE name = %s)",
            [store],
        )

    assert (await opened().erase(USER, AGENT)).count is None
    assert await opened().places() == []


async def test_keywords_with_one_hash_are_distinguished(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lines of both are read, and those of one are taken."""
    monkeypatch.setattr(chunks, "topic_of", lambda _: 7)
    monkeypatch.setattr("factmem.providers._postgres.searching.topic_of", lambda _: 7)
    await _fill(opened(), 30)
    await opened().save(theme("dark"), USER, AGENT)

    assert [fact.value for fact in await opened().load(THEME, USER, AGENT)] == ["dark"]


@pytest.mark.parametrize("few", [0, 8])
def test_a_line_counts_as_recorded_no_earlier_than_those_before_it(
    monkeypatch: pytest.MonkeyPatch, few: int
) -> None:
    """Whether few lines of a chunk are asked about or many."""
    monkeypatch.setattr(chunks, "_FEW", few)
    times = array("q", [5, 3, 9, 7])
    empty = array("I")
    directory = chunks.Directory(1, 9, b"", b"", array("I", range(4)), times, empty, empty, empty)

    assert list(directory.counted([0, 1, 3], 4)) == [5, 5, 9]
    assert list(directory.counted([1, 3], 20)) == [20, 20]
    assert list(directory.counted([], 4)) == []
