"""Index files: data derived from a journal, stored beside it so that no process derives it twice.

A journal has at most one, in the folder `indexes`, encrypted like the journal. It is replaced whole
and never synced: after a power cut an older index, zeros or a missing file all mean "no index".
Only its removal is durable, because it may contain values that the journal no longer has.

If `indexes` is a link or a file, nothing is read, written or removed there. No fact depends on it.
"""

from logging import getLogger

from factmem.errors import CorruptJournalError
from factmem.storage._file_calls import Files
from factmem.storage._journal import CHUNK
from factmem.storage._plain_codec import Codec

_logger = getLogger(__name__)

NO_FOLDER = (CorruptJournalError, NotADirectoryError)
"""The errors raised if `indexes` is a link, or no folder."""

FOLDER = "indexes"
_SUFFIX = ".index"
_SUMMARY = ".summary"


class IndexFiles:
    """The indexes of one folder's journals, which are named by the journals' files."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._is_reported = False

    def read(self, codec: Codec, journal: str) -> bytes | memoryview | None:
        """Return the index of a journal; None if it is missing or does not verify.

        A large unencrypted index is mapped into memory instead of read.
        """
        name = _name(codec, journal)
        path = f"{FOLDER}/{name}"
        try:
            mapped = None if codec.hides_names else self._files.mapped(path)
            sealed = self._files.content(path) if mapped is None else mapped
            return None if sealed is None else codec.open_index(name, sealed)
        except (ValueError, CorruptJournalError):  # damaged, or no file: it is built again
            return None

    def write(self, codec: Codec, journal: str, data: bytes) -> bool:
        """Write a journal's index atomically; under the lock. Return whether it was written."""
        name = _name(codec, journal)
        path = f"{FOLDER}/{name}"
        try:
            fd = self._files.create(f"{path}.tmp")
        except NO_FOLDER:
            self.report()
            return False
        try:
            self._files.append(fd, codec.seal_index(name, data))
        finally:
            self._files.close(fd)
        self._files.rename(f"{path}.tmp", path)
        return True

    def remove(self, codec: Codec, journal: str) -> int:
        """Remove the files derived from a journal, durably; return the bytes freed. Under the lock.

        A summary that another process is writing is removed as well, and that process ignores this.
        """
        path = f"{FOLDER}/{_name(codec, journal)}"
        try:
            freed = sum(removed(self._files, codec, each) for each in (f"{path}.tmp", path))
            freed += self._remove_summaries(codec, journal)
            # Even if nothing was found: the process that removed it may have died before the sync.
            if self._files.exists(FOLDER):
                self._files.sync_folder(FOLDER)
        except NO_FOLDER:
            self.report()
            return 0
        return freed

    def remove_summary(self, codec: Codec, journal: str) -> None:
        """Remove the summary of a journal that was rewritten, durably. Under the lock."""
        try:
            if self._remove_summaries(codec, journal):
                self._files.sync_folder(FOLDER)
        except NO_FOLDER:
            self.report()

    def _remove_summaries(self, codec: Codec, journal: str) -> int:
        summary = summary_name(codec, journal)
        return sum(
            removed(self._files, codec, f"{FOLDER}/{each}")
            for each in self._files.names(FOLDER)
            if each.startswith(summary)
        )

    def report(self) -> None:
        """Log once that the folder of indexes is unusable."""
        if not self._is_reported:
            self._is_reported = True
            _logger.warning(
                "%r is a link, or no folder: no index is stored or removed there. Delete it, and its "
                "target if vectors may be left there",
                self._files.path(FOLDER),
            )


def removed(files: Files, codec: Codec, path: str) -> int:
    """Remove a file derived from journals, and return the bytes freed; 0 if it is not there."""
    if not files.exists(path):
        return 0
    try:
        fd = files.open(path)
    except CorruptJournalError:  # not a file of factmem
        files.remove(path)
        return 0
    try:
        size = files.size(fd)
    finally:
        files.close(fd)
    if codec.hides_names:
        # Without the random bytes of its first line no key decrypts the blocks left on the disk.
        files.destroy(path, min(size, CHUNK))
    files.remove(path)
    return size


def _name(codec: Codec, journal: str) -> str:
    """Return the name of the index of a journal's file."""
    return journal.removesuffix(codec.suffix) + _SUFFIX


def summary_name(codec: Codec, journal: str) -> str:
    """Return the name of the summary of a journal's file."""
    return journal.removesuffix(codec.suffix) + _SUMMARY
