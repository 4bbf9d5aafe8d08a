"""The end of a journal that was lost or torn: an anchor, an event and `verify` notice it."""

from pathlib import Path

import pytest

from factmem import LocalFileMemoryProvider
from factmem.errors import CorruptJournalError, TamperedError
from factmem.events import MemoryEvent
from factmem.providers.storages import Storage
from factmem.providers.storages import EncryptedStorage
from factmem.encryption.aes256gcm import Aes256GCMEncryptor
from factmem.encryption.key import Key
from factmem.providers.storages import SimpleStorage
from tests.storage.memory_disk import MemoryDisk
from tests.storage.stores import ANN, PLAIN, SEALED, Kind, append, read, record, texts
from tests.tables import table
from tests.world import AGENT, ALICE, THEME, memory_of, theme

KINDS = pytest.mark.parametrize("kind", [PLAIN, SEALED], ids=lambda kind: kind.name)


def _lost(kind: Kind, cut: int) -> tuple[MemoryDisk, str]:
    """Return a store whose last record is lost, and an anchor that knows it.

    `cut` is how many bytes are missing; 0 for the whole last line.
    """
    disk = MemoryDisk()
    folder = kind.open(disk)
    for number in range(1, 9):
        append(folder, ANN, record(number))
    anchor = kind.open(disk).anchor()
    [(file, content)] = disk.files().items()
    end = -cut if cut else content.rindex(b"\n", 0, -1) + 1
    disk.put(f"journals/{file}", content[:end])
    return disk, anchor


@KINDS
@table("cut", [0, 1, 9])
@table("saves", [1, 2, 5])
def test_an_anchor_notices_a_lost_end_after_further_saves(kind: Kind, cut: int, saves: int) -> None:
    """Also when the lost record's number was given to another one, and after a rewrite."""
    disk, anchor = _lost(kind, cut)
    for number in range(saves):
        append(kind.open(disk), ANN, record(100 + number))

    with pytest.raises((CorruptJournalError, TamperedError), match="record 8 was lost"):
        kind.open(disk).verify(anchor)
    folder = kind.open(disk)
    with folder.exclusive() as writer:
        writer.rewrite(ANN, read(writer, ANN)[1:])
    with pytest.raises((CorruptJournalError, TamperedError), match="record 8 was lost"):
        folder.verify(anchor)
    assert folder.verify(folder.anchor()) == []
    assert len(texts(read(folder, ANN))) == 6 + saves


@KINDS
def test_a_store_that_was_copied_without_its_times_passes(kind: Kind) -> None:
    """Its files are in doubt, and the next save rewrites them; nothing was lost."""
    disk = MemoryDisk()
    append(kind.open(disk), ANN, record(1))
    append(kind.open(disk), ANN, record(2))
    anchor = kind.open(disk).anchor()
    [(file, content)] = disk.files().items()
    disk.put(f"journals/{file}", content)
    append(kind.open(disk), ANN, record(3))

    assert kind.open(disk).verify(anchor) == []


@KINDS
def test_verify_names_torn_writes(kind: Kind) -> None:
    """They are no damage: nothing that was acknowledged is missing."""
    disk = MemoryDisk()
    append(kind.open(disk), ANN, record(1))
    anchor = kind.open(disk).anchor()
    append(kind.open(disk), ANN, record(2))
    [(file, content)] = disk.files().items()
    disk.put(f"journals/{file}", content[:-3])

    [torn] = kind.open(disk).verify(anchor)

    assert torn.endswith(file)
    append(kind.open(disk), ANN, record(3))
    assert kind.open(disk).verify(anchor) == []


@pytest.mark.parametrize("is_sealed", [False, True])
async def test_an_event_reports_a_torn_write(tmp_path: Path, *, is_sealed: bool) -> None:
    """Once, with the operation that found it."""
    storage: Storage = SimpleStorage()
    if is_sealed:
        storage = EncryptedStorage(Aes256GCMEncryptor(Key.generate()))
    store = LocalFileMemoryProvider(tmp_path, storage=storage)
    await store.save(theme("dark"), ALICE, AGENT)
    await store.save(theme("light"), ALICE, AGENT)
    [journal] = (tmp_path / "journals").iterdir()
    journal.write_bytes(journal.read_bytes()[:-3])
    events: list[MemoryEvent] = []
    new = LocalFileMemoryProvider(tmp_path, storage=storage)
    memory = memory_of(new, concepts=[THEME], listeners=[events.append])
    anchor = await new.anchor()

    for _ in range(2):
        [fact] = await memory.view().provider.load(THEME, ALICE, AGENT)
        assert fact.value == "dark"

    assert [event.torn_writes for event in events] == [1, 0]
    assert await new.verify(anchor) == []
