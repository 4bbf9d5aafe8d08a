"""FolderWriter: appends to a folder's journals and rewrites them, under the lock.

A record is acknowledged after fsync and after it was read back; only then is its file vouched for. A
file is appended to only while it is vouched for, and otherwise replaced whole. After any error of any
process a journal therefore continues in a new file, because a failed fsync leaves a file in doubt for
good.
"""

from collections.abc import Iterable, Sequence
from secrets import token_hex

from factmem.errors import CorruptJournalError, StorageError
from factmem.storage._batch import Begun, append_all
from factmem.storage._file_calls import OpenEnd
from factmem.storage._indexes import IndexFiles
from factmem.storage._journal import Damage, Place, journal_path
from factmem.storage._plain_codec import Codec
from factmem.storage._reader import FolderReader
from factmem.storage._record_lines import check_records, checked_records, sealed_batch
from factmem.storage._removal import Removal
from factmem.storage._replacement import Incarnations
from factmem.storage.base import (
    Appended,
    ErasedJournal,
    JournalName,
    Position,
    Reading,
    Record,
    SalvagedJournal,
)


class FolderWriter:
    """The journals of a folder whose lock is held; see `base.JournalWriter` for the contract."""

    def __init__(self, reader: FolderReader, indexes: IndexFiles, codec: Codec | None) -> None:
        self._reader = reader
        self._indexes = indexes
        self._incarnations = Incarnations(reader)
        self._files = reader.files
        self._errors = reader.errors
        self.codec = codec
        """The encoding of the journals; None until there is a store."""

    def read(self, name: JournalName, after: Position | None) -> Reading:
        """See `JournalWriter.read`."""
        return self._reader.read_now(name, after)

    def append(self, name: JournalName, records: Sequence[bytes]) -> Appended:
        """See `JournalWriter.append`."""
        if not records:
            raise ValueError("There is nothing to append: pass at least one record")
        check_records(records)
        if self.codec is None:
            with self._errors.of(None):
                self.codec = self._reader.manifest.create()
        codec = self.codec
        file = codec.file_name(name)
        with self._errors.of(file):
            try:
                return self._append(codec, name, file, records)
            except Damage:
                raise
            except BaseException:
                self._reader.distrust(file)
                raise

    def append_all(
        self, appends: Sequence[tuple[JournalName, Sequence[bytes]]]
    ) -> list[Appended | Exception]:
        """See `BatchWriter.append_all`."""
        return append_all(self, self._files, appends)

    def begin(
        self, file: str, end: OpenEnd, records: Sequence[bytes], names: object
    ) -> Begun | Exception | None:
        """Write to the end of a journal that is whole; return None for any other.

        The caller syncs, finishes and closes the file.
        """
        if self.codec is None or not records:
            return None
        try:
            check_records(records)
        except ValueError as exc:
            return exc
        try:
            return self._written(self.codec, file, end, records, names)
        except Damage:  # `append` raises it
            return None
        except Exception as exc:  # noqa: BLE001 - the caller that waits for the append raises it
            self._reader.distrust(file)
            return self._errors.translated(exc, file)
        except BaseException:
            self._reader.distrust(file)
            raise

    def finish(
        self, begun: Sequence[Begun], errors: Sequence[Exception | None], *, are_named: bool
    ) -> list[Appended | Exception]:
        """Acknowledge appends that were begun and synced.

        The lock is checked once, after all were read back: it was held until then.

        Args:
            begun: The appends.
            errors: The errors of their syncs.
            are_named: Whether their files are known to have the names by which they were opened.
        """
        failures = [
            self._failure(one, error, are_named) for one, error in zip(begun, errors, strict=True)
        ]
        try:
            self._files.check_lock()
        except Exception as exc:  # noqa: BLE001 - the callers that wait for the appends raise it
            lost = self._errors.translated(exc, None)
            failures = [failure or lost for failure in failures]
        return [
            failure or self._appended(one) for one, failure in zip(begun, failures, strict=True)
        ]

    def _failure(self, begun: Begun, error: Exception | None, is_named: bool) -> Exception | None:
        """Return the public error of an append that was synced; None if it reads back."""
        try:
            self._check_read_back(begun, error)
            if not is_named:
                self._files.check_named(begun.fd)
        except Exception as exc:  # noqa: BLE001 - the caller that waits for the append raises it
            return self._errors.translated(exc, begun.file)
        return None

    def distrust(self, begun: Begun) -> None:
        """Never append to a journal's file again, because an append to it failed."""
        self._reader.distrust(begun.file)

    def _append(
        self, codec: Codec, name: JournalName, file: str, records: Sequence[bytes]
    ) -> Appended:
        begun = self._begun(codec, file, records)
        if begun is None:
            return self._append_to_new_file(codec, name, file, records)
        try:
            return self._extended(begun)
        finally:
            self._files.close(begun.fd)

    def _append_to_new_file(
        self, codec: Codec, name: JournalName, file: str, records: Sequence[bytes]
    ) -> Appended:
        try:
            fd = self._files.open(journal_path(file))
        except FileNotFoundError:
            self._reader.marks.check_gone(codec, file)
            after = self._incarnations.replace(codec, name, file, None, records=records)
            return Appended(None, after)
        try:
            before = self._reader.caught_up(codec, file, fd)
            if damage := before.damage():
                raise damage
            keep = self._reader.kept(codec, file, fd)
        finally:
            self._files.close(fd)
        after = self._incarnations.replace(codec, name, file, before, keep=keep, records=records)
        return Appended(before, after)

    def _begun(self, codec: Codec, file: str, records: Sequence[bytes]) -> Begun | None:
        """Write at the end of a file; return None if it is missing or must be replaced."""
        try:
            end = self._files.open_end(journal_path(file))
        except FileNotFoundError:
            return None
        begun = None
        try:
            begun = self._written(codec, file, end, records)
        finally:
            if begun is None:
                self._files.close(end.fd)
        return begun

    def _written(
        self,
        codec: Codec,
        file: str,
        end: OpenEnd,
        records: Sequence[bytes],
        names: object = None,
    ) -> Begun | None:
        """Write at the end of an open file; return None if it must be replaced."""
        fd, size, is_vouched, mark = end
        before = self._reader.caught_up(codec, file, fd, size=size, names=names, mark=mark)
        if not (is_vouched and before.is_extendable()):
            return None
        data, tag = sealed_batch(before.sealer, before.last + 1, before.tag, records)
        self._files.append(fd, data)
        return Begun(fd, file, before, data, tag, len(records))

    def _extended(self, begun: Begun) -> Appended:
        """Sync an append, and accept the file's content."""
        self._files.sync(begun.fd)
        self._check_read_back(begun, None)
        self._files.check_named(begun.fd)
        self._files.check_lock()
        return self._appended(begun)

    def mark_ends(self, files: Sequence[str]) -> None:
        """Write the end marks of journals that are whole; skip all others.

        From then on damage before the mark is not mistaken for a torn write.
        """
        if self.codec is not None:
            places = [self._whole(self.codec, file) for file in files]
            with self._errors.of(None):
                self._reader.marks.write(self.codec, [each for each in places if each is not None])

    def _whole(self, codec: Codec, file: str) -> Place | None:
        """Return the end of a journal's file; None if a mark must not vouch for it."""
        try:
            fd, size, is_vouched, _ = self._files.open_end(journal_path(file))
        except (OSError, CorruptJournalError):
            return None
        try:
            place = self._reader.caught_up(codec, file, fd, size=size)
            is_whole = is_vouched and place.is_extendable()
        except (OSError, Damage, StorageError):  # the next call on this place raises it
            return None
        finally:
            self._files.close(fd)
        return place if is_whole else None

    def flush(self, name: JournalName) -> None:
        """See `JournalWriter.flush`."""
        if self.codec is None:
            return
        file = self.codec.file_name(name)
        with self._errors.of(file):
            self._flush(self.codec, name, file)

    def flush_file(self, codec: Codec, file: str) -> None:
        """Make the content of a journal's file durable."""
        if (name := self._reader.name_in(codec, file)) is not None:
            with self._errors.of(file):
                self._flush(codec, name, file)

    def _flush(self, codec: Codec, name: JournalName, file: str) -> None:
        try:
            fd = self._files.open(journal_path(file))
        except FileNotFoundError:
            self._reader.marks.check_gone(codec, file)
            # The process that removed it may have died before that was durable.
            self._files.sync_folder("journals")
            self._files.check_lock()
            return
        try:
            before = self._reader.caught_up(codec, file, fd)
            if damage := before.damage():
                raise damage
            is_vouched = self._files.is_vouched(fd)
            if before.version > 1 and not (is_vouched and before.is_extendable()):
                keep = self._reader.kept(codec, file, fd)
                self._incarnations.replace(codec, name, file, before, keep=keep)
            elif self._reader.synced.get(file) != before.header:
                self._files.sync(fd)
                self._files.sync_folder("journals")
                self._files.check_lock()
                self._reader.note_synced(file, before.header)
        finally:
            self._files.close(fd)

    def _check_read_back(self, begun: Begun, error: Exception | None) -> None:
        """Raise unless the file has what was appended and synced, at its end."""
        if error is not None:
            raise error
        if self._reader.synced.get(begun.file) != begun.before.header:
            # The process that renamed this file into place may have died before that was durable.
            self._files.sync_folder("journals")
            self._reader.note_synced(begun.file, begun.before.header)
        data = begun.data
        if self._files.read(begun.fd, len(data) + 1, begun.before.size) != data:
            raise StorageError(
                f"What was appended to {self._files.path(journal_path(begun.file))!r} does not "
                f"read back: another program writes to it or ignores the lock"
            )

    def _appended(self, begun: Begun) -> Appended:
        """Vouch for a file that reads back, and cache its end."""
        before = begun.before
        size = before.size + len(begun.data)
        mark = self._files.vouch(begun.fd, size)
        after = before.extended(size, begun.added, begun.tag)
        self._reader.remember(after, mark)
        self._reader.note_unended(begun.file)
        return Appended(before, after)

    def rewrite(self, name: JournalName, records: Iterable[Record]) -> Position:
        """See `JournalWriter.rewrite`."""
        codec, file = self._existing(name)
        with self._errors.of(file):
            try:
                fd = self._files.open(journal_path(file))
                try:
                    before = self._reader.caught_up(codec, file, fd)
                    before = self._reader.judged(codec, fd, before)
                finally:
                    self._files.close(fd)
                if damage := before.damage():
                    raise damage
                keep = checked_records(records, before.last)
                after = self._incarnations.replace(codec, name, file, before, keep=keep)
            except (Damage, ValueError):
                raise
            except BaseException:
                self._reader.distrust(file)
                raise
            self._indexes.remove_summary(codec, file)  # it may have the removed values
            return after

    def reseal(self, file: str) -> None:
        """Rewrite a journal's file as it is, with the newest keys."""
        codec = self._reader.codec()
        with self._errors.of(file):
            fd = self._files.open(journal_path(file))
            try:
                place = self._reader.caught_up(codec, file, fd) if codec else None
                if codec is None or place is None:
                    raise ValueError("There is no store")
                if damage := place.damage():
                    raise damage
                keep = self._reader.kept(codec, file, fd)
            finally:
                self._files.close(fd)
            name = self._reader.name_in(codec, file)
            if name is not None:
                self._reseal_index(codec, file)
                self._incarnations.replace(codec, name, file, place, keep=keep)

    def _reseal_index(self, codec: Codec, file: str) -> None:
        """Re-encrypt an index; before its journal, which shows whether rotation is complete."""
        indexes = self._indexes
        index = indexes.read(codec, file)
        indexes.remove(codec, file)
        if index is not None:
            indexes.write(codec, file, bytes(index))

    def _existing(self, name: JournalName) -> tuple[Codec, str]:
        if self.codec is None or not self._files.exists(journal_path(self.codec.file_name(name))):
            raise ValueError("The place has no journal: nothing was saved in it yet")
        return self.codec, self.codec.file_name(name)

    def erase(self, name: JournalName) -> ErasedJournal:
        """See `JournalWriter.erase`."""
        if self.codec is None:
            # The count must outlive this process: another one may have read a chat whose facts it
            # saves later.
            with self._errors.of(None):
                self.codec = self._reader.manifest.create()
        file = self.codec.file_name(name)
        with self._errors.of(file):
            self._reader.manifest.count_erasure()
            return Removal(self._reader, self._indexes, self.codec).erase(file)

    def drop_copies(self, name: JournalName) -> None:
        """See `JournalWriter.drop_copies`."""
        if self.codec is None:
            return
        file = self.codec.file_name(name)
        with self._errors.of(file):
            self._reader.manifest.count_erasure()
            Removal(self._reader, self._indexes, self.codec).drop_copies(file)

    def write_index(self, name: JournalName, data: bytes) -> bool:
        """Put an index beside a journal; see `IndexedJournals.write_index`."""
        codec, file = self._existing(name)
        with self._errors.of(file):
            return self._indexes.write(codec, file, data)

    def salvage(self, name: JournalName) -> SalvagedJournal:
        """See `JournalWriter.salvage`."""
        codec, file = self._existing(name)
        with self._errors.of(file):
            copy = f"{journal_path(file)}.damaged-{token_hex(4)}"
            kept, place = self._salvageable(codec, file)
            self._incarnations.copy(journal_path(file), copy)
            missing = 0 if place is None else place.missing()
            self._incarnations.replace(codec, name, file, place, keep=kept, is_copied=True)
            return SalvagedJournal(len(kept), missing, self._files.path(copy))

    def _salvageable(self, codec: Codec, file: str) -> tuple[list[Record], Place | None]:
        fd = self._files.open(journal_path(file))
        try:
            self._reader.distrust(file)
            try:
                place = self._reader.read_through(codec, file, fd)
            except Damage:  # not even the first line can be read
                return [], None
            return list(self._reader.records(codec, file, fd)), place
        finally:
            self._files.close(fd)
