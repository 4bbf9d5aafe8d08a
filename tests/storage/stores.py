"""Stores on a disk in memory, plain and sealed, with short helpers to read and write them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from factmem.storage._file_calls import Files
from factmem.storage._folder import JournalFolder
from factmem.storage._keys import SealedMode, StoreKeys
from factmem.storage.base import (
    JournalName,
    Journals,
    JournalWriter,
    Position,
    Record,
)
from factmem.storage.encryption.aes256gcm import Aes256GCMEncryptor
from factmem.storage.encryption.key import Key
from factmem.storage.simple import PlainMode

__all__ = [
    "ANN",
    "BOB",
    "KEYS",
    "PLAIN",
    "SEALED",
    "Kind",
    "append",
    "followed",
    "read",
    "read_by_summary",
    "record",
    "summarize",
    "texts",
]

ANN: JournalName = ("agent", "support", "user", "Ann")
BOB: JournalName = ("agent", "support", "user", "Bob")

KEYS = [Key.generate() for _ in range(3)]
"""The keys of the tests: stores are created with the first, and rotated to the others."""


@dataclass(frozen=True)
class Kind:
    """A kind of store: plain or sealed."""

    name: str
    is_sealed: bool
    open: Callable[..., JournalFolder] = field(repr=False)


def _plain(files: Files, keys: Sequence[Key] = KEYS) -> JournalFolder:
    return JournalFolder(files, PlainMode(), busy_timeout=5)


def _sealed(files: Files, keys: Sequence[Key] = KEYS) -> JournalFolder:
    mode = SealedMode(Aes256GCMEncryptor(*keys))
    folder = JournalFolder(files, mode, busy_timeout=5)
    folder.keys = StoreKeys(folder, mode)
    return folder


PLAIN = Kind("plain", is_sealed=False, open=_plain)
SEALED = Kind("sealed", is_sealed=True, open=_sealed)


def record(number: int, size: int = 20) -> bytes:
    """Return a unique record with about `size` characters of text."""
    return b'{"id":"%d","text":"%s"}' % (number, (b"%d," % number * size)[:size])


def append(journals: Journals, name: JournalName, *records: bytes) -> None:
    """Append records in one call."""
    with journals.exclusive() as writer:
        writer.append(name, records)


def read(journals: Journals | JournalWriter, name: JournalName) -> list[Record]:
    """Return all records of a journal."""
    return followed(journals, name, [], None)[0]


def followed(
    journals: Journals | JournalWriter,
    name: JournalName,
    records: list[Record],
    position: Position | None,
) -> tuple[list[Record], Position | None]:
    """Return all records and the end, after a first read up to `position`."""
    records = list(records)
    while True:
        reading = journals.read(name, position)
        if reading.is_from_start:
            records = []
        records += reading.records
        position = reading.position
        if reading.is_end:
            return records, position


def summarize(folder: JournalFolder, name: JournalName) -> bool:
    """Write a summary of all records of a journal, in two blocks; return whether it was written."""
    records, position = followed(folder, name, [], None)
    half = len(records) // 2
    blocks = [_packed(records[:half]), _packed(records[half:])]
    return position is not None and folder.write_summary(name, position, blocks)


def read_by_summary(folder: JournalFolder, name: JournalName) -> list[Record] | None:
    """Return all records of a journal, from its summary and later lines; None without a summary."""
    with folder.summary(name) as summary:
        if summary is None:
            return None
        try:
            kept = [*_unpacked(summary.block(0)), *_unpacked(summary.block(1))]
        except ValueError:
            return None
        return followed(folder, name, kept, summary.position)[0]


def _packed(records: Sequence[Record]) -> bytes:
    return b"\n".join([b"-", *(b"%d %b" % each for each in records)])


def _unpacked(block: bytes) -> list[Record]:
    lines = [line.partition(b" ") for line in block.split(b"\n")[1:]]
    return [Record(int(number), data) for number, _, data in lines]


def texts(records: Sequence[Record]) -> list[bytes]:
    """Return the records' texts."""
    return [each.data for each in records]
