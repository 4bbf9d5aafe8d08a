"""New versions of journal files, written beside the old file and renamed into its place."""

from collections.abc import Sequence
from secrets import token_hex

from factmem.errors import StorageError
from factmem.storage._file_calls import Files
from factmem.storage._journal import CHUNK, Place, journal_path, name_record
from factmem.storage._plain_codec import MOST_LOSSES, Codec, Losses
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
        before: Place | None,
        *,
        keep: Sequence[Record] = (),
        records: Sequence[bytes] = (),
        is_copied: bool = False,
    ) -> Place:
        """Write a new file beside the journal's, and rename it into place.

        Args:
            codec: The encoding of the new file.
            name: The journal.
            file: Its file.
            before: The end of the file that it replaces; None for a new file.
            keep: The records that it keeps.
            records: The records that are added.
            is_copied: Whether the old file was copied; if not, its torn tail is.
        """
        last = 0 if before is None else max(before.last, before.durable)
        # After a restore from a backup, a mark may be newer than the journal. It must not apply to the
        # new file.
        marked = self._reader.marks.made(codec, file)
        made = self._reader.manifest.next_made(
            after=max(marked, 0 if before is None else before.made)
        )
        self._reader.manifest.settle()
        # The file is durable before it is renamed, so its first line can vouch for all of it.
        keep = [*keep, *map(Record, range(last + 1, last + 1 + len(records)), records)]
        last += len(records)
        if codec.hides_names:
            keep = [Record(0, name_record(name)), *keep]
        line = codec.new_header(
            name,
            file,
            snapshot=len(keep),
            following=last + 1,
            made=made,
            losses=() if before is None or is_copied else self._losses(before, made),
        )
        sealer = codec.open_header(file, line).sealer
        temporary = f"{journal_path(file)}.tmp"
        if before is not None and not is_copied:
            self._set_aside(before)
        fd = self._files.create(temporary)
        try:
            for chunk in chunks(snapshot_lines(line, sealer, keep)):
                self._files.append(fd, chunk)
            self._files.sync(fd)
        finally:
            self._files.close(fd)
        self._files.check_lock()
        if not is_copied:
            self._check_unchanged(file, before)
        self._files.rename(temporary, journal_path(file))
        self._files.sync_folder("journals")
        return self._reloaded(codec, file, line + b"\n", last)

    def _losses(self, before: Place, made: int) -> Losses:
        """Return the files that may have lost records, for checks against an anchor.

        Records cut from the end leave no trace in the file, so its end proves nothing.
        """
        fd = self._files.open(journal_path(before.file))
        try:
            is_in_doubt = before.has_tail() or not self._files.is_vouched(fd)
        finally:
            self._files.close(fd)
        if not is_in_doubt:
            return before.losses
        return (*before.losses, (made, before.last + 1))[-MOST_LOSSES:]

    def _reloaded(self, codec: Codec, file: str, header: bytes, last: int) -> Place:
        """Read a file that was just renamed into place, and cache its state."""
        fd = self._files.open(journal_path(file))
        try:
            place = self._reader.caught_up(codec, file, fd)
            is_whole = place.header == header and place.last == last and not place.has_tail()
            if not is_whole or place.damage():
                raise StorageError(
                    f"What was written to {self._files.path(journal_path(file))!r} does not read "
                    f"back"
                )
            self._files.check_lock()
            self._files.check_named(fd)
            self._files.vouch(fd, place.size)
        finally:
            self._files.close(fd)
        place = place._replace(durable=last)
        self._reader.note_synced(file, header)
        self._reader.remember(place)
        self._reader.note_unended(file)
        return place

    def _check_unchanged(self, file: str, before: Place | None) -> None:
        """Raise if the replaced file was written to since it was read."""
        path = journal_path(file)
        is_same = (
            not self._files.exists(path)
            if before is None
            else self._files.is_unchanged(path, before.header, before.size)
        )
        if not is_same:
            raise StorageError(
                f"{self._files.path(path)!r} was written to during its replacement: another program "
                f"writes to it or ignores the lock"
            )

    def _set_aside(self, before: Place) -> None:
        """Copy the torn tail of a replaced file, with its first line, durably."""
        if not (before.has_tail() or before.dead):
            return
        source = journal_path(before.file)
        target = f"{source}.torn-{token_hex(4)}"
        if before.dead and not before.has_tail():
            self.copy(source, target)
        else:
            self.copy(source, target, head=before.header, start=before.offset)

    def copy(self, source: str, target: str, *, head: bytes = b"", start: int = 0) -> None:
        """Copy a file durably from the offset `start`, after the bytes `head`."""
        read, write = self._files.open(source), self._files.create(target)
        try:
            offset = start
            if head:
                self._files.append(write, head)
            while chunk := self._files.read(read, CHUNK, offset):
                self._files.append(write, chunk)
                offset += len(chunk)
            self._files.sync(write)
        finally:
            self._files.close(read)
            self._files.close(write)
        self._files.sync_folder("journals")
