"""Listing the contents of a memory, forgetting through it, and resetting a view."""

from datetime import UTC, datetime, timedelta

import pytest

from factmem.models.places import MemorySubject, Place
from factmem.providers.in_memory import InMemoryProvider
from factmem.testing.clock import SettableClock
from tests.world import (
    AGENT,
    ALICE,
    BOB,
    DEVICE,
    LANGUAGES,
    PRODUCT,
    THEME,
    languages,
    memory_of,
    theme,
)

START = datetime(2026, 8, 3, tzinfo=UTC)


@pytest.fixture
def clock() -> SettableClock:
    return SettableClock(START)


@pytest.fixture
async def store(clock: SettableClock) -> InMemoryProvider:
    """Fill three places, each an hour after the one before."""
    made = InMemoryProvider(clock=clock)
    await made.save(theme("dark"), ALICE, AGENT)
    clock.advance(timedelta(hours=1))
    await made.save(languages("en", "ko"), BOB, PRODUCT)
    clock.advance(timedelta(hours=1))
    await made.save(theme("light"), DEVICE, AGENT)
    return made


async def test_the_tree_shows_scopes_subjects_and_entities(store: InMemoryProvider) -> None:
    """One call returns all places and their sizes."""
    tree = await memory_of(store).contents.tree()

    assert str(tree).splitlines() == [
        "memory: 4", "  agent/support-bot: 2", "    device: 1", "    user: 1", "      alice: 1",
        "  product/my-app: 2", "    user: 2", "      bob: 2",
    ]  # fmt: skip
    assert tree.newest == START + timedelta(hours=2)
    (device, user) = tree.branches[0].branches
    assert device.place is not None
    assert device.place.identity == Place(AGENT, DEVICE).identity
    assert user.place is None
    assert tree.bytes == sum(info.bytes for info in await store.places())


async def test_a_subject_can_be_a_place_and_a_branch() -> None:
    """A subject with entities in one place and without in another loses nothing."""
    store = InMemoryProvider()
    await store.save(theme("everybody's"), MemorySubject("user", "", 1), AGENT)
    await store.save(theme("hers"), ALICE, AGENT)

    tree = await memory_of(store).contents.tree()

    (user,) = tree.branches[0].branches
    assert (user.count, user.place is not None, [each.name for each in user.branches]) == (
        2,
        True,
        ["alice"],
    )


async def test_concepts_are_counted(store: InMemoryProvider) -> None:
    """Values and places, by keyword."""
    found = await memory_of(store).contents.concepts()

    assert [(each.keyword, each.count, each.places) for each in found] == [
        ("ide-theme", 2, 2),
        ("languages", 2, 1),
    ]
    assert found[1].fact_type is LANGUAGES.fact_type
    assert found[0].newest == START + timedelta(hours=2)


async def test_pages_begin_with_the_newest(store: InMemoryProvider) -> None:
    """Every record is on exactly one page, for any page size."""
    contents = memory_of(store).contents

    pages = [await contents.records(limit=2, offset=offset) for offset in (0, 2, 4)]

    assert [[placed.fact.values for placed in page] for page in pages] == [
        [("light",), ("en", "ko")],
        [("dark",)],
        [],
    ]
    for limit, offset in ((-1, 0), (1, -1)):
        with pytest.raises(ValueError, match="must be an int of at least 0"):
            await contents.records(limit=limit, offset=offset)


async def test_forgetting_stays_in_its_places(store: InMemoryProvider) -> None:
    """The default is the memory's places; a call may name others."""
    contents = memory_of(store).contents

    assert await contents.forget(concept=LANGUAGES) == 0
    assert await contents.forget(concept=LANGUAGES, value="en", subjects=[BOB]) == 1
    assert await contents.forget(concept=THEME) == 1

    assert [fact.values for fact in await store.load(LANGUAGES, BOB, PRODUCT)] == [("ko",)]
    assert [fact.value for fact in await store.load(THEME, DEVICE, AGENT)] == ["light"]
    assert await store.load(THEME, ALICE, AGENT) == []


async def test_a_dry_run_of_a_reset_counts(store: InMemoryProvider) -> None:
    """The reset removes exactly what the dry run counted."""
    view = memory_of(store).view(subjects=[ALICE, BOB])

    planned = await view.contents.reset()
    assert (planned.count, planned.receipts) == (3, [])
    assert len(await store.places()) == 3

    done = await view.contents.reset(confirm=True)

    assert done.places == planned.places
    assert [receipt.count for receipt in done.receipts] == [1, 2]
    assert [info.subject.name for info in await store.places()] == ["device"]
    assert await store.history(THEME, ALICE, AGENT) == []


async def test_an_empty_memory_has_an_empty_tree() -> None:
    """It raises no error."""
    contents = memory_of().contents

    assert str(await contents.tree()) == "memory: 0"
    assert (await contents.tree()).newest is None
    assert await contents.concepts() == []
    assert await contents.records() == []
