"""Removing journals physically: their files, the copies beside them and their indexes."""

from factmem.storage._file_calls import Files
from factmem.storage._indexes import IndexFiles
from factmem.storage._journal import CHUNK, journal_path
from factmem.storage._plain_codec import Codec
from factmem.storage._reader import FolderReader
from factmem.storage.base import ErasedJournal


class Removal:
    """Removes the files of one folder's journals; under the lock."""

    def __init__(self, reader: FolderReader, indexes: IndexFiles, codec: Codec) -> None:
        self._reader = reader
        self._files: Files = reader.files
        self._indexes = indexes
        self._codec = codec
        self._is_destroyed = codec.hides_names

    def erase(self, file: str) -> ErasedJournal:
        """Remove a journal's file and all that stands beside it.

        An encrypted file's key is derived from random bytes that stand in its first line only:
        they are overwritten before the file is removed.
        """
        count = self._indexes.remove(self._codec, file)
        found = self._copies(file)
        if file in self._files.names():
            found.append(file)
        self._is_destroyed = self._codec.hides_names
        count += sum(self._remove(file, each) for each in found)
        # Also where nothing was found: whoever removed it may have died before this.
        self._files.sync_folder("journals")
        self._reader.distrust(file)
        return ErasedJournal(count, key_destroyed=bool(found) and self._is_destroyed)

    def drop_copies(self, file: str) -> None:
        """Remove what stands beside a journal's file."""
        self._indexes.remove(self._codec, file)
        for each in self._copies(file):
            self._remove(file, each)
        self._files.sync_folder("journals")

    def _copies(self, file: str) -> list[str]:
        """Return what stands beside a journal's file under its name.

        A leftover of the passing name comes first: the others take that name on their way out.
        """
        found = [each for each in self._files.names() if each.startswith(f"{file}.")]
        return sorted(found, key=lambda each: each != f"{file}.tmp")

    def _remove(self, file: str, each: str) -> int:
        """Remove a journal's file or a copy of it, and return how many bytes that freed."""
        path, doomed = journal_path(each), f"{journal_path(file)}.tmp"
        fd = self._files.open(path)
        try:
            size = self._files.size(fd)
        finally:
            self._files.close(fd)
        if self._codec.hides_names:
            if path != doomed:
                self._files.rename(path, doomed)
            # No journal may ever stand under its own name with a broken first line. A leftover may
            # have come by its name in an erasure that was killed before it was durable.
            self._files.sync_folder("journals")
            self._is_destroyed &= self._files.destroy(doomed, min(size, CHUNK))
            path = doomed
        self._files.remove(path)
        return size
