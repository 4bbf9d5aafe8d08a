"""Large places that no process has in memory: the reads for one concept."""

import os
import random
from pathlib import Path
from typing import Any

import pytest
from factmem.storage._reader import FolderReader

from factmem.encryption.aes256gcm import Aes256GCMEncryptor
from factmem.encryption.key import Key
from factmem.errors import CorruptJournalError, TamperedError
from factmem.ledger.items import KeywordItems
from factmem.ledger.ledger import Ledger
from factmem.models.facts import Concept, FactType, MultipleFacts, SingleFact
from factmem.models.sources import FactSource, SourceKind
from factmem.providers.local_file import LocalFileMemoryProvider
from factmem.providers.storages import EncryptedStorage, Storage
from factmem.testing.facts import AGENT
from tests.providers.local_stores import ALICE, KEY, disk, journal_of

COUNT = 4000
TAGS = Concept("tags", "Labels of the user", FactType.MULTIPLE)


def concept(number: int) -> Concept[str, SingleFact[str]]:
    return Concept(f"point-{number}", "A point of the user's profile, as it was last told")


def point(number: int, text: str = "first") -> SingleFact[str]:
    return SingleFact(concept(number), f"{text} {number} ".ljust(200, "."))


async def fill(store: LocalFileMemoryProvider) -> None:
    """Save more than one read returns, also in an encrypted store."""
    for start in range(0, COUNT, 1000):
        await store.save_many([point(each) for each in range(start, start + 1000)], ALICE, AGENT)
    await store.save(MultipleFacts(TAGS, ["a", "b"]), ALICE, AGENT)
    await store.save(point(7, "second"), ALICE, AGENT)
    await store.save(point(8, "second"), ALICE, AGENT)
    await store.forget(ALICE, AGENT, concept=concept(8))


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


async def test_one_concept_is_searched(root: Path, storage: Storage, folds: list[str]) -> None:
    """The first load of a large place folds only that concept; the second one reads the place."""
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
async def test_a_search_equals_a_full_read(root: Path, storage: Storage, number: int) -> None:
    """The concept is first, last, replaced, forgotten or was never saved."""
    store = LocalFileMemoryProvider(root, storage=storage)
    await fill(store)
    expected = await store.load(concept(number), ALICE, AGENT)

    cold = LocalFileMemoryProvider(root, storage=storage)

    assert await cold.load(concept(number), ALICE, AGENT) == expected
    assert await cold.load(concept(number), ALICE, AGENT) == expected


async def test_a_forgotten_position_needs_a_fold(
    root: Path, storage: Storage, folds: list[str]
) -> None:
    """Positions depend on other concepts, so all entries are read."""
    writer = LocalFileMemoryProvider(root, storage=storage)
    await fill(writer)
    await writer.forget(ALICE, AGENT, concept=TAGS, value="a")
    folds.clear()

    (fact,) = await LocalFileMemoryProvider(root, storage=storage).load(TAGS, ALICE, AGENT)

    assert fact.values == ("b",)
    assert len(set(folds)) == COUNT + 1


async def test_a_searched_place_sees_later_saves(root: Path, storage: Storage) -> None:
    """This store or others save."""
    other = LocalFileMemoryProvider(root, storage=storage)
    await fill(other)
    store = LocalFileMemoryProvider(root, storage=storage)
    await store.load(concept(1), ALICE, AGENT)

    await store.save(point(1, "third"), ALICE, AGENT)
    (mine,) = await store.load(concept(1), ALICE, AGENT)
    await other.save(point(1, "fourth"), ALICE, AGENT)
    (theirs,) = await store.load(concept(1), ALICE, AGENT)

    assert [mine.value.split()[0], theirs.value.split()[0]] == ["third", "fourth"]


# Summaries


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Write summaries of places that two reads cover."""
    monkeypatch.setattr("factmem.providers._place_reader._SMALLEST_SUMMARIZED", 1 << 20)


def summaries(root: Path) -> dict[str, bytes]:
    return {name: data for name, data in disk(root).items() if ".summary" in name}


async def summarized(root: Path, storage: Storage, *, times: int = 1) -> None:
    """Fill a place, read it, and close the store."""
    async with LocalFileMemoryProvider(root, storage=storage) as store:
        for _ in range(times):
            await fill(store)
        await store.load_all(ALICE, AGENT)
        assert summaries(root) == {}
    assert len(summaries(root)) == 1


@pytest.fixture
def chunks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Record the sizes of the parts of journals that are read, in bytes."""
    read: list[int] = []
    advanced = FolderReader._advanced

    def noted(self: FolderReader, codec: Any, place: Any, data: bytes, **options: Any) -> Any:
        read.append(len(data))
        return advanced(self, codec, place, data, **options)

    monkeypatch.setattr(FolderReader, "_advanced", noted)
    return read


@pytest.mark.usefixtures("small")
async def test_a_summary_avoids_reading_the_journal(
    root: Path, storage: Storage, folds: list[str], chunks: list[int]
) -> None:
    """One concept needs one block of it, all need the rest; of the journal only the first part."""
    await summarized(root, storage, times=3)
    expected = await LocalFileMemoryProvider(root, storage=storage).load_all(ALICE, AGENT)
    folds.clear()
    chunks.clear()
    cold = LocalFileMemoryProvider(root, storage=storage)

    (fact,) = await cold.load(concept(7), ALICE, AGENT)

    assert fact.value.startswith("second 7")
    assert await cold.load(concept(8), ALICE, AGENT) == []
    assert sum(chunks) < 2.1 * (1 << 20)

    assert await cold.load_all(ALICE, AGENT) == expected
    assert folds == []
    assert sum(chunks) < 3.1 * (1 << 20)


@pytest.mark.usefixtures("small")
async def test_a_summary_that_saves_little_is_not_restored(
    root: Path, storage: Storage, folds: list[str]
) -> None:
    """A journal without history is folded as fast, so its summary is not written again either."""
    await summarized(root, storage)
    before = summaries(root)
    folds.clear()

    async with LocalFileMemoryProvider(root, storage=storage) as store:
        assert len(await store.load_all(ALICE, AGENT)) == COUNT

    assert len(set(folds)) == COUNT + 1
    assert summaries(root) == before


@pytest.mark.usefixtures("small")
async def test_saving_after_reading_a_summary(root: Path, storage: Storage) -> None:
    """This process, which read only the summary, saves, and so do others."""
    await summarized(root, storage)
    store, other = (LocalFileMemoryProvider(root, storage=storage) for _ in range(2))
    await store.load(concept(1), ALICE, AGENT)

    await store.save(point(1, "third"), ALICE, AGENT)
    await other.save(point(2, "third"), ALICE, AGENT)
    await store.forget(ALICE, AGENT, concept=concept(3))

    for each in (store, other, LocalFileMemoryProvider(root, storage=storage)):
        found = [await each.load(concept(number), ALICE, AGENT) for number in (1, 2, 3)]
        assert [[fact.value.split()[0] for fact in facts] for facts in found] == [
            ["third"], ["third"], []
        ]  # fmt: skip
        assert len(await each.load_all(ALICE, AGENT)) == COUNT - 1
    await store.verify(await store.anchor())


@pytest.mark.usefixtures("small")
async def test_a_damaged_summary_is_ignored(root: Path, storage: Storage, stride: int) -> None:
    """It is truncated anywhere, or has any part changed, zeroed or swapped."""
    await summarized(root, storage)
    ((name, content),) = summaries(root).items()
    expected = await LocalFileMemoryProvider(root, storage=storage).load_all(ALICE, AGENT)
    rng = random.Random(5)
    spots = [0, 1, 30, len(content) - 1, len(content) - 9, *rng.sample(range(len(content)), 12)]
    damaged = [content[:at] for at in spots]
    damaged += [content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :] for at in spots]
    damaged += [content[:at] + bytes(len(content) - at) for at in spots]
    damaged += [b"", b"\n", content + content, content[::-1]]

    for each in damaged[::stride]:
        (root / name).write_bytes(each)
        cold = LocalFileMemoryProvider(root, storage=storage)
        (fact,) = await cold.load(concept(7), ALICE, AGENT)
        assert fact.value.startswith("second 7")
        assert await cold.load_all(ALICE, AGENT) == expected


@pytest.mark.usefixtures("small")
async def test_a_summary_of_another_journal_is_ignored(root: Path, storage: Storage) -> None:
    """It belongs to another place or an older version of the file, under the right name."""
    await summarized(root, storage)
    ((name, content),) = summaries(root).items()
    async with LocalFileMemoryProvider(root, storage=storage) as store:
        await store.save(point(7, "third"), ALICE, AGENT)
        await store.compact(ALICE, AGENT)
        assert len(summaries(root)) == 1  # a new one
    (root / name).write_bytes(content)

    (fact,) = await LocalFileMemoryProvider(root, storage=storage).load(concept(7), ALICE, AGENT)

    assert fact.value.startswith("third 7")


@pytest.mark.usefixtures("small")
async def test_a_summary_is_removed_with_its_content(root: Path, storage: Storage) -> None:
    """Purges, erasures and compactions remove it, and unfinished ones too."""
    await summarized(root, storage)
    ((name, content),) = summaries(root).items()
    store = LocalFileMemoryProvider(root, storage=storage)

    for remove in (
        lambda: store.forget(ALICE, AGENT, concept=concept(7), purge=True),
        lambda: store.forget(ALICE, AGENT, source=FactSource(SourceKind.USER, "chat"), purge=True),
        lambda: store.erase(ALICE, AGENT),
    ):
        (root / name).write_bytes(content)
        (root / f"{name}.0f0f0f0f").write_bytes(content)  # of a process that was killed
        await remove()
        assert summaries(root) == {}


@pytest.mark.usefixtures("small")
async def test_a_rotation_leaves_no_summary_of_an_old_key(root: Path) -> None:
    """It is removed, and the next process writes a new one."""
    storage = EncryptedStorage(Aes256GCMEncryptor(KEY))
    await summarized(root, storage)
    async with LocalFileMemoryProvider(root, storage=storage) as store:
        new = Key.generate()
        await store.keys.rotate(new)

    assert summaries(root) == {}


@pytest.mark.usefixtures("small")
async def test_a_place_that_changes_during_the_write_gets_no_summary(
    root: Path, storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No part of it remains."""
    store = LocalFileMemoryProvider(root, storage=storage)
    await fill(store)
    await store.load_all(ALICE, AGENT)
    view = store._folder.blocking.reading.views.all()[0][1]
    real = KeywordItems.fields

    def changing(self: KeywordItems) -> list[Any]:
        view.position = None
        return real(self)

    monkeypatch.setattr(KeywordItems, "fields", changing)

    await store.aclose()

    assert summaries(root) == {}


@pytest.mark.usefixtures("small")
async def test_writing_a_summary_delays_no_save(root: Path, storage: Storage) -> None:
    """The committing thread writes it while idle, and stops when a save is queued."""
    store = LocalFileMemoryProvider(root, storage=storage)
    await fill(store)
    await store.load_all(ALICE, AGENT)

    store._folder.blocking.rest(lambda: True)
    assert summaries(root) == {}

    store._folder.blocking.rest(lambda: False)
    assert len(summaries(root)) == 1


@pytest.mark.usefixtures("small")
async def test_verify_reads_what_a_summary_replaces(root: Path, storage: Storage) -> None:
    """A cold load does not notice damage before the summary's record; `verify` does."""
    await summarized(root, storage)
    store = LocalFileMemoryProvider(root, storage=storage)
    anchor = await store.anchor()
    journal = journal_of(root)
    content = bytearray(journal.read_bytes())
    content[1 << 20] ^= 1
    times = journal.stat()
    journal.write_bytes(content)
    os.utime(journal, ns=(times.st_atime_ns, times.st_mtime_ns))
    cold = LocalFileMemoryProvider(root, storage=storage)

    assert len(await cold.load(concept(9), ALICE, AGENT)) == 1
    with pytest.raises((CorruptJournalError, TamperedError)):
        await cold.verify(anchor)
    with pytest.raises((CorruptJournalError, TamperedError)):
        await cold.compact(ALICE, AGENT)
