"""SealedCodec: the encoding of an encrypted store.

The key ring has data keys by generation, and a key for file names that never changes. Each file has
its own key, derived from a data key and from random bytes in the first line. Each record contains the
tag of the record before it.
"""

import base64
import hmac
import os
import struct
from collections.abc import Iterator
from hashlib import sha256
from typing import Any

import orjson

from factmem.storage._plain_codec import (
    END,
    FORMATS,
    BlockSealer,
    Header,
    Losses,
    UnreadableHeader,
    Unsealed,
    batch_of,
    checked_header,
    compact,
    new_id,
    read_mark,
)
from factmem.storage.base import JournalName
from factmem.storage.encryption.ciphers import Aead, canonical_base64, hkdf
from factmem.storage.encryption.ring import KeyRing

_PAD = 64
"""Sizes are rounded up to a multiple of this, so that they reveal less."""

_END = b"[end]"
_DURABLE = b'{"d":'
_NEAR = 1 << 20
"""The greatest distance between the number of a line in a dead one and that of the last record."""

_MAC_BYTES = 16
_PREFIX = struct.Struct(">Q16s")
_NONCE_BYTES = 12
_LENGTH = struct.Struct(">Q")
_SMALLEST_INDEX = 1 << 12
_SHORTEST = _PREFIX.size + _NONCE_BYTES + _PAD + 16


def _padded_size(size: int) -> int:
    """Return the padded size of an index: the exact size would reveal the number of facts.

    At most a quarter more; four sizes per doubling, from 4 KiB on.
    """
    step = max(_SMALLEST_INDEX // 4, 1 << max(0, size.bit_length() - 3))
    return max(_SMALLEST_INDEX, -(-size // step) * step)


class SealedCodec:
    """Lines of AES-256-GCM in base64. Each line can be decrypted alone."""

    suffix = ".fmj"
    hides_names = True

    def __init__(self, store: str, ring: KeyRing) -> None:
        self._store = bytes.fromhex(store)
        self._ring = ring
        self._file_names: dict[JournalName, str] = {}

    def file_name(self, name: JournalName) -> str:
        """See `Codec.file_name`."""
        file = self._file_names.get(name)
        if file is None:
            digest = hmac.new(self._ring.names, compact(name), sha256).hexdigest()[:40]
            if len(self._file_names) > 10_000:
                self._file_names.clear()
            file = self._file_names[name] = digest + self.suffix
        return file

    def new_header(
        self,
        name: JournalName,
        file: str,
        *,
        snapshot: int,
        following: int,
        made: int,
        losses: Losses = (),
    ) -> bytes:
        """See `Codec.new_header`."""
        fields = {
            "factmem": FORMATS[-1],
            "gen": self._ring.generation,
            "id": new_id(),
            "made": made,
            "snap": snapshot,
            "next": following,
            **({"lost": losses} if losses else {}),
        }
        _, mac = self._derived(file, fields)
        return compact({**fields, "mac": mac.hex()})

    def open_header(self, file: str, line: bytes) -> Header:
        """See `Codec.open_header`."""
        try:
            fields = orjson.loads(line)
            mac = bytes.fromhex(fields.pop("mac"))
            is_canonical = compact({**fields, "mac": mac.hex()}) == line
            key, expected = self._derived(file, fields)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise UnreadableHeader("its first line does not verify") from None
        if not (is_canonical and hmac.compare_digest(mac, expected)):
            raise UnreadableHeader("its first line does not verify")
        sealer = _Sealer(key, mac) if fields.get("factmem") != 1 else _Sealer1(key, mac)
        return checked_header(fields, sealer)

    def name_in(self, line: bytes) -> JournalName | None:
        """See `Codec.name_in`: first lines do not contain the name."""
        return None

    def seal_index(self, file: str, data: bytes) -> bytes:
        """See `Codec.seal_index`: a first line like that of a journal, then one sealed block."""
        line, key = self._new_line(file)
        nonce = os.urandom(_NONCE_BYTES)
        padded = _LENGTH.pack(len(data)) + data
        padded += bytes(_padded_size(len(padded)) - len(padded))
        return b"%b\n%b%b" % (line, nonce, Aead(key).seal(nonce, padded, None))

    def open_index(self, file: str, sealed: bytes | memoryview) -> bytes:
        """See `Codec.open_index`."""
        line, _, rest = bytes(sealed).partition(b"\n")
        padded = Aead(self._opened_line(file, line)).open(
            rest[:_NONCE_BYTES], rest[_NONCE_BYTES:], None
        )
        (size,) = _LENGTH.unpack_from(padded)
        return padded[_LENGTH.size : _LENGTH.size + size]

    def new_blocks(self, file: str) -> BlockSealer:
        """See `Codec.new_blocks`: the first line is like that of a journal."""
        line, key = self._new_line(file)
        return _SealedBlocks(line + b"\n", key)

    def open_blocks(self, file: str, line: bytes) -> BlockSealer:
        """See `Codec.open_blocks`."""
        return _SealedBlocks(line, self._opened_line(file, line[:-1]))

    def _new_line(self, file: str) -> tuple[bytes, bytes]:
        """Return the first line of a file that is derived from a journal, and the file's key."""
        fields = {"factmem": FORMATS[-1], "gen": self._ring.generation, "id": new_id()}
        key, mac = self._derived(file, fields)
        return compact({**fields, "mac": mac.hex()}), key

    def _opened_line(self, file: str, line: bytes) -> bytes:
        """Return the key of a file with this first line; raise `ValueError` if it does not verify."""
        try:
            fields = orjson.loads(line)
            mac = bytes.fromhex(fields.pop("mac"))
            key, expected = self._derived(file, fields)
        except (KeyError, TypeError, AttributeError, RecursionError, UnreadableHeader):
            raise ValueError("does not verify") from None
        if not hmac.compare_digest(mac, expected) or fields.get("factmem") != FORMATS[-1]:
            raise ValueError("does not verify")
        return key

    def generation_in(self, line: bytes) -> int:
        """Return the key generation in a first line; 0 if it has none."""
        try:
            generation = orjson.loads(line)["gen"]
        except (ValueError, KeyError, TypeError, RecursionError):
            return 0
        return generation if type(generation) is int else 0

    def _derived(self, file: str, fields: dict[str, Any]) -> tuple[bytes, bytes]:
        """Return a file's key, and the commitment to the key for the first line."""
        data_key = self._ring.generations.get(fields["gen"])
        if data_key is None:
            raise UnreadableHeader("it is sealed with a key that this store no longer has")
        info = b"factmem/1/file\0" + self._store + file.encode() + b"\0" + compact(fields)
        okm = hkdf(data_key, bytes.fromhex(fields["id"]), info, 32 + _MAC_BYTES)
        return okm[:32], okm[32:]


class _SealedBlocks:
    """Blocks encrypted with the key of their file, padded so that sizes reveal less."""

    def __init__(self, first_line: bytes, key: bytes) -> None:
        self.first_line = first_line
        self._aead = Aead(key)

    def seal(self, number: int, data: bytes) -> bytes:
        nonce = os.urandom(_NONCE_BYTES)
        padded = data + b" " * (-len(data) % _SMALLEST_INDEX)
        return nonce + self._aead.seal(nonce, padded, _LENGTH.pack(number))

    def open(self, number: int, sealed: bytes) -> bytes:
        nonce, rest = sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:]
        if len(nonce) < _NONCE_BYTES:
            raise ValueError("too short")
        return self._aead.open(nonce, rest, _LENGTH.pack(number)).rstrip(b" ")


class _Sealer:
    """The lines of format 2."""

    def __init__(self, key: bytes, mac: bytes) -> None:
        self._aead = Aead(key)
        self.start = mac

    def seal(self, number: int, mark: int, previous: bytes, data: bytes) -> tuple[bytes, bytes]:
        if mark == END:
            data = _END
        elif mark:
            data = b"[%d,%d]%b" % (*batch_of(mark), data)
        data += b" " * (-len(data) % _PAD)
        prefix = _PREFIX.pack(number, previous)
        nonce = os.urandom(_NONCE_BYTES)
        sealed = self._aead.seal(nonce, data, prefix)
        return base64.b64encode(prefix + nonce + sealed), sealed[-16:]

    def unseal(self, line: bytes) -> Unsealed:
        raw = canonical_base64(line)
        if len(raw) < _SHORTEST:
            raise ValueError("too short")
        data = self._aead.open(raw[24:36], raw[36:], raw[:24]).rstrip(b" ")
        number, previous = _PREFIX.unpack_from(raw)
        if data.startswith(b"{"):
            return number, 0, previous, raw[-16:], data
        if data == _END:
            return number, END, previous, raw[-16:], b""
        end = data.index(b"]")
        return number, read_mark(data[1:end]), previous, raw[-16:], data[end + 1 :]

    def starts(self, line: bytes, after: int) -> Iterator[int]:
        """See `LineSealer.starts`: lines have few possible lengths, and the number must be close."""
        for blocks in range(1, len(line) // (_PAD + 1)):
            size = (_SHORTEST + (blocks - 1) * _PAD + 2) // 3 * 4
            start = len(line) - size
            if start <= 0:
                return
            try:
                head = base64.b64decode(line[start : start + 12], validate=True)
            except ValueError:
                continue
            if after < int.from_bytes(head[:8], "big") <= after + _NEAR:
                yield start


class _Sealer1(_Sealer):
    """The lines of format 1, which are only read."""

    def unseal(self, line: bytes) -> Unsealed:
        raw = canonical_base64(line)
        if len(raw) < _SHORTEST:
            raise ValueError("too short")
        data = self._aead.open(raw[24:36], raw[36:], raw[:24]).rstrip(b" ")
        durable = 0
        if data.startswith(_DURABLE):
            end = data.index(b",", 5)
            durable, data = int(data[5:end]), b"{" + data[end + 1 :]
        number, previous = _PREFIX.unpack_from(raw)
        return number, durable, previous, raw[-16:], data
