"""The disk of the crash tests: it behaves like a real one, and keeps no more than it must."""

import contextlib
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from factmem.storage._file_calls import Files
from factmem.storage._files import LocalFiles
from tests.storage.disk_model import SECTOR, Image, Inode
from tests.storage.memory_disk import Killed, MemoryDisk

_FILE, _OTHER = "journals/a", "journals/b"


def _written(files: Files, name: str, data: bytes) -> None:
    fd = files.create(name)
    files.append(fd, data)
    files.close(fd)


def _disk(*, kept: bytes = b"") -> MemoryDisk:
    """Return a disk with one durable file."""
    return MemoryDisk(Image({"": None, "journals": None, _FILE: kept}))


def _images(disk: MemoryDisk) -> list[Image]:
    """Return many of the states that a power cut may leave, without duplicates."""
    images = list(disk.images(random.Random(1), 400))
    assert len({frozenset(image.items()) for image in images}) == len(images)
    return images


# Behaviour of a real disk


_CALLS: dict[str, Callable[[Files, str, str, random.Random], object]] = {
    "create": lambda files, one, _, rng: _written(files, one, rng.randbytes(rng.randint(0, 300))),
    "rename": lambda files, one, other, _: files.rename(one, other),
    "remove": lambda files, one, *_: files.remove(one),
    "names": lambda files, *_: files.names(),
    "content": lambda files, one, *_: files.content(one),
    "exists": lambda files, one, *_: files.exists(one),
    "lock": lambda files, *_: _locked(files),
    "sync_folder": lambda files, *_: files.sync_folder("journals"),
    "sync_parents": lambda files, *_: files.sync_parents(),
    "append": lambda files, one, _, rng: _appended(files, one, rng.randbytes(50)),
    "read": lambda files, one, _, rng: _read(files, one, rng.randint(0, 400), rng.randint(0, 300)),
    "destroy": lambda files, one, _, rng: files.destroy(
        one, _size(files, one) // rng.randint(1, 3)
    ),
    "is_unchanged": lambda files, one, _, rng: files.is_unchanged(
        one, (files.content(one) or b"?")[:20], rng.choice((0, 50, _size(files, one)))
    ),
}


def _locked(files: Files) -> None:
    with files.lock(1):
        pass


def _appended(files: Files, name: str, data: bytes) -> None:
    fd = files.open(name, write=True)
    files.append(fd, data)
    files.sync(fd)
    files.close(fd)


def _read(files: Files, name: str, count: int, offset: int) -> bytes:
    fd = files.open(name)
    try:
        return files.read(fd, count, offset)
    finally:
        files.close(fd)


def _size(files: Files, name: str) -> int:
    fd = files.open(name)
    try:
        return files.size(fd)
    finally:
        files.close(fd)


@pytest.mark.parametrize("seed", range(30))
def test_it_behaves_like_a_real_disk(seed: int, tmp_path: Path) -> None:
    """Random calls give the same results and the same errors."""
    choices = random.Random(seed)
    real, pretended = LocalFiles(str(tmp_path / "store")), MemoryDisk()
    for files in (real, pretended):
        _locked(files)
    names = [_FILE, _OTHER, "factmem.json", "indexes/c"]

    for step in range(80):
        call, one = choices.choice(list(_CALLS)), choices.choice(names)
        above = one.rpartition("/")[0]
        other = choices.choice([name for name in names if name.rpartition("/")[0] == above])
        results: list[object] = []
        for files in (real, pretended):
            rng = random.Random(seed * 1000 + step)
            try:
                results.append(_CALLS[call](files, one, other, rng))
            except OSError as exc:
                results.append(type(exc))
        assert results[0] == results[1], (call, one, other)

    left = {name: content for name, content in pretended.image().items() if content is not None}
    root = tmp_path / "store"
    assert left == {
        str(each.relative_to(root)): each.read_bytes() for each in root.rglob("*") if each.is_file()
    }


# Durable data


def test_synced_data_is_in_every_state() -> None:
    """Nothing else is in all of them."""
    disk = MemoryDisk()
    disk.make_folders()
    fd = disk.create(_FILE)
    disk.append(fd, b"x" * 300)
    disk.sync(fd)
    disk.sync_folder("")
    assert {} in _images(disk), "the folder of the store itself"
    disk.sync_parents()
    assert any(image.get(_FILE) is None for image in _images(disk)), "the name of the file"
    disk.sync_folder("journals")
    disk.append(fd, b"y" * 300)

    assert all((image[_FILE] or b"").startswith(b"x" * 300) for image in _images(disk))
    disk.sync(fd)
    assert _images(disk) == [disk.image()]


def test_unsynced_data_survives_in_any_part() -> None:
    """It is cut anywhere; each sector is written, as before, or zero."""
    disk = _disk(kept=b"k" * 200)
    fd = disk.open(_FILE, write=True)
    disk.append(fd, b"w" * 300)

    left = [image[_FILE] or b"" for image in _images(disk)]

    assert {len(content) for content in left} >= {200, 500}
    assert len({len(content) for content in left}) > 100
    assert all(content.startswith(b"k" * 200) for content in left)
    assert any(content[200:256] == bytes(56) for content in left), "an old sector"
    zero = bytes(SECTOR)
    assert any(content[256:384] == zero and content[384:400].strip(b"w") == b"" for content in left)
    assert any(content.endswith(b"w" * 300) for content in left)


def test_new_sectors_may_have_stale_content() -> None:
    """They may have bytes of the replaced file."""
    disk = _disk(kept=b"o" * 600)
    _written(disk, _OTHER, b"n" * 600)
    disk.rename(_OTHER, _FILE)

    left = [image.get(_FILE) or b"" for image in _images(disk)]

    assert any(b"n" in content and b"o" in content for content in left)


def test_a_rename_is_atomic() -> None:
    """The name has the old file or the new one, whose content may be stale if not synced."""
    disk = _disk(kept=b"old")
    _written(disk, _OTHER, b"new")
    fd = disk.open(_OTHER)
    disk.sync(fd)
    disk.sync_folder("journals")
    disk.rename(_OTHER, _FILE)

    assert sorted(str(sorted(image.items(), key=str)) for image in _images(disk)) == sorted(
        str(sorted(image.items(), key=str))
        for image in (
            {"": None, "journals": None, _FILE: b"old", _OTHER: b"new"},
            {"": None, "journals": None, _FILE: b"new"},
        )
    )


def test_changes_of_a_folder_survive_in_any_combination() -> None:
    """A later one may survive without an earlier one."""
    disk = _disk()
    for name in ("journals/b", "journals/c", "journals/d"):
        _written(disk, name, b"")

    left = {frozenset(image) - {"", "journals", _FILE} for image in _images(disk)}

    assert len(left) == 8


def test_a_failed_sync_is_not_repaired_by_another() -> None:
    """Data that it lost counts as durable for later syncs."""
    for keeps_cache in (True, False):
        disk = _disk(kept=b"k" * SECTOR)
        fd = disk.open(_FILE, write=True)
        disk.append(fd, b"w" * SECTOR)
        disk.keeps_cache, disk.fail_at = keeps_cache, frozenset({disk.count + 1})
        with pytest.raises(OSError, match="injected"):
            disk.sync(fd)
        disk.sync(fd)

        assert disk.failures == 1
        assert disk.size(fd) == (2 * SECTOR if keeps_cache else SECTOR)
        left = [(image[_FILE] or b"")[SECTOR:] for image in _images(disk)]
        assert any(b"w" not in content for content in left)
        assert any(b"w" in content for content in left) == keeps_cache


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_a_process_killed_in_a_write_has_written_a_part(share: float) -> None:
    """It does nothing afterwards; others see that part as long as the power stays on."""
    disk = _disk()
    disk.kill_at, disk.kill_share = 1, share
    fd = disk.open(_FILE, write=True)
    with pytest.raises(Killed):
        disk.append(fd, b"w" * 100)
    with pytest.raises(Killed):
        disk.sync(fd)
    disk.revive()

    assert disk.content(_FILE) == b"w" * int(100 * share)


def test_a_failing_write_is_done_by_half() -> None:
    """A full disk does this."""
    disk = _disk()
    disk.fail_at = frozenset({1})
    fd = disk.open(_FILE, write=True)
    with pytest.raises(OSError, match="injected"):
        disk.append(fd, b"w" * 100)

    assert disk.content(_FILE) == b"w" * 50


def test_all_states_contain_every_sampled_one() -> None:
    """The sample draws only possible states, and finds most of them."""
    disk = _disk(kept=b"k" * 100)
    fd = disk.open(_FILE, write=True)
    disk.append(fd, b"w" * 60)
    _written(disk, _OTHER, b"n" * 5)

    possible = {frozenset(image.items()) for image in disk.all_images()}
    drawn = {frozenset(image.items()) for image in _images(disk)}

    assert drawn <= possible
    assert len(drawn) > len(possible) / 10


def test_the_power_may_fail_before_every_change() -> None:
    """Reads are not counted."""
    disk, cuts = MemoryDisk(), list[int]()
    disk.watch = lambda: cuts.append(disk.count)
    disk.make_folders()
    _written(disk, _FILE, b"x")
    with contextlib.suppress(FileNotFoundError):
        disk.open(_OTHER)
    disk.names()
    disk.content(_FILE)

    assert cuts == list(range(disk.count)) == list(range(4))


# Concurrent syncs


def _two_files() -> tuple[MemoryDisk, list[int]]:
    """Return a disk with two files whose names are durable and whose content is not."""
    disk = MemoryDisk()
    disk.make_folders()
    disk.sync_parents()
    fds = [disk.create(_FILE), disk.create(_OTHER)]
    disk.sync_folder("")
    disk.sync_folder("journals")
    for fd in fds:
        disk.append(fd, b"x" * SECTOR)
    return disk, fds


def _surely_kept(disk: MemoryDisk) -> frozenset[str]:
    """Return the files that are complete in every state."""
    images = list(disk.images(random.Random(2), 100))
    names = (_FILE, _OTHER)
    return frozenset(
        name for name in names if all(image.get(name) == b"x" * SECTOR for image in images)
    )


def test_the_power_may_fail_between_overlapping_syncs() -> None:
    """Each may end first, and until then none of its data is certain."""
    seen: set[frozenset[str]] = set()
    for calls in range(8):
        disk, fds = _two_files()
        for _ in range(calls):
            disk.sync_folder("")
        disk.watch = lambda disk=disk: seen.add(_surely_kept(disk))  # type: ignore[misc]
        assert disk.sync_all(fds) == [None, None]
        seen.add(_surely_kept(disk))

    alone = {frozenset({_FILE}), frozenset({_OTHER})}
    assert seen == {frozenset(), *alone, frozenset({_FILE, _OTHER})}


def test_a_sync_covers_data_written_before_it_began() -> None:
    """Data that another actor wrote during it is not covered."""
    inode = Inode()
    inode.write(b"x" * 2 * SECTOR, 0)
    flight = inode.begin_sync()
    inode.write(b"y" * SECTOR, SECTOR)
    inode.write(b"z" * SECTOR, 2 * SECTOR)
    inode.end_sync(flight)

    assert inode.kept == b"x" * 2 * SECTOR
    assert inode.dirty == {1, 2}
    inode.sync()
    assert inode.kept == b"x" * SECTOR + b"y" * SECTOR + b"z" * SECTOR
    assert inode.is_kept()


def test_a_failing_sync_does_not_affect_the_others() -> None:
    disk, fds = _two_files()
    disk.fail_at = frozenset({disk.count + 1})
    errors = disk.sync_all(fds)
    assert sorted(type(error).__name__ for error in errors) == ["NoneType", "OSError"]
    kept = {(_FILE, _OTHER)[at] for at, error in enumerate(errors) if error is None}
    assert _surely_kept(disk) == kept
