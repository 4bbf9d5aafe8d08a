"""Syncing many files by the kernel: each file's own error, no sync taken for another, no refusal seen."""

import ctypes
import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from factmem.storage import _kernel_syncs
from factmem.storage._files import LocalFiles
from factmem.storage._kernel_syncs import KernelSyncs
from factmem.storage._sync_threads import SyncThreads
from factmem.storage.base import JournalName
from tests.storage.stores import PLAIN, record

_FILES = 8


def _refusal() -> OSError | None:
    """Return why this machine has no asynchronous I/O; None if it has."""
    if not _kernel_syncs._is_known_machine():
        return OSError(errno.ENOSYS, "not on this machine")
    try:
        _kernel_syncs._Context(_kernel_syncs._c_library())
    except OSError as exc:
        return exc
    return None


needs_kernel = pytest.mark.skipif(_refusal() is not None, reason="no asynchronous I/O here")
pytestmark = needs_kernel


class Kernel:
    """The system calls of the real kernel, recorded, with a test's changes."""

    def __init__(self) -> None:
        self._call = _kernel_syncs._c_library()
        numbers = _kernel_syncs._NUMBERS[os.uname().machine]
        self._names = {number: name for name, number in numbers._asdict().items()}
        self.calls: list[str] = []
        """The names of the calls, without those that start to write."""
        self.written_out: list[int] = []
        """The files that are being written."""
        self.fail: dict[str, list[int | None]] = {}
        """The errors of the next calls of a name; None for a call that works."""
        self.results: dict[int, int] = {}
        """The error of the sync of a file, by its position in the batch."""
        self.most = 64
        """The most events that a call returns."""

    def __call__(self, number: int, *arguments: int) -> int:
        name = self._names[number]
        if name == "write_out":
            self.written_out.append(arguments[0])
        else:
            self.calls.append(name)
        if (errors := self.fail.get(name)) and (code := errors.pop(0)) is not None:
            raise OSError(code, os.strerror(code))
        if name != "events":
            return self._call(number, *arguments)
        context, _, most, start, timeout = arguments
        most = min(most, self.most)
        found = self._call(number, context, most, most, start, timeout)
        for at in range(found):
            event = (ctypes.c_int64 * 4).from_address(start + 32 * at)
            event[2] = -self.results.get(event[0], 0) or event[2]
        return found


@pytest.fixture
def fds(tmp_path: Path) -> Iterator[list[int]]:
    opened = []
    for number in range(_FILES):
        opened.append(os.open(tmp_path / str(number), os.O_RDWR | os.O_CREAT))
        os.write(opened[-1], b"content")
    yield opened
    for fd in opened:
        os.close(fd)


@pytest.fixture
def kernel() -> Kernel:
    return Kernel()


class Syncs(KernelSyncs):
    """Syncs whose threads only record their files."""

    def __init__(self, kernel: Callable[..., int]) -> None:
        self.by_threads: list[int] = []
        super().__init__(SyncThreads(self.by_threads.append), kernel)


def codes(errors: list[Exception | None]) -> list[int | None]:
    return [error.errno if isinstance(error, OSError) else None for error in errors]


def test_one_call_syncs_all_files(kernel: Kernel, fds: list[int]) -> None:
    syncs = Syncs(kernel)
    assert syncs.sync_all([]) == []
    assert kernel.calls == []
    for _ in range(3):
        assert syncs.sync_all(fds) == [None] * _FILES
    assert kernel.calls == ["setup", *["submit", "events"] * 3]
    assert syncs.by_threads == []


def test_the_kernel_starts_to_write_all_files_before_it_syncs_one(fds: list[int]) -> None:
    class Ordered(Kernel):
        def __call__(self, number: int, *arguments: int) -> int:
            if self._names[number] == "submit":
                assert self.written_out == fds
            return super().__call__(number, *arguments)

    kernel = Ordered()
    assert Syncs(kernel).sync_all(fds) == [None] * _FILES
    assert "submit" in kernel.calls


@pytest.mark.parametrize("code", [errno.ENOSYS, errno.EPERM, errno.EINVAL])
def test_a_kernel_that_starts_no_writing_syncs_all_the_same(
    kernel: Kernel, fds: list[int], code: int
) -> None:
    kernel.fail = {"write_out": [None, code]}
    syncs = Syncs(kernel)
    for _ in range(2):
        assert syncs.sync_all(fds) == [None] * _FILES
    assert kernel.calls == ["setup", *["submit", "events"] * 2]
    assert syncs.by_threads == []


def test_a_file_whose_bytes_were_lost_before_its_sync_has_an_error(
    kernel: Kernel, fds: list[int]
) -> None:
    """The error of the first call that writes is reported once; the sync succeeds without the bytes."""
    kernel.fail = {"write_out": [None, errno.EIO, None, errno.EDQUOT]}
    kernel.results = {3: errno.ENOSPC}
    syncs = Syncs(kernel)
    assert codes(syncs.sync_all(fds)) == [None, errno.EIO, None, errno.ENOSPC] + [None] * 4
    assert kernel.written_out == fds
    assert syncs.by_threads == []


def test_lost_bytes_count_where_threads_sync(kernel: Kernel, fds: list[int]) -> None:
    kernel.fail = {"write_out": [errno.EIO], "submit": [errno.EAGAIN]}
    syncs = Syncs(kernel)
    assert codes(syncs.sync_all(fds)) == [errno.EIO] + [None] * 7
    assert sorted(syncs.by_threads) == sorted(fds)


def test_more_files_than_a_context_holds(kernel: Kernel, fds: list[int]) -> None:
    syncs = Syncs(kernel)
    assert syncs.sync_all(fds * 9) == [None] * 72
    assert sorted(syncs.by_threads) == sorted(fds)


def test_a_closed_file_has_an_error_of_its_own(fds: list[int]) -> None:
    closed = os.dup(fds[0])
    os.close(closed)
    syncs = KernelSyncs(SyncThreads(os.fsync))
    for at in (0, 3, _FILES):
        errors = syncs.sync_all([*fds[:at], closed, *fds[at:]])
        assert codes(errors) == [None] * at + [errno.EBADF] + [None] * (_FILES - at)
    syncs.close()


def test_a_failed_sync_is_reported_and_never_repeated(kernel: Kernel, fds: list[int]) -> None:
    """A second sync of such a file succeeds, although its data is lost."""
    kernel.results, kernel.most = {2: errno.EIO, 5: errno.ENOSPC}, 3
    syncs = Syncs(kernel)
    errors = syncs.sync_all(fds)
    assert codes(errors) == [None, None, errno.EIO, None, None, errno.ENOSPC, None, None]
    assert syncs.by_threads == []
    kernel.results = {}
    assert syncs.sync_all(fds) == [None] * _FILES  # and nothing of the first call remains


@pytest.mark.parametrize("code", [errno.ENOSYS, errno.EPERM, errno.EAGAIN, errno.ENOMEM])
def test_threads_sync_if_the_kernel_gives_no_context(
    kernel: Kernel, fds: list[int], code: int
) -> None:
    kernel.fail = {"setup": [code]}
    syncs = Syncs(kernel)
    for _ in range(2):
        assert syncs.sync_all(fds) == [None] * _FILES
    assert kernel.calls == ["setup"]
    assert sorted(syncs.by_threads) == sorted(fds * 2)


@pytest.mark.parametrize("code", [errno.ENOSYS, errno.EPERM, errno.EINVAL])
def test_threads_sync_if_the_kernel_accepts_no_sync(
    kernel: Kernel, fds: list[int], code: int
) -> None:
    kernel.fail = {"submit": [code]}
    syncs = Syncs(kernel)
    for _ in range(2):
        assert syncs.sync_all(fds) == [None] * _FILES
    assert kernel.calls == ["setup", "submit"]
    assert sorted(syncs.by_threads) == sorted(fds * 2)


@pytest.mark.parametrize("code", [errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP])
def test_threads_sync_files_that_the_file_system_refuses(
    kernel: Kernel, fds: list[int], code: int
) -> None:
    kernel.results = {1: code, 4: code}
    syncs = Syncs(kernel)
    assert syncs.sync_all(fds) == [None] * _FILES
    assert sorted(syncs.by_threads) == sorted([fds[1], fds[4]])
    assert syncs.sync_all(fds) == [None] * _FILES
    assert kernel.calls == ["setup", "submit", "events"]


def test_the_next_batch_tries_a_busy_kernel_again(kernel: Kernel, fds: list[int]) -> None:
    kernel.fail = {"submit": [errno.EAGAIN]}
    syncs = Syncs(kernel)
    assert syncs.sync_all(fds) == [None] * _FILES
    assert sorted(syncs.by_threads) == sorted(fds)
    assert syncs.sync_all(fds) == [None] * _FILES
    assert len(syncs.by_threads) == _FILES


def test_a_kernel_that_accepts_some_files_is_waited_for(fds: list[int]) -> None:
    class Partial(Kernel):
        def __call__(self, number: int, *arguments: int) -> int:
            if self._names[number] == "submit":
                if self.calls.count("submit"):
                    raise OSError(errno.EAGAIN, "busy")
                context, _, blocks = arguments
                arguments = (context, 3, blocks)
            return super().__call__(number, *arguments)

    kernel = Partial()
    kernel.results = {2: errno.EIO}
    syncs = Syncs(kernel)
    assert codes(syncs.sync_all(fds)) == [None, None, errno.EIO] + [None] * 5
    assert sorted(syncs.by_threads) == sorted(fds[3:])


def test_interrupted_calls_are_repeated(kernel: Kernel, fds: list[int]) -> None:
    kernel.fail = {"submit": [errno.EINTR, None], "events": [errno.EINTR, None, errno.EINTR]}
    kernel.most, kernel.results = 5, {7: errno.EIO}
    syncs = Syncs(kernel)
    assert codes(syncs.sync_all(fds)) == [None] * 7 + [errno.EIO]
    assert syncs.by_threads == []


def test_a_pending_sync_after_an_error_does_not_count_for_the_next_batch(
    kernel: Kernel, fds: list[int]
) -> None:
    kernel.fail, kernel.results = {"events": [errno.EFAULT]}, {0: errno.EIO}
    syncs = Syncs(kernel)
    with pytest.raises(OSError, match="Bad address"):
        syncs.sync_all(fds)
    kernel.results = {}
    assert syncs.sync_all(fds) == [None] * _FILES
    assert kernel.calls == ["setup", "submit", "events", "destroy", "setup", "submit", "events"]


@pytest.mark.parametrize("is_closed", [True, False], ids=["closed", "garbage"])
def test_closing_a_store_closes_its_context(
    kernel: Kernel, fds: list[int], is_closed: bool
) -> None:
    syncs = Syncs(kernel)
    syncs.sync_all(fds)
    if is_closed:
        syncs.close()
        syncs.close()
    else:
        del syncs
    assert kernel.calls == ["setup", "submit", "events", "destroy"]


def test_a_forked_child_uses_a_context_of_its_own(kernel: Kernel, fds: list[int]) -> None:
    syncs = Syncs(kernel)
    assert syncs.sync_all(fds) == [None] * _FILES
    child = os.fork()
    if not child:
        kernel.calls.clear()
        is_right = syncs.sync_all(fds) == [None] * _FILES and not syncs.by_threads
        is_right = is_right and kernel.calls == ["setup", "submit", "events"]
        syncs.close()
        os._exit(0 if is_right and kernel.calls[3:] == ["destroy"] else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert syncs.sync_all(fds) == [None] * _FILES
    assert kernel.calls == ["setup", *["submit", "events"] * 2]


def test_unknown_machines_use_threads(
    kernel: Kernel, fds: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Machine:
        machine = "mips64"

    monkeypatch.setattr(os, "uname", Machine)
    syncs = Syncs(kernel)
    assert syncs.sync_all(fds) == [None] * _FILES
    assert kernel.calls == []
    assert sorted(syncs.by_threads) == sorted(fds)


def test_a_batch_of_a_store_is_synced_by_the_kernel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = Kernel()
    monkeypatch.setattr(_kernel_syncs, "_c_library", lambda: kernel)
    names: list[JournalName] = [("agent", "support", "user", f"user-{each}") for each in range(5)]
    folder = PLAIN.open(LocalFiles(str(tmp_path)))
    for _ in range(2):
        with folder.exclusive() as writer:
            writer.append_all([(name, [record(1)]) for name in names])
    assert kernel.calls == ["setup", "submit", "events"]
    folder.close()
    assert kernel.calls[-1] == "destroy"
