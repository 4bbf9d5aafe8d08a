"""Files in doubt on a real disk: how processes notice them, and rewrite them."""

import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from factmem.errors import CorruptJournalError, StorageError, TamperedError
from factmem.storage._files import LocalFiles
from factmem.storage._lock import StoreLock
from factmem.storage.base import JournalWriter
from factmem.storage.encrypted import EncryptedStorage
from factmem.storage.encryption.aes256gcm import Aes256GCMEncryptor
from factmem.storage.simple import SimpleStorage
from tests.storage.memory_disk import MemoryDisk
from tests.storage.stores import ANN, BOB, KEYS, PLAIN, SEALED, Kind, append, read, record, texts

KINDS = pytest.mark.parametrize("kind", [PLAIN, SEALED], ids=lambda kind: kind.name)


def _store(kind: Kind, folder: Path) -> Any:
    storage = EncryptedStorage(Aes256GCMEncryptor(KEYS[0])) if kind.is_sealed else SimpleStorage()
    return storage.open(folder)


def _first_line(folder: Path) -> bytes:
    [file] = [each for each in (folder / "journals").iterdir() if each.suffix in {".jsonl", ".fmj"}]
    return file.read_bytes().partition(b"\n")[0]


def _fail(monkeypatch: pytest.MonkeyPatch, call: str, error: int) -> None:
    def failing(*_: object) -> None:
        raise OSError(error, os.strerror(error))

    monkeypatch.setattr(LocalFiles, call, failing)


@KINDS
@pytest.mark.parametrize("is_marking_possible", [True, False])
def test_the_next_process_rewrites_a_file_whose_sync_failed(
    kind: Kind, is_marking_possible: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is marked on failure; what succeeds is marked."""
    append(_store(kind, tmp_path), ANN, record(1))
    before = _first_line(tmp_path)
    with monkeypatch.context() as patch:
        _fail(patch, "sync", errno.EIO)
        if not is_marking_possible:
            for name in ("utime", "chmod", "replace", "unlink"):
                patch.setattr(
                    os, name, lambda *_, **__: (_ for _ in ()).throw(OSError(errno.EROFS))
                )
        with pytest.raises(StorageError):
            append(_store(kind, tmp_path), ANN, record(2))

    assert _first_line(tmp_path) == before
    append(_store(kind, tmp_path), ANN, record(3))

    assert _first_line(tmp_path) != before
    assert texts(read(_store(kind, tmp_path), ANN)) == [record(1), record(2), record(3)]


@KINDS
def test_the_next_process_appends_to_an_acknowledged_file(kind: Kind, tmp_path: Path) -> None:
    append(_store(kind, tmp_path), ANN, record(1))
    before = _first_line(tmp_path)
    for number in range(2, 6):
        append(_store(kind, tmp_path), ANN, record(number))

    assert _first_line(tmp_path) == before


@KINDS
def test_a_call_with_nothing_to_do_rewrites_what_is_in_doubt(
    kind: Kind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither it nor an anchor may rely on data that a power cut can remove."""
    append(_store(kind, tmp_path), ANN, record(1))
    for call in ("flush", "anchor"):
        before = _first_line(tmp_path)
        with monkeypatch.context() as patch:
            _fail(patch, "sync", errno.EIO)
            with pytest.raises(StorageError):
                append(_store(kind, tmp_path), ANN, record(2))
        folder = _store(kind, tmp_path)
        if call == "anchor":
            folder.anchor()
        else:
            with folder.exclusive() as writer:
                writer.flush(ANN)
        assert _first_line(tmp_path) != before


@KINDS
def test_a_lock_file_that_is_deleted_while_held_is_noticed(
    kind: Kind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is noticed before an acknowledgement and before a file replaces another."""
    folder = _store(kind, tmp_path)
    append(folder, ANN, record(1))
    changes: list[Callable[[JournalWriter], object]] = [
        lambda writer: writer.append(ANN, [record(2)]),
        lambda writer: writer.rewrite(ANN, []),
        lambda writer: writer.flush(BOB),
    ]
    for change in changes:
        with folder.exclusive() as writer:
            (tmp_path / "lock").unlink()
            with pytest.raises(StorageError, match="lock file"):
                change(writer)
        append(folder, ANN, record(3))
        assert record(1) in texts(read(_store(kind, tmp_path), ANN))


def test_a_shut_down_file_system_is_not_reported_as_a_wrong_argument(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every call on it fails, also the one that distinguishes a folder from a file."""
    folder = SimpleStorage().open(tmp_path / "store")
    append(folder, ANN, record(1))
    shut = str(tmp_path / "store")
    real = os.stat

    def failing(path: Any, *args: Any, **options: Any) -> Any:
        if isinstance(path, str) and path.startswith(shut):
            raise OSError(errno.EIO, "Input/output error", path)
        return real(path, *args, **options)

    monkeypatch.setattr(os, "stat", failing)
    with pytest.raises(StorageError):
        append(SimpleStorage().open(tmp_path / "store"), ANN, record(2))


@KINDS
def test_an_anchor_of_a_read_only_file_system(
    kind: Kind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No lock is taken and nothing is flushed; data in doubt raises."""
    append(_store(kind, tmp_path), ANN, record(1))
    with monkeypatch.context() as patch:

        def refuse(*_: object) -> None:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), "lock")

        patch.setattr(StoreLock, "acquire", refuse)
        folder = _store(kind, tmp_path)
        anchor = folder.anchor()
        folder.verify(anchor)
        [file] = (tmp_path / "journals").iterdir()
        os.utime(file)
        folder.verify(anchor)
        with pytest.raises(StorageError, match="read-only"):
            folder.anchor()
    _store(kind, tmp_path).verify(anchor)


@KINDS
def test_an_anchor_of_a_read_only_mount_holds_while_a_writer_continues(
    kind: Kind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The writer uses file numbers that it reserved before: its files were not put back."""
    writer = _store(kind, tmp_path)
    append(writer, ANN, record(1))
    with monkeypatch.context() as patch:

        def refuse(*_: object) -> None:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), "lock")

        patch.setattr(StoreLock, "acquire", refuse)
        anchor = _store(kind, tmp_path).anchor()
    append(writer, BOB, record(2))
    writer.verify(anchor)


@KINDS
@pytest.mark.parametrize("error", [errno.EROFS, errno.EACCES])
def test_a_process_that_cannot_lock_reads_complete_records(
    kind: Kind, error: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A torn end is reported under the lock; without a lock it must not stop a reader."""
    append(_store(kind, tmp_path), ANN, record(1))
    append(_store(kind, tmp_path), ANN, record(2))
    [file] = (tmp_path / "journals").iterdir()
    file.write_bytes(file.read_bytes()[:-5])

    def refuse(*_: object) -> None:
        raise OSError(error, os.strerror(error), "lock")

    monkeypatch.setattr(StoreLock, "acquire", refuse)
    assert texts(read(_store(kind, tmp_path), ANN)) == [record(1)]


@KINDS
def test_damage_on_a_read_only_file_system_is_reported_as_damage(
    kind: Kind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No process writes there, so the file need not be read again under the lock."""
    append(_store(kind, tmp_path), ANN, record(1))
    [file] = (tmp_path / "journals").iterdir()
    file.write_bytes(file.read_bytes()[:-5])

    def refuse(*_: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), "lock")

    monkeypatch.setattr(StoreLock, "acquire", refuse)
    with pytest.raises((CorruptJournalError, TamperedError)):
        read(_store(kind, tmp_path), ANN)


@KINDS
def test_an_anchor_detects_an_erased_file_that_was_put_back(kind: Kind) -> None:
    """A newer file may have taken its name, or the place stayed empty."""
    disk = MemoryDisk()
    folder = kind.open(disk)
    append(folder, ANN, record(1), record(2))
    append(folder, BOB, record(3))
    files = disk.files()
    with folder.exclusive() as writer:
        writer.erase(ANN)
    [bob] = disk.files()
    [ann] = set(files) - {bob}
    erased = folder.anchor()
    append(folder, ANN, record(4), record(5), record(6))
    anew = folder.anchor()
    folder.verify(erased)

    for anchor in (erased, anew):
        disk.put(f"journals/{ann}", files[ann])
        with pytest.raises((CorruptJournalError, TamperedError), match=r"older|before"):
            kind.open(disk).verify(anchor)


@KINDS
def test_a_restored_manifest_continues_counting_from_the_files(kind: Kind) -> None:
    """The files have the later counts: there is no false alarm and no undetected rollback."""
    disk = MemoryDisk()
    folder = kind.open(disk)
    append(folder, ANN, record(1))
    backup = disk.content("factmem.json")
    assert backup is not None
    for number in range(70):
        folder.anchor()
        append(folder, BOB, record(number + 1))
        with folder.exclusive() as writer:
            writer.rewrite(BOB, read(writer, BOB))
    disk.put("factmem.json", backup)

    folder = kind.open(disk)
    anchor = folder.anchor()
    with folder.exclusive() as writer:
        writer.rewrite(BOB, read(writer, BOB))
    folder.verify(anchor)
    codec = folder.codec()
    assert codec is not None
    file = codec.file_name(BOB)
    old = disk.files()[file]
    with folder.exclusive() as writer:
        writer.erase(BOB)
    anchor = folder.anchor()
    folder.verify(anchor)
    disk.put(f"journals/{file}", old)
    with pytest.raises((CorruptJournalError, TamperedError)):
        folder.verify(anchor)


@KINDS
def test_an_anchor_detects_a_file_of_another_store(kind: Kind) -> None:
    """Unencrypted lines verify there too: both files were the first of their store."""
    disk, other = MemoryDisk(), MemoryDisk()
    for each in (disk, other):
        append(kind.open(each), ANN, record(1))
    anchor = kind.open(disk).anchor()
    [file], [foreign] = disk.files(), other.files().values()
    disk.put(f"journals/{file}", foreign)
    with pytest.raises((CorruptJournalError, TamperedError)):
        kind.open(disk).verify(anchor)


@KINDS
def test_a_deep_first_line_is_damage_and_can_be_erased(kind: Kind) -> None:
    """A JSON parser fails with an error of its own."""
    disk = MemoryDisk()
    folder = kind.open(disk)
    append(folder, ANN, record(1))
    [file] = disk.files()
    disk.put(f"journals/{file}", b'{"factmem":' + b"[" * 8_000 + b"\n")
    with pytest.raises((CorruptJournalError, TamperedError)):
        read(kind.open(disk), ANN)
    with kind.open(disk).exclusive() as writer:
        writer.erase(ANN)

    assert disk.files() == {}
    assert read(kind.open(disk), ANN) == []


@KINDS
def test_a_foreign_file_under_a_second_name_is_not_zeroed(kind: Kind, tmp_path: Path) -> None:
    """An erasure overwrites only the store's own files."""
    folder = _store(kind, tmp_path / "store")
    append(folder, ANN, record(1))
    [file] = (tmp_path / "store" / "journals").iterdir()
    foreign = tmp_path / "foreign"
    foreign.write_bytes(b"the only copy of something else")
    os.link(foreign, file.with_name(file.name + ".damaged-00000000"))
    with folder.exclusive() as writer:
        writer.erase(ANN)

    assert foreign.read_bytes() == b"the only copy of something else"
    assert list(file.parent.iterdir()) == []
    assert stat.S_ISREG(foreign.stat().st_mode)
