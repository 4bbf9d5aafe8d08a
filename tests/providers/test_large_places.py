"""Large places that no process has in memory: the reads for one concept."""

from pathlib import Path
from shutil import copytree
from typing import Any

import pytest

from factmem.errors import CorruptJournalError, TamperedError
from factmem.ledger.ledger import Ledger
from factmem.models.facts import Concept, FactType, MultipleFacts, SingleFact
from factmem.providers._sql.sealed import _SealedLines
from factmem.providers._sql.sealing import _CheckedLines
from factmem.providers._sql.topics import Topics, stored_topics
from factmem.providers.local_file import LocalFileMemoryProvider
from factmem.providers.storages import SimpleStorage, Storage
from factmem.testing._facts import AGENT
from tests.doors import FailingDoor, watched
from tests.providers.local_stores import ALICE, run

COUNT = 4000
TAGS = Concept("tags", "Labels of the user", FactType.MULTIPLE)


def concept(number: int) -> Concept[str, SingleFact[str]]:
    return Concept(f"point-{number}", "A point of the user's profile, as it was last told")


def point(number: int, text: str = "first") -> SingleFact[str]:
    return SingleFact(concept(number), f"{text} {number} ".ljust(200, "."))


async def fill(root: Path, storage: Storage) -> None:
    """Save more than one read returns, let a cold load index it by keyword, and save more."""
    store = LocalFileMemoryProvider(root, storage=storage)
    for start in range(0, COUNT, 1000):
        await store.save_many([point(each) for each in range(start, start + 1000)], ALICE, AGENT)
    async with LocalFileMemoryProvider(root, storage=storage) as cold:
        await cold.load(concept(0), ALICE, AGENT)
    await store.save(MultipleFacts(TAGS, ["a", "b"]), ALICE, AGENT)
    await store.save(point(7, "second"), ALICE, AGENT)
    await store.save(point(8, "second"), ALICE, AGENT)
    await store.forget(ALICE, AGENT, concept=concept(8))
    await store.aclose()


@pytest.fixture(scope="module")
def originals(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the stores that the tests copy."""
    return tmp_path_factory.mktemp("originals")


@pytest.fixture
async def full(root: Path, storage: Storage, originals: Path) -> Path:
    """Return the folder of a filled store that is closed."""
    original = originals / type(storage).__name__
    if not original.exists():
        await fill(original, storage)
    return copytree(original, root)


@pytest.fixture
def folds(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Record the keywords of all facts that any ledger adds."""
    seen: list[str] = []
    save = Ledger._save

    def noted(self: Ledger, fact: object, at: str) -> None:
        seen.append(fact["keyword"])  # type: ignore[index]
        save(self, fact, at)  # type: ignore[arg-type]

    monkeypatch.setattr(Ledger, "_save", noted)
    return seen


async def test_one_concept_is_searched(full: Path, storage: Storage, folds: list[str]) -> None:
    """The first load of a large place folds only that concept; the second one reads the place."""
    store = LocalFileMemoryProvider(full, storage=storage)
    folds.clear()

    (fact,) = await store.load(concept(7), ALICE, AGENT)

    assert fact.value.startswith("second 7")
    assert set(folds) == {"point-7"}

    (fact,) = await store.load(concept(9), ALICE, AGENT)

    assert fact.value.startswith("first 9")
    assert len(set(folds)) == COUNT + 1


async def test_a_search_equals_a_full_read(full: Path, storage: Storage) -> None:
    """The concept is first, last, replaced, forgotten or was never saved."""
    store = LocalFileMemoryProvider(full, storage=storage)
    await store.load_all(ALICE, AGENT)
    for number in (0, 7, 8, 3999, 4000):
        expected = await store.load(concept(number), ALICE, AGENT)

        cold = LocalFileMemoryProvider(full, storage=storage)

        assert await cold.load(concept(number), ALICE, AGENT) == expected
        assert await cold.load(concept(number), ALICE, AGENT) == expected


async def test_a_forgetting_needs_no_fold(full: Path, storage: Storage, folds: list[str]) -> None:
    """It names a value of the same keyword."""
    writer = LocalFileMemoryProvider(full, storage=storage)
    await writer.forget(ALICE, AGENT, concept=TAGS, value="a")
    folds.clear()

    (fact,) = await LocalFileMemoryProvider(full, storage=storage).load(TAGS, ALICE, AGENT)

    assert fact.values == ("b",)
    assert len(set(folds)) <= 2


async def test_a_searched_place_sees_later_saves(full: Path, storage: Storage) -> None:
    """This store or others save."""
    other = LocalFileMemoryProvider(full, storage=storage)
    store = LocalFileMemoryProvider(full, storage=storage)
    await store.load(concept(1), ALICE, AGENT)

    await store.save(point(1, "third"), ALICE, AGENT)
    (mine,) = await store.load(concept(1), ALICE, AGENT)
    await other.save(point(1, "fourth"), ALICE, AGENT)
    (theirs,) = await store.load(concept(1), ALICE, AGENT)

    assert [mine.value.split()[0], theirs.value.split()[0]] == ["third", "fourth"]


async def test_a_keyword_that_json_escapes(full: Path, storage: Storage) -> None:
    """It is found without reading the place."""
    odd = ['a "quoted" one', "back\\slash", "\ud55c\uad6d\uc5b4", "sla/sh"]
    concepts = [Concept(keyword, "A concept with an odd name") for keyword in odd]
    other = LocalFileMemoryProvider(full, storage=storage)
    await other.save_many([SingleFact(each, "found") for each in concepts], ALICE, AGENT)

    for each in concepts:
        (fact,) = await LocalFileMemoryProvider(full, storage=storage).load(each, ALICE, AGENT)

        assert fact.value == "found", each.keyword


@pytest.mark.parametrize("change", ["purge", "compact", "extend", "rewrite"])
async def test_topics_after_a_change(full: Path, storage: Storage, change: str) -> None:
    """Each concept is found in the lines that a purge or a compaction has left."""
    writer = LocalFileMemoryProvider(full, storage=storage)
    match change:
        case "purge":
            await writer.forget(ALICE, AGENT, concept=concept(7), purge=True)
        case "compact":
            assert await writer.compact(ALICE, AGENT)
        case "extend":
            entries = await writer.entries(ALICE, AGENT)
            await writer.erase(ALICE, AGENT)
            await writer.replay(entries, ALICE, AGENT)
        case _:
            await writer.rewrite(lambda entries: entries, ALICE, AGENT)
    everything = {fact.concept.keyword: fact.values for fact in await writer.load_all(ALICE, AGENT)}

    for number in (0, 7, 8, 256, 999, 3999):
        cold = LocalFileMemoryProvider(full, storage=storage)
        found = [fact.values for fact in await cold.load(concept(number), ALICE, AGENT)]
        wanted = everything.get(f"point-{number}")
        assert found == ([] if wanted is None else [wanted])


async def test_a_missing_line_is_noticed_when_all_is_read(full: Path, storage: Storage) -> None:
    """One concept of a plain place comes from its own lines; they are verified."""
    run(full, "DELETE FROM entries WHERE number = 3")
    cold = LocalFileMemoryProvider(full, storage=storage)

    if isinstance(storage, SimpleStorage):
        assert await cold.load(concept(3999), ALICE, AGENT)
    with pytest.raises((CorruptJournalError, TamperedError)):
        await cold.load_all(ALICE, AGENT)
    with pytest.raises((CorruptJournalError, TamperedError)):
        await cold.verify()


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch, storage: Storage) -> list[int]:
    """Record the numbers of the lines that are read."""
    numbers: list[int] = []
    lines = _CheckedLines if isinstance(storage, SimpleStorage) else _SealedLines
    read = lines.open

    def noted(self: Any, number: int, *given: Any) -> bytes:
        numbers.append(number)
        return read(self, number, *given)

    monkeypatch.setattr(lines, "open", noted)
    return numbers


async def test_a_cold_load_reads_few_lines(full: Path, storage: Storage, opened: list[int]) -> None:
    """It reads those of the concept, and what came after the index was written."""
    (fact,) = await LocalFileMemoryProvider(full, storage=storage).load(concept(7), ALICE, AGENT)

    assert fact.value.startswith("second 7")
    assert opened == [1, 33, 34, 35, 36]


@pytest.mark.parametrize("loss", ["delete", "zeros", "other place", "older state"])
async def test_an_index_that_is_no_use_is_made_again(
    full: Path, storage: Storage, opened: list[int], loss: str
) -> None:
    match loss:
        case "delete":
            run(full, "DELETE FROM indexes")
        case "zeros":
            run(full, "UPDATE indexes SET bytes = zeroblob(length(bytes))")
        case "other place":
            other = copytree(full, full.with_name("other"))
            await LocalFileMemoryProvider(other, storage=storage).erase(ALICE, AGENT)
            await fill(other, storage)
            for kind, stored in run(other, "SELECT kind, bytes FROM indexes"):
                run(full, "UPDATE indexes SET bytes = ? WHERE kind = ?", stored, kind)
        case _:
            rows = run(full, "SELECT place, kind, store, bytes FROM indexes")
            writer = LocalFileMemoryProvider(full, storage=storage)
            await writer.forget(ALICE, AGENT, concept=concept(7), purge=True)
            await writer.save(point(7, "second"), ALICE, AGENT)
            await writer.aclose()
            for row in rows:
                run(
                    full,
                    "INSERT INTO indexes (place, kind, store, bytes) VALUES (?, ?, ?, ?)",
                    *row,
                )
    for is_repaired in (False, True):
        opened.clear()
        cold = LocalFileMemoryProvider(full, storage=storage)

        (fact,) = await cold.load(concept(7), ALICE, AGENT)

        assert fact.value.startswith("second 7")
        assert (len(opened) < 6) is is_repaired


async def test_an_index_that_is_far_behind_is_extended(
    full: Path, storage: Storage, opened: list[int]
) -> None:
    writer = LocalFileMemoryProvider(full, storage=storage)
    await writer.save_many([point(each, "third") for each in range(2000)], ALICE, AGENT)
    for count in (21, 3):
        opened.clear()
        cold = LocalFileMemoryProvider(full, storage=storage)

        (fact,) = await cold.load(concept(7), ALICE, AGENT)

        assert fact.value.startswith("third 7")
        assert len(opened) <= count


async def test_an_index_that_another_process_extends_meanwhile(
    full: Path, storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rows of two states are not mixed: lines of one would be missing."""
    writer = LocalFileMemoryProvider(full, storage=storage)
    await writer.save_many([point(each, "third") for each in range(2000)], ALICE, AGENT)
    before = run(full, "SELECT bytes FROM indexes")

    def raced(*given: Any, is_sealed: bool) -> Topics | None:
        topics = stored_topics(*given, is_sealed=is_sealed)
        if topics is not None and len(given) == 3:
            topics.reach = topics.reach._replace(size=topics.reach.size + 1)
        return topics

    monkeypatch.setattr("factmem.providers._sql.places.stored_topics", raced)
    (fact,) = await LocalFileMemoryProvider(full, storage=storage).load(concept(7), ALICE, AGENT)

    assert fact.value.startswith("third 7")
    assert run(full, "SELECT bytes FROM indexes") == before


async def test_an_index_needs_no_right_to_write(full: Path, storage: Storage) -> None:
    """What cannot be written now is read, and the next process tries again."""
    run(full, "DELETE FROM indexes")
    fault = FailingDoor()
    with watched(fault):
        cold = LocalFileMemoryProvider(full, storage=storage)
        fault.fail(1, part="INSERT INTO indexes")

        assert await cold.load(concept(7), ALICE, AGENT)
    assert fault.failed == 1
    assert run(full, "SELECT count(*) FROM indexes") == [(0,)]
