"""Every operation cut at every file call, called again, then cut by power: what it said holds.

The call that goes wrong fails, as a disk fails, or its process is killed in it. The operation is
called again by the same process, or by another one that saw nothing of it. Once it returns, the
power fails, and whatever that leaves must show what the operation acknowledged.
"""

import random
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import NamedTuple

import pytest

from factmem.errors import FactmemError, WrongKeyError
from factmem.storage._folder import JournalFolder
from factmem.storage._keys import SealedMode
from factmem.storage.encryption.aes256gcm import Aes256GCMEncryptor
from tests.storage.disk_model import Image
from tests.storage.memory_disk import Killed, MemoryDisk
from tests.storage.stores import (
    ANN,
    BOB,
    KEYS,
    PLAIN,
    SEALED,
    Kind,
    append,
    read,
    read_by_summary,
    record,
    summarize,
    texts,
)

_NEW = record(50, 200)
_BATCH = [record(number, 90) for number in range(60, 64)]
_KEPT = [record(1), record(2, 150), record(3)]


class _Operation(NamedTuple):
    """An operation, and a check of its effect."""

    call: Callable[[Kind, JournalFolder], object]
    holds: Callable[[Kind, MemoryDisk, object], None]
    kinds: tuple[Kind, ...] = (PLAIN, SEALED)


def _found(kind: Kind, disk: MemoryDisk, *, key: int = 0) -> list[bytes]:
    folder = kind.open(disk, [KEYS[key]]) if kind.is_sealed else kind.open(disk)
    found = read(folder, ANN)
    assert read_by_summary(folder, ANN) in (None, found)
    return texts(found)


def _is_locked_out(kind: Kind, disk: MemoryDisk, *, key: int) -> bool:
    try:
        _found(kind, disk, key=key)
    except WrongKeyError:
        return True
    return False


def _appends(*records: bytes) -> _Operation:
    def holds(kind: Kind, disk: MemoryDisk, _: object) -> None:
        found = _found(kind, disk)
        assert found[: len(_KEPT)] == _KEPT
        assert found[-len(records) :] == list(records)
        rest = found[len(_KEPT) : -len(records)]
        assert rest in ([], list(records)), "a part of the first call is stored"

    return _Operation(lambda _, folder: append(folder, ANN, *records), holds)


def _append_once(kind: Kind, folder: JournalFolder) -> None:
    """Append the record unless it exists, as an import does."""
    with folder.exclusive() as writer:
        if _NEW in texts(read(writer, ANN)):
            writer.flush(ANN)
        else:
            writer.append(ANN, [_NEW])


def _holds_once(kind: Kind, disk: MemoryDisk, _: object) -> None:
    assert _found(kind, disk) == [*_KEPT, _NEW]


def _append_to_both(kind: Kind, folder: JournalFolder) -> None:
    with folder.exclusive() as writer:
        done = writer.append_all([(ANN, [_NEW]), (BOB, [_NEW])])
    for each in done:
        if isinstance(each, Exception):
            raise each


def _holds_both(kind: Kind, disk: MemoryDisk, _: object) -> None:
    for name in (ANN, BOB):
        found = texts(read(kind.open(disk), name))
        assert found[-1] == _NEW
        assert found.count(_NEW) <= 2


def _drop_first(kind: Kind, folder: JournalFolder) -> None:
    with folder.exclusive() as writer:
        found = read(writer, ANN)
        if found and found[0].data == _KEPT[0]:
            writer.rewrite(ANN, found[1:])
        else:
            writer.flush(ANN)
        writer.drop_copies(ANN)


def _has_summary(disk: MemoryDisk) -> bool:
    return any(".summary" in name for name in disk.image())


def _holds_dropped(kind: Kind, disk: MemoryDisk, _: object) -> None:
    assert not _has_summary(disk)
    assert _found(kind, disk) == _KEPT[1:]


def _erase(kind: Kind, folder: JournalFolder) -> None:
    with folder.exclusive() as writer:
        writer.erase(ANN)


def _holds_erased(kind: Kind, disk: MemoryDisk, _: object) -> None:
    assert not _has_summary(disk)
    assert _found(kind, disk) == []
    assert texts(read(kind.open(disk), BOB)) == [record(9)]


def _salvage(kind: Kind, folder: JournalFolder) -> None:
    with folder.exclusive() as writer:
        writer.salvage(ANN)


def _holds_all(kind: Kind, disk: MemoryDisk, _: object) -> None:
    assert _found(kind, disk) == _KEPT


def _anchor(kind: Kind, folder: JournalFolder) -> str:
    return folder.anchor()


def _holds_anchor(kind: Kind, disk: MemoryDisk, anchor: object) -> None:
    assert isinstance(anchor, str)
    kind.open(disk).verify(anchor)
    assert _found(kind, disk) == _KEPT


def _rest(kind: Kind, folder: JournalFolder) -> None:
    append(folder, ANN, _NEW)
    folder.rest()


def _rest_and_erase(kind: Kind, folder: JournalFolder) -> None:
    _rest(kind, folder)
    _erase(kind, folder)


def _holds_last(kind: Kind, disk: MemoryDisk, _: object) -> None:
    found = _found(kind, disk)
    assert found[: len(_KEPT)] == _KEPT
    assert found[-1] == _NEW


def _summarize(kind: Kind, folder: JournalFolder) -> None:
    append(folder, ANN, _NEW)
    assert summarize(folder, ANN)


def _first_save(kind: Kind, folder: JournalFolder) -> None:
    append(folder, ("agent", "new"), _NEW)


def _holds_first(kind: Kind, disk: MemoryDisk, _: object) -> None:
    assert texts(read(kind.open(disk), ("agent", "new")))[-1] == _NEW
    assert _found(kind, disk) == _KEPT


def _rotate(kind: Kind, folder: JournalFolder) -> None:
    assert folder.keys is not None
    folder.keys.rotate(Aes256GCMEncryptor(KEYS[1]))


def _holds_rotated(kind: Kind, disk: MemoryDisk, _: object) -> None:
    assert not _has_summary(disk)
    assert _found(kind, disk, key=1) == _KEPT
    assert _is_locked_out(kind, disk, key=0)


def _remove_key(kind: Kind, folder: JournalFolder) -> None:
    assert folder.keys is not None
    folder.keys.remove(Aes256GCMEncryptor(KEYS[2]))


def _holds_removed(kind: Kind, disk: MemoryDisk, _: object) -> None:
    assert _found(kind, disk) == _KEPT
    assert _is_locked_out(kind, disk, key=2)


OPERATIONS = {
    "a save": _appends(_NEW),
    "a batch": _appends(*_BATCH),
    "a save unless it is there": _Operation(_append_once, _holds_once),
    "saves in two places": _Operation(_append_to_both, _holds_both),
    "a first save": _Operation(_first_save, _holds_first),
    "a rewrite": _Operation(_drop_first, _holds_dropped),
    "an erasure": _Operation(_erase, _holds_erased),
    "a salvage": _Operation(_salvage, _holds_all),
    "an anchor": _Operation(_anchor, _holds_anchor),
    "a save and a summary": _Operation(_summarize, _holds_last),
    "a save and a rest": _Operation(_rest, _holds_last),
    "an erasure of a place at rest": _Operation(_rest_and_erase, _holds_erased),
    "a rotation": _Operation(_rotate, _holds_rotated, (SEALED,)),
    "the removal of a key": _Operation(_remove_key, _holds_removed, (SEALED,)),
}

_CASES = [(name, kind) for name, each in OPERATIONS.items() for kind in each.kinds]


def _store(kind: Kind) -> Image:
    disk = MemoryDisk()
    folder = kind.open(disk)
    for each in _KEPT:
        append(folder, ANN, each)
    append(folder, BOB, record(9))
    if folder.keys is not None:
        folder.keys.add(Aes256GCMEncryptor(KEYS[2]))
    assert summarize(folder, ANN)
    return disk.image()


def _open(kind: Kind, disk: MemoryDisk) -> JournalFolder:
    """Open the store with its present key, which an interrupted rotation may have changed."""
    if not kind.is_sealed:
        return kind.open(disk)
    for key in KEYS[:2]:
        folder = kind.open(disk, [key])
        try:
            folder.codec()
        except WrongKeyError:
            continue
        assert isinstance(folder.manifest._mode, SealedMode)
        return folder
    raise AssertionError("no key opens the store")


class _Cut(NamedTuple):
    """A failure: the changing call, its kind, and who calls again."""

    at: int
    is_killed: bool
    share: float
    keeps_cache: bool
    is_same_process: bool


def _cuts(count: int) -> Iterator[_Cut]:
    for at in range(1, count + 1):
        for share in (0.0, 0.5, 1.0):
            yield _Cut(at, True, share, True, False)
        for keeps_cache in (True, False):
            for is_same in (True, False):
                yield _Cut(at, False, 0, keeps_cache, is_same)


def _cut_and_called_again(kind: Kind, operation: _Operation, image: Image, cut: _Cut) -> int:
    disk = MemoryDisk(image)
    folder = _open(kind, disk)
    if cut.is_killed:
        disk.kill_at, disk.kill_share = disk.count + cut.at, cut.share
    else:
        disk.fail_at = frozenset({disk.count + cut.at})
        disk.keeps_cache = cut.keeps_cache
    with suppress(FactmemError, Killed):
        operation.call(kind, folder)
    disk.revive()
    disk.fail_at = frozenset()
    done = operation.call(kind, folder if cut.is_same_process else _open(kind, disk))
    states = 0
    for left in disk.images(random.Random(repr(cut)), 6):
        operation.holds(kind, MemoryDisk(left), done)
        states += 1
    return states


def swept(name: str, kind: Kind, step: int = 1) -> tuple[int, int]:
    """Return how many points an operation can be cut at, and how many states followed."""
    operation, image = OPERATIONS[name], _store(kind)
    disk = MemoryDisk(image)
    before = disk.count
    operation.call(kind, kind.open(disk, KEYS[:1]))
    cuts = list(_cuts(disk.count - before))
    return len(cuts), sum(
        _cut_and_called_again(kind, operation, image, cut) for cut in cuts[::step]
    )


@pytest.mark.parametrize(
    ("name", "kind"), _CASES, ids=[f"{name}-{kind.name}" for name, kind in _CASES]
)
def test_a_repeated_operation_has_its_effect(name: str, kind: Kind, stride: int) -> None:
    step = 1 if stride == 1 else 5  # each call is cut in seven ways; a stride of five covers all
    points, states = swept(name, kind, step)

    assert points >= 7
    assert states >= points // step


def test_there_are_enough_points() -> None:
    """A sweep without cuts proves nothing."""
    counts = {}
    for name, kind in _CASES:
        disk = MemoryDisk(_store(kind))
        OPERATIONS[name].call(kind, kind.open(disk, KEYS[:1]))
        counts[name, kind.name] = len(list(_cuts(disk.count)))

    assert sum(counts.values()) >= 600
