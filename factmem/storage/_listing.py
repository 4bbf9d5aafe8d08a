"""Listing: the journals of one folder, page by page, without opening each file.

Only the files in the folder `journals` decide which journals exist. The name of a journal is read from
its file once, and then stored in a name file: `indexes/<xx>.names` has the names of the journals whose
digest begins with `xx`. The name in a file never changes, so a stored name can be missing or left
over, but never wrong.

A name file is derived, encrypted like a journal, and replaced whole without a sync, like an index. Its
removal is durable: an erasure removes the one that may have the erased name.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from heapq import nsmallest
from itertools import groupby
from logging import getLogger

import orjson

from factmem.errors import CorruptJournalError, FactmemError
from factmem.storage._file_calls import Files
from factmem.storage._indexes import FOLDER, NO_FOLDER, removed
from factmem.storage._plain_codec import Codec
from factmem.storage._reader import FolderReader
from factmem.storage.base import JournalName, Progress

_logger = getLogger(__name__)

PAGE = 16_384
"""The number of file names in memory during an operation on all files. Each page reads the folder
again, which takes 0.05 s of processor time for 100,000 files."""

_WORTH_KEEPING = 16
"""The number of missing names from which a name file is written: that takes 0.5 ms, as long as opening
16 journals. A store of fewer than 4,096 places has few name files."""

_MOST_RECENT = 100_000
"""The most names in memory that are in no name file, about 300 bytes each. They are few unless the
folder is read-only."""

_DIGEST = 20
"""The number of characters of the digest that files are sorted by."""

_SUFFIX = ".names"


class NameFiles:
    """The name files of one folder."""

    def __init__(self, files: Files) -> None:
        self._files = files

    def read(self, codec: Codec, shard: str) -> dict[str, JournalName]:
        """Return the stored names of the journals of a shard, by file."""
        try:
            sealed = self._files.content(f"{FOLDER}/{shard}{_SUFFIX}")
            if sealed is None:
                return {}
            kept = orjson.loads(codec.open_index(shard + _SUFFIX, sealed))
            return {file: tuple(name) for file, name in kept}
        except (ValueError, TypeError, CorruptJournalError, OSError):  # the journals are opened
            return {}

    def write(self, codec: Codec, shard: str, names: Sequence[tuple[str, JournalName]]) -> None:
        """Replace a name file; under the lock."""
        path = f"{FOLDER}/{shard}{_SUFFIX}"
        try:
            fd = self._files.create(f"{path}.tmp")
        except NO_FOLDER:
            return
        try:
            self._files.append(fd, codec.seal_index(shard + _SUFFIX, orjson.dumps(names)))
        finally:
            self._files.close(fd)
        self._files.rename(f"{path}.tmp", path)

    def remove(self, codec: Codec, file: str) -> None:
        """Remove the name file that may have a journal's name, durably; under the lock."""
        path = f"{FOLDER}/{shard_of(codec, file)}{_SUFFIX}"
        self._remove(codec, [f"{path}.tmp", path])

    def remove_all(self, codec: Codec) -> None:
        """Remove all name files, durably; under the lock."""
        try:
            found = [each for each in self._files.names(FOLDER) if _SUFFIX in each]
        except NO_FOLDER:
            return
        self._remove(codec, [f"{FOLDER}/{each}" for each in found])

    def _remove(self, codec: Codec, paths: Sequence[str]) -> None:
        try:
            for each in paths:
                removed(self._files, codec, each)
            # Even if nothing was found: the process that removed it may have died before the sync.
            if self._files.exists(FOLDER):
                self._files.sync_folder(FOLDER)
        except NO_FOLDER:
            return


class Listing:
    """Lists the journals of one folder in the order of their digests.

    Args:
        reader: The folder.
        exclusive: Holds the folder's lock, unless it is busy for long.
    """

    def __init__(
        self, reader: FolderReader, exclusive: Callable[[], AbstractContextManager[object]]
    ) -> None:
        self._reader = reader
        self._files = reader.files
        self._kept = NameFiles(reader.files)
        self._exclusive = exclusive
        self.forget_all()

    def forget_all(self) -> None:
        """Discard all cached names, in a forked child and on closing."""
        self._recent: dict[str, JournalName] = {}

    def names(
        self, after: JournalName | None, limit: int | None, *, is_locked: bool = False
    ) -> list[JournalName]:
        """Return the names of up to `limit` journals after `after`."""
        codec = self._reader.codec()
        if codec is None:
            return []
        start = None if after is None else codec.file_name(after)
        files = page_of_files(self._reader, codec, start, limit)
        found: list[JournalName] = []
        for shard, group in groupby(files, key=lambda file: shard_of(codec, file)):
            kept, those = self._kept.read(codec, shard), list(group)
            missing = [file for file in those if file not in kept]
            kept.update(self._read(codec, missing))
            if len(missing) >= _WORTH_KEEPING and not is_locked:
                # Not again after a failure: each attempt would wait for the lock.
                is_locked = not self._keep(shard, kept)
            found += [kept[file] for file in those if file in kept]
        return found

    def _read(self, codec: Codec, files: list[str]) -> dict[str, JournalName]:
        """Return the names in journals that are in no name file."""
        found: dict[str, JournalName] = {}
        for file in files:
            name = self._recent.get(file) or self._reader.name_in(codec, file)
            if name is not None:  # else it was erased since it was listed
                found[file] = self._recent[file] = name
        if len(self._recent) > _MOST_RECENT:
            self._recent = {}
        return found

    def _keep(self, shard: str, names: dict[str, JournalName]) -> bool:
        """Write a name file with the names of the journals that still exist, if possible."""
        try:
            with self._exclusive(), self._reader.errors.of(None):
                codec = self._reader.codec()
                if codec is not None:
                    # Under the lock: the name of a journal that was erased since must not stay.
                    present = [each for each in names.items() if self._reader.has_journal(each[0])]
                    self._kept.write(codec, shard, present)
        except FactmemError as exc:  # a busy or read-only store can still be listed
            _logger.debug("No names were kept: %s", type(exc).__name__)
            return False
        for file in names:
            self._recent.pop(file, None)
        return True


def shard_of(codec: Codec, file: str) -> str:
    """Return the shard that a journal's file belongs to."""
    return _place_in_order(codec, file)[:2]


def _place_in_order(codec: Codec, file: str) -> str:
    return file[-len(codec.suffix) - _DIGEST :]


def page_of_files(
    reader: FolderReader, codec: Codec, after: str | None = None, limit: int | None = None
) -> list[str]:
    """Return up to `limit` files of journals in the order of their digests; no copies."""
    suffix = codec.suffix
    cut = -len(suffix) - _DIGEST
    with reader.errors.of(None):
        found: Iterator[str] = (
            file for file in reader.files.each_name("journals") if file.endswith(suffix)
        )
        if after is not None:
            start = after[cut:]
            found = (file for file in found if file[cut:] > start)
        if limit is None:
            return sorted(found, key=lambda file: file[cut:])
        return nsmallest(limit, found, key=lambda file: file[cut:])


def each_file(reader: FolderReader, codec: Codec) -> Iterator[str]:
    """Yield the files of all journals, with one page in memory at a time."""
    page = page_of_files(reader, codec, None, PAGE)
    while page:
        yield from page
        page = page_of_files(reader, codec, page[-1], PAGE) if len(page) == PAGE else []


def reported(reader: FolderReader, codec: Codec, progress: Progress | None) -> Iterator[str]:
    """Yield the files of all journals, and report each that is done."""
    total = 0
    if progress is not None:
        with reader.errors.of(None):
            names = reader.files.each_name("journals")
            total = sum(1 for file in names if file.endswith(codec.suffix))
    for done, file in enumerate(each_file(reader, codec), 1):
        yield file
        if progress is not None:
            progress(done, max(done, total))
