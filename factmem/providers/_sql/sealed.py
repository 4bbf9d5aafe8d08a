"""Lines sealed under the data key of their place. Only encrypted stores import this.

The keys of a sealed store:

    ring (in the key slots of the store's row, wrapped by the user's Encryption)
      └─ data key of a place, wrapped in its row
           ├─ names of the place
           ├─ lines, each bound to its place, number and time, and to the tag of the line before
           └─ tail of the row: the last line's tag, bound to the numbers of the row

Removed, swapped, moved and changed lines do not verify. Only an anchor detects that a whole place
was rolled back to an older copy.
"""

import hmac
import os
import struct
from dataclasses import dataclass, replace
from hashlib import sha256

import orjson

from factmem.encryption._ciphers import NONCE_BYTES, TAG_BYTES, Aead
from factmem.errors import TamperedError
from factmem.models.places import Identity
from factmem.providers._sql.sealing import (
    COUNTERS,
    Counters,
    Sealer,
    Sealing,
    UnknownGenerationError,
    named,
)


@dataclass(frozen=True, slots=True, repr=False)
class KeyRing:
    """The secret keys of a store."""

    store: str
    """The name of the store, so that the row of one store is not read under the name of another."""
    names: bytes
    """The key for the keys of names. It never changes, or a place would have two rows."""
    generations: dict[int, bytes]
    generation: int
    """The generation of keys that wraps new data keys."""

    @classmethod
    def new(cls, store: str) -> "KeyRing":
        return cls(store, os.urandom(32), {1: os.urandom(32)}, 1)

    def with_new_generation(self) -> "KeyRing":
        """Return the ring with one more generation, for new data keys."""
        following = self.generation + 1
        generations = {**self.generations, following: os.urandom(32)}
        return replace(self, generations=generations, generation=following)

    def dump(self) -> bytes:
        generations = {str(each): key.hex() for each, key in self.generations.items()}
        fields = {"store": self.store, "names": self.names.hex()}
        return orjson.dumps({**fields, "gens": generations, "gen": self.generation})

    @classmethod
    def load(cls, text: bytes) -> "KeyRing":
        fields = orjson.loads(text)
        generations = {int(each): bytes.fromhex(key) for each, key in fields["gens"].items()}
        return cls(fields["store"], bytes.fromhex(fields["names"]), generations, fields["gen"])


_PAD = 64
"""Sizes are rounded up to this many bytes, so that they reveal less."""

_LEAST_STEP = 4096
"""Indexes are rounded up to four sizes per doubling: their size would reveal the number of
facts."""


class RingSealing(Sealing):
    """Everything but numbers, times and sizes is secret."""

    def __init__(self, store: str, ring: KeyRing) -> None:
        super().__init__(store)
        self._ring = ring
        self.generation = ring.generation

    def key(self, kind: str, names: tuple[str | None, ...]) -> bytes:
        text = named(kind, self._store, names)
        return hmac.new(self._ring.names, text, sha256).digest()[:16]

    def new_data_key(self, place: bytes) -> bytes | None:
        return self._wrapped(place, os.urandom(32))

    def rewrapped(self, place: bytes, data_key: bytes) -> bytes:
        return self._wrapped(place, self._unwrapped(place, data_key))

    def sealer(self, place: bytes, data_key: bytes | None) -> Sealer:
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
        numbers = COUNTERS.pack(*counters)
        check = hmac.new(self._mac_key, self._place + numbers + tag, sha256).digest()[:16]
        return tag + numbers[-16:-8] + check

    def check_tail(self, counters: Counters, tag: bytes, tail: bytes | None) -> None:
        if not hmac.compare_digest(self.tail(counters, tag), tail or b""):
            raise TamperedError(
                f"A place does not end with entry {counters.last} as its row says: entries were "
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
