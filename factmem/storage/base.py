"""The protocols of a storage: named journals of opaque records, in a folder.

`Storage.open` returns the `Journals` of a folder. A record is one JSON object on one line, otherwise
opaque. A journal is an append-only log of records. A name is a tuple of arbitrary strings and never
used as a path.

All methods block and are called from worker threads, many at once, but `Journals.is_current` is called
from event loops and must take microseconds.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol, TypeAlias, runtime_checkable

from factmem.storage.encryption.aes256gcm import Encryption

__all__ = [
    "Appended",
    "BatchWriter",
    "CountingJournals",
    "ErasedJournal",
    "IndexedJournals",
    "JournalName",
    "JournalWriter",
    "Journals",
    "KeySlots",
    "PagedJournals",
    "Position",
    "Progress",
    "Reading",
    "Record",
    "RestingJournals",
    "SalvagedJournal",
    "Storage",
    "SummarizedJournals",
    "Summary",
]


JournalName: TypeAlias = tuple[str | None, ...]
"""The name of a journal. `("a",)` and `("a", None)` are different names."""

Progress: TypeAlias = Callable[[int, int], None]
"""Called during an operation with the journals done and in total. An exception ends the operation."""


class Record(NamedTuple):
    """One record: its number, which never changes and is never reused, and its line."""

    number: int
    data: bytes


class Position(Protocol):
    """A position in a journal, returned by a storage, passed back to it, and compared by `is`."""

    @property
    def last(self) -> int:
        """The number of the last record before this position; 0 before the first."""
        ...

    @property
    def size(self) -> int:
        """The bytes of storage up to this position."""
        ...


class Reading(NamedTuple):
    """A chunk of records of about a megabyte, so that a journal is never in memory completely."""

    records: list[Record]
    position: Position | None
    """Where to continue; None if the journal does not exist."""
    is_from_start: bool
    """Whether the records start at the beginning although a position was passed, because the journal was
    rewritten: discard the records read before."""
    is_end: bool
    """Whether this is the last chunk."""


class Appended(NamedTuple):
    """The positions before and after an append; `before` is None for a new journal."""

    before: Position | None
    after: Position


@dataclass(frozen=True, slots=True)
class ErasedJournal:
    """The result of an erasure."""

    bytes: int
    key_destroyed: bool


@dataclass(frozen=True, slots=True)
class SalvagedJournal:
    """The result of a salvage."""

    kept: int
    """The number of records that could be read and are kept."""
    missing: int
    """The number of acknowledged records that are known to be lost."""
    copy: str
    """The path of the copy of the damaged file."""


class JournalWriter(Protocol):
    """The journals of one folder while their lock is held."""

    def read(self, name: JournalName, after: Position | None) -> Reading:
        """See `Journals.read`."""
        ...

    def append(self, name: JournalName, records: Sequence[bytes]) -> Appended:
        """Append one or more records, which survive a power cut when this returns.

        Raises:
            ValueError: A record is not a JSON object on one line.
            StorageError: Nothing is acknowledged; each record is stored whole or not at all.
            CorruptJournalError: The journal is damaged; nothing was written.
        """
        ...

    def flush(self, name: JournalName) -> None:
        """Make a journal's content, or its removal, durable.

        For calls that write nothing: a process may have died before it synced the records they read.
        Raises as `append` does.
        """
        ...

    def rewrite(self, name: JournalName, records: Iterable[Record]) -> Position:
        """Replace the journal's records by these, atomically, keeping their numbers.

        Numbers must increase and exist in the journal. Raises as `append` does.
        """
        ...

    def erase(self, name: JournalName) -> ErasedJournal:
        """Remove a journal physically, if it exists.

        A storage that counts erasures creates its folder to store the count.
        """
        ...

    def drop_copies(self, name: JournalName) -> None:
        """Remove the copies left by `salvage` and by a rewrite that was killed."""
        ...

    def salvage(self, name: JournalName) -> SalvagedJournal:
        """Copy a damaged journal's file, and continue with the records that can be read."""
        ...


@runtime_checkable
class BatchWriter(JournalWriter, Protocol):
    """A writer that makes appends to many journals durable at once; a storage may offer it."""

    def append_all(
        self, appends: Sequence[tuple[JournalName, Sequence[bytes]]]
    ) -> list[Appended | Exception]:
        """Append to journals as `append` does, to each at most once.

        Returns:
            For each append the result of `append` or its error, which affects no other journal.
        """
        ...


class KeySlots(Protocol):
    """The keys that open an encrypted store. All methods block; changes are durable."""

    def ids(self) -> list[str]:
        """Return the ids of the key slots; an id reveals nothing about its key."""
        ...

    def add(self, encryption: Encryption) -> None:
        """Add a key that opens the store."""
        ...

    def remove(self, encryption: Encryption) -> None:
        """Remove a key, so that it no longer opens the store.

        With that key and a copy of `factmem.json` the existing files can still be read; `rotate`
        prevents that.

        Raises:
            WrongKeyError: The key does not open the store.
            ValueError: It is the only key.
        """
        ...

    def rotate(
        self, encryption: Encryption, *, rewrite: bool = True, progress: Progress | None = None
    ) -> None:
        """Give the store a new key, and with `rewrite` new data keys for every journal.

        All other keys stop working at once, with `rewrite=False` only the one in use. Store the new key
        before the call, and keep the old one until it returns. After a crash or an error call it again.
        """
        ...


class Journals(Protocol):
    """The named journals of one folder. Nothing is created before the first append or erasure."""

    @property
    def keys(self) -> KeySlots | None:
        """The keys of an encrypted folder; None if it is not encrypted."""
        ...

    def anchor(self, progress: Progress | None = None) -> str:
        """Return an anchor, the ends of all journals as a string, to be stored elsewhere."""
        ...

    def verify(self, anchor: str | None = None, progress: Progress | None = None) -> list[str]:
        """Raise unless every journal is whole and reaches at least the end that an anchor names.

        Reads all of every journal. Without an anchor, an older copy is not detected.

        Returns:
            The paths of journals that end in a write that was never acknowledged, and of end marks
            that cannot be read.

        Raises:
            TamperedError: A journal, or the folder, was put back to an older copy.
            CorruptJournalError: A journal is damaged, or the same in a folder that is not encrypted.
            ValueError: The text is no anchor.
        """
        ...

    def read(self, name: JournalName, after: Position | None = None) -> Reading:
        """Return the records after a position, without taking a lock.

        Raises:
            CorruptJournalError: An acknowledged record cannot be read.
            DecryptionError: The key is missing or wrong, or a file does not verify.
            StorageError: The operating system refused.
        """
        ...

    def is_current(self, name: JournalName, position: Position | None) -> bool:
        """Return whether nothing was written since a reading that ended at `position`.

        Fast enough for an event loop. False when in doubt. Never raises.
        """
        ...

    def exists(self) -> bool:
        """Return whether the folder has a store; raise if the store cannot be opened."""
        ...

    def names(self) -> list[JournalName]:
        """Return the names of all journals, sorted."""
        ...

    def exclusive(self) -> AbstractContextManager[JournalWriter]:
        """Hold the folder's lock, against threads and processes, and write.

        Raises:
            StoreBusyError: Another thread or process held it beyond the storage's deadline.
        """
        ...

    def close(self) -> None:
        """Release all resources; called once, when no other call is running."""
        ...


@runtime_checkable
class WatchedJournals(Journals, Protocol):
    """Journals that report unfinished writes; a storage may offer it."""

    def take_torn(self) -> int:
        """Return the number of unfinished writes found since the last call."""
        ...


@runtime_checkable
class CountingJournals(Journals, Protocol):
    """Journals that count erasures, in all processes; a storage may offer it."""

    def erasures(self) -> int:
        """Return the number of calls of `erase` and `drop_copies`, counted before they remove."""
        ...


@runtime_checkable
class IndexedJournals(Journals, Protocol):
    """Journals with an index beside each; a storage may offer it.

    An index is opaque and derived from the journal's records. It can be lost at any time, and is
    encrypted like the journal. `erase` and `drop_copies` remove it physically and durably.
    """

    def read_index(self, name: JournalName) -> bytes | memoryview | None:
        """Return the index of a journal; None if it is missing or damaged.

        A `memoryview` is a mapped file, and stays readable.

        Raises:
            DecryptionError: The key is missing or wrong.
            StorageError: The operating system refused.
        """
        ...

    def write_index(
        self, name: JournalName, index: bytes, is_wanted: Callable[[JournalWriter], bool]
    ) -> bool:
        """Replace the index of a journal if `is_wanted` returns true under the lock.

        Concurrent readers get the old index or the new one, complete. It is not synced.

        Raises:
            StoreBusyError: Another thread or process held the lock for a twentieth of a second.
            ValueError: The journal does not exist.
        """
        ...


class Summary(Protocol):
    """A journal's summary up to a position, in opaque blocks that are not empty."""

    @property
    def position(self) -> Position:
        """The position up to which it covers the journal; reading continues there."""
        ...

    @property
    def size(self) -> int:
        """The size of its blocks in bytes."""
        ...

    def block(self, number: int) -> bytes:
        """Return a block by its number, from 0; raise `ValueError` if it does not verify."""
        ...


@runtime_checkable
class SummarizedJournals(Journals, Protocol):
    """Journals with a summary beside each; a storage may offer it.

    A summary can be lost at any time, like an index. One that does not fit its journal is ignored.
    `erase`, `rewrite` and `drop_copies` remove it physically and durably.
    """

    def summary(self, name: JournalName) -> AbstractContextManager[Summary | None]:
        """Return a context manager for the summary of a journal, or None if it has none."""
        ...

    def write_summary(self, name: JournalName, position: Position, blocks: Iterable[bytes]) -> bool:
        """Replace the summary of a journal, unless the journal was replaced meanwhile.

        Blocks are consumed one by one; their errors pass. The lock is held only at the end. The summary
        is not synced.

        Raises:
            StorageError: The operating system refused.
        """
        ...


@runtime_checkable
class PagedJournals(Journals, Protocol):
    """Journals that are listed some at a time; a storage may offer it."""

    def page(self, after: JournalName | None, limit: int | None) -> list[JournalName]:
        """Return the names of up to `limit` journals, in an order of the storage.

        Args:
            after: The last name of the previous page; None for the first page. Its journal may have
                been erased.
            limit: The most names to return; None for all.
        """
        ...


@runtime_checkable
class RestingJournals(Journals, Protocol):
    """Journals that write end marks when the store is idle; a storage may offer it."""

    def rest(self) -> None:
        """Write end marks for the journals that were written to, so that lost ends are detected.

        Raises:
            StoreBusyError: Another process or thread holds the lock.
            StorageError: The operating system refused.
        """
        ...


class Storage(Protocol):
    """A way to store journals. Stateless: one object may serve many folders."""

    def open(self, folder: Path) -> Journals:
        """Return the journals of a folder, without touching the disk."""
        ...
