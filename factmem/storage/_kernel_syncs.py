"""Syncing many files with one system call: asynchronous I/O of Linux, and threads elsewhere.

`io_submit` hands all files to threads of the kernel, which sync them at the same time. 64 files take
1.5 ms, and 2.6 ms in twelve threads of Python, which wake each other and take turns at the
interpreter's lock. Linux syncs buffered files this way since version 4.18; an older one refuses the
operation. Before that their bytes are sent to the disk, without waiting: the kernel's threads then
switch less often, which saves a seventh of the time.

No configuration is needed: if the operating system, its kernel, a sandbox or the file system refuses,
`SyncThreads` syncs the files.
"""

import errno
import os
import sys
from array import array
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from struct import pack
from typing import NamedTuple, TypeAlias

from factmem.storage._sync_threads import SyncThreads

_FEWEST = 2
"""The number of files from which the kernel syncs. Two take as long as in threads, 0.26 ms, but 0.05 ms
of processor time instead of 0.15. One takes 0.17 ms and 0.12 by fsync, on a busy machine."""

_MOST = 64
"""The most files of a context, as many as a batch has open. The threads sync the rest."""

SystemCall: TypeAlias = Callable[..., int]
"""Makes the system call of a number with integer arguments; raises `OSError` where it fails."""


class _Numbers(NamedTuple):
    """The numbers of the system calls on one kind of machine."""

    setup: int
    destroy: int
    events: int
    submit: int
    write_out: int
    """`sync_file_range`."""


_NUMBERS = {"x86_64": _Numbers(206, 207, 208, 209, 277), "aarch64": _Numbers(0, 1, 4, 2, 84)}

_WRITE_OUT = 2
"""`SYNC_FILE_RANGE_WRITE`, which waits for nothing. An error of the disk is reported by the sync, since
only a call that waits takes it. An error in finding room on the disk is reported by this call alone:
ext4 then drops the bytes, and the sync succeeds without them."""

_NOT_WRITTEN_OUT = frozenset(
    {
        errno.EACCES,
        errno.EBADF,
        errno.EINTR,
        errno.EINVAL,
        errno.ENOSYS,
        errno.EOPNOTSUPP,
        errno.EPERM,
        errno.ESPIPE,
    }
)
"""The results after which the bytes of a file are as before, so that its sync does all."""

_FSYNC = 2
"""`IOCB_CMD_FSYNC`. `IOCB_CMD_FDSYNC` would write the inode as well, because each file has grown."""

_NOT_TRIED = frozenset({errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP})
"""The results for a file that cannot be synced this way. After any other error no sync may be tried
again: the second sync of such a file succeeds although its data is lost."""


class KernelSyncs:
    """Syncs many files at once, by the kernel where it can.

    The first call for several files creates a context in the kernel. It ends with `close`, or when this
    object is garbage collected. A forked child creates its own. The first refusal is final.

    Args:
        threads: Sync the files that the kernel does not.
        system_call: Makes a system call; by default the function of the C library.
    """

    def __init__(self, threads: SyncThreads, system_call: SystemCall | None = None) -> None:
        self._threads = threads
        self._system_call = system_call
        self._is_refused = not _is_known_machine()
        self._idle: deque[_Context] = deque()
        """The contexts that no thread uses: one at most, except after concurrent calls."""

    def sync_all(self, fds: Sequence[int]) -> list[Exception | None]:
        """Sync all files, and return the error of each, or None."""
        if len(fds) < _FEWEST or self._is_refused or (context := self._taken()) is None:
            return self._threads.sync_all(fds)
        # After an exception the context is not used again: its pending syncs must not be mistaken for
        # those of the next call.
        lost = context.write_out(fds[:_MOST])
        begun = context.submit(fds[:_MOST])
        rest = self._threads.sync_all(fds[begun:])  # while the kernel works
        codes = context.errors(begun)
        self._is_refused = context.is_refused
        self._idle.append(context)
        errors: list[Exception | None] = [_error(code) for code in codes]
        if untried := [at for at, code in enumerate(codes) if code in _NOT_TRIED]:
            self._is_refused = True
            again = self._threads.sync_all([fds[at] for at in untried])
            for at, error in zip(untried, again, strict=True):
                errors[at] = error
        errors += rest
        for at, error in lost.items():
            errors[at] = errors[at] or error
        return errors

    def _taken(self) -> "_Context | None":
        """Return a context of this process; None where the kernel refuses one."""
        with suppress(IndexError):
            if (context := self._idle.pop()).process == os.getpid():
                return context
        try:
            return _Context(self._system_call or _c_library())
        except (OSError, AttributeError, ImportError):
            self._is_refused = True
            return None

    def close(self) -> None:
        """End the context and the threads; the next call starts new ones."""
        self._idle.clear()
        self._threads.close()


class _Context:
    """An asynchronous I/O context of the kernel, and the memory that it reads and writes.

    A control block has 64 bytes: the user's data (8), the kernel's key (4), flags (4), the operation
    (2), a priority (2), the descriptor (4), and 40 that are zero for a sync. An event has 32: the
    user's data, the address of the control block, the result, and another one.
    """

    def __init__(self, system_call: SystemCall) -> None:
        self._id: int | None = None
        self._call, self._numbers = system_call, _NUMBERS[os.uname().machine]
        self.process = os.getpid()
        self.is_refused = False
        self._blocks = array("I", b"".join(_block(at) for at in range(_MOST)))
        start = self._blocks.buffer_info()[0]
        self._addresses = array("L", [start + 64 * at for at in range(_MOST)])
        self._descriptors = memoryview(self._blocks)[5::16]
        self._events = array("q", bytes(32 * _MOST))
        made = array("L", [0])
        self._call(self._numbers.setup, _MOST, made.buffer_info()[0])
        self._id = made[0]

    def write_out(self, fds: Sequence[int]) -> dict[int, OSError]:
        """Start to write the bytes of files to the disk, unless the kernel refuses.

        Returns:
            The errors of files whose bytes may be lost, by their positions.
        """
        lost: dict[int, OSError] = {}
        for at, fd in enumerate(fds):
            try:
                self._call(self._numbers.write_out, fd, 0, 0, _WRITE_OUT)
            except OSError as exc:
                if exc.errno in _NOT_WRITTEN_OUT:
                    break
                lost[at] = exc
        return lost

    def submit(self, fds: Sequence[int]) -> int:
        """Start to sync files; return the number accepted by the kernel, from the first on."""
        count, taken = len(fds), 0
        self._descriptors[:count] = array("I", fds)
        addresses = self._addresses.buffer_info()[0]
        while taken < count:
            try:
                left = count - taken
                taken += self._call(self._numbers.submit, self._id, left, addresses + 8 * taken)
            except InterruptedError:
                continue
            except OSError as exc:
                # Not a refusal: one descriptor that is not open, or a kernel that is busy.
                self.is_refused = exc.errno not in {errno.EBADF, errno.EAGAIN}
                break
        return taken

    def errors(self, count: int) -> list[int]:
        """Wait for all accepted files; return the error number of each, or 0."""
        errors, left = [0] * count, count
        start = self._events.buffer_info()[0]
        while left:
            try:
                found = self._call(self._numbers.events, self._id, left, left, start, 0)
            except InterruptedError:
                continue
            for at in range(0, 4 * found, 4):
                if result := self._events[at + 2]:
                    errors[self._events[at]] = -result
            left -= found
        return errors

    def __del__(self) -> None:
        """End the context; the kernel waits for pending syncs first."""
        if self._id is not None and self.process == os.getpid():
            self._call(self._numbers.destroy, self._id)


def _block(at: int) -> bytes:
    """Return the control block of a sync, without its descriptor."""
    return pack("=QIIHhI40x", at, 0, 0, _FSYNC, 0, 0)


def _error(code: int) -> OSError | None:
    return OSError(code, os.strerror(code)) if code else None


def _is_known_machine() -> bool:
    is_linux = sys.platform == "linux" and sys.maxsize > 1 << 32 and sys.byteorder == "little"
    return is_linux and os.uname().machine in _NUMBERS


def _c_library() -> SystemCall:
    """Return the C library's `syscall`. ctypes releases the interpreter's lock during the call."""
    import ctypes  # here, because it takes milliseconds that only a batch of several files needs

    call = ctypes.CDLL(None, use_errno=True).syscall
    call.argtypes = [ctypes.c_long] * 6
    call.restype = ctypes.c_long
    unused = (0,) * 5

    def system_call(number: int, *arguments: int) -> int:
        result: int = call(number, *arguments, *unused[len(arguments) :])
        if result < 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))
        return result

    return system_call
