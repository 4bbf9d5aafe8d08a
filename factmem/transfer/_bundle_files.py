"""The files of bundles: opened for reading, and written whole or not at all."""

import fcntl
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from errno import EISDIR
from io import BytesIO, TextIOBase
from secrets import token_hex
from typing import BinaryIO, TypeAlias

from anyio import CancelScope
from anyio.to_thread import run_sync

from factmem._arguments import expect_methods

BundleFile: TypeAlias = str | os.PathLike[str] | BinaryIO
"""A path, or a file that is open in binary mode."""

_MOST_HELD = 64 * 1024 * 1024
"""The largest bundle that is held in memory, so that what was verified is what is imported."""

_DRAFT, _SUFFIX = ".factmem-", ".tmp"
_OPEN_FILES = "/proc/self/fd"
"""By these paths Linux gives a name to a file without one."""


def held(file: BinaryIO) -> BinaryIO:
    """Return the rest of a file, in memory unless it is large."""
    start = file.tell()
    content = file.read(_MOST_HELD + 1)
    if len(content) <= _MOST_HELD:
        return BytesIO(content)
    file.seek(start)
    return file


@asynccontextmanager
async def opened(source: BundleFile) -> AsyncGenerator[BinaryIO]:
    """Give a file to read from; one that was opened here is closed."""
    if isinstance(source, str | os.PathLike):
        file: BinaryIO = await run_sync(_open, source)
        try:
            yield file
        finally:
            with CancelScope(shield=True):
                await run_sync(file.close)
        return
    _check_binary(source, "readline", "seek", "tell")
    if not source.seekable():
        raise ValueError(
            "A bundle is read twice, and this file cannot seek: give a path, or read it into "
            "an io.BytesIO first"
        )
    yield source


@asynccontextmanager
async def written(target: BundleFile) -> AsyncGenerator[BinaryIO]:
    """Give a file to write into; at a path it appears whole, at the end, or not at all."""
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


def _open(path: str | os.PathLike[str]) -> BinaryIO:
    return open(path, "rb")


def _check_binary(file: object, *methods: str) -> None:
    if isinstance(file, TextIOBase):
        raise TypeError("file must be open in binary mode: open(path, 'rb')")
    expect_methods(file, methods, "file", "a path, 'facts.jsonl', or io.BytesIO()")


class _Draft:
    """A file without a name, or with a hidden one, until it replaces another.

    A process that is killed leaves nothing of a file without a name. Where the system has none, the
    draft is locked while it is written, so that the next export tells it from a leftover.
    """

    def __init__(self, path: str) -> None:
        if os.path.isdir(path):
            raise IsADirectoryError(EISDIR, "A bundle is one file, and this is a folder", path)
        self._path = path
        self._folder = os.path.dirname(path) or "."
        self._draft = os.path.join(self._folder, f"{_DRAFT}{token_hex(8)}{_SUFFIX}")
        _remove_leftovers(self._folder)
        fd = _nameless(self._folder)
        self._is_named = fd is None
        if fd is None:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            fd = os.open(self._draft, flags, 0o600)
        self.file: BinaryIO = os.fdopen(fd, "wb")
        with suppress(OSError):  # without locks a leftover stays; nothing else depends on them
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def publish(self) -> None:
        """Put it in the place of what has its name, durably."""
        self.file.flush()
        os.fsync(self.file.fileno())
        folder = os.open(self._folder, os.O_RDONLY | os.O_CLOEXEC)
        try:
            if not self._is_named:
                # Python follows the link to the open file only where a folder is given as well.
                opened = f"{_OPEN_FILES}/{self.file.fileno()}"
                os.link(opened, self._draft, src_dir_fd=folder, follow_symlinks=True)
            os.replace(self._draft, self._path)
            os.fsync(folder)
        finally:
            os.close(folder)

    def discard(self) -> None:
        """Close it; if it was not published, remove it."""
        with suppress(OSError):  # a full disk was reported already, by what failed first
            self.file.close()
        with suppress(FileNotFoundError):
            os.unlink(self._draft)


def _nameless(folder: str) -> int | None:
    """Open a file without a name in a folder; None where that cannot be done."""
    nameless = getattr(os, "O_TMPFILE", None)
    if nameless is None or not os.path.isdir(_OPEN_FILES):
        return None
    try:
        return os.open(folder, os.O_WRONLY | nameless | os.O_CLOEXEC, 0o600)
    except OSError:  # not on this file system; a folder that is not there raises once more
        return None


def _remove_leftovers(folder: str) -> None:
    """Remove drafts of exports that were killed: no process holds their locks."""
    try:
        names = os.listdir(folder)
    except OSError:
        return
    for name in names:
        if name.startswith(_DRAFT) and name.endswith(_SUFFIX):
            with suppress(OSError):
                _remove_unlocked(os.path.join(folder, name))


def _remove_unlocked(path: str) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.unlink(path)
    finally:
        os.close(fd)
