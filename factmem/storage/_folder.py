"""JournalFolder: the journals of one folder, and their lock.

Damage that a reader finds counts only under the lock, because a writer may be active.
"""

import errno
import os
import threading
import weakref
from collections.abc import Callable, Generator, Iterable
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from itertools import islice
from logging import getLogger

from factmem.errors import (
    CorruptJournalError,
    DecryptionError,
    FactmemError,
    StorageError,
    StoreBusyError,
)
from factmem.storage import _anchor
from factmem.storage._end_marks import MOST_AT_ONCE
from factmem.storage._errors import PublicErrors
from factmem.storage._file_calls import Files
from factmem.storage._indexes import NO_FOLDER, IndexFiles
from factmem.storage._journal import Place
from factmem.storage._listing import Listing
from factmem.storage._lock import check_timeout
from factmem.storage._manifest import ManifestFile, Mode
from factmem.storage._plain_codec import Codec, compact
from factmem.storage._reader import FolderReader
from factmem.storage._summaries import SummaryFiles
from factmem.storage._writer import FolderWriter
from factmem.storage.base import (
    JournalName,
    JournalWriter,
    KeySlots,
    Position,
    Progress,
    Reading,
    Summary,
)

_logger = getLogger(__name__)

_CLOSING_PATIENCE = 1.0
"""Seconds to wait for the lock before end marks are written."""

_PATIENCE = 0.05
"""Seconds to wait for the lock before an index is written: longer than a save holds it. A recall waits
meanwhile, and the index can be written later."""


class JournalFolder:
    """The journals of one folder; see `factmem.storage.base.Journals` for the contract."""

    def __init__(
        self, files: Files, mode: Mode, *, busy_timeout: float, allow_network: bool = False
    ) -> None:
        check_timeout(busy_timeout)
        self.files = files
        self.keys: KeySlots | None = None
        self.errors = PublicErrors(files, mode)
        self.manifest = ManifestFile(files, mode, self._forget_places)
        self.reader = FolderReader(files, self.manifest, self.errors)
        self.is_current = self.reader.is_current
        """See `Journals.is_current`. Bound here: a warm load is one call less."""
        self._indexes = IndexFiles(files)
        self._summaries = SummaryFiles(files)
        self._listing = Listing(self.reader, partial(self.locked, patience=_PATIENCE))
        self._busy_timeout = busy_timeout
        self._is_place_checked = allow_network
        self._mutex = threading.Lock()
        self._known_writer: FolderWriter | None = None
        _folders.add(self)

    def forget_all(self) -> None:
        """Discard all cached state and locks, in a forked child and on closing."""
        self._mutex = threading.Lock()
        self._known_writer = None
        self.manifest.forget_all()
        self.reader.forget_all()
        self._listing.forget_all()

    def close(self) -> None:
        """See `Journals.close`."""
        try:
            self.rest()
        except (FactmemError, ValueError, OSError) as exc:
            # All acknowledged records are durable; only damage of the last line is harder to detect.
            _logger.debug("No end marks were written: %s", type(exc).__name__)
        self.forget_all()
        self.files.release()

    def codec(self) -> Codec | None:
        """Return the codec of the current manifest; None without a store."""
        return self.reader.codec()

    def check_made(self) -> None:
        """Raise `StorageError` if there is no store, without needing its key."""
        with self.errors.of(None):
            self.manifest.check_made()

    def _forget_places(self) -> None:
        self.reader.forget_places()

    # Reading

    def read(self, name: JournalName, after: Position | None = None) -> Reading:
        """See `Journals.read`."""
        try:
            reading = self.reader.read_now(name, after)
        except (CorruptJournalError, DecryptionError):
            # A writer may be active: only damage seen under the lock counts.
            if not self.files.exists("lock"):
                raise
            with self._exclusive_if_writable() as writer:
                if writer is None:
                    raise
                return writer.read(name, after)
        self._report_tail(reading.position)
        return reading

    def _report_tail(self, place: Position | None) -> None:
        """Log that a journal's file is torn, if the lock confirms it."""
        if not isinstance(place, Place) or not place.has_tail() or self.reader.is_reported(place):
            return
        try:
            with self.locked(patience=_PATIENCE):
                codec = self.codec()
                if codec is not None and self.reader.has_journal(place.file):
                    self.reader.end_of(codec, place.file)
        except CorruptJournalError:
            raise
        except (StorageError, FileNotFoundError) as exc:
            # A process that can read but not lock returns the whole batches. If no process can write,
            # the tail cannot be a write in progress.
            if _is_read_only(exc):
                self.reader.report_tail(place)

    def exists(self) -> bool:
        """See `Journals.exists`."""
        return self.codec() is not None

    def take_torn(self) -> int:
        """See `WatchedJournals.take_torn`."""
        return self.reader.take_torn()

    def erasures(self) -> int:
        """See `CountingJournals.erasures`."""
        with self.errors.of(None):
            return self.manifest.erasures()

    def names(self) -> list[JournalName]:
        """See `Journals.names`."""
        return sorted(self.page(None, None), key=compact)

    def page(self, after: JournalName | None, limit: int | None) -> list[JournalName]:
        """See `PagedJournals.page`."""
        try:
            return self._listing.names(after, limit)
        except (CorruptJournalError, DecryptionError):
            # As in `read`: a rotation may replace the key and the files during the listing.
            if not self.files.exists("lock"):
                raise
            with self._exclusive_if_writable() as writer:
                if writer is None:
                    raise
                return self._listing.names(after, limit, is_locked=True)

    def read_index(self, name: JournalName) -> bytes | memoryview | None:
        """See `IndexedJournals.read_index`."""
        with self.errors.of(None):
            codec = self.codec()
            return None if codec is None else self._indexes.read(codec, codec.file_name(name))

    def write_index(
        self, name: JournalName, index: bytes, is_wanted: Callable[[JournalWriter], bool]
    ) -> bool:
        """See `IndexedJournals.write_index`."""
        with self.locked(patience=_PATIENCE):
            writer = self.writer()
            return is_wanted(writer) and writer.write_index(name, index)

    @contextmanager
    def summary(self, name: JournalName) -> Generator[Summary | None]:
        """See `SummarizedJournals.summary`."""
        codec = self.codec()
        opened = None if codec is None else self._summaries.open(codec, codec.file_name(name))
        if opened is None:
            yield None
            return
        fd, summary = opened
        try:
            yield summary
        finally:
            self.files.close(fd)

    def write_summary(self, name: JournalName, position: Position, blocks: Iterable[bytes]) -> bool:
        """See `SummarizedJournals.write_summary`."""
        codec = self.codec()
        if codec is None or not isinstance(position, Place) or not position.is_whole():
            return False
        with self.errors.of(None):
            try:
                path = self._summaries.write(codec, position, blocks)
            except NO_FOLDER:
                self._indexes.report()
                return False
            try:
                with self.locked(patience=_PATIENCE):
                    return self._summaries.put(codec, position, path)
            except FileNotFoundError:  # erased or purged meanwhile
                return False
            except StorageError:
                self.files.remove(path)
                raise

    def anchor(self, progress: Progress | None = None) -> str:
        """See `Journals.anchor`."""
        if self.codec() is None:
            return _anchor.without_store()
        with self._exclusive_if_writable() as writer:
            if writer is None:
                check = partial(_anchor.check_settled, self.reader)
                return _anchor.taken(self.reader, check, None, progress)
            with self.errors.of(None):
                age = self.manifest.age
                return _anchor.taken(self.reader, writer.flush_file, age, progress)

    def verify(self, anchor: str | None = None, progress: Progress | None = None) -> list[str]:
        """See `Journals.verify`."""
        expected = None if anchor is None else _anchor.parsed(anchor)
        if anchor is not None and expected is None:
            return []
        if self.codec() is None:
            if expected is None:
                return []
            raise _anchor.of_another(self.reader)
        with self._exclusive_if_writable():
            found = _anchor.verify(self.reader, expected, progress)
            return [self.files.path(path) for path in found]

    def rest(self) -> None:
        """See `RestingJournals.rest`."""
        while self.reader.unended:
            with self.locked(patience=_CLOSING_PATIENCE):  # other processes save between two rounds
                files = list(islice(self.reader.unended, MOST_AT_ONCE))
                self.writer().mark_ends(files)
                for file in files:
                    self.reader.unended.pop(file, None)

    @contextmanager
    def _exclusive_if_writable(self) -> Generator[FolderWriter | None]:
        """Hold the lock; yield None if the file system is read-only, so that no process can write."""
        with ExitStack() as stack:
            writer = None
            try:
                writer = stack.enter_context(self.exclusive())
            except StorageError as exc:
                if not _is_read_only(exc):
                    raise
            yield writer

    # Locking

    def exclusive(self) -> "_Exclusive":
        """See `Journals.exclusive`."""
        return _Exclusive(self)

    def writer(self) -> FolderWriter:
        """Return the writer for the keys of the current manifest; under the lock."""
        codec, writer = self.codec(), self._known_writer
        if writer is None or writer.codec is not codec:
            writer = self._known_writer = FolderWriter(self.reader, self._indexes, codec)
        return writer

    def locked(self, *, patience: float | None = None) -> "_Locked":
        """Hold the store's lock, whether or not the store can be opened."""
        timeout = self._busy_timeout if patience is None else min(patience, self._busy_timeout)
        return _Locked(self, timeout)

    def acquire(self, timeout: float) -> tuple[threading.Lock, AbstractContextManager[None]]:
        """Acquire the mutex of the threads and the lock of the processes, and return both."""
        mutex = self._mutex  # forked children get another one
        if not mutex.acquire(timeout=timeout):
            raise StoreBusyError(
                f"Another thread held the store {self.files.path('')!r} for {timeout:g} s. "
                f"Nothing was written; try again, or allow more time with busy_timeout"
            )
        try:
            with self.errors.of(None):
                self._check_place()
                lock = self.files.lock(timeout)
                lock.__enter__()
        except BaseException:
            mutex.release()
            raise
        return mutex, lock

    def _check_place(self) -> None:
        if not self._is_place_checked:
            if (kind := self.files.network_file_system()) is not None:
                raise StorageError(
                    f"{self.files.path('')!r} is on a network file system ({kind}), where locks "
                    f"and appends are unreliable: use a local folder, or pass "
                    f"allow_network_folder=True and use one process only"
                )
            self._is_place_checked = True


class _Locked:
    """Holds a folder's mutex and lock. Not a generator, which would take a microsecond per save."""

    __slots__ = ("_folder", "_lock", "_mutex", "_timeout")

    def __init__(self, folder: JournalFolder, timeout: float) -> None:
        self._folder = folder
        self._timeout = timeout

    def __enter__(self) -> None:
        self._mutex, self._lock = self._folder.acquire(self._timeout)

    def __exit__(self, *exc_info: object) -> None:
        try:
            self._lock.__exit__(None, None, None)
        finally:
            self._mutex.release()


class _Exclusive:
    """Holds a folder's lock, and returns its writer on entry."""

    __slots__ = ("_folder", "_locked")

    def __init__(self, folder: JournalFolder) -> None:
        self._folder = folder
        self._locked = folder.locked()

    def __enter__(self) -> FolderWriter:
        self._locked.__enter__()
        try:
            return self._folder.writer()
        except BaseException:
            self._locked.__exit__()
            raise

    def __exit__(self, *exc_info: object) -> None:
        self._locked.__exit__()


def _is_read_only(error: Exception) -> bool:
    """Return whether an error means that the file system is read-only."""
    return isinstance(error.__cause__, OSError) and error.__cause__.errno == errno.EROFS


_folders: "weakref.WeakSet[JournalFolder]" = weakref.WeakSet()


def _forget_in_child() -> None:
    """Give forked children new mutexes: a thread of the parent may hold the inherited ones."""
    for folder in list(_folders):
        folder.forget_all()


os.register_at_fork(after_in_child=_forget_in_child)
