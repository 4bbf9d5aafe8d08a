"""FolderReader: reads the journals of one folder, and caches its place in each.

A cached place is valid only while the file's first line is unchanged.
"""

import threading
from collections.abc import Iterator
from logging import getLogger

from factmem.storage._end_marks import EndMarks
from factmem.storage._errors import PublicErrors
from factmem.storage._file_calls import Files
from factmem.storage._journal import (
    CHUNK,
    LONGEST_HEADER,
    Damage,
    Place,
    at_start,
    journal_path,
    name_of,
    read_header,
)
from factmem.storage._lines_1 import Reader1
from factmem.storage._lines_2 import Reader2
from factmem.storage._manifest import MANIFEST, ManifestFile
from factmem.storage._plain_codec import Codec
from factmem.storage.base import JournalName, Position, Reading, Record

_logger = getLogger(__name__)

_MOST_PLACES = 4096
"""The most cached places; an evicted journal is read again from its start."""


class FolderReader:
    """Reads the journals of one folder, with or without the lock."""

    def __init__(self, files: Files, manifest: ManifestFile, errors: PublicErrors) -> None:
        self.files = files
        self.manifest = manifest
        self.errors = errors
        self.marks = EndMarks(files)
        self.forget_all()

    def forget_all(self) -> None:
        """Discard all cached state, in a forked child and on closing."""
        self._places: dict[str, Place] = {}
        self._places_mutex = threading.Lock()
        self.synced: dict[str, bytes] = {}
        self.unended: dict[str, None] = {}
        self._tails: dict[str, tuple[bytes, int, int]] = {}
        self._torn = 0
        self._names: object = None
        self._first_lines: dict[str, bytes] = {}
        """The first lines of files at this version of the names."""
        self._marks: dict[str, object] = {}
        """The marks that this process set on the files of cached places."""

    def forget_places(self) -> None:
        """Discard all cached places, because the keys of the store may have changed."""
        with self._places_mutex:
            self._places.clear()

    def codec(self) -> Codec | None:
        """Return the codec of the current manifest; None without a store."""
        with self.errors.of(None):
            return self.manifest.codec()

    def read_now(self, name: JournalName, after: Position | None) -> Reading:
        """Read on from `after`, and raise the damage found."""
        codec = self.codec()
        if codec is None:
            return Reading([], None, is_from_start=True, is_end=True)
        file = codec.file_name(name)
        with self.errors.of(file):
            try:
                fd = self.files.open(journal_path(file))
            except FileNotFoundError:
                self.marks.check_gone(codec, file)
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
            self.check_tail(fd, place)
            place = self.judged(codec, fd, place)
            if damage := place.damage():
                raise damage
            place = self._end_of_reading(file, place)
        return Reading(records, place, is_from_start=start is not known, is_end=is_end)

    def place(
        self, codec: Codec, file: str, fd: int, known: Place | None, size: int | None = None
    ) -> Place:
        """Return `known` if the file is still the same, else the start of the file."""
        if known is not None and self.files.read(fd, len(known.header), 0) == known.header:
            if (self.files.size(fd) if size is None else size) < known.offset:
                raise Damage(f"line {known.line}: the file was cut there", is_forged=True)
            return known
        return at_start(file, *read_header(self.files, codec, file, fd))

    def chunk(self, codec: Codec, fd: int, place: Place) -> tuple[Place, list[Record], bool]:
        """Read about a megabyte, or one batch if it is longer; return whether that reaches the end."""
        count = CHUNK
        while True:
            data = self.files.read(fd, count, place.offset)
            is_end = len(data) < count
            if is_end or b"\n" in data:
                after, records = self._advanced(codec, place, data, is_end=is_end)
                if is_end or after.offset > place.offset:
                    return after, records, is_end
            count *= 4

    def _advanced(
        self, codec: Codec, place: Place, data: bytes, *, is_end: bool
    ) -> tuple[Place, list[Record]]:
        if not data and not place.has_tail():
            return place, []
        if place.version == 1:
            return Reader1.advanced(place, data, codec, is_end=is_end)
        sector = self.files.sector
        return Reader2.advanced(place, data, codec, is_end=is_end, sector=sector)

    def caught_up(
        self,
        codec: Codec,
        file: str,
        fd: int,
        *,
        size: int | None = None,
        names: object = None,
        mark: object = None,
        is_uncached: bool = False,
    ) -> Place:
        """Return the place at the end of the file; raise its damage. Under the lock.

        If the cached place is there, nothing more is read.

        Args:
            codec: The store's codec.
            file: The name of the file.
            fd: The file, open.
            size: Its size when it was opened.
            names: The version of the names in the folder, if it was read before the file was opened.
            mark: The mark of the file when it was opened, if it is known.
            is_uncached: Whether to read the file from its start.
        """
        known = self._places.get(file)
        if (
            known is not None
            and known.offset == known.size == size
            and known.ended >= 0
            and not is_uncached
            and self._has_first_line(known, fd, names, mark)
        ):
            return known  # nearly always in a save; the same result as that of `read_through`
        place = self.read_through(codec, file, fd, size=size, is_uncached=is_uncached)
        if place.has_tail() and not place.damage():
            self.check_tail(fd, place)
            self.report_tail(place)
        return place

    def _has_first_line(self, known: Place, fd: int, names: object, mark: object) -> bool:
        """Return whether a file begins with the first line of a place.

        Another file gets the name only by a rename, which changes the version of the names. A copy over
        the file, as of a backup, changes its mark. The place may change without either: a slow reading
        of an earlier file replaces the one that was compared.
        """
        file, header = known.file, known.header
        is_same = names is not None and names == self._names
        is_marked = mark is not None and self._marks.get(file) == mark
        if is_same and is_marked and self._first_lines.get(file) == header:
            return True
        if self.files.read(fd, len(header), 0) != header:
            return False
        if names is not None:
            if not is_same or len(self._first_lines) >= _MOST_PLACES:
                self._names, self._first_lines = names, {}
            self._first_lines[file] = header
        return True

    def read_through(
        self,
        codec: Codec,
        file: str,
        fd: int,
        *,
        size: int | None = None,
        is_uncached: bool = False,
    ) -> Place:
        """Return the place at the end of the file, damaged or not; see `caught_up`."""
        known = None if is_uncached else self._places.get(file)
        place = self.place(codec, file, fd, known, size)
        is_end = place is known and place.offset == place.size == size
        while not is_end:
            place, _, is_end = self.chunk(codec, fd, place)
        is_known = place is known and place.ended >= 0
        return place if is_known else self.judged(codec, fd, place)

    def judged(self, codec: Codec, fd: int, place: Place) -> Place:
        """Return the place at the end of a file, with the damage that its end mark proves.

        A judged place is not judged again while the file's time vouches for it: what other processes
        appended was acknowledged, and cutting the file changes its time.
        """
        if place.ended >= 0 and self.files.is_vouched(fd):
            return place
        return self.marks.judged(codec, place)

    def check_tail(self, fd: int, place: Place) -> None:
        """Raise if the last append was acknowledged but cannot be read completely."""
        if place.has_tail() and place.version > 1 and self.files.is_vouched(fd):
            raise Damage("the last record was acknowledged, and its line does not verify")

    def report_tail(self, place: Place) -> None:
        """Log once that a file ends in an unfinished append; under the lock."""
        tail = (place.header, place.offset, place.size)
        if self._tails.get(place.file) != tail:
            self._tails[place.file] = tail
            with self._places_mutex:
                self._torn += 1
            _logger.warning(
                "The journal %r ends in a write that was never acknowledged, at byte %d: %d bytes "
                "do not verify. The next save moves them to a file beside it",
                self.files.path(journal_path(place.file)),
                place.offset,
                place.size - place.offset,
            )

    def take_torn(self) -> int:
        """Return the number of unfinished appends found since the last call."""
        if not self._torn:
            return 0
        with self._places_mutex:
            torn, self._torn = self._torn, 0
        return torn

    def is_reported(self, place: Place) -> bool:
        """Return whether the tail after the last whole batch was already logged."""
        return self._tails.get(place.file) == (place.header, place.offset, place.size)

    def end_of(self, codec: Codec, file: str, *, is_uncached: bool = False) -> Place:
        """Return the place at the end of a journal's file; under the lock."""
        fd = self.files.open(journal_path(file))
        try:
            return self.caught_up(codec, file, fd, is_uncached=is_uncached)
        finally:
            self.files.close(fd)

    def journal(self, file: str) -> bytes:
        """Return the whole of a journal's file."""
        return self.files.content(journal_path(file)) or b""

    def kept(self, codec: Codec, file: str, fd: int) -> list[Record]:
        """Return all records of a file before it is replaced; raise its damage.

        The file is read from its start, because the cached place may come from a summary.
        """
        place, is_end = self.place(codec, file, fd, None), False
        kept: list[Record] = []
        while not is_end:
            place, records, is_end = self.chunk(codec, fd, place)
            kept += records
        place = self.judged(codec, fd, place)
        if damage := place.damage():
            raise damage
        return kept

    def records(self, codec: Codec, file: str, fd: int) -> Iterator[Record]:
        """Yield all readable records of a file, damaged or not; under the lock."""
        place, is_end = self.place(codec, file, fd, None), False
        while not is_end:
            place, records, is_end = self.chunk(codec, fd, place)
            yield from records

    def remember(self, place: Place, mark: object = None) -> None:
        """Cache a place, from which the next append starts, and its file's mark; under the lock."""
        with self._places_mutex:
            self._places.pop(place.file, None)
            self._places[place.file] = place
            if len(self._places) > _MOST_PLACES:
                self._places.pop(next(iter(self._places)))
            if len(self._marks) > _MOST_PLACES:
                self._marks.clear()
            self._marks[place.file] = mark

    def _end_of_reading(self, file: str, place: Place) -> Place:
        """Return the cached place of writers if a reading ended at the same offset.

        Readers compare places by `is`. With another object, each load after a save of the same process
        would read the file again.
        """
        with self._places_mutex:
            known = self._places.get(file)
            if known is None:
                if len(self._places) < _MOST_PLACES:  # a reading evicts no place of a writer
                    self._places[file] = place
            elif known.header == place.header and known.size >= place.size:
                is_same = (known.offset, known.size) == (place.offset, place.size)
                return known if is_same else place
            else:
                self._places[file] = place
        return place

    def note_synced(self, file: str, header: bytes) -> None:
        """Record that the name of a file is durable. An evicted record costs one sync."""
        if len(self.synced) > _MOST_PLACES:
            self.synced.pop(next(iter(self.synced)))
        self.synced[file] = header

    def note_unended(self, file: str) -> None:
        """Record that a file needs an end mark when the store is idle."""
        if file not in self.unended:
            if len(self.unended) >= _MOST_PLACES:
                self.unended.pop(next(iter(self.unended)))
            self.unended[file] = None

    def distrust(self, file: str) -> None:
        """Discard the cached state of a file after an error. All processes see that it is in doubt."""
        with self._places_mutex:
            self._places.pop(file, None)
        self.synced.pop(file, None)
        self.unended.pop(file, None)

    def is_current(self, name: JournalName, position: Position | None) -> bool:
        """Return whether nothing was written since a reading that ended at `position`."""
        if isinstance(position, Place):
            return self.files.is_unchanged(position.path, position.header, position.size)
        codec = self.manifest.known_codec
        try:
            if codec is None:
                return not self.files.exists(MANIFEST) and not self.files.exists("journals")
            return not self.files.exists(journal_path(codec.file_name(name)))
        except OSError:
            return False

    def has_journal(self, file: str) -> bool:
        """Return whether a journal has a file of that name."""
        return self.files.exists(journal_path(file))

    def first_line(self, file: str) -> bytes:
        """Return a journal's first line, verified or not."""
        with self.errors.of(file):
            fd = self.files.open(journal_path(file))
            try:
                return self.files.read(fd, LONGEST_HEADER, 0).partition(b"\n")[0]
            finally:
                self.files.close(fd)

    def name_in(self, codec: Codec, file: str) -> JournalName | None:
        """Return the name of a file's journal; None if it is gone."""
        with self.errors.of(file):
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
