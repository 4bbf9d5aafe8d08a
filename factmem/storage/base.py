"""The protocols of a storage: named journals of opaque records, in a folder.

A `Storage` opened on a folder gives the folder's `Journals`. A record is the text of one JSON object
on one line, opaque otherwise; a journal is an append-only log of them. A name is a tuple of
arbitrary strings, never used as a path.

All methods block and are called from worker threads, many at once; only `Journals.is_current` is
called from an event loop, and must take microseconds.
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
"""Called during a long operation with the journals done and in all; an exception ends it."""


class Record(NamedTuple):
    """One record: its number, which never changes and is never used again, and its text."""

    number: int
    data: bytes


class Position(Protocol):
    """How far a journal was read: given out by a storage, handed back to it, compared by `is`."""

    @property
    def last(self) -> int:
        """The number of the last record before this position; 0 before the first."""
        ...

    @property
    def size(self) -> int:
        """How many bytes of storage the journal takes up to here."""
        ...


class Reading(NamedTuple):
    """A chunk of records: about a megabyte at most, so that no journal is in memory whole."""

    records: list[Record]
    position: Position | None
    """Where to continue; None if the journal does not exist."""
    is_from_start: bool
    """Whether the records start at the beginning in spite of the position: the journal was
    rewritten since, and records read before are void."""
    is_end: bool
    """Whether the end was reached."""


class Appended(NamedTuple):
    """Where the records of an append begin and end; `before` is None for the journal's first."""

    before: Position | None
    after: Position


@dataclass(frozen=True, slots=True)
class ErasedJournal:
    """What an erasure removed."""

    bytes: int
    key_destroyed: bool


@dataclass(frozen=True, slots=True)
class SalvagedJournal:
    """What a salvage kept and lost."""

    kept: int
    """How many records could be read and are in the journal."""
    missing: int
    """How many records were acknowledged and are lost, as far as is known."""
    copy: str
    """The path of the copy of the damaged file."""


class JournalWriter(Protocol):
    """The journals of one folder while their lock is held."""

    def read(self, name: JournalName, after: Position | None) -> Reading:
        """See `Journals.read`."""
        ...

    def append(self, name: JournalName, records: Sequence[bytes]) -> Appended:
        """Append records, at least one; when it returns they survive a power cut.

        Raises:
            ValueError: A record is not the text of a JSON object on one line.
            StorageError: Nothing is acknowledged; each record is stored whole or not at all.
            CorruptJournalError: The journal is damaged; nothing was written.
        """
        ...

    def flush(self, name: JournalName) -> None:
        """Make a journal's content, or its removal, durable.

        For calls without anything to write: the records they read may come from a process that
        died or failed before it synced. Raises as `append` does.
        """
        ...

    def rewrite(self, name: JournalName, records: Iterable[Record]) -> Position:
        """Replace the journal's records by these, atomically, keeping their numbers.

        Numbers must ascend and be among those of the journal. Raises as `append` does.
        """
        ...

    def erase(self, name: JournalName) -> ErasedJournal:
        """Remove a journal physically, if it exists.

        A storage that counts erasures creates its folder for the count.
        """
        ...

    def drop_copies(self, name: JournalName) -> None:
        """Remove the copies left by `salvage` and by a rewrite that was killed."""
        ...

    def salvage(self, name: JournalName) -> SalvagedJournal:
        """Keep a copy of a damaged journal's file and go on with the records that can be read."""
        ...


@runtime_checkable
class BatchWriter(JournalWriter, Protocol):
    """A writer that makes appends to many journals durable at once; a storage may offer it."""

    def append_all(
        self, appends: Sequence[tuple[JournalName, Sequence[bytes]]]
    ) -> list[Appended | Exception]:
        """Append to journals as `append` does, to each at most once.

        Returns:
            For each append, in their order, what `append` returns, or the error that it raises. An
            error of one journal keeps nothing from the others.
        """
        ...


class KeySlots(Protocol):
    """The keys that open an encrypted store. All methods block; changes are durable."""

    def ids(self) -> list[str]:
        """Return the ids of the key slots; an id reveals nothing about its key."""
        ...

    def add(self, encryption: Encryption) -> None:
        """Let another key open the store."""
        ...

    def remove(self, encryption: Encryption) -> None:
        """Close the store to a key.

        Whoever had that key and a copy of `factmem.json` still can read the files as they are:
        rotate to shut them out.

        Raises:
            WrongKeyError: It does not open the store.
            ValueError: It is the only one.
        """
        ...

    def rotate(
        self, encryption: Encryption, *, rewrite: bool = True, progress: Progress | None = None
    ) -> None:
        """Give the store a new key, and with `rewrite` new data keys for every journal.

        All other keys are closed out at once; with `rewrite=False` only the one in use is. Keep
        the new key before you call, and the old one until it returns. After a crash, or on an
        error, call it again.
        """
        ...


class Journals(Protocol):
    """The named journals of one folder. Nothing is created before the first append or erasure."""

    @property
    def keys(self) -> KeySlots | None:
        """The keys of an encrypted folder; None where nothing is encrypted."""
        ...

    def anchor(self, progress: Progress | None = None) -> str:
        """Return how far every journal has come, to be kept elsewhere."""
        ...

    def verify(self, anchor: str | None = None, progress: Progress | None = None) -> list[str]:
        """Raise unless every journal is whole and has come at least as far as an anchor says.

        Reads all of every journal. Without an anchor, an older copy is not detected.

        Returns:
            The paths of journals that end in a write that was never acknowledged, and of end marks
            that cannot be read.

        Raises:
            TamperedError: A journal, or the folder, was put back to an older copy.
            CorruptJournalError: A journal is damaged; or the same, where nothing is encrypted.
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
        """Whether a reading that ended at `position` still is all there is.

        Fast enough for an event loop. False when in doubt; it raises nothing.
        """
        ...

    def exists(self) -> bool:
        """Whether there is a store in the folder; raise what keeps it from being opened."""
        ...

    def names(self) -> list[JournalName]:
        """Return the names of all journals, sorted."""
        ...

    def exclusive(self) -> AbstractContextManager[JournalWriter]:
        """Hold the folder's lock, against threads and processes, and write.

        Raises:
            StoreBusyError: Another thread or process held it past the storage's deadline.
        """
        ...

    def close(self) -> None:
        """Let go of everything that is held; called once, when nothing else is under way."""
        ...


@runtime_checkable
class WatchedJournals(Journals, Protocol):
    """Journals that report unfinished writes; a storage may offer it."""

    def take_torn(self) -> int:
        """Return how many unfinished writes were found since this was last called."""
        ...


@runtime_checkable
class CountingJournals(Journals, Protocol):
    """Journals that count erasures, in all processes; a storage may offer it."""

    def erasures(self) -> int:
        """Return how often `erase` and `drop_copies` were called; raised before they remove."""
        ...


@runtime_checkable
class IndexedJournals(Journals, Protocol):
    """Journals that keep an index beside each of them; what a storage may offer besides.

    An index is opaque, made of the journal's records, and can be lost at any time. It is sealed as
    the journal is. `erase` and `drop_copies` remove it physically and durably.
    """

    def read_index(self, name: JournalName) -> bytes | memoryview | None:
        """Return the index of a journal; None without a whole one.

        A `memoryview` is of a file mapped into memory; it stays readable.

        Raises:
            DecryptionError: The key is missing or wrong.
            StorageError: The operating system refused.
        """
        ...

    def write_index(
        self, name: JournalName, index: bytes, is_wanted: Callable[[JournalWriter], bool]
    ) -> bool:
        """Put an index in the place of the one before, if `is_wanted` under the lock.

        Whoever reads meanwhile gets one or the other whole. It is not made durable.

        Raises:
            StoreBusyError: Another thread or process held the lock for a twentieth of a second.
            ValueError: The journal does not exist.
        """
        ...


class Summary(Protocol):
    """A journal's summary up to a position: blocks, which are opaque and not empty."""

    @property
    def position(self) -> Position:
        """The position up to which it covers the journal; continue reading there."""
        ...

    @property
    def size(self) -> int:
        """How many bytes its blocks take."""
        ...

    def block(self, number: int) -> bytes:
        """Return a block by its number, from 0; `ValueError` if it does not verify."""
        ...


@runtime_checkable
class SummarizedJournals(Journals, Protocol):
    """Journals that keep a summary beside each of them; what a storage may offer besides.

    A summary can be lost at any time, as an index can. One that does not fit its journal is as good
    as none. `erase`, `rewrite` and `drop_copies` remove it physically and durably.
    """

    def summary(self, name: JournalName) -> AbstractContextManager[Summary | None]:
        """Return a context that gives the summary of a journal, or None if it has none."""
        ...

    def write_summary(self, name: JournalName, position: Position, blocks: Iterable[bytes]) -> bool:
        """Put a summary in the place of the one before, unless the journal was replaced meanwhile.

        Blocks are taken one by one, and the lock is held only at the end. What they raise is raised.
        It is not made durable.

        Raises:
            StorageError: The operating system refused.
        """
        ...


@runtime_checkable
class PagedJournals(Journals, Protocol):
    """Journals that are listed some at a time; a storage may offer it."""

    def page(self, after: JournalName | None, limit: int | None) -> list[JournalName]:
        """Return the names of up to `limit` journals, in an order that is the storage's own.

        Args:
            after: The last name of the page before; None for the first page. Its journal need not
                exist any more.
            limit: The most names to return; None for all.
        """
        ...


@runtime_checkable
class RestingJournals(Journals, Protocol):
    """Journals that write end marks when there is nothing else to do; a storage may offer it."""

    def rest(self) -> None:
        """Note how far the journals that were written to have come, so that lost ends are reported.

        Raises:
            StoreBusyError: Another process or thread holds the lock.
            StorageError: The operating system refused.
        """
        ...


class Storage(Protocol):
    """How journals are kept. Stateless: one object may serve many folders."""

    def open(self, folder: Path) -> Journals:
        """Return the journals of a folder, without touching the disk."""
        ...
