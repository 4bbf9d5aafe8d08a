"""New incarnations of journal files: written beside the file, then put in its place."""

from collections.abc import Sequence

from factmem.errors import StorageError
from factmem.storage._files import Files
from factmem.storage._journal import CHUNK, Place, journal_path, name_record
from factmem.storage._plain_codec import Codec
from factmem.storage._reader import FolderReader
from factmem.storage._record_lines import chunks, snapshot_lines
from factmem.storage.base import JournalName, Record


class Incarnations:
    """Replaces the files of one folder's journals; under the lock."""

    def __init__(self, reader: FolderReader) -> None:
        self._reader = reader
        self._files: Files = reader.files

    def replace(
        self,
        codec: Codec,
        name: JournalName,
        file: str,
        *,
        last: int,
        keep: Sequence[Record],
        records: Sequence[bytes],
    ) -> Place:
        """Write a new incarnation beside the file and put it in its place."""
        self._reader.manifest.settle()
        # The file is durable before it has its name, so its first line can vouch for all of it.
        keep = [*keep, *map(Record, range(last + 1, last + 1 + len(records)), records)]
        last += len(records)
        if codec.hides_names:
            keep = [Record(0, name_record(name)), *keep]
        line = codec.new_header(name, file, len(keep), last + 1)
        sealer = codec.open_header(file, line).sealer
        temporary = f"{journal_path(file)}.tmp"
        fd = self._files.create(temporary)
        try:
            for chunk in chunks(snapshot_lines(line, sealer, keep)):
                self._files.append(fd, chunk)
            self._files.sync(fd)
        finally:
            self._files.close(fd)
        self._files.rename(temporary, journal_path(file))
        self._files.sync_folder("journals")
        return self._reloaded(codec, file, line + b"\n", last)

    def _reloaded(self, codec: Codec, file: str, header: bytes, last: int) -> Place:
        """Read a file that was just put in place: what is known rests on what it says."""
        fd = self._files.open(journal_path(file))
        try:
            place = self._reader.caught_up(codec, file, fd)
        finally:
            self._files.close(fd)
        if place.header != header or place.last != last or place.damage():
            raise StorageError(
                f"What was written to {self._files.path(journal_path(file))!r} does not read back"
            )
        place = place._replace(durable=last)
        self._reader.suspects.discard(file)
        self._reader.note_synced(file, header)
        self._reader.remember(place)
        return place

    def copy(self, source: str, target: str) -> None:
        """Copy a file durably."""
        read, write = self._files.open(source), self._files.create(target)
        try:
            offset = 0
            while chunk := self._files.read(read, CHUNK, offset):
                self._files.append(write, chunk)
                offset += len(chunk)
            self._files.sync(write)
        finally:
            self._files.close(read)
            self._files.close(write)
        self._files.sync_folder("journals")
