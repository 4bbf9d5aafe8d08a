"""The journals of one folder as one process sees them: opening, reading, locking.

Writing stands in `_writer.py`. What is remembered of a file counts only while the file's first
line is the same, and what a reader concludes about damage only under the lock.
"""

import os
import threading
import weakref
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager

from factmem.errors import (
    CorruptJournalError,
    DecryptionError,
    StorageError,
    StoreBusyError,
)
from factmem.storage import _anchor
from factmem.storage._files import Files
from factmem.storage._indexes import IndexFiles
from factmem.storage._journal import (
    CHUNK,
    LONGEST_HEADER,
    Damage,
    Place,
    advanced,
    at_start,
    name_of,
    read_header,
)
from factmem.storage._lock import check_timeout
from factmem.storage._manifest import (
    MANIFEST,
    ManifestFile,
    Mode,
)
from factmem.storage._plain_codec import Codec, compact
from factmem.storage._reader import journal_path
from factmem.storage._writer import FolderWriter
from factmem.storage.base import (
    JournalName,
    JournalWriter,
    KeySlots,
    Position,
    Reading,
    Record,
)

_PATIENCE = 0.05
"""Seconds that an index waits for the lock, longer than a save holds it. A recall waits with it, and
what can be made again can be written another time."""

_MOST_NAMES = 100_000
"""Of how many files it is remembered whose journal they are, which never changes; each was opened
once, and some 300 bytes are kept of it."""

_MOST_PLACES = 4096
"""How many journals' places are remembered; a forgotten one is read again from its start."""


class JournalFolder:
    """The journals of one folder; see `factmem.storage.base.Journals` for the contract."""

    def __init__(
        self, files: Files, mode: Mode, *, busy_timeout: float, allow_network: bool = False
    ) -> None:
        check_timeout(busy_timeout)
        self.files = files
        self.indexes = IndexFiles(files)
        self.mode = mode
        self.manifest = ManifestFile(files, mode, self._forget_places)
        self.keys: KeySlots | None = None
        self._busy_timeout = busy_timeout
        self._is_place_checked = allow_network
        self.forget_all()
        _folders.add(self)

    def forget_all(self) -> None:
        """Forget everything seen so far, and all locks: for a forked child, and for closing."""
        self._mutex = threading.Lock()
        self.manifest.forget_all()
        self._names: dict[str, JournalName] = {}
        self._places: dict[str, Place] = {}
        self._places_mutex = threading.Lock()
        self.synced: dict[str, bytes] = {}
        self.suspects: set[str] = set()

    def close(self) -> None:
        """See `Journals.close`."""
        self.forget_all()
        self.files.let_go()

    def codec(self) -> Codec | None:
        """Return the codec that the manifest asks for now; None where there is no store."""
        with self.errors_of(None):
            return self.manifest.codec()

    def check_made(self) -> None:
        """Raise `StorageError` where there is no store, without asking for its key."""
        with self.errors_of(None):
            self.manifest.check_made()

    def _forget_places(self) -> None:
        with self._places_mutex:
            self._places.clear()

    # Reading

    def read(self, name: JournalName, after: Position | None = None) -> Reading:
        """See `Journals.read`."""
        try:
            return self.read_now(name, after)
        except (CorruptJournalError, DecryptionError):
            # A writer may be at work: what is wrong counts only if it is so under the lock.
            if not self.files.exists("lock"):
                raise
            with self.exclusive() as writer:
                return writer.read(name, after)

    def read_now(self, name: JournalName, after: Position | None) -> Reading:
        """Read on from `after`, and say what is wrong as it seems now."""
        codec = self.codec()
        if codec is None:
            return Reading([], None, is_from_start=True, is_end=True)
        file = codec.file_name(name)
        with self.errors_of(file):
            try:
                fd = self.files.open(journal_path(file))
            except FileNotFoundError:
                return Reading([], None, is_from_start=True, is_end=True)
            try:
                return self._read(codec, file, fd, after)
            finally:
                self.files.close(fd)

    def _read(self, codec: Codec, file: str, fd: int, after: Position | None) -> Reading:
        known = after if isinstance(after, Place) and after.file == file else None
        start = self.place(codec, file, fd, known)
        place, records, is_end = self.chunk(codec, fd, start)
        if is_end:
            if damage := place.damage():
                raise damage
            with self._places_mutex:
                if len(self._places) < _MOST_PLACES:  # reading pushes no writer's place out
                    self._places.setdefault(file, place)
        return Reading(records, place, is_from_start=start is not known, is_end=is_end)

    def place(self, codec: Codec, file: str, fd: int, known: Place | None) -> Place:
        """Return `known` if the file still is the one it was read from, else the file's start."""
        if known is not None and self.files.read(fd, len(known.header), 0) == known.header:
            if self.files.size(fd) < known.offset:
                raise Damage(f"line {known.line}: the file was cut there", is_forged=True)
            return known
        return at_start(file, *read_header(self.files, codec, file, fd))

    def chunk(self, codec: Codec, fd: int, place: Place) -> tuple[Place, list[Record], bool]:
        """Read about a megabyte; say whether that is all there is."""
        count = CHUNK
        data = self.files.read(fd, count, place.offset)
        while len(data) == count and b"\n" not in data:
            count *= 4
            data = self.files.read(fd, count, place.offset)
        is_end = len(data) < count
        place, records = advanced(place, data, codec, is_end=is_end)
        return place, records, is_end

    def caught_up(self, codec: Codec, file: str, fd: int) -> Place:
        """Return the place at the end of the file; under the lock."""
        place, is_end = self.place(codec, file, fd, self._places.get(file)), False
        while not is_end:
            place, _, is_end = self.chunk(codec, fd, place)
        return place

    def end_of(self, codec: Codec, file: str) -> Place:
        """Return the place at the end of a journal's file; under the lock."""
        fd = self.files.open(journal_path(file))
        try:
            return self.caught_up(codec, file, fd)
        finally:
            self.files.close(fd)

    def journal(self, file: str) -> bytes:
        """Return the whole of a journal's file."""
        return self.files.content(journal_path(file)) or b""

    def records(self, codec: Codec, file: str, fd: int) -> Iterator[Record]:
        """Give all records of a file that can be read, damaged or not; under the lock."""
        place, is_end = self.place(codec, file, fd, None), False
        while not is_end:
            place, records, is_end = self.chunk(codec, fd, place)
            yield from records

    def remember(self, place: Place) -> None:
        """Start from this place when the file is next appended to; under the lock."""
        with self._places_mutex:
            self._places.pop(place.file, None)
            self._places[place.file] = place
            if len(self._places) > _MOST_PLACES:
                self._places.pop(next(iter(self._places)))

    def note_synced(self, file: str, header: bytes) -> None:
        """Note that the name of a file's incarnation is durable; to forget it costs one flush."""
        if len(self.synced) > _MOST_PLACES:
            self.synced.pop(next(iter(self.synced)))
        self.synced[file] = header

    def distrust(self, file: str) -> None:
        """Go on in a fresh file at the next append, as an error left this one in doubt."""
        with self._places_mutex:
            self._places.pop(file, None)
        self.synced.pop(file, None)
        self.suspects.add(file)

    def is_current(self, name: JournalName, position: Position | None) -> bool:
        """See `Journals.is_current`."""
        if isinstance(position, Place):
            path = journal_path(position.file)
            return self.files.is_unchanged(path, position.header, position.size)
        codec = self.manifest.known_codec
        try:
            if codec is None:
                return not self.files.exists(MANIFEST) and not self.files.exists("journals")
            return not self.files.exists(journal_path(codec.file_name(name)))
        except OSError:
            return False

    def read_index(self, name: JournalName) -> bytes | None:
        """See `IndexedJournals.read_index`."""
        with self.errors_of(None):
            codec = self.codec()
            return None if codec is None else self.indexes.read(codec, codec.file_name(name))

    def write_index(
        self, name: JournalName, index: bytes, is_wanted: Callable[[JournalWriter], bool]
    ) -> bool:
        """See `IndexedJournals.write_index`."""
        with self.locked(patience=_PATIENCE):
            writer = FolderWriter(self, self.codec())
            return is_wanted(writer) and writer.write_index(name, index)

    def exists(self) -> bool:
        """See `Journals.exists`."""
        return self.codec() is not None

    def names(self) -> list[JournalName]:
        """See `Journals.names`."""
        codec = self.codec()
        if codec is None:
            return []
        known, found = self._names, dict[str, JournalName]()
        for file in self.journal_files(codec):
            name = known.get(file) or self.name_in(codec, file)
            if name is not None:
                found[file] = name
        self._names = found if len(found) <= _MOST_NAMES else {}
        return sorted(found.values(), key=compact)

    def journal_files(self, codec: Codec) -> list[str]:
        """Return the files of all journals, without leftovers and copies."""
        with self.errors_of(None):
            return [file for file in self.files.names() if file.endswith(codec.suffix)]

    def has_journal(self, file: str) -> bool:
        """Whether there is a journal's file of that name."""
        return self.files.exists(journal_path(file))

    def first_line(self, file: str) -> bytes:
        """Return a journal's first line, verified or not."""
        with self.errors_of(file):
            fd = self.files.open(journal_path(file))
            try:
                return self.files.read(fd, LONGEST_HEADER, 0).partition(b"\n")[0]
            finally:
                self.files.close(fd)

    def name_in(self, codec: Codec, file: str) -> JournalName | None:
        """Return the name of a file's journal; None if it is gone."""
        with self.errors_of(file):
            try:
                fd = self.files.open(journal_path(file))
            except FileNotFoundError:  # erased since it was listed
                return None
            try:
                line, header = read_header(self.files, codec, file, fd)
                if not codec.hides_names:
                    return codec.name_in(line)
                first, _, _ = self.files.read(fd, CHUNK, len(line)).partition(b"\n")
                name = name_of(header.sealer.unseal(first)[-1])
            except ValueError:
                raise Damage("line 2: the record of its name cannot be read") from None
            finally:
                self.files.close(fd)
            if codec.file_name(name) != file:
                raise Damage("line 2: it is the file of another place", is_forged=True)
            return name

    def anchor(self) -> str:
        """See `Journals.anchor`."""
        if self.codec() is None:
            return _anchor.taken(self)
        with self.exclusive():
            return _anchor.taken(self)

    def verify(self, anchor: str) -> None:
        """See `Journals.verify`."""
        expected = _anchor.parsed(anchor)
        if expected is None:
            return
        if self.codec() is None:
            raise _anchor.of_another(self)
        with self.exclusive():
            _anchor.verify(self, expected)

    # Locking

    @contextmanager
    def exclusive(self) -> Generator[FolderWriter]:
        """See `Journals.exclusive`."""
        with self.locked():
            yield FolderWriter(self, self.codec())

    @contextmanager
    def locked(self, *, patience: float | None = None) -> Generator[None]:
        """Hold the store's lock, whether or not the store can be opened."""
        mutex = self._mutex
        timeout = self._busy_timeout if patience is None else min(patience, self._busy_timeout)
        if not mutex.acquire(timeout=timeout):
            raise StoreBusyError(
                f"Another thread held the store {self.files.path('')!r} for {timeout:g} s. "
                f"Nothing was written; try again, or allow more time with busy_timeout"
            )
        try:
            with self.errors_of(None):
                self._check_place()
                self.files.make_folders()
                lock = self.files.lock(timeout)
                lock.__enter__()
            try:
                yield
            finally:
                lock.__exit__(None, None, None)
        finally:
            mutex.release()

    def _check_place(self) -> None:
        if not self._is_place_checked:
            if (kind := self.files.network_file_system()) is not None:
                raise StorageError(
                    f"{self.files.path('')!r} is on a network file system ({kind}), where locks "
                    f"and appends are not to be trusted: use a local folder, or pass "
                    f"allow_network_folder=True and keep to one process"
                )
            self._is_place_checked = True

    # Errors

    def errors_of(self, file: str | None) -> "_ErrorsOf":
        """Raise what goes wrong with a journal's file, or with the store, in the public terms."""
        return _ErrorsOf(self, file)


class _ErrorsOf:
    """Raises errors in the public terms. No generator: a save enters three, a microsecond each."""

    __slots__ = ("_file", "_folder")

    def __init__(self, folder: JournalFolder, file: str | None) -> None:
        self._folder = folder
        self._file = file

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if not isinstance(error, Damage | OSError):
            return
        folder, file = self._folder, self._file
        path = folder.files.path("" if file is None else journal_path(file))
        if isinstance(error, Damage):
            raise folder.mode.told(error, path) from None
        what = os.strerror(error.errno) if error.errno else type(error).__name__
        raise StorageError(
            f"The operating system refused at {error.filename or path!r}: {what}. Mend that and "
            f"call again: whatever was to be saved is not acknowledged, what was saved before "
            f"is still there"
        ) from error


_folders: "weakref.WeakSet[JournalFolder]" = weakref.WeakSet()


def _forget_in_child() -> None:
    """Give forked children new mutexes, since an inherited one may be held by no thread of theirs."""
    for folder in list(_folders):
        folder.forget_all()


os.register_at_fork(after_in_child=_forget_in_child)
