"""End marks: files with the end of each journal at the time when its store was closed or idle.

A mark at the end of the journal itself would be lost with the records that it vouches for. A mark
states that all records up to a number were durable. Later appends do not change that, so a save never
writes a mark. It is written after the journal is durable, as a new file that is renamed into place. A
crash therefore leaves the old mark or the new one, and no journal that is shorter than its mark.

A mark contains the digest of the journal's first line, so it does not apply to a later file.
"""

from collections.abc import Sequence
from typing import NamedTuple

import orjson

from factmem.errors import CorruptJournalError
from factmem.storage._file_calls import Files
from factmem.storage._journal import Damage, Place, journal_path
from factmem.storage._plain_codec import END, Codec, checked_line, compact, with_checksum

FOLDER = "ends"
_SUFFIX = ".end"

MOST_AT_ONCE = 64
"""The number of marks written at a time: their files are open together, under the lock."""

_MOST_MADE = 1 << 61
"""The manifest, which counts on from a mark, refuses twice as many."""

_UNREADABLE = (CorruptJournalError, NotADirectoryError, IsADirectoryError)
"""The errors raised if another program has put something else at the path of a mark."""


class EndMark(NamedTuple):
    """The content of an end mark; only `line` is authenticated in an encrypted store."""

    journal: str
    """The digest of the journal's first line."""
    made: int
    """The number of the journal's file in the store."""
    tag: bytes
    """Of the last line."""
    line: bytes
    """A line sealed like one of the journal, with the number of the last record."""


class EndMarks:
    """The end marks of one folder's journals, which are named by the journals' files."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._is_folder_durable = False

    def path(self, codec: Codec, journal: str) -> str:
        """Return the path of a journal's mark, relative to the store."""
        return f"{FOLDER}/{journal.removesuffix(codec.suffix)}{_SUFFIX}"

    def made(self, codec: Codec, journal: str) -> int:
        """Return the number of the file that a journal's mark is for; 0 without a mark."""
        mark = self._read(codec, journal)
        return 0 if mark is None else mark.made

    def judged(self, codec: Codec, place: Place) -> Place:
        """Return the place at the end of a file, with the damage that the file's mark proves."""
        mark = self._read(codec, place.file)
        if mark is None:
            return place._replace(ended=0, has_bad_mark=self._exists(codec, place.file))
        if mark.journal != place.digest():
            if mark.made < place.made:
                return place._replace(ended=0)
            what = "its end mark is of a later file: this one was put back"
            return place._replace(ended=0, verdict=place.verdict or what)
        try:
            number, kind, previous, _, _ = place.sealer.unseal(mark.line)
            if kind != END or previous not in (None, mark.tag):
                raise ValueError("no end mark")
        except ValueError:
            return place._replace(ended=0, has_bad_mark=True)
        return _compared(place._replace(ended=number), number, mark.tag)

    def check_gone(self, codec: Codec, journal: str) -> None:
        """Raise if there is a mark of a journal whose file is not there: erasing removes it first."""
        if self._read(codec, journal) is not None:
            raise Damage(
                "its file is gone, and its end mark is there (erase the place to continue without it)"
            )

    def without_journal(self, codec: Codec) -> list[str]:
        """Return the files of journals that have a mark and no file."""
        gone: list[str] = []
        try:
            for each in self._files.each_name(FOLDER):
                journal = each.removesuffix(_SUFFIX) + codec.suffix
                if each.endswith(_SUFFIX) and not self._files.exists(journal_path(journal)):
                    gone.append(journal)
        except _UNREADABLE:
            return []
        return sorted(journal for journal in gone if self._read(codec, journal) is not None)

    def write(self, codec: Codec, places: Sequence[Place]) -> None:
        """Mark the ends of up to `MOST_AT_ONCE` journals, which are durable; under the lock."""
        paths = [self.path(codec, place.file) for place in places]
        fds: list[int] = []
        try:
            for path, place in zip(paths, places, strict=True):
                fds.append(self._files.create(f"{path}.tmp"))
                self._files.append(fds[-1], _content(place))
            for error in self._files.sync_all(fds):
                if error is not None:
                    raise error
        finally:
            for fd in fds:
                self._files.close(fd)
        self._files.check_lock()
        for path in paths:
            self._files.rename(f"{path}.tmp", path)
        if paths:
            self._sync_folder()

    def _sync_folder(self) -> None:
        """Make the names of marks durable, and once that of their folder."""
        if not self._is_folder_durable:
            self._files.sync_folder("")
            self._is_folder_durable = True
        self._files.sync_folder(FOLDER)

    def remove(self, codec: Codec, journal: str) -> None:
        """Remove a journal's mark, durably; under the lock.

        A mark must not outlast the file of an erased journal, nor keep a checksum of a purged value.
        """
        path = self.path(codec, journal)
        try:
            for each in filter(self._files.exists, (f"{path}.tmp", path)):
                self._files.remove(each)
            # Even if nothing was found: the process that removed it may have died before the sync.
            if self._files.exists(FOLDER):
                self._files.sync_folder(FOLDER)
        except _UNREADABLE:  # no mark is read there
            return

    def _read(self, codec: Codec, journal: str) -> EndMark | None:
        """Return a journal's mark; None if it is missing or does not verify."""
        try:
            content = self._files.content(self.path(codec, journal))
            if content is None:
                return None
            head, line, rest = content.split(b"\n")
            fields = orjson.loads(checked_line(head))
            mark = EndMark(
                str(fields["journal"]), fields["made"], bytes.fromhex(fields["tag"]), line
            )
        except (ValueError, KeyError, TypeError, PermissionError, *_UNREADABLE):
            return None  # also where another user may read the journals alone
        is_number = type(mark.made) is int and 0 <= mark.made < _MOST_MADE
        return mark if is_number and not rest else None

    def _exists(self, codec: Codec, journal: str) -> bool:
        try:
            return self._files.exists(self.path(codec, journal))
        except (NotADirectoryError, PermissionError):
            return False


def _compared(place: Place, number: int, tag: bytes) -> Place:
    """Return the place with the damage that a mark of the same file proves."""
    if place.damage() is not None:
        return place
    if number > place.last:
        gap = (place.last + 1, number, place.line + 1)
        return place._replace(gaps=(*place.gaps, gap), durable=max(place.durable, number))
    if number == place.last and tag != place.tag:
        return place._replace(
            verdict=f"line {place.line}: it is not the one that its end mark names"
        )
    return place


def _content(place: Place) -> bytes:
    head = {"journal": place.digest(), "made": place.made, "tag": place.tag.hex()}
    line, _ = place.sealer.seal(place.last, END, place.tag, b"")
    return b"%b\n%b\n" % (with_checksum(compact(head)[:-1], 0), line)
