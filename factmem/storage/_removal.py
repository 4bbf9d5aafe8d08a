"""Removing journals physically: their files, the copies beside them and their indexes."""

from factmem.storage._file_calls import Files
from factmem.storage._indexes import IndexFiles
from factmem.storage._journal import CHUNK, journal_path
from factmem.storage._listing import NameFiles
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
        """Remove a journal's file with its indexes and copies.

        An encrypted file's key is derived from random bytes in its first line and nowhere else:
        they are overwritten before the file is removed.
        """
        self._reader.marks.remove(self._codec, file)  # first: a mark without a journal is damage
        NameFiles(self._files).remove(self._codec, file)
        count = self._indexes.remove(self._codec, file)
        found = self._copies(file)
        if file in self._files.names():
            found.append(file)
        self._is_destroyed = self._codec.hides_names
        count += sum(self._remove(file, each) for each in found)
        # Even if no file was found: a process that removed it may have died before the sync.
        self._files.sync_folder("journals")
        self._reader.distrust(file)
        return ErasedJournal(count, key_destroyed=bool(found) and self._is_destroyed)

    def drop_copies(self, file: str) -> None:
        """Remove the indexes, copies and end mark of a journal; an idle store writes a new mark."""
        self._reader.marks.remove(self._codec, file)
        if self._reader.has_journal(file):
            self._reader.note_unended(file)
        self._indexes.remove(self._codec, file)
        for each in self._copies(file):
            self._remove(file, each)
        self._files.sync_folder("journals")

    def _copies(self, file: str) -> list[str]:
        """Return the copies beside a journal's file.

        A leftover `.tmp` file comes first, because each other copy is renamed to it when removed.
        """
        found = [each for each in self._files.names() if each.startswith(f"{file}.")]
        return sorted(found, key=lambda each: each != f"{file}.tmp")

    def _remove(self, file: str, each: str) -> int:
        """Remove a journal's file or a copy of it, and return the bytes freed."""
        path, doomed = journal_path(each), f"{journal_path(file)}.tmp"
        fd = self._files.open(path)
        try:
            size = self._files.size(fd)
        finally:
            self._files.close(fd)
        if self._codec.hides_names:
            if path != doomed:
                self._files.rename(path, doomed)
            # A journal must never have its own name and an overwritten first line. An erasure that was
            # killed may have renamed a leftover before the rename was durable.
            self._files.sync_folder("journals")
            self._is_destroyed &= self._files.destroy(doomed, min(size, CHUNK))
            path = doomed
        self._files.remove(path)
        return size
