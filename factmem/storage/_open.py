"""Opening a store's files and folders, and nothing but ordinary ones.

Another program may put a pipe, a device, a folder or a link where a file of the store is to be, or a link
where one of its folders is. A pipe would be waited for without end, and a link would lead out of
the store: neither is ever followed.
"""

import errno
import os
import stat

from factmem.errors import CorruptJournalError

SAFELY = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
"""Not to block makes no difference to ordinary files: it is for pipes without a writer."""

FOLDER = os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY

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


def open_ordinary(
    path: str, flags: int, *, within: tuple[int, str] | None = None
) -> tuple[int, os.stat_result]:
    """Open an ordinary file, and return it with its state; a new one is for its owner only.

    Args:
        path: Its full path.
        flags: How to open it.
        within: Its folder and its name there, where the folder is open already: then the path is
            not walked again.

    Raises:
        CorruptJournalError: Something else has that name.
        OSError: The operating system refused.
    """
    folder, name = (None, path) if within is None else within
    try:
        fd = os.open(name, flags | SAFELY, 0o600, dir_fd=folder)
    except OSError as exc:
        exc.filename = path
        if exc.errno in _OF_OTHER_KINDS and (kind := _kind_at(path)):
            raise _refusal(path, kind) from None
        raise
    found = os.fstat(fd)
    if stat.S_ISREG(found.st_mode):
        return fd, found
    os.close(fd)
    raise _refusal(path, _kind(found.st_mode))


def open_folder(path: str) -> int:
    """Open a folder inside a store, and no link that leads to one.

    Raises:
        CorruptJournalError: It is a symbolic link.
        OSError: The operating system refused.
    """
    try:
        return os.open(path, FOLDER | os.O_NOFOLLOW)
    except OSError as exc:
        if exc.errno in {errno.ELOOP, errno.EMLINK, errno.ENOTDIR} and os.path.islink(path):
            raise CorruptJournalError(
                f"{path!r} is a symbolic link, and would lead out of the store. It was not "
                f"followed, and nothing was changed: put the folder itself in its place. Where the "
                f"store is to lie elsewhere, move all of it; the store's own folder may be a link"
            ) from None
        raise


def _kind_at(path: str) -> str:
    """Return the kind of the file; empty for an ordinary file, or if unknown."""
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
