"""The files of a shared folder: names, sealing, padding, and the phrase that becomes their key.

A file is `<device>-<serial>-<random>.factmem`. Only the device that is named there writes it, once,
and removes it. Its name is a part of what is sealed, so a renamed or copied file does not open.

    magic, nonce, AES-256-GCM of ( length, zlib of ( header line, bundle ), zeros )
"""

import os
import re
import zlib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from secrets import token_bytes, token_hex
from typing import Any

import orjson

from factmem._concurrency import ORDINARY, sync_folder
from factmem.encryption._ciphers import NONCE_BYTES, Aead, hkdf
from factmem.encryption.key import Key
from factmem.errors import InputValueError
from factmem.transfer._outputs import write_whole

SUFFIX = ".factmem"
_MAGIC = b"factmem-sync-1\n"
_NAME = re.compile(r"([0-9a-f]{16})-([0-9]{8})-[0-9a-f]{8}\.factmem")
_LARGEST = 256 * 1024 * 1024
"""The most bytes of a file that is read, sealed or not. Devices split what is larger at 8 MiB."""
_SMALLEST_STEP = 4096

_SECRET_BYTES, _CHECK_BYTES = 16, 2
_CONSONANTS, _VOWELS = "bdfghjklmnprstvz", "aiou"
_LETTERS = ((_CONSONANTS, 12), (_VOWELS, 10), (_CONSONANTS, 6), (_VOWELS, 4), (_CONSONANTS, 0))
"""Words that can be spoken (a "proquint"): of each letter, how far its bits are shifted."""


def new_phrase() -> str:
    """Return nine new words of five letters: 128 random bits, and 16 that detect mistakes."""
    secret = token_bytes(_SECRET_BYTES)
    data = secret + _check(secret)
    return " ".join(_word(int.from_bytes(data[at : at + 2])) for at in range(0, len(data), 2))


def key_of_phrase(phrase: str) -> Key:
    """Return the key of a phrase of `new_phrase`.

    Raises:
        ValueError: It is another text, or has a typing error. The message does not contain it.
    """
    found = [_bytes_of(word) for word in re.findall(r"[a-z]+", phrase.casefold())]
    count = (_SECRET_BYTES + _CHECK_BYTES) // 2
    if len(found) != count or b"" in found:
        raise InputValueError(f"A phrase has {count} words of five letters, as `--new` shows them")
    data = b"".join(found)
    secret = data[:_SECRET_BYTES]
    if data != secret + _check(secret):
        raise InputValueError("A word of the phrase is mistyped")
    return Key(hkdf(secret, b"", b"factmem sync phrase", 32))


def _check(secret: bytes) -> bytes:
    return sha256(b"factmem sync phrase" + secret).digest()[:_CHECK_BYTES]


def _word(number: int) -> str:
    return "".join(letters[number >> shift & len(letters) - 1] for letters, shift in _LETTERS)


def _bytes_of(word: str) -> bytes:
    """Return the two bytes of a word of a phrase; empty for any other word."""
    at = [letters.find(each) for each, (letters, _) in zip(word, _LETTERS, strict=False)]
    if len(word) != len(_LETTERS) or -1 in at:
        return b""
    return sum(each << shift for each, (_, shift) in zip(at, _LETTERS, strict=True)).to_bytes(2)


class SealedFiles:
    """The files of a folder, under one key. All methods do blocking I/O."""

    def __init__(self, folder: Path, key: Key) -> None:
        secret = key.secret(None)
        if secret is None:
            raise InputValueError(
                "key must be a key of 32 bytes or of a phrase: key_of_phrase(...)"
            )
        self._folder = folder
        self._aead = Aead(hkdf(secret, b"", b"factmem sync files", 32))
        self.key_id: str = hkdf(secret, b"", b"factmem sync key id", 8).hex()

    def listed(self) -> tuple[dict[str, tuple[str, int]], list[str]]:
        """Return the device and the serial of each file, and other names with the same suffix."""
        names = sorted(name for name in os.listdir(self._folder) if name.endswith(SUFFIX))
        matches = {name: _NAME.fullmatch(name) for name in names}
        found = {name: (match[1], int(match[2])) for name, match in matches.items() if match}
        return found, [name for name in names if name not in found]

    def write(self, device: str, serial: int, header: Mapping[str, Any], bundle: bytes) -> str:
        """Write a file, durably: after a crash it is complete or has no name. Return its name."""
        name = f"{device}-{serial:08}-{token_hex(4)}{SUFFIX}"
        header = {**header, "files": [*header["files"], name]}
        body = zlib.compress(orjson.dumps(header) + b"\n" + bundle, 1)
        plain = (len(body).to_bytes(8) + body).ljust(_padded(8 + len(body)), b"\0")
        nonce = token_bytes(NONCE_BYTES)
        sealed = self._aead.seal(nonce, plain, _MAGIC + name.encode())
        write_whole(str(self._folder / name), _MAGIC + nonce + sealed)
        return name

    def read(self, name: str) -> tuple[dict[str, Any], bytes]:
        """Return the content of a file.

        Raises:
            ValueError: It was not written with this key under this name, or is incomplete.
            OSError: It cannot be read.
        """
        fd = os.open(self._folder / name, os.O_RDONLY | ORDINARY)
        with os.fdopen(fd, "rb") as file:
            data = file.read(_LARGEST + 1)
        if len(data) > _LARGEST or not data.startswith(_MAGIC):
            raise ValueError("is not a file of a device")
        start = len(_MAGIC) + NONCE_BYTES
        plain = self._aead.open(data[len(_MAGIC) : start], data[start:], _MAGIC + name.encode())
        body = plain[8 : 8 + int.from_bytes(plain[:8])]
        unpacker = zlib.decompressobj()
        try:
            text = unpacker.decompress(body, _LARGEST)
        except zlib.error as exc:
            raise ValueError("is damaged") from exc
        if not unpacker.eof:
            raise ValueError("is too large")
        line, _, bundle = text.partition(b"\n")
        return dict(orjson.loads(line)), bundle

    def whole(self, known: Mapping[str, Sequence[int]]) -> dict[str, list[int]]:
        """Return the complete ones of some files, each with its size and time.

        Args:
            known: An earlier result, so that unchanged files are not read again.
        """
        found: dict[str, list[int]] = {}
        for name, before in known.items():
            with suppress(OSError, ValueError):
                status = os.stat(self._folder / name, follow_symlinks=False)
                mark = [status.st_size, status.st_mtime_ns]
                if mark != list(before):
                    self.read(name)
                found[name] = mark
        return found

    def remove(self, names: Iterable[str]) -> None:
        """Remove files of this device; ignore missing ones."""
        for name in names:
            (self._folder / name).unlink(missing_ok=True)
        sync_folder(self._folder)


def _padded(size: int) -> int:
    """Round a size up by at most an eighth, so that sizes reveal little about single facts."""
    step = max(_SMALLEST_STEP, 1 << max(0, size.bit_length() - 4))
    return -(-size // step) * step
