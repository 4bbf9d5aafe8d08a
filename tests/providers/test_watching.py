"""`watch` yields every change once, of any process, and continues where it ended."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from factmem import Concept, FactType, InMemoryProvider, MultipleFacts, Place, SingleFact, acting
from factmem.ledger.history import FactChange
from factmem.models.when import system_clock
from tests.world import AGENT, ALICE, BOB, KINDS, THEME, LocalStore, memory_of, store_of

TAGS = Concept("tags", "Tags", FactType.MULTIPLE)

PLACES = [Place(AGENT, ALICE), Place(AGENT, BOB)]


@pytest.fixture(params=KINDS)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> LocalStore:
    """Return an empty store of each kind."""
    return store_of(request.param, tmp_path)


async def values_of(found: AsyncGenerator[FactChange], count: int) -> list[object]:
    """Return the new values of the next changes."""
    values: list[object] = []
    with anyio.fail_after(60):
        while len(values) < count:
            change = await anext(found)
            values += [value for fact in change.added for value in fact.values]
    return values


async def test_it_yields_what_is_new_after_the_first_look() -> None:
    """With the actor, and in the order of each place."""
    store = InMemoryProvider()
    await store.save(SingleFact(THEME, "old"), ALICE, AGENT)
    got: list[FactChange] = []

    async with aclosing(store.watch(PLACES)) as found:

        async def follow() -> None:
            got.extend([await anext(found) for _ in range(2)])

        with anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(follow)
                await anyio.wait_all_tasks_blocked()  # it has looked once
                with acting("jane"):
                    await store.save(SingleFact(THEME, "dark"), BOB, AGENT)
                    await store.save(SingleFact(THEME, "new"), BOB, AGENT)

    assert [(each.actor, each.place, each.kind) for each in got] == [
        ("jane", PLACES[1], "saved"),
        ("jane", PLACES[1], "replaced"),
    ]


async def test_it_continues_after_its_last_change(store: LocalStore) -> None:
    """With `since` nothing is missed that was recorded while nobody watched."""
    async with store:
        for number in range(5):
            await store.save(SingleFact(THEME, f"{number}"), ALICE, AGENT)
        (first,) = [PLACES[0]]
        async with aclosing(store.watch([first], since=_LONG_AGO)) as found:
            assert await values_of(found, 3) == ["0", "1", "2"]
            last = (await anext(found)).at
        for number in range(5, 8):
            await store.save(SingleFact(THEME, f"{number}"), ALICE, AGENT)
        async with aclosing(store.watch([first], since=last)) as found:
            assert (await values_of(found, 5))[-4:] == ["4", "5", "6", "7"]


async def test_a_view_watches_its_own_places() -> None:
    """Places outside yield nothing."""
    store = InMemoryProvider()
    view = memory_of(store).view(subjects=[ALICE])
    await store.save(SingleFact(THEME, "hers"), BOB, AGENT)
    await store.save(SingleFact(THEME, "own"), ALICE, AGENT)

    async with aclosing(view.store.watch(PLACES[::-1], since=_LONG_AGO)) as found:
        assert await values_of(found, 1) == ["own"]


_LONG_AGO = SingleFact(THEME, "").timestamp.replace(year=2000)


async def test_a_change_of_one_place_does_not_hide_an_earlier_one_of_another(
    store: LocalStore,
) -> None:
    """Whoever is killed after one change goes on from its time."""
    begin = system_clock()
    await store.save(SingleFact(THEME, "earlier"), BOB, AGENT)
    await store.save(SingleFact(THEME, "later"), ALICE, AGENT)
    seen: list[object] = []
    async with aclosing(store.watch(PLACES, since=begin)) as found:
        change = await anext(found)
        seen += [value for fact in change.added for value in fact.values]

    async with aclosing(store.watch(PLACES, since=change.at)) as found:
        seen += await values_of(found, 2)

    assert seen == ["earlier", "earlier", "later"]


async def test_an_import_of_earlier_changes_is_yielded(store: LocalStore) -> None:
    """Its entries were recorded before the last one that was seen, in another store."""
    other = InMemoryProvider()
    await other.save(SingleFact(THEME, "elsewhere"), ALICE, AGENT)
    await store.save(SingleFact(THEME, "dark"), ALICE, AGENT)
    values: list[object] = []

    async def follow() -> None:
        async for change in found:
            values.extend(value for fact in change.added for value in fact.values)
            if "elsewhere" in values:
                return

    async with aclosing(store.watch(PLACES)) as found:
        with anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(follow)
                number = 0
                while not values:  # it has not looked yet
                    number += 1
                    await store.save(SingleFact(THEME, f"light {number}"), BOB, AGENT)
                    await anyio.lowlevel.checkpoint()
                await store.replay(await other.entries(ALICE, AGENT), ALICE, AGENT)


async def test_a_position_continues_after_imports_and_removals(store: LocalStore) -> None:
    """An import puts its entries among older ones, and a purge takes some away."""
    other = InMemoryProvider()
    for number in range(3):
        await other.save(MultipleFacts(TAGS, [f"import {number}"]), ALICE, AGENT)
    async with store:
        for number in range(4):
            await store.save(MultipleFacts(TAGS, [f"{number}"]), (ALICE, BOB)[number % 2], AGENT)
        async with aclosing(store.watch(PLACES, since=_LONG_AGO)) as found:
            position = [await anext(found) for _ in range(3)][-1].position
        await store.replay(await other.entries(ALICE, AGENT), ALICE, AGENT)
        await store.forget(ALICE, AGENT, concept=TAGS, value="0", purge=True)
        await store.save(MultipleFacts(TAGS, ["last"]), ALICE, AGENT)
        async with aclosing(store.watch(PLACES, since=position)) as found:
            first = await anext(found)
            values = [*first.added[0].values, *await values_of(found, 2)]
        async with aclosing(store.watch(PLACES, since=first.position)) as found:
            again = await values_of(found, 4)

    assert values == ["3", "import 0", "import 1"]
    assert again == ["import 0", "import 1", "import 2", "last"]


async def test_a_place_that_was_erased_is_another_one(store: LocalStore) -> None:
    """Nothing of it is skipped."""
    async with store:
        await store.save(SingleFact(THEME, "old"), ALICE, AGENT)
        async with aclosing(store.watch(PLACES, since=_LONG_AGO)) as found:
            position = (await anext(found)).position
        await store.erase(ALICE, AGENT)
        await store.save(SingleFact(THEME, "new"), ALICE, AGENT)
        async with aclosing(store.watch(PLACES, since=position)) as found:
            assert await values_of(found, 1) == ["new"]


@pytest.mark.parametrize("since", ["", "yesterday", "p1-a", "p1-AAAA", "2026-03-01"])
async def test_a_string_that_is_no_position_is_an_error(since: str) -> None:
    """Such as a time: that is a datetime."""
    with pytest.raises(ValueError, match="position of a change"):
        await anext(InMemoryProvider().watch(PLACES, since=since))
