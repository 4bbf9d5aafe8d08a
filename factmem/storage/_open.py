"""Opening a store's files and folders, if they are regular files and real folders.

Another program may put a pipe, a device, a folder or a link at the path of a file, or a link at the
path of a folder. Opening a pipe could block for ever, and a link leads out of the store, so both are
refused.
"""

import errno
import os
import stat

from factmem.errors import CorruptJournalError

SAFELY = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
"""O_NONBLOCK changes nothing for regular files: it is for pipes without a writer."""

_UNTIMED: int = getattr(os, "O_NOATIME", 0)
"""Linux: reading a file does not set its access time. That would change the inode at the first read after
each write, 0.7 microseconds each time. Only the owner of a file may ask for it."""

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
"""The errors of systems for a link, a folder, and a pipe or socket without another end."""


def open_safely(name: str, flags: int, folder: int | None = None) -> int:
    """Open a path, or a name in an open folder; a new file is for its owner only."""
    flags |= SAFELY
    if not flags & os.O_CREAT:
        try:  # not `suppress`, which takes longer: each save opens a file
            return os.open(name, flags | _UNTIMED, dir_fd=folder)
        except PermissionError:  # another user's file, or one that may not be opened at all
            pass
    return os.open(name, flags, 0o600, dir_fd=folder)


def open_ordinary(
    path: str, flags: int, *, within: tuple[int, str] | None = None
) -> tuple[int, os.stat_result]:
    """Open a regular file, and return it with its state; a new file is for its owner only.

    Args:
        path: Its full path.
        flags: The flags of `os.open`.
        within: Its open folder and its name there, if the folder is open already. The path is then
            not resolved again.

    Raises:
        CorruptJournalError: It is not a regular file.
        OSError: The operating system refused.
    """
    folder, name = (None, path) if within is None else within
    try:
        fd = open_safely(name, flags, folder)
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
    """Open a folder inside a store, but no link to a folder.

    Raises:
        CorruptJournalError: It is a symbolic link.
        OSError: The operating system refused.
    """
    try:
        return os.open(path, FOLDER | os.O_NOFOLLOW)
    except OSError as exc:
        if exc.errno in {errno.ELOOP, errno.EMLINK, errno.ENOTDIR} and os.path.islink(path):
            raise CorruptJournalError(
                f"{path!r} is a symbolic link and leads out of the store. It was not followed, and "
                f"nothing was changed: replace it by the folder itself. To keep the store elsewhere, "
                f"move all of it; only the store's own folder may be a link"
            ) from None
        raise


def _kind_at(path: str) -> str:
    """Return the kind of the file; empty for a regular file, or if unknown."""
    try:
        mode = os.lstat(path).st_mode
    except OSError:
        return ""
    return "" if stat.S_ISREG(mode) else _kind(mode)


def _kind(mode: int) -> str:
    return next((kind for is_kind, kind in _KINDS if is_kind(mode)), "a device")


def _refusal(path: str, kind: str) -> CorruptJournalError:
    advice = (
        "remove it, and the next call creates it"
        if os.path.basename(path) == "lock"
        else "move it away, and restore the file from a backup"
    )
    return CorruptJournalError(
        f"{path!r} is {kind}, not a file of factmem. It was not opened, and nothing was changed: "
        f"{advice}"
    )
