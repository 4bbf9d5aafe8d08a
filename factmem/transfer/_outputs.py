"""Output files: written completely or not at all; links, pipes and devices are never replaced.

The content may be plaintext of an encrypted store, so a killed process must leave nothing behind.
"""

import os
import stat
from contextlib import suppress
from errno import EISDIR
from pathlib import Path
from secrets import token_hex
from typing import BinaryIO

from factmem._concurrency import ORDINARY, sync_folder, try_lock

_DRAFT, _SUFFIX = ".factmem-", ".tmp"
_OPEN_FILES = "/proc/self/fd"
"""Linux has a path here for each open file. An unnamed file can be linked from it."""
_MOST_LINKS = 40


def is_special(path: str) -> bool:
    """Return whether a path, with its links, names a pipe, a device, a socket or an open file."""
    try:
        return _descriptor(path) is not None or not stat.S_ISREG(os.stat(path).st_mode)
    except OSError:  # it does not exist yet, or its error is that of opening it
        return False


def _descriptor(path: str) -> int | None:
    """Return the open file of this process that a path such as /dev/stdout, or -, names."""
    if path == "-":
        return 1
    folders = {os.path.realpath(each) for each in ("/dev/fd", _OPEN_FILES)}
    for _ in range(_MOST_LINKS):
        folder, name = os.path.split(path)
        if name.isdecimal() and os.path.realpath(folder) in folders:
            return int(name)
        if not os.path.islink(path):
            break
        path = os.path.join(folder, os.readlink(path))
    return None


def write_whole(path: str, content: str | bytes) -> None:
    """Write a file, durably; see `Output`."""
    output = Output(path)
    try:
        output.file.write(content.encode() if isinstance(content, str) else content)
        output.publish()
    finally:
        output.discard()


class Output:
    """A file to write: at its path the whole content appears when it is published, or nothing.

    A link is followed, and the file that it names is replaced. A pipe, a device or a file that this
    process has open is written to, such as standard output, which is "-". A new file is unnamed, or
    has a hidden name, until then. An unnamed file leaves nothing behind when the process is killed.
    Where the system does not support these, it is locked while it is written, so that the next one
    can tell it from a leftover.
    """

    def __init__(self, path: str) -> None:
        if os.path.isdir(path):
            raise IsADirectoryError(EISDIR, "The output must be a file, and this is a folder", path)
        self._is_draft = not is_special(path)
        if not self._is_draft:
            opened = _descriptor(path)
            given = path if opened is None else os.dup(opened)  # `>> log` continues where it is
            self.file: BinaryIO = open(given, "wb")  # noqa: SIM115 - `discard` closes it
            return
        path = os.path.realpath(path)
        self._path = path
        self._folder = os.path.dirname(path)
        os.stat(path if os.path.islink(path) else self._folder)  # links in a circle; no folder
        self._draft = os.path.join(self._folder, f"{_DRAFT}{token_hex(8)}{_SUFFIX}")
        _remove_leftovers(self._folder)
        fd = _open_unnamed(self._folder)
        self._is_named = fd is None
        if fd is None:
            try:
                fd = os.open(self._draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            except OSError as exc:  # the name of the draft means nothing to the caller
                raise OSError(exc.errno, exc.strerror, self._folder) from None
        self.file = os.fdopen(fd, "wb")
        with suppress(OSError):  # without locks a leftover stays; nothing else depends on them
            try_lock(fd)

    def publish(self) -> None:
        """Replace the file at the path by this one, durably."""
        self.file.flush()
        if not self._is_draft:
            return
        os.fsync(self.file.fileno())
        if not self._is_named:
            self._name()
        self.file.close()  # Windows replaces no file by an open one
        os.replace(self._draft, self._path)
        sync_folder(self._folder)

    def _name(self) -> None:
        folder = os.open(self._folder, os.O_RDONLY)
        try:
            # Python follows the link to the open file only if src_dir_fd is passed too.
            opened = f"{_OPEN_FILES}/{self.file.fileno()}"
            os.link(opened, self._draft, src_dir_fd=folder, follow_symlinks=True)
        finally:
            os.close(folder)

    def discard(self) -> None:
        """Close the file, and remove it if it was not published."""
        with suppress(OSError):  # the write that failed first has already raised
            self.file.close()
        if self._is_draft:
            with suppress(FileNotFoundError):
                os.unlink(self._draft)


def _open_unnamed(folder: str) -> int | None:
    """Open an unnamed file in a folder; return None if the system does not support this."""
    unnamed = getattr(os, "O_TMPFILE", None)
    if unnamed is None or not os.path.isdir(_OPEN_FILES):
        return None
    try:
        return os.open(folder, os.O_WRONLY | unnamed, 0o600)
    except OSError:  # not on this file system; a missing folder raises again in the caller
        return None


def _remove_leftovers(folder: str) -> None:
    """Remove the drafts of killed exports: drafts that no process has locked."""
    for path in Path(folder).glob(f"{_DRAFT}*{_SUFFIX}"):
        with suppress(OSError):
            fd = os.open(path, os.O_RDONLY | ORDINARY)
            try:
                try_lock(fd)
                os.unlink(path)
            finally:
                os.close(fd)
