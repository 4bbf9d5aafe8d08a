"""Writing a folder's journals: append and rewrite, under the lock.

What keeps the promise: a record is acknowledged after fsync and after it was read back; each says
how far the journal was durable before it; a file is only appended to or replaced whole; after any
error a journal goes on in a fresh file, since a failed fsync leaves a file in doubt for good.
"""

from collections.abc import Iterable, Sequence
from secrets import token_hex
from typing import TYPE_CHECKING

from factmem.errors import StorageError
from factmem.storage._batch import Begun, append_all
from factmem.storage._journal import (
    CHUNK,
    Damage,
    Place,
    name_record,
)
from factmem.storage._plain_codec import Codec
from factmem.storage._record_lines import (
    check_record,
    checked_records,
    chunks,
    sealed_lines,
    snapshot_lines,
)
from factmem.storage.base import (
    Appended,
    ErasedJournal,
    JournalName,
    Position,
    Reading,
    Record,
    SalvagedJournal,
)

if TYPE_CHECKING:
    from factmem.storage._folder import JournalFolder


_TORN_END = b"!\n"
"""Ends a line that a crash left without its end. A bare line end would bring a record to life that
was never acknowledged; with the mark the line verifies in no codec."""


def _path(file: str) -> str:
    return f"journals/{file}"


class FolderWriter:
    """The journals of a folder whose lock is held; see `base.JournalWriter` for the contract."""

    def __init__(self, folder: "JournalFolder", codec: Codec | None) -> None:
        self._folder = folder
        self._files = folder.files
        self._codec = codec

    def read(self, name: JournalName, after: Position | None) -> Reading:
        """See `JournalWriter.read`."""
        return self._folder.read_now(name, after)

    def append(self, name: JournalName, records: Sequence[bytes]) -> Appended:
        """See `JournalWriter.append`."""
        if not records:
            raise ValueError("There is nothing to append: give at least one record")
        for record in records:
            check_record(record)
        if self._codec is None:
            with self._folder.errors_of(None):
                self._codec = self._folder.manifest.create()
        codec = self._codec
        file = codec.file_name(name)
        with self._folder.errors_of(file):
            try:
                return self._append(codec, name, file, records)
            except Damage:
                raise
            except BaseException:
                self._folder.distrust(file)
                raise

    def append_all(
        self, appends: Sequence[tuple[JournalName, Sequence[bytes]]]
    ) -> list[Appended | Exception]:
        """See `BatchWriter.append_all`."""
        return append_all(self, self._files, appends)

    def begin(self, name: JournalName, records: Sequence[bytes]) -> Begun | None:
        """Write to the end of a journal that is whole; return None for any other.

        Whoever begins syncs, finishes and closes the file.
        """
        codec = self._codec
        if codec is None or not records:
            return None
        for record in records:
            check_record(record)
        file = codec.file_name(name)
        if file in self._folder.suspects:
            return None
        with self._folder.errors_of(file):
            try:
                fd = self._files.open(_path(file), write=True)
            except FileNotFoundError:
                return None
            begun = None
            try:
                before = self._folder.caught_up(codec, file, fd)
                if not before.gaps and not before.damage():
                    begun = self._begun(file, fd, before, records)
            except Damage:
                pass  # the ordinary way raises it
            except BaseException:
                self._folder.distrust(file)
                raise
            finally:
                if begun is None:
                    self._files.close(fd)
        return begun

    def finish(self, begun: Begun, error: OSError | None) -> Appended:
        """Acknowledge an append that was begun and synced; `error` is what syncing it raised."""
        with self._folder.errors_of(begun.file):
            if error is not None:
                raise error
            return Appended(begun.before, self._after(begun))

    def distrust(self, begun: Begun) -> None:
        """Leave a journal's file alone from now on, since an append to it failed half-way."""
        self._folder.distrust(begun.file)

    def _append(
        self, codec: Codec, name: JournalName, file: str, records: Sequence[bytes]
    ) -> Appended:
        try:
            fd = self._files.open(_path(file), write=True)
        except FileNotFoundError:
            return Appended(
                None, self._replace(codec, name, file, last=0, keep=[], records=records)
            )
        try:
            before = self._folder.caught_up(codec, file, fd)
            if damage := before.damage():
                raise damage
            if before.gaps or file in self._folder.suspects:
                keep = list(self._folder.records(codec, file, fd))
                after = self._replace(
                    codec, name, file, last=before.last, keep=keep, records=records
                )
            else:
                after = self._extend(file, fd, before, records)
        finally:
            self._files.close(fd)
        return Appended(before, after)

    def _extend(self, file: str, fd: int, before: Place, records: Sequence[bytes]) -> Place:
        """Write after what is there, make it durable, and believe what the file then says."""
        begun = self._begun(file, fd, before, records)
        self._files.sync(fd)
        return self._after(begun)

    def _begun(self, file: str, fd: int, before: Place, records: Sequence[bytes]) -> Begun:
        """Write after what is there."""
        lines, tag = sealed_lines(
            before.sealer, before.last + 1, before.durable, before.tag, records
        )
        data = b"\n".join(lines) + b"\n"
        if before.size > before.offset:
            data = _TORN_END + data
        self._files.append(fd, data)
        return Begun(fd, file, before, data, tag, len(records))

    def _after(self, begun: Begun) -> Place:
        """Return the place after an append that was synced, as the file now has it."""
        file, before, data = begun.file, begun.before, begun.data
        if self._folder.synced.get(file) != before.header:
            # Whoever put this file in place may have died before its name was durable.
            self._files.sync_folder("journals")
            self._folder.note_synced(file, before.header)
        if self._files.read(begun.fd, len(data) + 1, before.size) != data:
            raise StorageError(
                f"What was appended to {self._files.path(_path(file))!r} does not read back: "
                f"another program writes to it, or the lock is not honoured there"
            )
        size, last = before.size + len(data), before.last + begun.added
        after = before._replace(
            offset=size,
            size=size,
            line=before.line + data.count(b"\n"),
            last=last,
            tag=begun.tag,
            durable=last,
        )
        self._folder.remember(after)
        return after

    def _replace(
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
        self._folder.manifest.settle()
        # The file is durable before it has its name, so its first line can vouch for all of it.
        keep = [*keep, *map(Record, range(last + 1, last + 1 + len(records)), records)]
        last += len(records)
        if codec.hides_names:
            keep = [Record(0, name_record(name)), *keep]
        line = codec.new_header(name, file, len(keep), last + 1)
        sealer = codec.open_header(file, line).sealer
        temporary = f"{_path(file)}.tmp"
        fd = self._files.create(temporary)
        try:
            for chunk in chunks(snapshot_lines(line, sealer, keep)):
                self._files.append(fd, chunk)
            self._files.sync(fd)
        finally:
            self._files.close(fd)
        self._files.rename(temporary, _path(file))
        self._files.sync_folder("journals")
        return self._reloaded(codec, file, line + b"\n", last)

    def _reloaded(self, codec: Codec, file: str, header: bytes, last: int) -> Place:
        """Read a file that was just put in place: what is known rests on what it says."""
        fd = self._files.open(_path(file))
        try:
            place = self._folder.caught_up(codec, file, fd)
        finally:
            self._files.close(fd)
        if place.header != header or place.last != last or place.damage():
            raise StorageError(
                f"What was written to {self._files.path(_path(file))!r} does not read back"
            )
        place = place._replace(durable=last)
        self._folder.suspects.discard(file)
        self._folder.note_synced(file, header)
        self._folder.remember(place)
        return place

    def rewrite(self, name: JournalName, records: Iterable[Record]) -> Position:
        """See `JournalWriter.rewrite`."""
        codec, file = self._existing(name)
        with self._folder.errors_of(file):
            try:
                fd = self._files.open(_path(file))
                try:
                    before = self._folder.caught_up(codec, file, fd)
                finally:
                    self._files.close(fd)
                if damage := before.damage():
                    raise damage
                keep = checked_records(records, before.last)
                return self._replace(codec, name, file, last=before.last, keep=keep, records=[])
            except (Damage, ValueError):
                raise
            except BaseException:
                self._folder.distrust(file)
                raise

    def reseal(self, file: str) -> None:
        """Rewrite a journal's file as it is, with the newest keys."""
        codec = self._folder.codec()
        with self._folder.errors_of(file):
            fd = self._files.open(_path(file))
            try:
                place = self._folder.caught_up(codec, file, fd) if codec else None
                if codec is None or place is None:
                    raise ValueError("There is no store")
                if damage := place.damage():
                    raise damage
                keep = list(self._folder.records(codec, file, fd))
            finally:
                self._files.close(fd)
            name = self._folder.name_in(codec, file)
            if name is not None:
                self._reseal_index(codec, file)
                self._replace(codec, name, file, last=place.last, keep=keep, records=[])

    def _reseal_index(self, codec: Codec, file: str) -> None:
        """Seal an index anew; before its journal, which tells whether that is still to be done."""
        indexes = self._folder.indexes
        index = indexes.read(codec, file)
        indexes.remove(codec, file)
        if index is not None:
            indexes.write(codec, file, index)

    def _existing(self, name: JournalName) -> tuple[Codec, str]:
        if self._codec is None or not self._files.exists(_path(self._codec.file_name(name))):
            raise ValueError("There is no such journal: nothing was saved in that place yet")
        return self._codec, self._codec.file_name(name)

    def erase(self, name: JournalName) -> ErasedJournal:
        """See `JournalWriter.erase`.

        An encrypted file's key is derived from random bytes that stand in its first line only:
        they are overwritten before the file is removed.
        """
        if self._codec is None:
            return ErasedJournal(0, key_destroyed=False)
        file = self._codec.file_name(name)
        with self._folder.errors_of(file):
            count = self._folder.indexes.remove(self._codec, file)
            found = self._copies(file)
            if file in self._files.names():
                found.append(file)
            count += sum(self._remove(file, each) for each in found)
            # Also where nothing was found: whoever removed it may have died before this.
            self._files.sync_folder("journals")
            self._folder.distrust(file)
            self._folder.suspects.discard(file)
            return ErasedJournal(count, key_destroyed=bool(found) and self._codec.hides_names)

    def drop_copies(self, name: JournalName) -> None:
        """See `JournalWriter.drop_copies`."""
        if self._codec is None:
            return
        file = self._codec.file_name(name)
        with self._folder.errors_of(file):
            self._folder.indexes.remove(self._codec, file)
            for each in self._copies(file):
                self._remove(file, each)
            self._files.sync_folder("journals")

    def write_index(self, name: JournalName, data: bytes) -> bool:
        """Put an index beside a journal; see `IndexedJournals.write_index`."""
        codec, file = self._existing(name)
        with self._folder.errors_of(file):
            return self._folder.indexes.write(codec, file, data)

    def _copies(self, file: str) -> list[str]:
        """Return what stands beside a journal's file under its name.

        A leftover of the passing name comes first: the others take that name on their way out.
        """
        found = [each for each in self._files.names() if each.startswith(f"{file}.")]
        return sorted(found, key=lambda each: each != f"{file}.tmp")

    def _remove(self, file: str, each: str) -> int:
        """Remove a journal's file or a copy of it, and return how many bytes that freed."""
        path, doomed = _path(each), f"{_path(file)}.tmp"
        fd = self._files.open(path)
        try:
            size = self._files.size(fd)
        finally:
            self._files.close(fd)
        if self._codec is not None and self._codec.hides_names:
            if path != doomed:
                self._files.rename(path, doomed)
            # No journal may ever stand under its own name with a broken first line. A leftover may
            # have come by its name in an erasure that was killed before it was durable.
            self._files.sync_folder("journals")
            self._files.destroy(doomed, min(size, CHUNK))
            path = doomed
        self._files.remove(path)
        return size

    def salvage(self, name: JournalName) -> SalvagedJournal:
        """See `JournalWriter.salvage`."""
        codec, file = self._existing(name)
        with self._folder.errors_of(file):
            copy = f"{_path(file)}.damaged-{token_hex(4)}"
            kept, place = self._salvageable(codec, file)
            self._copy(_path(file), copy)
            missing = 0 if place is None else place.missing()
            last = 0 if place is None else max(place.last, place.durable)
            self._replace(codec, name, file, last=last, keep=kept, records=[])
            return SalvagedJournal(len(kept), missing, self._files.path(copy))

    def _salvageable(self, codec: Codec, file: str) -> tuple[list[Record], Place | None]:
        fd = self._files.open(_path(file))
        try:
            self._folder.distrust(file)
            try:
                place = self._folder.caught_up(codec, file, fd)
            except Damage:  # not even the first line can be read
                return [], None
            return list(self._folder.records(codec, file, fd)), place
        finally:
            self._files.close(fd)

    def _copy(self, source: str, target: str) -> None:
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
