"""An interrupted rotation is completed by calling it again, and loses nothing."""

import random
from collections.abc import Iterator

import pytest

from factmem.errors import StorageError, WrongKeyError
from factmem.storage._folder import JournalFolder
from factmem.storage._keys import SealedMode
from factmem.storage._manifest import MANIFEST
from factmem.storage.base import KeySlots
from factmem.storage.encryption.aes256gcm import Aes256GCMEncryptor
from tests.storage.disk_model import Image
from tests.storage.memory_disk import Killed, MemoryDisk
from tests.storage.stores import ANN, BOB, KEYS, SEALED, append, read, record, texts

OLD, NEW, RECOVERY = KEYS

_EXPECTED = {ANN: [record(1), record(2), record(3)], BOB: [record(4)]}


@pytest.fixture
def image() -> Image:
    """Return a store with two journals, an index, and two keys that open it."""
    disk = MemoryDisk()
    folder = SEALED.open(disk, [OLD])
    append(folder, ANN, record(1), record(2))
    append(folder, ANN, record(3))
    append(folder, BOB, record(4))
    folder.write_index(BOB, b"an index", lambda _: True)
    _keys(folder).add(Aes256GCMEncryptor(RECOVERY))
    return disk.image()


def _keys(folder: JournalFolder) -> KeySlots:
    assert folder.keys is not None
    return folder.keys


def _rotate(folder: JournalFolder) -> None:
    _keys(folder).rotate(Aes256GCMEncryptor(NEW))


def _calls(image: Image) -> list[str]:
    """Return the changing calls of a rotation."""
    disk = MemoryDisk(image)
    _rotate(SEALED.open(disk, [OLD]))
    return disk.log


def _killed(image: Image, stride: int) -> Iterator[MemoryDisk]:
    """Yield the disk after a rotation was killed in each of its calls, or every few."""
    for at, call in list(enumerate(_calls(image), 1))[::stride]:
        for share in (0.0, 0.5, 1.0) if call == "append" else (0.0,):
            disk = MemoryDisk(image)
            disk.kill_at, disk.kill_share = at, share
            with pytest.raises(Killed):
                _rotate(SEALED.open(disk, [OLD]))
            disk.revive()
            yield disk


def _opening_keys(disk: MemoryDisk) -> list[int]:
    """Return which of the keys open the store."""
    opening: list[int] = []
    for number, key in enumerate(KEYS):
        try:
            SEALED.open(disk, [key]).exists()
        except WrongKeyError:
            continue
        opening.append(number)
    return opening


def _check_is_done(disk: MemoryDisk) -> None:
    folder = SEALED.open(disk, [NEW])
    assert {name: texts(read(folder, name)) for name in folder.names()} == _EXPECTED
    assert _opening_keys(disk) == [KEYS.index(NEW)]
    mode = SealedMode(Aes256GCMEncryptor(NEW))
    ring, _ = mode.ring(folder.manifest.fields)
    assert list(ring.generations) == [ring.generation]
    assert not [name for name in disk.files() if name.endswith(".tmp")]
    append(folder, ANN, record(5))
    assert texts(read(SEALED.open(disk, [NEW]), ANN)) == [*_EXPECTED[ANN], record(5)]


@pytest.mark.parametrize("order", ["old", "old, new", "new, old"])
def test_the_next_rotation_completes_a_killed_one(image: Image, order: str, stride: int) -> None:
    """The next process may have the old or the new key."""
    keys = {"old": [OLD], "old, new": [OLD, NEW], "new, old": [NEW, OLD]}[order]
    count = 0
    for disk in _killed(image, stride):
        folder = SEALED.open(disk, keys)

        _rotate(folder)

        _check_is_done(disk)
        count += 1
    assert count > 25 // stride


def test_killed_again_and_again(image: Image) -> None:
    """Each process gets a little further."""
    disk = MemoryDisk(image)
    for further in range(1, 200):
        disk.kill_at = disk.count + further // 3 + 1
        try:
            _rotate(SEALED.open(disk, [OLD]))
        except Killed:
            disk.revive()
        else:
            break
    else:
        pytest.fail("the rotation never completes")
    disk.kill_at = 0

    assert disk.log.count("rename") > _calls(image).count("rename")
    _check_is_done(disk)


def test_a_store_works_between_a_kill_and_the_next_rotation(image: Image, stride: int) -> None:
    """With the one key that opens it all records are read, and saves are durable."""
    for disk in _killed(image, stride):
        (*_, opening) = sorted(_opening_keys(disk), key=lambda number: KEYS[number] == NEW)
        folder = SEALED.open(disk, [KEYS[opening]])

        append(folder, BOB, record(6))
        append(folder, ("agent", "new"), record(7))
        _rotate(SEALED.open(disk, [OLD]))

        folder = SEALED.open(disk, [NEW])
        assert texts(read(folder, ANN)) == _EXPECTED[ANN]
        assert texts(read(folder, BOB)) == [*_EXPECTED[BOB], record(6)]
        assert texts(read(folder, ("agent", "new"))) == [record(7)]


def test_a_power_cut_at_any_call(image: Image) -> None:
    """Either the old keys open the store or the new one does, which can complete the rotation."""
    disk, rng = MemoryDisk(image), random.Random(7)
    left: list[Image] = []
    disk.watch = lambda: left.extend(disk.images(rng, 6))
    _rotate(SEALED.open(disk, [OLD]))
    disk.watch = lambda: None
    left.extend(disk.images(rng, 6))

    opened: set[tuple[int, ...]] = set()
    for each in left:
        disk = MemoryDisk(each)
        opened.add(tuple(_opening_keys(disk)))
        _rotate(SEALED.open(disk, [OLD]))
        _check_is_done(disk)

    assert opened == {(KEYS.index(OLD), KEYS.index(RECOVERY)), (KEYS.index(NEW),)}


@pytest.mark.parametrize("width", [1, 2, 5])
def test_an_error_in_any_call(image: Image, width: int, stride: int) -> None:
    """It raises, and the same process may call again when the disk works."""
    for at in range(1, len(_calls(image)) + 1, stride):
        disk = MemoryDisk(image)
        folder = SEALED.open(disk, [OLD])
        disk.fail_at = frozenset(range(at, at + width))
        with pytest.raises(StorageError, match="not acknowledged"):
            _rotate(folder)
        disk.fail_at = frozenset()

        _rotate(folder)

        _check_is_done(disk)


def test_an_index_is_encrypted_again(image: Image, stride: int) -> None:
    """Or it is removed; none remains under a retired key."""
    for disk in _killed(image, stride):
        _rotate(SEALED.open(disk, [OLD]))

        assert SEALED.open(disk, [NEW]).read_index(BOB) in {b"an index", None}
    disk = MemoryDisk(image)
    _rotate(SEALED.open(disk, [OLD]))
    assert SEALED.open(disk, [NEW]).read_index(BOB) == b"an index"


@pytest.mark.parametrize("what", ["add", "remove", "rewrap"])
def test_a_kill_while_slots_change(image: Image, what: str) -> None:
    """The slots are as before, or as requested."""

    def change(folder: JournalFolder) -> None:
        if what == "add":
            _keys(folder).add(Aes256GCMEncryptor(NEW))
        elif what == "remove":
            _keys(folder).remove(Aes256GCMEncryptor(RECOVERY))
        else:
            _keys(folder).rotate(Aes256GCMEncryptor(NEW), rewrite=False)

    old, new, recovery = (KEYS.index(key) for key in (OLD, NEW, RECOVERY))
    after = {"add": {old, new, recovery}, "remove": {old}, "rewrap": {new, recovery}}[what]
    disk = MemoryDisk(image)
    change(SEALED.open(disk, [OLD]))
    assert set(_opening_keys(disk)) == after

    for at in range(1, disk.count + 1):
        disk = MemoryDisk(image)
        disk.kill_at = at
        with pytest.raises(Killed):
            change(SEALED.open(disk, [OLD]))
        disk.revive()
        left = set(_opening_keys(disk))
        assert left in ({old, recovery}, after)
        folder = SEALED.open(disk, [KEYS[min(left)]])
        assert {name: texts(read(folder, name)) for name in folder.names()} == _EXPECTED
        assert disk.exists(MANIFEST)
