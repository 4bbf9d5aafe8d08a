"""Rows with their own times, imported into every store."""

from collections.abc import AsyncGenerator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pytest

from factmem import Concept, FactStore, MemoryAccessError, MultipleFacts, Place, SingleFact
from factmem.ledger.resolution import PlacedFact
from factmem.models.places import UNBOUNDED
from factmem.transfer.bundle import import_facts
from tests.world import AGENT, ALICE, KINDS, LANGUAGES, THEME, USER, memory_of, store_of

BOB = USER.of("bob")


def year(number: int) -> datetime:
    return datetime(number, 5, 1, tzinfo=UTC)


def rows() -> list[PlacedFact[Any]]:
    """Return new rows each time, so that their ids differ."""
    hers, his = Place(AGENT, ALICE), Place(AGENT, BOB)
    return [
        PlacedFact(hers, SingleFact(THEME, "dark", timestamp=year(2024))),
        PlacedFact(hers, SingleFact(THEME, "light", timestamp=year(2021))),
        PlacedFact(hers, MultipleFacts(LANGUAGES, ["en", "ko"], timestamp=year(2022))),
        PlacedFact(his, SingleFact(THEME, "solarized", timestamp=year(2023))),
    ]


@pytest.fixture(params=KINDS)
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[FactStore]:
    async with store_of(request.param, tmp_path) as made:
        yield made


async def test_as_of_finds_imported_rows_and_a_second_import_changes_nothing(
    store: FactStore,
) -> None:
    """Rows come in any order, from any iterable."""
    first = await import_facts(iter(rows()), store)
    before = [await store.entries(who, AGENT) for who in (ALICE, BOB)]
    second = await import_facts(rows(), store)

    assert (first.entries, first.new, second.entries, second.new) == (4, 4, 4, 0)
    assert [await store.entries(who, AGENT) for who in (ALICE, BOB)] == before
    assert [fact.value for fact in await store.load(THEME, ALICE, AGENT)] == ["dark"]
    for when, theme in [(2020, []), (2021, ["light"]), (2023, ["light"]), (2025, ["dark"])]:
        found = await store.load(THEME, ALICE, AGENT, as_of=year(when))
        assert [fact.value for fact in found] == theme


async def test_a_row_in_the_future_is_recorded_now(store: FactStore) -> None:
    """Otherwise every later save would count as recorded in the future."""
    row = PlacedFact(Place(AGENT, ALICE), SingleFact(THEME, "dark", timestamp=year(2999)))
    await import_facts([row], store)
    await store.save(SingleFact(THEME, "light"), ALICE, AGENT)

    (entry, after) = await store.history(THEME, ALICE, AGENT)
    assert entry.recorded_at <= after.recorded_at < year(2999)


async def test_only_the_named_places_are_written(store: FactStore) -> None:
    """Rows of other places are left out and not counted."""
    report = await import_facts(rows(), store, places=[Place(AGENT, BOB)])

    assert (report.entries, report.new) == (1, 1)
    assert [info.subject.entity for info in await store.places()] == ["bob"]


async def test_a_wrong_row_writes_nothing(store: FactStore) -> None:
    """A row outside a view writes nothing either."""
    with pytest.raises(TypeError, match="rows must be PlacedFacts"):
        await import_facts([*rows(), cast("Any", "dark")], store)
    assert await store.places() == []

    view = memory_of(store).view(subjects=[BOB])
    assert view.boundary != UNBOUNDED
    with pytest.raises(MemoryAccessError):
        await import_facts(rows(), view.store)
    assert await store.places() == []


async def test_of_rows_with_one_time_the_later_wins(store: FactStore) -> None:
    """A hash of the row decided; a longer file of the same day goes on where the last one ended."""
    place, when = Place(AGENT, ALICE), year(2024)
    concepts: list[Concept[str, SingleFact[str]]] = [Concept(f"k{n}", "") for n in range(20)]

    def said(*values: str) -> list[PlacedFact[Any]]:
        return [
            PlacedFact(
                place, SingleFact(concept, value, timestamp=when, id=f"{concept.keyword}{value}")
            )
            for concept in concepts
            for value in values
        ]

    for values in (["z", "b"], ["z", "b", "a"], ["z", "b", "a"], ["b", "a", "b"]):
        await import_facts(said(*values), store)
        found = [fact.values[0] for fact in await store.load_all(ALICE, AGENT)]
        assert set(found) == {min(values)}, values
