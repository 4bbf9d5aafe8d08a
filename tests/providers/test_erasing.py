"""Values that are gone from every file of a durable store, and receipts that say so."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta

import pytest

from factmem import Concept, FactSource, Key, MemorySubject, Place, SingleFact, SourceKind
from factmem.ledger._removal import tidied
from factmem.ledger.entries import Entry
from factmem.models.when import stamp
from factmem.providers.local_file import LocalFileMemoryProvider
from factmem.providers.results import Forgotten
from factmem.testing._facts import AGENT, LANGUAGES, PERSON, THEME, languages, theme
from factmem.testing.clock import SettableClock
from tests.providers.home import ALICE, BOB, StoreFolder, save, values

MARK = "zyzzyva"
"""A word that is in no file by chance."""

SECRETS = [MARK, f'"{MARK}"\n\\ \u00fc\U0001f95d', f"{MARK} " * 5000]
"""Values with the word: a short one, one that JSON escapes, and one that needs several pages."""

Step = Callable[[LocalFileMemoryProvider, str], Awaitable[object]]

STEPS: dict[str, Sequence[Step]] = {
    "current": [lambda store, secret: store.save(theme(secret), ALICE, AGENT)],
    "replaced": [
        lambda store, secret: store.save(theme(secret), ALICE, AGENT),
        lambda store, secret: store.save(theme("dark"), ALICE, AGENT),
    ],
    "forgotten": [
        lambda store, secret: store.save(theme(secret), ALICE, AGENT),
        lambda store, secret: store.forget(ALICE, AGENT, concept=THEME),
    ],
    "confirmed": [
        lambda store, secret: store.save(theme(secret), ALICE, AGENT),
        lambda store, secret: store.save(theme(secret), ALICE, AGENT),
    ],
    "in a batch": [
        lambda store, secret: store.save_many([languages("c"), theme(secret)], ALICE, AGENT)
    ],
    "compacted": [
        lambda store, secret: store.save(theme("light"), ALICE, AGENT),
        lambda store, secret: store.save(theme(secret), ALICE, AGENT),
        lambda store, secret: store.compact(ALICE, AGENT),
    ],
    "indexed": [
        lambda store, secret: store.save(theme(secret), ALICE, AGENT),
        lambda store, secret: _index(store, ALICE, secret),
    ],
}
"""What may have happened to a value before it is purged."""


async def _index(store: LocalFileMemoryProvider, subject: MemorySubject, text: str) -> None:
    version = await store.version(subject, AGENT)
    assert version is not None
    assert await store.write_index(subject, AGENT, text.encode(), version=version)


def _until(now: str) -> Callable[[Sequence[Entry]], Sequence[Entry | None]]:
    return lambda entries: tidied(entries, now, expired=True, cutoff=now)


def check_saved(home: StoreFolder) -> None:
    """Check that the search would find the word: in a plain store only."""
    assert bool(home.names_with(MARK)) == (not home.keys)


@pytest.mark.parametrize("steps", STEPS)
async def test_a_purged_value_is_in_no_file(home: StoreFolder, steps: str) -> None:
    """Whatever happened to it before. Other values stay."""
    for number, secret in enumerate(SECRETS):
        one = home.at(home.path / str(number))
        async with one.open() as store:
            await save(store, "java")
            for step in STEPS[steps]:
                await step(store, secret)
            check_saved(one)

            await store.forget(ALICE, AGENT, concept=THEME, value=secret, purge=True)

            assert one.names_with(MARK) == []
        assert one.names_with(MARK) == []
        async with one.open() as store:
            assert "java" in await values(store)


@pytest.mark.parametrize("length", range(8, 20, 3))
async def test_a_value_is_purged_from_a_fact_of_many(home: StoreFolder, length: int) -> None:
    """Whatever its length, and that of the values beside it."""
    secret = "0123456789abcdefghij"[:length]
    async with home.open() as store:
        await store.save(languages("java", secret, "rust"), ALICE, AGENT)

        assert await store.forget(ALICE, AGENT, concept=LANGUAGES, value=secret, purge=True)

        assert home.names_with(secret) == []
        assert await values(store) == ["java", "rust"]
    assert home.names_with(secret) == []


async def test_quotes_of_a_purged_value_are_in_no_file(home: StoreFolder) -> None:
    """Nor those of other facts, if they are purged too."""
    said = FactSource(SourceKind.USER, "chat", 1, f"I said {MARK}, and Java")
    async with home.open() as store:
        facts = [theme(MARK, source=said), languages("java", source=said)]
        await store.save_many(facts, ALICE, AGENT)
        check_saved(home)

        left = await store.forget(ALICE, AGENT, concept=THEME, purge="quotes")

        assert isinstance(left, Forgotten)
        assert (left.quoting, left.mentioning) == ((), ())
        assert home.names_with(MARK) == []
    assert home.names_with(MARK) == []


async def test_an_erased_place_is_in_no_file(home: StoreFolder) -> None:
    """Neither its values, keywords, sources and metadata, nor the name of its entity."""
    concept = Concept(f"{MARK}-keyword", f"A description with {MARK}")
    said = FactSource(SourceKind.USER, f"{MARK}-chat", 1, f"A quote of {MARK}")
    place = PERSON.of(f"{MARK}-entity")
    async with home.open() as store:
        await save(store, "java", BOB)
        for secret in SECRETS:
            await store.save(SingleFact(concept, secret, source=said), place, AGENT)
        fact = SingleFact(THEME, MARK, metadata={MARK: [MARK]})
        await store.save_many([fact, languages(*SECRETS)], place, AGENT)
        await store.forget(place, AGENT, concept=concept)
        await store.places()
        await _index(store, place, MARK)
        check_saved(home)

        receipt = await store.erase(place, AGENT)

        assert receipt.place == Place(AGENT, place)
        assert receipt.count == 1 + len(SECRETS)
        assert receipt.bytes > 0
        assert (receipt.copies_remain, receipt.is_shreddable) == (False, False)
        assert home.names_with(MARK) == []
        assert [info.subject.entity for info in await store.places()] == ["bob"]
    assert home.names_with(MARK) == []
    async with home.open() as store:
        assert await store.entries(place, AGENT) == []
        assert await values(store, BOB) == ["java"]


async def test_an_erasure_of_nothing_has_an_empty_receipt(home: StoreFolder) -> None:
    """Nothing was removed."""
    async with home.open() as store:
        await save(store, "java", BOB)

        receipt = await store.erase(ALICE, AGENT)

    assert (receipt.count, receipt.bytes, receipt.copies_remain) == (0, 0, False)


@pytest.mark.parametrize("home", ["encrypted"], indirect=True)
async def test_no_value_and_no_name_is_readable(home: StoreFolder) -> None:
    """In no file, at any time."""
    place = PERSON.of(MARK)
    async with home.open() as store:
        await store.save(theme(MARK), place, AGENT)
        assert home.names_with(MARK) == []
        await store.compact(place, AGENT)
        await store.places()
        assert home.names_with(MARK) == []
        await store.keys.rotate(Key.generate().to_base64())
        assert home.names_with(MARK) == []
    assert home.names_with(MARK) == []


@pytest.mark.parametrize("is_tidied", [False, True], ids=["compacted", "tidied"])
async def test_old_history_is_in_no_file(home: StoreFolder, *, is_tidied: bool) -> None:
    """Replaced, forgotten and expired values, after a compaction or a rewriting."""
    clock = SettableClock()
    async with home.open(clock) as store:
        soon = clock.now + timedelta(hours=1)
        expiring = Concept("expiring", "Known for an hour")
        await store.save(SingleFact(expiring, f"{MARK}-1", expires_at=soon), ALICE, AGENT)
        await store.save(theme(f"{MARK}-2"), ALICE, AGENT)
        await store.save_many([theme("dark"), languages("java", f"{MARK}-3")], ALICE, AGENT)
        await store.forget(ALICE, AGENT, concept=LANGUAGES, value=f"{MARK}-3")
        clock.advance(timedelta(hours=2))
        check_saved(home)

        if is_tidied:
            assert await store.rewrite(_until(stamp(clock())), ALICE, AGENT) > 0
        else:
            assert await store.compact(ALICE, AGENT) > 0

        assert home.names_with(MARK) == []
        assert await values(store) == ["java"]
    assert home.names_with(MARK) == []
    async with home.open(clock) as store:
        assert await values(store) == ["java"]
        assert [fact.value for fact in await store.load(THEME, ALICE, AGENT)] == ["dark"]
