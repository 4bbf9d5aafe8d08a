"""Keys of places and the form of their lines: plain, with a checksum, or sealed under a data key.

    Opening      reads the store's row and creates one `Sealing` for the store
    PlaceReader  caches one `Sealer` for each place and opens the lines that it reads
    PlaceWriter  seals the lines that it appends

The keys of a sealed store:

    ring (in the key slots of the store's row, wrapped by the user's Encryption)
      └─ data key of a place, wrapped in its row
           ├─ names of the place
           ├─ lines, each bound to its place, number and time, and to the tag of the line before
           └─ tail of the row: the last line's tag, bound to the numbers of the row

Removed, swapped, moved and changed lines do not verify. Only an anchor detects that all of a place
was put back to an older copy.
"""

import hmac
import os
import struct
from hashlib import sha256
from typing import NamedTuple
from zlib import crc32

import orjson

from factmem.encryption._ciphers import NONCE_BYTES, TAG_BYTES, Aead
from factmem.encryption._ring import KeyRing
from factmem.errors import CorruptJournalError, TamperedError
from factmem.models.places import Identity

_PAD = 64
"""Sizes are rounded up to this many bytes, so that they reveal less."""

_LEAST_STEP = 4096
"""Indexes are rounded up to four sizes per doubling: their size would reveal the number of facts."""

NO_TAG = bytes(TAG_BYTES)
"""What the first line follows."""


class Extent(NamedTuple):
    """How far a place has come."""

    made: int
    """Which of the places of these names: one that is erased and made again is another one."""
    snapshot: int
    """How often its history was edited."""
    last: int
    """The number of its last line."""


class Counters(NamedTuple):
    """The numbers in the row of a place, which its tail is bound to."""

    extent: Extent
    size: int
    """The bytes of its lines, before they are sealed."""
    at: int
    """When its last line was recorded, or a later one that was removed."""
    purged: int
    """The number of the last purge, among the erasures of the store."""


def time_in(tail: bytes) -> int:
    """Return the time in a tail that is not verified: a save may have moved that of the row."""
    return int.from_bytes(tail[TAG_BYTES : TAG_BYTES + 8], "big", signed=True)


class UnknownGenerationError(Exception):
    """A data key is wrapped under a generation that this ring lacks: another process rotated it."""


class Sealer:
    """The form of the lines of one place; here as they are, for a database with its own checksums."""

    def seal(self, number: int, at: int, previous: bytes, line: bytes) -> bytes:
        """Return a line as it is stored; `previous` is the tag of the line before."""
        return line

    def open(self, number: int, at: int, previous: bytes, stored: bytes) -> bytes:
        """Return a stored line.

        Raises:
            CorruptJournalError: It is damaged.
            TamperedError: It does not verify.
        """
        return stored

    def tag(self, stored: bytes) -> bytes:
        """Return the tag that the next line follows."""
        return NO_TAG

    def tail(self, counters: Counters, tag: bytes) -> bytes | None:
        """Return the tail of a place that ends with the line of this tag: tag, time and check."""
        return None

    def check_tail(self, counters: Counters, tag: bytes, tail: bytes | None) -> None:
        """Raise unless a place ends where its row says.

        Raises:
            CorruptJournalError: It is damaged.
            TamperedError: It does not verify.
        """

    def seal_names(self, identity: Identity) -> bytes:
        """Return the names of the place as they are stored."""
        return orjson.dumps(identity)

    def open_names(self, stored: bytes) -> Identity:
        """Return the names of the place.

        Raises:
            CorruptJournalError: They cannot be read.
            TamperedError: They do not verify.
        """
        try:
            kind, scope, subject, entity = orjson.loads(stored)
        except (ValueError, TypeError):
            raise CorruptJournalError(
                "The names of a place cannot be read: another program changed its row. Restore it "
                "from a backup"
            ) from None
        return kind, scope, subject, entity

    def seal_index(self, index: bytes) -> bytes:
        """Return an index as it is stored."""
        return index

    def open_index(self, stored: bytes) -> bytes | None:
        """Return a stored index; None if it does not verify, as it can be made again."""
        return stored


_SUM = struct.Struct(">qq")
_COUNTERS = struct.Struct(">qqqqqq")
_SUM_END = len(b'{"sum":"00000000"')


class _CheckedLines(Sealer):
    """Lines that carry a checksum as the first field of their JSON, so that any tool reads them.

    It covers the place, the number, the time and the rest of the line.
    """

    def __init__(self, place: bytes) -> None:
        self._seed = crc32(place)

    def seal(self, number: int, at: int, previous: bytes, line: bytes) -> bytes:
        rest = line[1:] if line == b"{}" else b"," + line[1:]
        found = crc32(rest, crc32(_SUM.pack(number, at), self._seed))
        return b'{"sum":"%08x"%b' % (found, rest)

    def open(self, number: int, at: int, previous: bytes, stored: bytes) -> bytes:
        rest = stored[_SUM_END:]
        found = crc32(rest, crc32(_SUM.pack(number, at), self._seed))
        if stored[:_SUM_END] != b'{"sum":"%08x"' % found:
            raise CorruptJournalError(
                f"Entry {number} of a place is damaged: restore the place from a backup"
            )
        return b"{" + rest.removeprefix(b",")

    def tail(self, counters: Counters, tag: bytes) -> bytes:
        numbers = _COUNTERS.pack(*counters.extent, *counters[1:])
        return tag + numbers[-16:-8] + crc32(numbers, self._seed).to_bytes(4, "big")

    def check_tail(self, counters: Counters, tag: bytes, tail: bytes | None) -> None:
        if self.tail(counters, tag) != tail:
            raise CorruptJournalError(
                f"A place does not end with entry {counters.extent.last} as its row says: restore "
                f"the place from a backup"
            )

    def seal_index(self, index: bytes) -> bytes:
        return crc32(index, self._seed).to_bytes(4, "big") + index

    def open_index(self, stored: bytes) -> bytes | None:
        index = stored[4:]
        return index if crc32(index, self._seed).to_bytes(4, "big") == stored[:4] else None


class Sealing:
    """The form of a whole store; here nothing is secret. Keys are hashes, so that they have one length.

    Args:
        store: The id of the store, in hex.
        has_checksums: Whether each line carries a checksum. A database server has its own.
    """

    generation: int = 0
    """The generation of data keys that new places use."""

    def __init__(self, store: str, *, has_checksums: bool = False) -> None:
        self._store = bytes.fromhex(store)
        self._has_checksums = has_checksums
        self._lines = Sealer()

    def key(self, kind: str, names: tuple[str | None, ...]) -> bytes:
        """Return the key of a place, a subject or a scope: 16 bytes."""
        return sha256(_named(kind, self._store, names)).digest()[:16]

    def new_data_key(self, place: bytes) -> bytes | None:
        """Return a wrapped data key for a new place; None where nothing is sealed."""
        return None

    def sealer(self, place: bytes, data_key: bytes | None) -> Sealer:
        """Return the form of the lines of a place.

        Raises:
            TamperedError: Its data key does not verify.
            UnknownGenerationError: The ring is older than the data key.
        """
        return _CheckedLines(place) if self._has_checksums else self._lines


class RingSealing(Sealing):
    """Everything but numbers, times and sizes is secret.

    Args:
        store: The id of the store, in hex.
        ring: Its keys.
    """

    def __init__(self, store: str, ring: KeyRing) -> None:
        super().__init__(store)
        self._ring = ring
        self.generation = ring.generation

    def key(self, kind: str, names: tuple[str | None, ...]) -> bytes:
        """See `Sealing.key`."""
        text = _named(kind, self._store, names)
        return hmac.new(self._ring.names, text, sha256).digest()[:16]

    def new_data_key(self, place: bytes) -> bytes | None:
        """See `Sealing.new_data_key`."""
        return self._wrapped(place, os.urandom(32))

    def rewrapped(self, place: bytes, data_key: bytes) -> bytes:
        """Return a data key as the current generation wraps it."""
        return self._wrapped(place, self._unwrapped(place, data_key))

    def sealer(self, place: bytes, data_key: bytes | None) -> Sealer:
        """See `Sealing.sealer`."""
        if data_key is None:
            raise TamperedError(
                "A place of an encrypted store has no data key: its row was changed"
            )
        return _SealedLines(place, self._unwrapped(place, data_key))

    def _wrapped(self, place: bytes, key: bytes) -> bytes:
        head, nonce = struct.pack(">I", self.generation), os.urandom(NONCE_BYTES)
        aead = Aead(self._ring.generations[self.generation])
        return head + nonce + aead.seal(nonce, key, self._bound(place, head))

    def _unwrapped(self, place: bytes, data_key: bytes) -> bytes:
        head, nonce, sealed = data_key[:4], data_key[4 : 4 + NONCE_BYTES], data_key[16:]
        key = self._ring.generations.get(int.from_bytes(head, "big"))
        if key is None:
            raise UnknownGenerationError
        try:
            return Aead(key).open(nonce, sealed, self._bound(place, head))
        except ValueError:
            raise TamperedError(
                "The data key of a place does not verify: its row was changed or moved. Restore "
                "it from a backup"
            ) from None

    def _bound(self, place: bytes, head: bytes) -> bytes:
        return b"factmem/sql/1/key\0" + self._store + place + head


class _SealedLines(Sealer):
    def __init__(self, place: bytes, key: bytes) -> None:
        self._aead = Aead(key)
        self._place = place
        self._mac_key = hmac.new(key, b"factmem/sql/1/tail", sha256).digest()

    def seal(self, number: int, at: int, previous: bytes, line: bytes) -> bytes:
        return self._sealed(line + b" " * (-len(line) % _PAD), self._bound(number, at, previous))

    def open(self, number: int, at: int, previous: bytes, stored: bytes) -> bytes:
        try:
            return self._opened(stored, self._bound(number, at, previous)).rstrip(b" ")
        except ValueError:
            raise TamperedError(
                f"Entry {number} of a place does not verify: it, or the one before it, was "
                f"changed, moved or removed. Restore the place from a backup"
            ) from None

    def tag(self, stored: bytes) -> bytes:
        return stored[-TAG_BYTES:]

    def tail(self, counters: Counters, tag: bytes) -> bytes:
        numbers = _COUNTERS.pack(*counters.extent, *counters[1:])
        check = hmac.new(self._mac_key, self._place + numbers + tag, sha256).digest()[:16]
        return tag + numbers[-16:-8] + check

    def check_tail(self, counters: Counters, tag: bytes, tail: bytes | None) -> None:
        if not hmac.compare_digest(self.tail(counters, tag), tail or b""):
            raise TamperedError(
                f"A place does not end with entry {counters.extent.last} as its row says: entries were "
                f"removed, or the row was changed. Restore the place from a backup"
            )

    def seal_names(self, identity: Identity) -> bytes:
        names = orjson.dumps(identity)
        return self._sealed(names + b" " * (-len(names) % _PAD), b"names" + self._place)

    def open_names(self, stored: bytes) -> Identity:
        try:
            opened = orjson.loads(self._opened(stored, b"names" + self._place))
        except ValueError:
            raise TamperedError(
                "The names of a place do not verify: its row was changed or moved. Restore it "
                "from a backup"
            ) from None
        kind, scope, subject, entity = opened
        return kind, scope, subject, entity

    def seal_index(self, index: bytes) -> bytes:
        data = len(index).to_bytes(8, "big") + index
        step = max(1 << len(data).bit_length() - 3, _LEAST_STEP)
        return self._sealed(data + bytes(-len(data) % step), b"index" + self._place)

    def open_index(self, stored: bytes) -> bytes | None:
        try:
            data = self._opened(stored, b"index" + self._place)
        except ValueError:
            return None
        return data[8 : 8 + int.from_bytes(data[:8], "big")]

    def _sealed(self, data: bytes, bound: bytes) -> bytes:
        nonce = os.urandom(NONCE_BYTES)
        return nonce + self._aead.seal(nonce, data, bound)

    def _opened(self, stored: bytes, bound: bytes) -> bytes:
        sealed = memoryview(stored)[NONCE_BYTES:]  # not copied: a line may have 100 KB
        return self._aead.open(stored[:NONCE_BYTES], sealed, bound)

    def _bound(self, number: int, at: int, previous: bytes) -> bytes:
        return b"line\0" + self._place + struct.pack(">qq", number, at) + previous


def _named(kind: str, store: bytes, names: tuple[str | None, ...]) -> bytes:
    return kind.encode() + b"\0" + store + orjson.dumps(names)
