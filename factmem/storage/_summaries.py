"""Summary files: the folded state of a large journal, in blocks that are read one by one.

A summary is stored beside the journal's index. Like the index it is derived, encrypted like the
journal, and replaced whole without a sync. It begins with a unique line, and each block is
authenticated with its number and that line. The last parts are the directory, sealed like a block,
and its length in 8 bytes.

The directory identifies the journal by its first line, and the position by the number of the last
record and the bytes before it. A summary is ignored if it is of
another file, or if the journal was cut or changed there.
"""

from collections.abc import Iterable
from contextlib import suppress
from hashlib import sha256
from secrets import token_hex
from typing import Any

import orjson

from factmem.errors import CorruptJournalError, StorageError
from factmem.storage._file_calls import Files
from factmem.storage._indexes import FOLDER, summary_name
from factmem.storage._journal import (
    LONGEST_HEADER,
    Damage,
    Place,
    at_start,
    journal_path,
    read_header,
)
from factmem.storage._plain_codec import BlockSealer, Codec, compact

_LENGTH = 8
"""The size in bytes of the directory's length, at the end of the file."""

_END = 512
"""The bytes of the journal before the summary's end that must be unchanged: longer than any tag."""

_DIRECTORY = 0
"""The block number of the directory; other blocks count from 1."""

_UNREADABLE = (
    ValueError,
    KeyError,
    TypeError,
    IndexError,
    AttributeError,
    RecursionError,
    OSError,
    StorageError,
    CorruptJournalError,
    Damage,
)
"""The errors raised on reading a damaged summary or one of another journal."""


class OpenSummary:
    """A summary whose file is open; see `base.Summary`."""

    def __init__(
        self, files: Files, fd: int, sealer: BlockSealer, spans: list[tuple[int, int]], place: Place
    ) -> None:
        self._files = files
        self._fd = fd
        self._sealer = sealer
        self._spans = spans
        self.position = place
        self.size = sum(size for _, size in spans)

    def block(self, number: int) -> bytes:
        """See `base.Summary.block`."""
        start, size = self._spans[number]
        try:
            sealed = self._files.read(self._fd, size, start)
        except OSError:
            raise ValueError("cannot be read") from None
        return self._sealer.open(1 + number, sealed)


class SummaryFiles:
    """The summaries of one folder's journals."""

    def __init__(self, files: Files) -> None:
        self._files = files

    def open(self, codec: Codec, journal: str) -> tuple[int, OpenSummary] | None:
        """Return the open file of a journal's summary, and the summary; None if it has none.

        The caller closes the file.
        """
        name = summary_name(codec, journal)
        try:
            fd = self._files.open(f"{FOLDER}/{name}")
        except (OSError, CorruptJournalError):
            return None
        found = None
        with suppress(*_UNREADABLE):
            found = self._opened(codec, name, journal, fd)
        if found is None:
            self._files.close(fd)
            return None
        return fd, found

    def _opened(self, codec: Codec, name: str, journal: str, fd: int) -> OpenSummary:
        files = self._files
        first, end, _ = files.read(fd, LONGEST_HEADER, 0).partition(b"\n")
        sealer = codec.open_blocks(name, first + end)
        size = files.size(fd)
        length = int.from_bytes(files.read(fd, _LENGTH, size - _LENGTH), "big")
        start = size - _LENGTH - length
        if start < len(first) + 1:
            raise ValueError("no directory")
        directory = orjson.loads(sealer.open(_DIRECTORY, files.read(fd, length, start)))
        spans, at = [], len(first) + 1
        for each in directory["sizes"]:
            spans.append((at, each))
            at += each
        return OpenSummary(files, fd, sealer, spans, self._place(codec, journal, directory))

    def _place(self, codec: Codec, journal: str, directory: dict[str, Any]) -> Place:
        """Return the place in the journal at which a summary ends, if the journal has it."""
        fd = self._files.open(journal_path(journal))
        try:
            line, header = read_header(self._files, codec, journal, fd)
            start = at_start(journal, line, header)
            if directory["journal"] != sha256(line).hexdigest() or start.version != 2:
                raise ValueError("of another file")
            offset, last = directory["offset"], directory["number"]
            if directory["end"] != _digest_before(self._files, fd, offset):
                raise ValueError("the journal was changed there")
        finally:
            self._files.close(fd)
        return start._replace(
            offset=offset,
            size=offset,
            line=directory["line"],
            last=last,
            tag=bytes.fromhex(directory["tag"]),
            durable=last,
            snapshot_left=0,
            snapshot_last=directory["snapshot"],
        )

    def write(self, codec: Codec, place: Place, blocks: Iterable[bytes]) -> str:
        """Write a summary to a temporary file and return its path; errors of `blocks` pass.

        Takes no lock, because it may take seconds: `put` renames the file.
        """
        name = summary_name(codec, place.file)
        for each in self._files.names(FOLDER):
            if each.startswith(f"{name}."):  # left behind by a killed process
                self._files.remove(f"{FOLDER}/{each}")
        path = f"{FOLDER}/{name}.{token_hex(4)}"
        fd = self._files.create(path)
        try:
            sealer = codec.new_blocks(name)
            self._files.append(fd, sealer.first_line)
            sizes: list[int] = []
            for number, block in enumerate(blocks):
                sealed = sealer.seal(1 + number, block)
                self._files.append(fd, sealed)
                sizes.append(len(sealed))
            directory = sealer.seal(_DIRECTORY, self._directory(place, sizes))
            self._files.append(fd, directory + len(directory).to_bytes(_LENGTH, "big"))
        except BaseException:
            self._files.remove(path)
            raise
        finally:
            self._files.close(fd)
        return path

    def _directory(self, place: Place, sizes: list[int]) -> bytes:
        fd = self._files.open(journal_path(place.file))
        try:
            end = _digest_before(self._files, fd, place.offset)
        finally:
            self._files.close(fd)
        return compact(
            {
                "journal": place.digest(),
                "number": place.last,
                "offset": place.offset,
                "line": place.line,
                "tag": place.tag.hex(),
                "snapshot": place.snapshot_last,
                "end": end,
                "sizes": sizes,
            }
        )

    def put(self, codec: Codec, place: Place, path: str) -> bool:
        """Rename a summary into place, unless the journal was replaced meanwhile. Under the lock.

        A replacement may have purged some of its values, which must not come back.
        """
        fd = self._files.open(journal_path(place.file))
        try:
            is_same = self._files.read(fd, len(place.header), 0) == place.header
        finally:
            self._files.close(fd)
        if not is_same:
            self._files.remove(path)
            return False
        self._files.rename(path, f"{FOLDER}/{summary_name(codec, place.file)}")
        return True


def _digest_before(files: Files, fd: int, offset: int) -> str:
    """Return the digest of the bytes before an offset of a file."""
    start = max(0, offset - _END)
    data = files.read(fd, offset - start, start)
    if len(data) != offset - start:
        raise ValueError("the journal is shorter")
    return sha256(data).hexdigest()
