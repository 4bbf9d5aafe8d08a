"""Opening a store's files, and nothing but ordinary files.

Somebody may put a pipe, a device, a folder or a link where a file of the store is to be. A pipe
would be waited for without end, and a link would lead out of the store: neither is ever followed.
"""

import errno
import os
import stat

from factmem.errors import CorruptJournalError

__all__ = ["SAFELY", "open_ordinary"]

SAFELY = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
"""Not to block makes no difference to ordinary files: it is for pipes that nobody writes to."""

_KINDS = (
    (stat.S_ISLNK, "a symbolic link"),
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
)

_OF_OTHER_KINDS = frozenset(
    {errno.ELOOP, errno.EMLINK, errno.EISDIR, errno.ENXIO, errno.EOPNOTSUPP}
)
"""How systems refuse to open a link, a folder, or a pipe or socket that has no other end."""


def open_ordinary(path: str, flags: int) -> int:
    """Open an ordinary file; one that `flags` let be made is for its owner only.

    Raises:
        CorruptJournalError: Something else has that name.
        OSError: The operating system refused.
    """
    try:
        fd = os.open(path, flags | SAFELY, 0o600)
    except OSError as exc:
        if exc.errno in _OF_OTHER_KINDS and (kind := _kind_at(path)):
            raise _refusal(path, kind) from None
        raise
    mode = os.fstat(fd).st_mode
    if stat.S_ISREG(mode):
        return fd
    os.close(fd)
    raise _refusal(path, _kind(mode))


def _kind_at(path: str) -> str:
    """Return what stands there; nothing for an ordinary file, or where it cannot be told."""
    try:
        mode = os.lstat(path).st_mode
    except OSError:
        return ""
    return "" if stat.S_ISREG(mode) else _kind(mode)


def _kind(mode: int) -> str:
    return next((kind for is_kind, kind in _KINDS if is_kind(mode)), "a device")


def _refusal(path: str, kind: str) -> CorruptJournalError:
    advice = (
        "remove it, and it is made anew"
        if os.path.basename(path) == "lock"
        else "move it away, and restore the file from a backup"
    )
    return CorruptJournalError(
        f"{path!r} is {kind}, and no file of factmem's. It was not opened, and nothing was changed: "
        f"{advice}"
    )
