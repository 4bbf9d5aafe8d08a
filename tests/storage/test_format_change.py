"""A store of format 1 keeps it until its first write; later writes convert each file."""

import json
import random
from pathlib import Path
from typing import Any

import pytest

from factmem.errors import StorageError
from factmem.storage._folder import JournalFolder
from factmem.storage._manifest import ManifestFile
from factmem.storage.encryption.aes256gcm import Aes256GCMEncryptor
from tests.data.make_stores import KEY
from tests.data.make_stores import STORES as DATA
from tests.storage.disk_model import Image
from tests.storage.memory_disk import Killed, MemoryDisk
from tests.storage.stores import PLAIN, SEALED, Kind, append, read, record, texts

KINDS = pytest.mark.parametrize("kind", [PLAIN, SEALED], ids=lambda kind: kind.name)

_SUFFIXES = (".jsonl", ".fmj")
_OLD = DATA / "format-1"


def _image(kind: Kind) -> Image:
    """Return a store of format 1, as released."""
    folder = _OLD / ("encrypted" if kind.is_sealed else "plain")
    image = Image({"": None, "journals": None})
    for file in sorted(folder.rglob("*")):
        if file.is_file():
            image[str(file.relative_to(folder))] = file.read_bytes()
    return image


def _open(kind: Kind, disk: MemoryDisk) -> JournalFolder:
    return kind.open(disk, [KEY])


def _formats(disk: MemoryDisk) -> tuple[int, list[int]]:
    manifest = disk.content("factmem.json")
    assert manifest is not None
    files = disk.files().items()
    firsts = [content.partition(b"\n")[0] for name, content in files if name.endswith(_SUFFIXES)]
    return json.loads(manifest)["factmem"], sorted(json.loads(each)["factmem"] for each in firsts)


@KINDS
def test_an_erasure_raises_the_format_too(kind: Kind) -> None:
    """It is a write: an older version would not see the count that it raises."""
    disk = MemoryDisk(_image(kind))
    folder = _open(kind, disk)
    erased, *others = folder.names()
    kept = [read(folder, name) for name in others]
    with folder.exclusive() as writer:
        writer.erase(erased)

    assert _formats(disk)[0] == 2
    again = _open(kind, disk)
    assert again.erasures() == 1
    assert [read(again, name) for name in others] == kept


@KINDS
def test_reading_changes_nothing(kind: Kind) -> None:
    """Anchors, their verification, and calls that find nothing to do write nothing either."""
    image = _image(kind)
    disk = MemoryDisk(image)
    folder = _open(kind, disk)
    for name in folder.names():
        assert read(folder, name)
    folder.verify(folder.anchor())
    with folder.exclusive() as writer:
        writer.flush(folder.names()[0])
    folder.close()

    after = disk.image()
    after.pop("lock")
    image.pop("lock", None)
    assert after == image


@KINDS
def test_the_first_write_converts_the_manifest_and_its_own_file(kind: Kind) -> None:
    """The other files are converted by their own first write."""
    disk = MemoryDisk(_image(kind))
    folder = _open(kind, disk)
    anchor = folder.anchor()
    one, other = folder.names()
    before = {name: texts(read(folder, name)) for name in (one, other)}

    append(folder, one, record(1))
    assert _formats(disk) == (2, [1, 2])
    folder.verify(anchor)
    append(folder, other, record(2))
    assert _formats(disk) == (2, [2, 2])
    folder.verify(anchor)

    again = _open(kind, disk)
    assert texts(read(again, one)) == [*before[one], record(1)]
    assert texts(read(again, other)) == [*before[other], record(2)]


@KINDS
def test_an_older_version_refuses_a_store_that_was_written_to(
    kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = MemoryDisk(_image(kind))
    folder = _open(kind, disk)
    append(folder, folder.names()[0], record(1))
    monkeypatch.setattr("factmem.storage._manifest.FORMATS", (1,))

    with pytest.raises(StorageError, match="newer version"):
        _open(kind, disk).names()


@KINDS
@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_a_killed_conversion_continues(kind: Kind, share: float) -> None:
    """After any kill, or a power cut after it, all records are there and the next call works."""
    image = _image(kind)
    disk = MemoryDisk(image)
    folder = _open(kind, disk)
    names = folder.names()
    before = {name: texts(read(folder, name)) for name in names}
    start = disk.count
    append(folder, names[0], record(1))
    calls = disk.count - start
    assert calls >= 8

    for at in range(1, calls + 1):
        disk = MemoryDisk(image)
        disk.kill_at, disk.kill_share = disk.count + at, share
        with pytest.raises(Killed):
            append(_open(kind, disk), names[0], record(1))
        disk.revive()
        for left in [disk.image(), *disk.images(random.Random(at), 8)]:
            found = MemoryDisk(left)
            folder = _open(kind, found)
            manifest, files = _formats(found)
            assert manifest == 2 or files == [1, 1], "a file came before its manifest"
            now = texts(read(folder, names[0]))
            assert now in (before[names[0]], [*before[names[0]], record(1)])
            append(folder, names[0], record(2))
            append(folder, names[1], record(3))
            again = _open(kind, found)
            assert texts(read(again, names[0])) == [*now, record(2)]
            assert texts(read(again, names[1])) == [*before[names[1]], record(3)]


def test_a_counter_survives_rotation_and_is_reserved_in_batches() -> None:
    """The manifest is written once for many files, and no number is used twice."""
    disk = MemoryDisk()
    one, other = SEALED.open(disk), SEALED.open(disk)
    for number in range(70):
        append(one if number % 3 else other, ("place", str(number)), record(number))
    assert one.keys is not None
    one.keys.rotate(Aes256GCMEncryptor(KEY))
    headers = [json.loads(content.partition(b"\n")[0]) for content in disk.files().values()]
    made = [header["made"] for header in headers]

    assert len(set(made)) == len(made) == 70
    assert min(made) > 70, "a rotation writes each file again"


def test_reserving_numbers_rarely_writes_the_manifest(monkeypatch: pytest.MonkeyPatch) -> None:
    writes: list[int] = []
    write = ManifestFile.write

    def counted(self: ManifestFile, fields: dict[str, Any]) -> None:
        writes.append(1)
        write(self, fields)

    monkeypatch.setattr(ManifestFile, "write", counted)
    folder = PLAIN.open(MemoryDisk())
    for number in range(64):
        append(folder, ("place", str(number)), record(number))

    assert len(writes) == 1


def test_the_frozen_store_does_not_change() -> None:
    assert (Path(_OLD) / "plain" / "factmem.json").is_file()
