"""The protocol of all file calls of a local store. The crash tests implement it in memory."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol


class OpenEnd(NamedTuple):
    """A file open for appending, with its state when it was opened."""

    fd: int
    size: int
    is_vouched: bool
    """See `Files.is_vouched`."""
    mark: object
    """What `Files.vouch` returned, if nothing was written since."""


class Files(Protocol):
    """A folder, and the files in it by their names.

    Methods that open, change or list files raise `CorruptJournalError` if the folder, `journals` or
    `indexes`, is a symbolic link.
    """

    sector: int
    """The least number of bytes that a power cut keeps or loses together."""

    def path(self, name: str) -> str:
        """Return the full path of a name, for messages."""
        ...

    def network_file_system(self) -> str | None:
        """Return the kind of network file system that the folder is on; None for a local one."""
        ...

    def lock(self, timeout: float) -> AbstractContextManager[None]:
        """Hold the store's lock. Missing folders of the store are created."""
        ...

    def check_lock(self) -> None:
        """Raise `StorageError` unless the lock file that is held still has its name."""
        ...

    def check_named(self, fd: int) -> None:
        """Raise `StorageError` unless an open file still has a name."""
        ...

    def names_version(self, folder: str) -> object:
        """Return a value that changes when a file in a folder gets or loses a name.

        None if it changed a moment ago: the next change may not be visible then.
        """
        ...

    def vouch(self, fd: int, size: int) -> object:
        """Mark a file as acknowledged up to `size`, its end; any later write removes the mark.

        All processes see the mark at once. It need not survive a power cut.

        Returns:
            The mark, by which the file is known until another write; None if it has none.
        """
        ...

    def is_vouched(self, fd: int) -> bool:
        """Return whether all of a file was acknowledged, and nothing was written since."""
        ...

    def open(self, name: str, *, write: bool = False) -> int:
        """Open a file that exists, for reading, or also for appending.

        Raises:
            CorruptJournalError: It is not a regular file.
        """
        ...

    def open_end(self, name: str) -> "OpenEnd":
        """Open a file that exists for appending. Raises as `open` does."""
        ...

    def open_ends(self, folder: str, names: Sequence[str]) -> "list[OpenEnd | None]":
        """Open files of one folder for appending; None for each that `open_end` would refuse."""
        ...

    def create(self, name: str) -> int:
        """Create a file for appending; an existing file of that name is removed first.

        The folder is created if it is missing.
        """
        ...

    def close(self, fd: int) -> None:
        """Close a file."""
        ...

    def close_all(self, fds: Sequence[int]) -> None:
        """Close files."""
        ...

    def size(self, fd: int) -> int:
        """Return how many bytes a file has."""
        ...

    def read(self, fd: int, count: int, offset: int) -> bytes:
        """Return up to `count` bytes from `offset` on."""
        ...

    def append(self, fd: int, data: bytes) -> None:
        """Write all of `data` at the end."""
        ...

    def destroy(self, name: str, count: int) -> bool:
        """Write zeros over the first `count` bytes of a file, durably.

        Returns:
            Whether they were written. A file with a second hard link is left unchanged: the other
            name may belong to another program or a backup.
        """
        ...

    def sync(self, fd: int) -> None:
        """Make a file's content survive a power cut."""
        ...

    def sync_all(self, fds: Sequence[int]) -> list[Exception | None]:
        """Sync files at the same time, and return the error of each."""
        ...

    def sync_folder(self, name: str) -> None:
        """Make the names in a folder survive a power cut; "" is the store's own folder."""
        ...

    def sync_parents(self) -> None:
        """Make the store's folder itself survive a power cut, and the folders that it is in."""
        ...

    def rename(self, old: str, new: str) -> None:
        """Rename a file atomically, replacing the file that had the new name."""
        ...

    def remove(self, name: str) -> None:
        """Remove a file if it exists."""
        ...

    def names(self, folder: str = "journals") -> list[str]:
        """Return the names in a folder of the store; empty if it does not exist."""
        ...

    def each_name(self, folder: str) -> Iterator[str]:
        """Yield the names in a folder of the store, unordered, without collecting them in memory."""
        ...

    def content(self, name: str) -> bytes | None:
        """Return the content of a small file; None if it is missing. Raises as `open` does."""
        ...

    def mapped(self, name: str) -> memoryview | None:
        """Return a large file that is never changed, mapped into memory for reading.

        It stays readable after `release`, and after the file was replaced or removed. None if the
        file is missing or small, and on network file systems: another machine might truncate it, and
        reading beyond the end of a mapped file kills the process. Raises as `open` does.
        """
        ...

    def has_content(self, name: str, content: bytes) -> bool:
        """Return whether a small file has exactly this content. Raises as `open` does."""
        ...

    def release(self) -> None:
        """Close the files that stay open between calls; the next use opens them again."""
        ...

    def exists(self, name: str) -> bool:
        """Return whether the path exists; fast enough for an event loop."""
        ...

    def is_unchanged(self, name: str, header: bytes, size: int) -> bool:
        """Return whether a file still begins with `header` and has `size` bytes.

        Fast enough for an event loop: about two microseconds. It compares the first line and not the
        inode number, which the file system may give to the next file.
        """
        ...
