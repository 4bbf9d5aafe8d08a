"""The lock of a store: one advisory lock against every other process and thread.

`flock` on purpose: the other kind (`fcntl`, `lockf`) is dropped when any descriptor of the file is
closed and does not exclude threads. The lock file is never deleted and never written: a lock on a
deleted file excludes nobody.
"""

import fcntl
import os
import time
from collections.abc import Generator
from contextlib import contextmanager

from factmem.errors import StoreBusyError

__all__ = ["held", "network_file_system"]

_FIRST_WAIT, _LONGEST_WAIT = 0.0001, 0.002
"""Seconds between tries. A longer wait is unfair to those who wait: with 10 ms the slowest of a
hundred saves waited six times as long as with 2 ms."""

_NETWORK = frozenset({"nfs", "nfs4", "cifs", "smb3", "smbfs", "afs", "ceph", "9p", "ncpfs"})


@contextmanager
def held(path: str, timeout: float) -> Generator[None]:
    """Hold the lock file `path`, made if it is not there; it is closed in forked children.

    Raises:
        StoreBusyError: Somebody else held it for `timeout` seconds.
    """
    fd = _locked(path, time.monotonic() + timeout, timeout)
    _open_locks.add(fd)
    try:
        yield
    finally:
        _open_locks.discard(fd)
        fcntl.flock(fd, fcntl.LOCK_UN)  # said aloud: a forked child may hold the descriptor too
        os.close(fd)


def _locked(path: str, deadline: float, timeout: float) -> int:
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    wait = _FIRST_WAIT
    while True:
        fd = os.open(path, flags, 0o600)
        try:
            while not _try_lock(fd):
                if time.monotonic() >= deadline:
                    raise StoreBusyError(
                        f"Another process or thread held the lock of the store for {timeout:g} s: "
                        f"{path!r}. Nothing was written; try again, or allow more time with "
                        f"busy_timeout"
                    )
                time.sleep(wait)
                wait = min(wait * 2, _LONGEST_WAIT)
            if _is_same_file(fd, path):
                return fd
        except BaseException:
            os.close(fd)
            raise
        os.close(fd)


def _try_lock(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_same_file(fd: int, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(fd), os.stat(path))
    except FileNotFoundError:
        return False


_open_locks: set[int] = set()


def _close_in_child() -> None:
    """Let go of what a forked child inherited, or it would keep the store locked."""
    for fd in _open_locks:
        os.close(fd)
    _open_locks.clear()


os.register_at_fork(after_in_child=_close_in_child)


def network_file_system(path: str) -> str | None:
    """Return the name of the network file system that holds `path`, where Linux tells.

    Advisory locks and appends are not to be trusted there.
    """
    real = os.path.realpath(path)
    best, kind = "", ""
    try:
        with open("/proc/self/mounts", encoding="utf-8", errors="surrogateescape") as mounts:
            for line in mounts:
                _, point, name, *_ = line.split(" ")
                point = point.replace("\\040", " ")
                inside = real == point or real.startswith(point.rstrip("/") + "/")
                if inside and len(point) >= len(best):
                    best, kind = point, name
    except OSError:
        return None
    is_network = kind in _NETWORK or kind in {"fuse.sshfs", "fuse.glusterfs", "fuse.s3fs"}
    return kind if is_network else None
