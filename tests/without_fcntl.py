"""Makes this process look like Windows to the locks of stores: no `fcntl`, but `msvcrt`.

As a plugin it lets a whole suite run so: `python -m pytest -p tests.without_fcntl ...`
"""

import os
import subprocess  # noqa: F401 - it takes a system with `msvcrt` for Windows
import sys
import types

__all__ = ["LOCKED"]

LOCKED: list[int] = []
"""The descriptors that were locked, in order."""


def _locking(fd: int, mode: int, count: int) -> None:
    os.lockf(fd, mode, count)
    if mode == os.F_TLOCK:
        LOCKED.append(fd)


sys.modules["fcntl"] = None  # type: ignore[assignment]
_msvcrt = types.ModuleType("msvcrt")
_msvcrt.LK_NBLCK, _msvcrt.LK_UNLCK = os.F_TLOCK, os.F_ULOCK  # type: ignore[attr-defined]
_msvcrt.locking = _locking  # type: ignore[attr-defined]
sys.modules["msvcrt"] = _msvcrt
