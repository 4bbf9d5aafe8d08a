"""End marks beside journals: after a clean close all damage raises, and nothing else does."""

from pathlib import Path

import pytest

from factmem.errors import CorruptJournalError, TamperedError
from factmem.storage._files import LocalFiles
from factmem.storage._plain_codec import with_checksum
from tests.storage.disk_model import Image
from tests.storage.memory_disk import MemoryDisk
from tests.storage.stores import (
    ANN,
    BOB,
    PLAIN,
    SEALED,
    Kind,
    append,
    followed,
    read,
    record,
    summarize,
    texts,
)
from tests.tables import table

KINDS = pytest.mark.parametrize("kind", [PLAIN, SEALED], ids=lambda kind: kind.name)
_ERRORS = (CorruptJournalError, TamperedError)
_SAVED = [record(1), record(2, 90), record(3)]


def _closed(kind: Kind, *, name: tuple[str | None, ...] = ANN) -> MemoryDisk:
    """Return a store that was closed after three saves."""
    disk = MemoryDisk()
    folder = kind.open(disk)
    for each in _SAVED:
        append(folder, name, each)
    folder.close()
    return disk


def _journal(disk: MemoryDisk) -> tuple[str, bytes]:
    [(file, content)] = disk.files().items()
    return f"journals/{file}", content


def _mark(disk: MemoryDisk) -> str:
    [path] = [path for path in disk.image() if path.startswith("ends/")]
    return path


def _refuses(kind: Kind, image: Image, anchor: str) -> None:
    """Check that reading, saving, rewriting and verifying raise, and that nothing changes."""
    disk = MemoryDisk(image)
    for call in (
        lambda folder: read(folder, ANN),
        lambda folder: append(folder, ANN, record(9)),
        lambda folder: folder.verify(anchor),
    ):
        with pytest.raises(_ERRORS):
            call(kind.open(disk))
    with kind.open(disk).exclusive() as writer, pytest.raises(_ERRORS):
        writer.flush(ANN)
    assert disk.image() == image


@KINDS
def test_every_cut_raises_after_a_close(kind: Kind) -> None:
    """The cut is at a line's end, within a line or the first line; or the file is gone."""
    disk = _closed(kind)
    earlier = kind.open(disk).anchor()
    path, content = _journal(disk)
    image = disk.image()
    for size in range(0, len(content), 7 if kind.is_sealed else 1):
        _refuses(kind, Image({**image, path: content[:size]}), earlier)
    ends = [at + 1 for at, byte in enumerate(content[:-1]) if byte == ord("\n")]
    for size in ends:
        _refuses(kind, Image({**image, path: content[:size]}), earlier)
    _refuses(kind, Image({name: each for name, each in image.items() if name != path}), earlier)


@KINDS
def test_a_save_does_not_change_the_mark(kind: Kind) -> None:
    """A torn write after the mark is not damage; a loss before it is."""
    disk = _closed(kind)
    mark = disk.image()[_mark(disk)]
    _, before = _journal(disk)
    append(kind.open(disk), ANN, record(4))
    path, content = _journal(disk)
    assert disk.image()[_mark(disk)] == mark
    anchor = kind.open(disk).anchor()

    for size in range(len(before), len(content), 3):
        torn = MemoryDisk(Image({**disk.image(), path: content[:size]}))
        assert texts(read(kind.open(torn), ANN)) == _SAVED
        append(kind.open(torn), ANN, record(5))
        assert texts(read(kind.open(torn), ANN)) == [*_SAVED, record(5)]
    _refuses(kind, Image({**disk.image(), path: before[:-1]}), anchor)


@KINDS
def test_salvage_counts_the_records_before_the_mark(kind: Kind) -> None:
    """The numbers of the lost records are not reused, and the old mark no longer applies."""
    disk = _closed(kind)
    path, content = _journal(disk)
    disk.put(path, content[: content.rindex(b"\n", 0, -1) + 1])
    folder = kind.open(disk)
    with folder.exclusive() as writer:
        salvaged = writer.salvage(ANN)
    append(folder, ANN, record(9))

    assert (salvaged.kept, salvaged.missing) == (2, 1)
    assert [each.number for each in read(kind.open(disk), ANN)] == [1, 2, 4]


@KINDS
def test_a_rewrite_outdates_the_mark(kind: Kind) -> None:
    """It is ignored until a new one is written; an older copy restored with it raises."""
    disk = _closed(kind)
    path, older = _journal(disk)
    folder = kind.open(disk)
    with folder.exclusive() as writer:
        writer.rewrite(ANN, read(writer, ANN)[2:])
    assert texts(read(kind.open(disk), ANN)) == _SAVED[2:]

    folder.close()
    assert texts(read(kind.open(disk), ANN)) == _SAVED[2:]
    _, content = _journal(disk)
    _refuses(kind, Image({**disk.image(), path: older}), kind.open(disk).anchor())
    assert content != older


@KINDS
def test_dropping_copies_removes_the_mark_until_the_next_close(kind: Kind) -> None:
    """The mark of the file before a purge has a checksum of purged content."""
    disk = _closed(kind)
    folder = kind.open(disk)
    with folder.exclusive() as writer:
        writer.rewrite(ANN, read(writer, ANN)[:2])
        writer.drop_copies(ANN)
    assert not any(path.startswith("ends/") for path in disk.image())

    folder.rest()
    assert _mark(disk)


@KINDS
def test_erasing_removes_the_mark(kind: Kind) -> None:
    """The place is then empty and no file is missing, even if the file had been deleted."""
    disk = _closed(kind)
    path, _ = _journal(disk)
    for is_deleted in (False, True):
        left = MemoryDisk(disk.image())
        if is_deleted:
            left.remove(path)
        folder = kind.open(left)
        with folder.exclusive() as writer:
            writer.erase(ANN)
        assert not any(each.startswith("ends/") for each in left.image())
        assert read(folder, ANN) == []
        append(folder, ANN, record(7))
        assert texts(read(kind.open(left), ANN)) == [record(7)]


@KINDS
@table("damage", ["zeros", "short", "empty", "text", "another's", "forged"])
def test_an_unreadable_mark_blocks_nothing(kind: Kind, damage: str) -> None:
    """`verify` returns its path, and the next close after a save replaces it."""
    disk = _closed(kind)
    path = _mark(disk)
    content = disk.image()[path] or b""
    head, line, _ = content.split(b"\n")
    other = _closed(kind)
    disk.put(
        path,
        {
            "zeros": bytes(len(content)),
            "short": content[:-1],
            "empty": b"",
            "text": b'{"journal":[],"crc":"00000000"}\n\n',
            "another's": head
            + b"\n"
            + (other.image()[_mark(other)] or b"").split(b"\n")[1]
            + b"\n",
            "forged": head + b"\n" + line[:-1] + b"\n",
        }[damage],
    )
    folder = kind.open(disk)
    assert texts(read(folder, ANN)) == _SAVED
    assert folder.verify(folder.anchor()) == [f"/store/{path}"]

    append(folder, ANN, record(4))
    folder.close()
    assert folder.verify(folder.anchor()) == []


def test_other_objects_instead_of_marks_are_ignored(tmp_path: Path) -> None:
    """A link, a pipe or a folder replaces the folder of marks or a mark."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "kept").write_text("kept")
    store = tmp_path / "store"
    folder = PLAIN.open(LocalFiles(str(store)))
    append(folder, ANN, *_SAVED)
    folder.close()
    [mark] = (store / "ends").iterdir()
    mark.unlink()
    mark.symlink_to(tmp_path / "elsewhere" / "kept")
    assert texts(read(folder, ANN)) == _SAVED
    assert folder.verify(folder.anchor()) == [str(mark)]

    mark.unlink()
    (store / "ends").rmdir()
    (store / "ends").symlink_to(tmp_path / "elsewhere")
    append(folder, BOB, record(1))
    folder.close()
    assert texts(read(folder, ANN)) == _SAVED
    with folder.exclusive() as writer:
        writer.erase(ANN)
    assert [each.name for each in (tmp_path / "elsewhere").iterdir()] == ["kept"]
    folder.close()


@KINDS
@pytest.mark.parametrize("is_whole_folder", [True, False], ids=["ends", "mark"])
def test_an_unusable_mark_blocks_no_call(kind: Kind, is_whole_folder: bool, tmp_path: Path) -> None:
    """A file replaces the folder of marks, or a folder replaces a mark."""
    store = tmp_path / "store"
    folder = kind.open(LocalFiles(str(store)))
    append(folder, ANN, *_SAVED)
    folder.close()
    [mark] = (store / "ends").iterdir()
    mark.unlink()
    if is_whole_folder:
        (store / "ends").rmdir()
        (store / "ends").write_text("kept")
    else:
        mark.mkdir()

    folder = kind.open(LocalFiles(str(store)))
    assert texts(read(folder, ANN)) == _SAVED
    append(folder, ANN, record(4))
    folder.verify(folder.anchor())
    with folder.exclusive() as writer:
        writer.rewrite(ANN, read(writer, ANN)[1:])
        writer.drop_copies(ANN)
        writer.erase(ANN)
    assert read(folder, ANN) == []
    folder.close()


class _OthersMarks(LocalFiles):
    """The files belong to a user who may let another read the journals, without the marks."""

    def content(self, name: str) -> bytes | None:
        if name.startswith("ends/"):
            raise PermissionError(13, "Permission denied", name)
        return super().content(name)


@KINDS
def test_without_permission_for_the_mark_the_journal_is_read(kind: Kind, tmp_path: Path) -> None:
    folder = kind.open(LocalFiles(str(tmp_path)))
    append(folder, ANN, *_SAVED)
    folder.close()
    assert texts(read(kind.open(_OthersMarks(str(tmp_path))), ANN)) == _SAVED


@KINDS
@table("made", ["4611686018427387903", "1e300", "-1", "true", '"7"'])
def test_a_forged_file_number_does_not_exhaust_the_counter(kind: Kind, made: str) -> None:
    """The first line of a mark is not authenticated; the manifest continues from its number."""
    disk = _closed(kind)
    head, line, _ = (disk.image()[_mark(disk)] or b"").split(b"\n")
    fields = b'{"journal":"00","made":%b,"tag":"00"' % made.encode()
    disk.put(_mark(disk), b"%b\n%b\n" % (with_checksum(fields, 0), line))
    assert b'"made":' in head

    folder = kind.open(disk)
    with folder.exclusive() as writer:
        writer.salvage(ANN)
    append(folder, BOB, record(1))
    assert texts(read(kind.open(disk), ANN)) == _SAVED
    assert texts(read(kind.open(disk), BOB)) == [record(1)]


@KINDS
def test_a_restored_backup_outdates_newer_marks(kind: Kind) -> None:
    """A new file never gets a number that the mark of an unknown file has."""
    disk = MemoryDisk()
    folder = kind.open(disk)
    append(folder, BOB, record(1))
    backup = disk.image()
    for number in range(1, 9):
        append(folder, ANN, record(number))
        with folder.exclusive() as writer:
            writer.rewrite(ANN, read(writer, ANN))
    folder.close()
    ends = {path: each for path, each in disk.image().items() if path.startswith("ends")}
    disk = MemoryDisk(Image({**backup, **ends}))
    with pytest.raises(CorruptJournalError, match="erase the place"):
        append(kind.open(disk), ANN, record(20))
    with kind.open(disk).exclusive() as writer:
        writer.erase(ANN)
    append(kind.open(disk), ANN, record(20))

    assert texts(read(kind.open(disk), ANN)) == [record(20)]


@KINDS
def test_a_process_that_read_a_place_notices_a_cut(kind: Kind) -> None:
    """It follows the place, saves to it, or reads its summary."""
    disk = MemoryDisk()
    writer, reader = kind.open(disk), kind.open(disk)
    append(writer, ANN, *_SAVED)
    assert summarize(reader, ANN)
    records, position = followed(reader, ANN, [], None)
    append(writer, ANN, record(4))
    append(writer, ANN, record(5))
    writer.rest()
    path, content = _journal(disk)
    disk.put(path, content[: content.rindex(b"\n", 0, -1) + 1])

    with pytest.raises(CorruptJournalError, match="record 5 is missing, says its end mark"):
        followed(reader, ANN, records, position)
    with pytest.raises(_ERRORS):
        append(reader, ANN, record(6))
    cold = kind.open(disk)
    with cold.summary(ANN) as summary:
        assert summary is not None
        with pytest.raises(CorruptJournalError, match="record 5 is missing"):
            followed(cold, ANN, records, summary.position)


@KINDS
def test_many_places_are_marked_at_once(kind: Kind) -> None:
    """They are more than can be open at a time."""
    disk = MemoryDisk()
    folder = kind.open(disk)
    for number in range(70):
        append(folder, ("agent", "many", "user", str(number)), record(number))
    folder.close()

    ends = [path for path in disk.image() if path.startswith("ends/")]
    assert len(ends) == 70
    assert all(path.endswith(".end") for path in ends)
    assert len(kind.open(disk).names()) == 70


@KINDS
def test_a_mark_does_not_vouch_for_data_in_doubt(kind: Kind) -> None:
    """Data that a failed sync may have lost is not marked."""
    disk = MemoryDisk()
    folder = kind.open(disk)
    append(folder, ANN, record(1))
    disk.fail_at = frozenset({disk.count + 2})
    with pytest.raises(Exception, match="refused"):
        append(folder, ANN, record(2))
    disk.fail_at = frozenset()
    folder.reader.note_unended(_journal(disk)[0].removeprefix("journals/"))
    folder.close()

    assert not any(path.startswith("ends/") for path in disk.image())
