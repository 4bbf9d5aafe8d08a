"""Keys of places and the form of their lines: plain, with a checksum, or sealed (`sealed.py`).

Opening      reads the store's row and creates one `Sealing` for the store
PlaceReader  caches one `Sealer` for each place and opens the lines that it reads
PlaceWriter  seals the lines that it appends
"""

import struct
from hashlib import sha256
from typing import NamedTuple
from zlib import crc32

import orjson

from factmem.errors import CorruptJournalError, TamperedError
from factmem.models.places import Identity
from factmem.providers.conversations import owner_of

NO_TAG = bytes(16)
"""The tag before the first line."""


class Extent(NamedTuple):
    """The end of a place, as numbers that only increase."""

    made: int
    """The number of this place: one that is erased and created again gets another number."""
    snapshot: int
    """How often its history was edited."""
    last: int
    """The number of its last line."""


class Counters(NamedTuple):
    """The numbers in the row of a place, to which its tail is bound."""

    made: int
    snapshot: int
    last: int
    """These three as in `Extent`."""
    size: int
    """The bytes of its lines, before they are sealed."""
    at: int
    """When its last line was recorded, even if that line was removed."""
    purged: int
    """The number of the last purge, among the erasures of the store."""


def time_in(tail: bytes) -> int:
    """Return the time in a tail, unverified; the time in the row may be of a later save."""
    return int.from_bytes(tail[len(NO_TAG) : len(NO_TAG) + 8], "big", signed=True)


class UnknownGenerationError(Exception):
    """A data key is wrapped under a generation missing in this ring: another process rotated it."""


def unknown_key() -> TamperedError:
    """Return the error for a generation that is missing although the ring is the newest."""
    return TamperedError(
        "A place is sealed with a key that its store does not have: its row was changed, or the "
        "store's row was put back to an older copy. Restore both from one backup"
    )


class Sealer:
    """Stores the lines of one place as they are, for a database with its own checksums.

    Data that does not verify raises `TamperedError`, or `CorruptJournalError` in a plain store.
    """

    def seal(self, number: int, at: int, previous: bytes, line: bytes) -> bytes:
        """Return a line as it is stored; `previous` is the tag of the line before."""
        return line

    def open(self, number: int, at: int, previous: bytes, stored: bytes) -> bytes:
        """Return a stored line."""
        return stored

    def tag(self, stored: bytes) -> bytes:
        """Return the tag to which the next line is bound."""
        return NO_TAG

    def tail(self, counters: Counters, tag: bytes) -> bytes | None:
        """Return the tail of a place that ends with the line of this tag: tag, time and check."""
        return None

    def check_tail(self, counters: Counters, tag: bytes, tail: bytes | None) -> None:
        """Raise unless a place ends where its row says, which proves that no line is missing."""

    def seal_names(self, identity: Identity) -> bytes:
        """Return the names of the place as they are stored."""
        return orjson.dumps(identity)

    def open_names(self, stored: bytes) -> Identity:
        """Return the names of the place."""
        try:
            kind, scope, subject, entity = orjson.loads(stored)
            names = (kind, scope, subject, entity)
            texts = owner_of(names)[: 3 if entity is None else 4]
            if all(isinstance(each, str) for each in texts):
                return names
        except (ValueError, TypeError):
            pass
        raise CorruptJournalError(
            "The names of a place cannot be read: another program changed its row. Restore it "
            "from a backup"
        )

    def seal_index(self, index: bytes) -> bytes:
        return index

    def open_index(self, stored: bytes) -> bytes | None:
        """Return a stored index; None if it does not verify, as it can be made again."""
        return stored


_SUM = struct.Struct(">qq")
COUNTERS = struct.Struct(">qqqqqq")
_SUM_END = len(b'{"sum":"00000000"')


class _CheckedLines(Sealer):
    """Lines with a checksum as the first field of their JSON: any tool reads them.

    It covers the place, the number, the time and the rest of the line.
    """

    def __init__(self, place: bytes) -> None:
        self._seed = crc32(place)

    def seal(self, number: int, at: int, previous: bytes, line: bytes) -> bytes:
        rest = line[1:] if line == b"{}" else b"," + line[1:]
        found = crc32(rest, crc32(_SUM.pack(number, at), self._seed))
        return b'{"sum":"%08x"%b' % (found, rest)

    def open(self, number: int, at: int, previous: bytes, stored: bytes) -> bytes:
        rest = memoryview(stored)[_SUM_END:]  # not copied: a line may have 100 KB
        found = crc32(rest, crc32(_SUM.pack(number, at), self._seed))
        if stored[:_SUM_END] != b'{"sum":"%08x"' % found:
            raise CorruptJournalError(
                f"Entry {number} of a place is damaged: restore the place from a backup"
            )
        return b"".join((b"{", rest[stored.startswith(b",", _SUM_END) :]))

    def tail(self, counters: Counters, tag: bytes) -> bytes:
        numbers = COUNTERS.pack(*counters)
        return tag + numbers[-16:-8] + crc32(numbers, self._seed).to_bytes(4, "big")

    def check_tail(self, counters: Counters, tag: bytes, tail: bytes | None) -> None:
        if self.tail(counters, tag) != tail:
            raise CorruptJournalError(
                f"A place does not end with entry {counters.last} as its row says: restore "
                f"the place from a backup"
            )

    def seal_index(self, index: bytes) -> bytes:
        return crc32(index, self._seed).to_bytes(4, "big") + index

    def open_index(self, stored: bytes) -> bytes | None:
        index = stored[4:]
        return index if crc32(index, self._seed).to_bytes(4, "big") == stored[:4] else None


class Sealing:
    """The form of a store's rows, here plain. Keys are hashes, so that they have one length.

    A line has a checksum with `has_checksums`; a database server has its own.
    """

    generation: int = 0
    """The generation of data keys that new places use."""

    def __init__(self, store: str, *, has_checksums: bool = False) -> None:
        self._store = bytes.fromhex(store)
        self._has_checksums = has_checksums
        self._lines = Sealer()

    def key(self, kind: str, names: tuple[str | None, ...]) -> bytes:
        """Return the key of a place, a subject or a scope: 16 bytes."""
        return sha256(named(kind, self._store, names)).digest()[:16]

    def new_data_key(self, place: bytes) -> bytes | None:
        """Return a wrapped data key for a new place; None where nothing is sealed."""
        return None

    def sealer(self, place: bytes, data_key: bytes | None) -> Sealer:
        """Return the form of the lines of a place; `UnknownGenerationError` with an older ring."""
        return _CheckedLines(place) if self._has_checksums else self._lines


def named(kind: str, store: bytes, names: tuple[str | None, ...]) -> bytes:
    return kind.encode() + b"\0" + store + orjson.dumps(names)
