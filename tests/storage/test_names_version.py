"""The version of the journals' names spares calls for each file of a batch, and hides no change.

A file whose folder is unchanged is the one that was looked at before, and still has its name. Neither
holds for a folder that changed a moment ago: two changes within one tick of the clock look like one.
"""

import os
import shutil
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from factmem.errors import StorageError
from factmem.storage import _file_times
from factmem.storage._files import LocalFiles
from factmem.storage._folder import JournalFolder
from factmem.storage.base import Appended, JournalName
from tests.storage.stores import PLAIN, append, read, record, texts

NAMES: list[JournalName] = [("agent", "support", "user", f"user-{each}") for each in range(5)]


class RecordedFiles(LocalFiles):
    """Local files that count calls for one file each, and let another program act during syncs."""

    def __init__(self, folder: str) -> None:
        super().__init__(folder)
        self.first_lines = self.names_checked = 0
        self.meanwhile: list[tuple[str, str]] = []
        """Files that are given another file's name while the next batch is synced."""
        self.before_next_read: Callable[[], None] | None = None

    def read(self, fd: int, count: int, offset: int) -> bytes:
        if (act := self.before_next_read) is not None:
            self.before_next_read = None
            act()
        self.first_lines += not offset
        return super().read(fd, count, offset)

    def check_named(self, fd: int) -> None:
        self.names_checked += 1
        super().check_named(fd)

    def sync_all(self, fds: Sequence[int]) -> list[Exception | None]:
        errors = super().sync_all(fds)
        while self.meanwhile:
            os.replace(*self.meanwhile.pop())
        return errors


@pytest.fixture
def files(tmp_path: Path) -> RecordedFiles:
    return RecordedFiles(str(tmp_path))


def wait_for(monkeypatch: pytest.MonkeyPatch, nanoseconds: int) -> None:
    """Set how old a change must be."""
    for name in ("_SETTLED", "_SETTLED_COARSELY"):
        monkeypatch.setattr(_file_times, name, nanoseconds)


@pytest.fixture
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every change be old enough at once; the clock of this machine is fine enough."""
    wait_for(monkeypatch, 0)


@pytest.fixture
def unsettled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no change be old enough."""
    wait_for(monkeypatch, 1 << 62)


def save(folder: JournalFolder, number: int) -> list[Appended | Exception]:
    with folder.exclusive() as writer:
        return writer.append_all([(name, [record(number)]) for name in NAMES])


def are_saved(outcomes: list[Appended | Exception]) -> bool:
    return all(isinstance(each, Appended) for each in outcomes)


@pytest.mark.usefixtures("settled")
def test_an_unchanged_folder_spares_two_calls_for_each_file(files: RecordedFiles) -> None:
    folder = PLAIN.open(files)
    for number in range(1, 3):  # the first batch creates the files, the second one looks at them
        assert are_saved(save(folder, number))
    files.first_lines = files.names_checked = 0
    assert are_saved(save(folder, 3))
    assert (files.first_lines, files.names_checked) == (0, 0)
    append(folder, NAMES[0], record(4))  # a single save looks by itself
    assert (files.first_lines, files.names_checked) == (1, 1)
    assert texts(read(folder, NAMES[0])) == [record(number) for number in range(1, 5)]


@pytest.mark.usefixtures("unsettled")
def test_each_file_is_looked_at_in_a_folder_that_has_just_changed(files: RecordedFiles) -> None:
    folder = PLAIN.open(files)
    for number in range(1, 4):
        files.first_lines = files.names_checked = 0
        assert are_saved(save(folder, number))
    assert (files.first_lines, files.names_checked) == (len(NAMES), len(NAMES))


@pytest.mark.usefixtures("settled")
def test_a_file_that_another_process_replaced_is_read_again(
    files: RecordedFiles, tmp_path: Path
) -> None:
    folder, other = PLAIN.open(files), PLAIN.open(LocalFiles(str(tmp_path)))

    def replace() -> int:
        """Give a journal another file, and return its size."""
        with other.exclusive() as writer:
            return writer.rewrite(NAMES[0], read(writer, NAMES[0])).size

    assert are_saved(save(folder, 1))
    replace()  # from now on all first lines have the same length
    for number in range(2, 5):
        assert are_saved(save(folder, number))
    size = min((tmp_path / "journals").iterdir()).stat().st_size
    assert replace() == size
    assert are_saved(save(folder, 5))
    for name in NAMES:
        assert texts(read(PLAIN.open(LocalFiles(str(tmp_path))), name)) == [
            record(number) for number in range(1, 6)
        ]


@pytest.mark.usefixtures("settled")
def test_a_slow_reading_of_an_earlier_file_misleads_no_save(
    files: RecordedFiles, tmp_path: Path
) -> None:
    """It ends with a place of its file, which has the same size as the one that replaced it."""
    folder, other = PLAIN.open(files), PLAIN.open(LocalFiles(str(tmp_path)))

    def rewrite(*, but_last: int = 0) -> None:
        with other.exclusive() as writer:
            records = read(writer, NAMES[0])
            writer.rewrite(NAMES[0], records[: len(records) - but_last])

    assert are_saved(save(folder, 1))
    rewrite()  # from now on all first lines have the same length
    for number in (2, 3):
        assert are_saved(save(folder, number))

    def replace() -> None:
        """Replace the file that is being read, and let two saves look at the new one."""
        rewrite(but_last=2)
        for number in (4, 5):
            assert are_saved(save(folder, number))

    files.before_next_read = replace
    folder.read(NAMES[0])
    assert are_saved(save(folder, 6))
    stored = read(PLAIN.open(LocalFiles(str(tmp_path))), NAMES[0])
    assert texts(stored) == [record(number) for number in (1, 4, 5, 6)]


@pytest.mark.usefixtures("settled")
def test_a_file_that_was_copied_over_is_read_again(files: RecordedFiles, tmp_path: Path) -> None:
    """A backup of one file, put back with its times, changes neither the folder nor the size."""
    folder = PLAIN.open(files)

    def rewrite() -> None:
        with folder.exclusive() as writer:
            writer.rewrite(NAMES[0], read(writer, NAMES[0])[:1])

    for number in range(1, 11):
        assert are_saved(save(folder, number))
    rewrite()  # numbers of files have two digits from now on
    for number in (11, 12):
        assert are_saved(save(folder, number))
    [path] = (tmp_path / "journals").glob("*user-0-*.jsonl")
    backup = tmp_path / "backup"
    shutil.copy2(path, backup)
    rewrite()
    times = os.stat(backup).st_mtime_ns - 1_000_000_000  # it is from an earlier second
    os.utime(backup, ns=(times, times))
    for number in (21, 22, 23):
        assert are_saved(save(folder, number))
        if path.stat().st_size == backup.stat().st_size:
            break
    assert path.stat().st_size == backup.stat().st_size
    shutil.copy2(backup, path)
    assert are_saved(save(folder, 30))
    stored = read(PLAIN.open(LocalFiles(str(tmp_path))), NAMES[0])
    assert texts(stored) == [record(number) for number in (1, 11, 12, 30)]


@pytest.mark.parametrize("is_settled", [True, False], ids=["settled", "just changed"])
def test_a_file_that_loses_its_name_during_a_save_fails_it(
    files: RecordedFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_settled: bool
) -> None:
    folder = PLAIN.open(files)
    for number in range(1, 4):
        assert are_saved(save(folder, number))
    lost = sorted((tmp_path / "journals").iterdir())[2]
    copy = tmp_path / "copy"
    copy.write_bytes(lost.read_bytes())
    files.meanwhile = [(str(copy), str(lost))]
    wait_for(monkeypatch, 0 if is_settled else 1 << 62)
    outcomes = save(folder, 4)
    [failed] = [each for each in outcomes if not isinstance(each, Appended)]
    assert isinstance(failed, StorageError)
    assert "was replaced during a write" in str(failed)
    missing = NAMES[outcomes.index(failed)]
    for name in NAMES:
        assert (record(4) in texts(read(folder, name))) == (name != missing)


@pytest.mark.parametrize(
    ("changed", "age", "is_settled"),
    [
        (1_700_000_000_123_456_789, 1_001, True),
        (1_700_000_000_123_456_789, 999, False),
        (1_700_000_000_000_000_000, 2_999, False),  # whole seconds: the clock may be coarse
        (1_700_000_000_000_000_000, 3_001, True),
        (1_700_000_000_120_000_000, 2_999, False),  # hundredths of a second, as on exFAT
        (1_700_000_000_123_456_789, -1, False),  # the clock was set back
        (-1, 1 << 40, False),
    ],
)
def test_a_change_must_be_older_than_a_tick_of_the_clock(
    monkeypatch: pytest.MonkeyPatch, changed: int, age: int, is_settled: bool
) -> None:
    class Found:
        st_ctime_ns = changed

    monkeypatch.setattr(time, "time_ns", lambda: changed + age * 1_000_000)
    assert _file_times.is_settled(Found()) is is_settled  # type: ignore[arg-type]


def test_files_are_closed_whatever_their_numbers(tmp_path: Path) -> None:
    files = LocalFiles(str(tmp_path))
    opened = [os.open(tmp_path, os.O_RDONLY) for _ in range(5)]
    files.close_all([])
    files.close_all(opened[:2])
    files.close_all([opened[4], opened[2]])  # another thread's file is between them
    os.fstat(opened[3])
    files.close_all(opened[3:4])
    for fd in opened:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(fd)
