"""Makes this process look like Windows to the locks of stores: no `fcntl`, but `msvcrt`.

As a plugin it lets a whole suite run so: `python -m pytest -p tests.without_fcntl ...`
"""

import fcntl
import subprocess  # noqa: F401 - it takes a system with `msvcrt` for Windows
import sys
import types

LOCKED: list[int] = []
"""The descriptors that were locked, in order."""


_LOCK, _UNLOCK = 2, 0


def _locking(fd: int, mode: int, count: int) -> None:
    """Lock as Windows does: by the handle, so that one process can be refused by itself."""
    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB if mode == _LOCK else fcntl.LOCK_UN)
    if mode == _LOCK:
        LOCKED.append(fd)


sys.modules["fcntl"] = None  # type: ignore[assignment]
_msvcrt = types.ModuleType("msvcrt")
_msvcrt.LK_NBLCK, _msvcrt.LK_UNLCK = _LOCK, _UNLOCK  # type: ignore[attr-defined]
_msvcrt.locking = _locking  # type: ignore[attr-defined]
sys.modules["msvcrt"] = _msvcrt


def pytest_sessionfinish() -> None:
    """Fail where no lock was asked for: then it was not this system that the suite ran on."""
    assert len(LOCKED) >= 5
