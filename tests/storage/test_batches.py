"""Appending to many journals at once: the effect of power cuts and errors on each save."""

import os
import random
import threading
from pathlib import Path

import pytest

from factmem.errors import StorageError
from factmem.storage import _kernel_syncs
from factmem.storage._files import LocalFiles
from factmem.storage._sync_threads import SyncThreads
from factmem.storage.base import Appended, JournalName
from tests.storage.memory_disk import MemoryDisk
from tests.storage.stores import PLAIN, SEALED, Kind, append, read, record, texts

both_kinds = pytest.mark.parametrize("kind", [PLAIN, SEALED], ids=lambda kind: kind.name)

NAMES: list[JournalName] = [("agent", "support", "user", f"user-{each}") for each in range(5)]
FIRST, SECOND = record(1), record(2)


def filled(kind: Kind, names: list[JournalName]) -> MemoryDisk:
    """Return a disk with one record in each of these journals."""
    disk = MemoryDisk()
    for name in names:
        append(kind.open(disk), name, FIRST)
    return disk


@both_kinds
def test_a_power_cut_may_keep_any_part_of_an_unacknowledged_batch(kind: Kind) -> None:
    disk, rng, is_over, cuts = filled(kind, NAMES), random.Random(7), False, 0

    def cut() -> None:
        nonlocal cuts
        cuts += 1
        for image in disk.images(rng, 12):
            after = kind.open(MemoryDisk(image))
            for name in NAMES:
                found = texts(read(after, name))
                assert found in ([FIRST], [FIRST, SECOND])
                assert not is_over or found == [FIRST, SECOND]
                append(after, name, record(3))
                assert texts(read(after, name)) == [*found, record(3)]

    disk.watch = cut
    with kind.open(disk).exclusive() as writer:
        outcomes = writer.append_all([(name, [SECOND]) for name in NAMES])
    assert all(isinstance(outcome, Appended) for outcome in outcomes)
    is_over = True
    cut()
    assert cuts > 2 * len(NAMES)


@both_kinds
def test_a_failed_sync_affects_only_its_own_journal(kind: Kind) -> None:
    disk = filled(kind, NAMES)
    folder = kind.open(disk)
    for name in NAMES:
        append(folder, name, SECOND)
    # Five writes come first, then five syncs: the second one to end fails.
    disk.fail_at = frozenset({disk.count + len(NAMES) + 2})
    with folder.exclusive() as writer:
        outcomes = writer.append_all([(name, [record(3)]) for name in NAMES])
    [failed] = [
        name
        for name, outcome in zip(NAMES, outcomes, strict=True)
        if isinstance(outcome, StorageError)
    ]
    assert sum(isinstance(outcome, Appended) for outcome in outcomes) == len(NAMES) - 1
    for name in NAMES:  # the file in doubt is continued in a new one
        append(folder, name, record(4))
        found = texts(read(kind.open(disk), name))
        assert [each for each in found if each != record(3)] == [FIRST, SECOND, record(4)]
        assert record(3) in found or name == failed


@both_kinds
def test_new_and_damaged_journals_take_the_slow_path(kind: Kind) -> None:
    disk = filled(kind, NAMES[:3])
    file = next(iter(disk.files()))
    disk.put(f"journals/{file}", b"\n")
    folder = kind.open(disk)
    with folder.exclusive() as writer:
        outcomes = writer.append_all([(name, [SECOND]) for name in NAMES])
    failed = [name for name, one in zip(NAMES, outcomes, strict=True) if isinstance(one, Exception)]
    assert len(failed) == 1
    for name in NAMES:
        if name not in failed:
            assert texts(read(folder, name))[-1:] == [SECOND]


def test_files_are_synced_concurrently() -> None:
    meeting = threading.Barrier(3)

    def sync(fd: int) -> None:
        meeting.wait(5)
        if fd == 2:
            raise OSError("injected")
        if fd == 3:
            raise MemoryError

    threads = SyncThreads(sync)
    for _ in range(2):
        errors = threads.sync_all([1, 2, 3])
        assert list(map(type, errors)) == [type(None), OSError, MemoryError]
    threads.close()


def test_the_caller_syncs_all_if_no_thread_can_start(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    synced: list[int] = []
    assert SyncThreads(synced.append).sync_all(range(20)) == [None] * 20
    assert synced == list(range(20))
    assert SyncThreads(synced.append).sync_all([]) == []


def test_files_are_synced_while_their_threads_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another thread may close the store's files between any two steps."""
    synced: list[int] = []
    threads = SyncThreads(synced.append)
    threads.sync_all(range(3))
    found = os.getpid()

    def closed() -> int:
        monkeypatch.undo()
        threads.close()
        return found

    monkeypatch.setattr(os, "getpid", closed)

    assert threads.sync_all(range(3, 20)) == [None] * 17
    assert sorted(synced) == list(range(20))


def test_syncing_threads_end_with_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_kernel_syncs, "_is_known_machine", lambda: False)
    folder = PLAIN.open(LocalFiles(str(tmp_path)))
    for _ in range(2):
        with folder.exclusive() as writer:
            writer.append_all([(name, [FIRST]) for name in NAMES])
    threads = [each for each in threading.enumerate() if each.name.startswith("factmem sync")]
    assert threads
    folder.close()
    for thread in threads:
        thread.join(5)
        assert not thread.is_alive()
    append(folder, NAMES[0], SECOND)
    assert texts(read(folder, NAMES[0])) == [FIRST, FIRST, SECOND]
    folder.close()
