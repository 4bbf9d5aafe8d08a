"""Syncing many files with one system call: asynchronous I/O of Linux, and threads elsewhere.

`io_submit` hands all files to threads of the kernel, which sync them at the same time. 64 files whose
bytes are on their way to the disk take 0.9 ms, and 1.9 ms in twelve threads of Python, which wake
each other and take turns at the interpreter's lock. Linux syncs buffered files this way since
version 4.18; an older one refuses the operation.

Nobody has to configure anything: where the system, its kernel, a sandbox or a file system refuses,
`SyncThreads` does the work.
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
"""From how many files on the kernel is asked."""

_MOST = 64
"""How many files a context takes, which is how many a batch has open; the rest go to the threads."""

SystemCall: TypeAlias = Callable[..., int]
"""Makes the system call of a number with integer arguments; raises `OSError` where it fails."""


class _Numbers(NamedTuple):
    """The numbers of the system calls on one kind of machine."""

    setup: int
    destroy: int
    events: int
    submit: int


_NUMBERS = {"x86_64": _Numbers(206, 207, 208, 209), "aarch64": _Numbers(0, 1, 4, 2)}

_FSYNC = 2
"""`IOCB_CMD_FSYNC`. `IOCB_CMD_FDSYNC` takes as long, as all files have grown."""

_NOT_TRIED = frozenset({errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP})
"""Results that say that a file cannot be synced this way. After any other error nothing may be tried
again: the second sync of a file whose first one failed succeeds, though the data is lost."""


class KernelSyncs:
    """Syncs many files at once, by the kernel where it can.

    The context in the kernel is made by the first call with several files, and ends with `close`, or
    when this is garbage. A forked child makes its own. The first refusal is final.

    Args:
        threads: Sync what the kernel does not.
        system_call: Makes a system call; by default the C library's, if the machine is known.
    """

    def __init__(self, threads: SyncThreads, system_call: SystemCall | None = None) -> None:
        self._threads = threads
        self._system_call = system_call
        self._is_refused = not _is_known_machine()
        self._idle: deque[_Context] = deque()
        """The context, while no thread uses it."""

    def sync_all(self, fds: Sequence[int]) -> list[Exception | None]:
        """Sync files, and return the error of each; return when all are done."""
        if len(fds) < _FEWEST or self._is_refused or (context := self._taken()) is None:
            return self._threads.sync_all(fds)
        # An exception leaves the context to the garbage collector: what was submitted may end later,
        # and must not be taken for files of the next call.
        begun = context.submit(fds[:_MOST])
        rest = self._threads.sync_all(fds[begun:])  # the kernel is at work meanwhile
        codes = context.errors(begun)
        self._is_refused = context.is_refused
        self._idle.append(context)
        errors: list[Exception | None] = [_error(code) for code in codes]
        if untried := [at for at, code in enumerate(codes) if code in _NOT_TRIED]:
            self._is_refused = True
            again = self._threads.sync_all([fds[at] for at in untried])
            for at, error in zip(untried, again, strict=True):
                errors[at] = error
        return errors + rest

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

    def submit(self, fds: Sequence[int]) -> int:
        """Begin to sync files; return how many of them the kernel took, from the first on."""
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
                # A descriptor that is not open, or a kernel that is busy, says nothing of the rest.
                self.is_refused = exc.errno not in {errno.EBADF, errno.EAGAIN}
                break
        return taken

    def errors(self, count: int) -> list[int]:
        """Wait until all that was begun has ended; return the error number of each file, or 0."""
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
        """End; the kernel waits for what is still under way."""
        if self._id is not None and self.process == os.getpid():
            self._call(self._numbers.destroy, self._id)


def _block(at: int) -> bytes:
    """Return the control block of a sync whose descriptor is filled in later."""
    return pack("=QIIHhI40x", at, 0, 0, _FSYNC, 0, 0)


def _error(code: int) -> OSError | None:
    return OSError(code, os.strerror(code)) if code else None


def _is_known_machine() -> bool:
    is_linux = sys.platform == "linux" and sys.maxsize > 1 << 32 and sys.byteorder == "little"
    return is_linux and os.uname().machine in _NUMBERS


def _c_library() -> SystemCall:
    """Return the C library's `syscall`, which lets other threads run meanwhile."""
    import ctypes  # five milliseconds that only a batch of many files has to pay

    call = ctypes.CDLL(None, use_errno=True).syscall
    call.argtypes = [ctypes.c_long] * 6
    call.restype = ctypes.c_long

    def system_call(number: int, *arguments: int) -> int:
        result: int = call(number, *arguments, *(0,) * (5 - len(arguments)))
        if result < 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))
        return result

    return system_call
