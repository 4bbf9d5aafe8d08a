"""The states of places: what a program keeps to find what has changed, in any process."""

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from factmem import LocalFileMemoryProvider
from factmem.models.places import Place
from factmem.providers.storages import SimpleStorage
from factmem.testing._facts import AGENT, LANGUAGES, languages
from tests.providers.local_stores import ALICE, BOB, sealed

WHERE: Any = (ALICE, AGENT)
PLACE = Place(AGENT, ALICE)


@pytest.fixture(params=["plain", "sealed"], name="store")
async def opened(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[Any]:
    """Yield a new, empty store."""
    storage = sealed() if request.param == "sealed" else SimpleStorage()
    async with LocalFileMemoryProvider(tmp_path / "store", storage=storage) as store:
        yield store


async def test_only_a_changed_place_is_named(store: Any) -> None:
    """Definitions and conversations are no facts of a place."""
    assert await store.states() == {}
    await store.save(languages("Python"), *WHERE)
    await store.save(languages("Rust"), BOB, AGENT)
    await store.define([LANGUAGES])
    before = await store.states()

    assert sorted(place.subject.entity for place in before.values()) == ["alice", "bob"]
    assert await store.states(before) == dict.fromkeys(before)
    await store.save(languages("Zig"), *WHERE)

    named = [place for place in (await store.states(before)).values() if place is not None]
    assert [place.identity for place in named] == [PLACE.identity]


async def test_the_entries_since_a_state_are_the_new_ones(store: Any) -> None:
    """Also if there are none, or more than one answer of the database has."""
    await store.save(languages("Python"), *WHERE)
    (state,) = await store.states()
    assert await store.entries_since(PLACE, state) == []
    for start in range(0, 2100, 700):
        facts = [languages(f"{number}") for number in range(start, start + 700)]
        for fact in facts[:10]:
            await store.save(fact, *WHERE)
        await store.save_many(facts[10:], *WHERE)

    new = await store.entries_since(PLACE, state)

    assert new == (await store.entries(*WHERE))[1:]
    assert len(new) > 30


async def test_an_import_of_older_entries_is_read_once(store: Any) -> None:
    """It counts as recorded now, and the entries after it are found all the same."""
    at = "2020-01-01T00:00:0{}.000000Z"
    fact = {"keyword": "x", "description": "X", "type": "SINGLE", "value": "y"}
    entries: list[Any] = [
        {"at": at.format(n), "facts": [{**fact, "id": f"{n}", "timestamp": at.format(n)}]}
        for n in range(4)
    ]
    await store.replay(entries[:2], *WHERE)
    (first,) = await store.states()
    await store.replay(entries[2:], *WHERE)
    (second,) = await store.states()
    await store.save(languages("Python"), *WHERE)

    assert await store.entries_since(PLACE, first) == (await store.entries(*WHERE))[2:]
    assert await store.entries_since(PLACE, second) == (await store.entries(*WHERE))[4:]


@pytest.mark.parametrize("change", ["purge", "compact", "erase", "forgotten and erased"])
async def test_a_changed_history_has_no_entries_since(store: Any, change: str) -> None:
    """What was read before is to be read again."""
    await store.save(languages("Python", "Rust"), *WHERE)
    await store.forget(*WHERE, concept=LANGUAGES, value="Python")
    (state,) = await store.states()
    match change:
        case "purge":
            await store.forget(*WHERE, concept=LANGUAGES, value="Rust", purge=True)
        case "compact":
            await store.compact(*WHERE)
        case "erase":
            await store.erase(*WHERE)
        case _:
            await store.erase(*WHERE)
            await store.save(languages("Python", "Rust"), *WHERE)
            await store.forget(*WHERE, concept=LANGUAGES, value="Python")

    assert state not in await store.states([state])
    assert await store.entries_since(PLACE, state) is None
