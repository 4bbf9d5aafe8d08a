"""Index files: what can be derived from a journal again, kept beside it to save that work.

A journal has one at most, in the folder `indexes`, sealed as the journal is. It is replaced whole
and never synced: a power cut may leave an older one, zeros or nothing, all of which are as good as
none. Only its removal is durable, since it may hold what the journal no longer does.

Where something else stands in the place of that folder, a link that leads elsewhere or a file,
nothing is read, written or removed there, and no fact is lost by it.
"""

from logging import getLogger

from factmem.errors import CorruptJournalError
from factmem.storage._file_calls import Files
from factmem.storage._journal import CHUNK
from factmem.storage._plain_codec import Codec

_logger = getLogger(__name__)

NO_FOLDER = (CorruptJournalError, NotADirectoryError)
"""What is raised where `indexes` is a link, or no folder."""

FOLDER = "indexes"
_SUFFIX = ".index"
_SUMMARY = ".summary"


class IndexFiles:
    """The indexes of one folder's journals, which are named by the journals' files."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._is_told = False

    def read(self, codec: Codec, journal: str) -> bytes | memoryview | None:
        """Return the index of a journal; None if there is none that verifies.

        A large one that is not sealed is mapped into memory and not read.
        """
        name = _name(codec, journal)
        path = f"{FOLDER}/{name}"
        try:
            mapped = None if codec.hides_names else self._files.mapped(path)
            sealed = self._files.content(path) if mapped is None else mapped
            return None if sealed is None else codec.open_index(name, sealed)
        except (ValueError, CorruptJournalError):  # damaged, or no file: it is made again
            return None

    def write(self, codec: Codec, journal: str, data: bytes) -> bool:
        """Put an index beside a journal, atomically; under the lock. Return whether it is there."""
        name = _name(codec, journal)
        path = f"{FOLDER}/{name}"
        try:
            fd = self._files.create(f"{path}.tmp")
        except NO_FOLDER:
            self.tell()
            return False
        try:
            self._files.append(fd, codec.seal_index(name, data))
        finally:
            self._files.close(fd)
        self._files.rename(f"{path}.tmp", path)
        return True

    def remove(self, codec: Codec, journal: str) -> int:
        """Remove what is derived from a journal, durably; return the bytes freed. Under the lock.

        A summary that another process is writing goes too, and that process finds it gone.
        """
        path = f"{FOLDER}/{_name(codec, journal)}"
        try:
            freed = sum(self._removed(codec, each) for each in (f"{path}.tmp", path))
            freed += self._remove_summaries(codec, journal)
            # Also where nothing was found: whoever removed it may have died before this.
            if self._files.exists(FOLDER):
                self._files.sync_folder(FOLDER)
        except NO_FOLDER:
            self.tell()
            return 0
        return freed

    def remove_summary(self, codec: Codec, journal: str) -> None:
        """Remove the summary of a journal that was rewritten, durably. Under the lock."""
        try:
            if self._remove_summaries(codec, journal):
                self._files.sync_folder(FOLDER)
        except NO_FOLDER:
            self.tell()

    def _remove_summaries(self, codec: Codec, journal: str) -> int:
        summary = summary_name(codec, journal)
        return sum(
            self._removed(codec, f"{FOLDER}/{each}")
            for each in self._files.names(FOLDER)
            if each.startswith(summary)
        )

    def tell(self) -> None:
        """Log that there is no folder of indexes, once."""
        if not self._is_told:
            self._is_told = True
            _logger.warning(
                "%r is a link, or no folder: no index is kept there, and none removed. Take it "
                "away, and what it leads to if vectors may be left there",
                self._files.path(FOLDER),
            )

    def _removed(self, codec: Codec, path: str) -> int:
        if not self._files.exists(path):
            return 0
        try:
            fd = self._files.open(path)
        except CorruptJournalError:  # something else has its name, and holds nothing of ours
            self._files.remove(path)
            return 0
        try:
            size = self._files.size(fd)
        finally:
            self._files.close(fd)
        if codec.hides_names:
            # Without the random bytes of its first line no key opens what the disk may keep of it.
            self._files.destroy(path, min(size, CHUNK))
        self._files.remove(path)
        return size


def _name(codec: Codec, journal: str) -> str:
    """Return the name of the index of a journal's file."""
    return journal.removesuffix(codec.suffix) + _SUFFIX


def summary_name(codec: Codec, journal: str) -> str:
    """Return the name of the summary of a journal's file."""
    return journal.removesuffix(codec.suffix) + _SUMMARY
