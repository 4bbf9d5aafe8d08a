"""Bundle files: opening for reading, and atomic writing.

`open_source` and `open_target` accept a path or a file object. A new file at a path is a `_Draft`
until it is complete: a bundle is plain text, so a killed export must leave nothing behind.
"""

import os
from collections.abc import AsyncGenerator
from contextlib import ExitStack, asynccontextmanager, suppress
from errno import EISDIR
from io import TextIOBase
from secrets import token_hex
from shutil import copyfileobj
from tempfile import SpooledTemporaryFile
from typing import IO, BinaryIO, TypeAlias

from anyio import CancelScope
from anyio.to_thread import run_sync

from factmem._arguments import expect_methods
from factmem._concurrency.file_lock import ORDINARY, sync_folder, try_lock

BundleFile: TypeAlias = str | os.PathLike[str] | BinaryIO
"""A path, or a file object in binary mode."""

_MOST_IN_MEMORY = 64 * 1024 * 1024
"""A larger bundle is copied to an unnamed file in the folder for temporary files. The bytes that are
verified are the bytes that are imported, whatever happens to the file in between."""

_DRAFT, _SUFFIX = ".factmem-", ".tmp"
_OPEN_FILES = "/proc/self/fd"
"""Linux has a path here for each open file. An unnamed file can be linked from it."""


@asynccontextmanager
async def open_source(source: BundleFile) -> AsyncGenerator[IO[bytes]]:
    """Yield a copy of the file, from its position to its end."""
    with SpooledTemporaryFile(_MOST_IN_MEMORY) as copy:
        await run_sync(_fill, copy, source)
        yield copy


def _fill(copy: IO[bytes], source: BundleFile) -> None:
    with ExitStack() as opened:
        if isinstance(source, str | os.PathLike):
            copyfileobj(opened.enter_context(open(source, "rb")), copy)
        else:
            _check_binary(source, "read")
            copyfileobj(source, copy)
    copy.seek(0)


@asynccontextmanager
async def open_target(target: BundleFile) -> AsyncGenerator[BinaryIO]:
    """Yield the file to write to. At a path, the complete file appears at the end or not at all."""
    if not isinstance(target, str | os.PathLike):
        _check_binary(target, "write", "flush")
        yield target
        await run_sync(target.flush)
        return
    draft = await run_sync(_Draft, os.fspath(target))
    try:
        yield draft.file
        await run_sync(draft.publish)
    finally:
        with CancelScope(shield=True):
            await run_sync(draft.discard)


def _check_binary(file: object, *methods: str) -> None:
    if isinstance(file, TextIOBase):
        raise TypeError("file must be open in binary mode: open(path, 'rb')")
    expect_methods(file, methods, "file", "a path, 'facts.jsonl', or io.BytesIO()")


class _Draft:
    """A new file that is unnamed, or has a hidden name, until `publish` moves it to its path.

    An unnamed file leaves nothing behind when the process is killed. Where the system does not
    support these, the draft is locked while it is written, so that the next export can distinguish
    it from a leftover.
    """

    def __init__(self, path: str) -> None:
        if os.path.isdir(path):
            raise IsADirectoryError(EISDIR, "A bundle must be a file, and this is a folder", path)
        self._path = path
        self._folder = os.path.dirname(path) or "."
        self._draft = os.path.join(self._folder, f"{_DRAFT}{token_hex(8)}{_SUFFIX}")
        _remove_leftovers(self._folder)
        fd = _open_unnamed(self._folder)
        self._is_named = fd is None
        if fd is None:
            fd = os.open(self._draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        self.file: BinaryIO = os.fdopen(fd, "wb")
        with suppress(OSError):  # without locks a leftover stays; nothing else depends on them
            try_lock(fd)

    def publish(self) -> None:
        """Replace the file at the path by this one, durably."""
        self.file.flush()
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
        """Close the draft, and remove it if it was not published."""
        with suppress(OSError):  # the write that failed first has already raised
            self.file.close()
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
    try:
        names = os.listdir(folder)
    except OSError:
        return
    for name in names:
        if name.startswith(_DRAFT) and name.endswith(_SUFFIX):
            with suppress(OSError):
                _remove_unlocked(os.path.join(folder, name))


def _remove_unlocked(path: str) -> None:
    fd = os.open(path, os.O_RDONLY | ORDINARY)
    try:
        try_lock(fd)
        os.unlink(path)
    finally:
        os.close(fd)
