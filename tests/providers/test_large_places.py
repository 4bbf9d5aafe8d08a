"""Large places that no process holds in memory: what is read of them for one concept."""

from pathlib import Path

import pytest

from factmem.ledger.ledger import Ledger
from factmem.models.facts import Concept, FactType, MultipleFacts, SingleFact
from factmem.providers.local_file import LocalFileMemoryProvider
from factmem.storage.base import Storage
from factmem.testing.facts import AGENT
from tests.providers.local_stores import ALICE

COUNT = 4000
TAGS = Concept("tags", "Labels of the user", FactType.MULTIPLE)


def concept(number: int) -> Concept[str, SingleFact[str]]:
    return Concept(f"point-{number}", "A point of the user's profile, as it was last told")


def point(number: int, text: str = "first") -> SingleFact[str]:
    return SingleFact(concept(number), f"{text} {number} ".ljust(200, "."))


async def fill(store: LocalFileMemoryProvider) -> None:
    """Save more than is read at a time, also in an encrypted store."""
    for start in range(0, COUNT, 1000):
        await store.save_many([point(each) for each in range(start, start + 1000)], ALICE, AGENT)
    await store.save(MultipleFacts(TAGS, ["a", "b"]), ALICE, AGENT)
    await store.save(point(7, "second"), ALICE, AGENT)
    await store.save(point(8, "second"), ALICE, AGENT)
    await store.forget(ALICE, AGENT, concept=concept(8))


@pytest.fixture
def folds(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The keywords of all facts that any ledger takes in."""
    seen: list[str] = []
    save = Ledger._save

    def noted(self: Ledger, fact: object, at: str) -> None:
        seen.append(fact["keyword"])  # type: ignore[index]
        save(self, fact, at)  # type: ignore[arg-type]

    monkeypatch.setattr(Ledger, "_save", noted)
    return seen


async def test_one_concept_is_searched_for(root: Path, storage: Storage, folds: list[str]) -> None:
    """The first load of a large place folds that concept alone; the second one reads the place."""
    await fill(LocalFileMemoryProvider(root, storage=storage))
    store = LocalFileMemoryProvider(root, storage=storage)
    folds.clear()

    (fact,) = await store.load(concept(7), ALICE, AGENT)

    assert fact.value.startswith("second 7")
    assert set(folds) == {"point-7"}

    (fact,) = await store.load(concept(9), ALICE, AGENT)

    assert fact.value.startswith("first 9")
    assert len(set(folds)) == COUNT + 1


@pytest.mark.parametrize("number", [0, 7, 8, 3999, 4000])
async def test_a_search_finds_what_reading_does(root: Path, storage: Storage, number: int) -> None:
    """What is first, last, replaced, forgotten or was never there."""
    store = LocalFileMemoryProvider(root, storage=storage)
    await fill(store)
    expected = await store.load(concept(number), ALICE, AGENT)

    cold = LocalFileMemoryProvider(root, storage=storage)

    assert await cold.load(concept(number), ALICE, AGENT) == expected
    assert await cold.load(concept(number), ALICE, AGENT) == expected


async def test_a_forgotten_position_takes_a_fold(
    root: Path, storage: Storage, folds: list[str]
) -> None:
    """Positions depend on other concepts, so all of them are read."""
    writer = LocalFileMemoryProvider(root, storage=storage)
    await fill(writer)
    await writer.forget(ALICE, AGENT, concept=TAGS, value="a")
    folds.clear()

    (fact,) = await LocalFileMemoryProvider(root, storage=storage).load(TAGS, ALICE, AGENT)

    assert fact.values == ("b",)
    assert len(set(folds)) == COUNT + 1


async def test_a_searched_place_sees_later_saves(root: Path, storage: Storage) -> None:
    """By this store, and by others."""
    other = LocalFileMemoryProvider(root, storage=storage)
    await fill(other)
    store = LocalFileMemoryProvider(root, storage=storage)
    await store.load(concept(1), ALICE, AGENT)

    await store.save(point(1, "third"), ALICE, AGENT)
    (mine,) = await store.load(concept(1), ALICE, AGENT)
    await other.save(point(1, "fourth"), ALICE, AGENT)
    (theirs,) = await store.load(concept(1), ALICE, AGENT)

    assert [mine.value.split()[0], theirs.value.split()[0]] == ["third", "fourth"]
