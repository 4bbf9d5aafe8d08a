"""Stores written by released versions can always be read and written."""

import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest

from factmem import (
    Aes256GCMEncryptor,
    EncryptedStorage,
    FactSource,
    Key,
    LocalFileMemoryProvider,
    MemoryScope,
    MemorySubject,
    SimpleStorage,
    SingleFact,
    SourceKind,
)
from factmem.errors import CorruptJournalError
from factmem.ledger import HistoryAction
from factmem.storage import Storage
from tests.data.make_stores import (
    ALICE,
    CITY,
    KEY,
    LANGUAGES,
    NUMBER,
    PASSPHRASE,
    PRODUCT,
    SAID,
)
from tests.data.make_stores import STORES as DATA

SEALED = EncryptedStorage(Aes256GCMEncryptor(KEY))
STORES: dict[str, Storage] = {
    "plain": SimpleStorage(),
    "plain-compacted": SimpleStorage(),
    "plain-torn": SimpleStorage(),
    "plain-abridged": SimpleStorage(),
    "plain-marked": SimpleStorage(),
    "encrypted": SEALED,
    "encrypted-compacted": SEALED,
    "encrypted-torn": SEALED,
    "encrypted-abridged": SEALED,
    "encrypted-marked": SEALED,
    "passphrase": EncryptedStorage(Aes256GCMEncryptor(Key.from_passphrase(PASSPHRASE))),
}


FROZEN = [
    (version, name)
    for version in ("format-1", "format-2")
    for name in STORES
    # Format 1 repeats descriptions, and has no end marks.
    if version != "format-1" or not name.endswith(("-abridged", "-marked"))
]


def test_every_frozen_store_has_a_test() -> None:
    """Without a test a store could become unreadable unnoticed."""
    there = {(each.parent.name, each.name) for each in DATA.glob("format-*/*")}

    assert there == set(FROZEN)


@pytest.mark.parametrize(("version", "name"), FROZEN)
async def test_a_frozen_store_can_be_read_and_written(
    version: str, name: str, tmp_path: Path
) -> None:
    """Values, sources, times and history are read, and a new save is added."""
    folder = tmp_path / name
    shutil.copytree(DATA / version / name, folder)

    async with LocalFileMemoryProvider(folder, storage=STORES[name]) as store:
        [city] = await store.load(CITY, ALICE, PRODUCT)
        assert (city.value, city.id, city.importance, city.timestamp) == ("Busan", "2", 0.9, SAID)
        assert city.source == FactSource(
            SourceKind.USER, "chat-1", 3, "부산으로 이사했어요", "a-model"
        )
        assert city.confirmed_at is not None
        assert city.confirmed_at.date() == datetime(2026, 5, 17, tzinfo=UTC).date()
        [languages] = await store.load(LANGUAGES, ALICE, PRODUCT)
        assert languages.values == ("Korean", "English")
        [number] = await store.load(NUMBER, ALICE, PRODUCT)
        assert number.value == 2**70
        scopes = [(info.scope, info.subject.entity) for info in await store.places()]
        assert scopes == [(MemoryScope.CrossProduct(), None), (PRODUCT, "alice")]
        assert {fact.concept.description for fact in await store.load_all(ALICE, PRODUCT)} == {
            "Where the user lives",
            "What the user speaks",
            "A number beyond 64 bits",
        }
        history = [entry.action for entry in await store.history(LANGUAGES, ALICE, PRODUCT)]
        if "compacted" not in name:
            assert history == [
                HistoryAction.SAVED,
                HistoryAction.CONFIRMED,
                HistoryAction.FORGOTTEN,
            ]

        await store.save(SingleFact(CITY, "Jeju"), ALICE, PRODUCT)

    async with LocalFileMemoryProvider(folder, storage=STORES[name]) as store:
        [city] = await store.load(CITY, ALICE, PRODUCT)
        assert city.value == "Jeju"
        [everywhere] = await store.load(CITY, MemorySubject.EVERYTHING, MemoryScope.CrossProduct())
        assert everywhere.value == "everywhere"


@pytest.mark.parametrize("name", ["plain-marked", "encrypted-marked"])
async def test_a_frozen_end_mark_still_detects_a_cut(name: str, tmp_path: Path) -> None:
    """A journal without its last line raises because of the mark of a released version."""
    folder = tmp_path / name
    shutil.copytree(DATA / "format-2" / name, folder)
    for journal in (folder / "journals").iterdir():
        content = journal.read_bytes()
        journal.write_bytes(content[: content.rindex(b"\n", 0, -1) + 1])

    async with LocalFileMemoryProvider(folder, storage=STORES[name]) as store:
        with pytest.raises(CorruptJournalError, match="says its end mark"):
            await store.load_all(ALICE, PRODUCT)
