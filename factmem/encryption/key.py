"""Key: a secret of 32 bytes or a passphrase, which never appears in output.

A key never seals facts: `Aes256GCMEncryptor` wraps the key ring of a store with it, in a slot for
each key. The slot, not the key, says how a passphrase becomes 32 bytes, so the cost for new slots
can rise while old ones still open. Costs are checked before they are spent, as anyone who can write
the store can edit a slot. What was derived is kept with the key: a store is opened again without
another 0.3 s.
"""

import base64
import binascii
import hmac
import os
import stat
from hashlib import sha256
from pathlib import Path
from typing import ClassVar, NoReturn

from typing_extensions import TypedDict

from factmem._arguments import expect, expect_path, kind_of
from factmem.encryption._ciphers import KEY_BYTES, argon2id
from factmem.errors import KeyRequiredError, MissingExtraError, TamperedError
from factmem.models._values import normalized

__all__ = ["Key", "KeyDerivation"]

_SALT_BYTES = 16

_COST = (3, 64 * 1024, 4)
"""Passes, KiB and lanes of Argon2id for new slots: RFC 9106, section 4, second choice."""

_MOST_PASSES, _MOST_KIB, _MOST_LANES = 16, 256 * 1024, 16
_MOST_WORK = 3 * _COST[0] * _COST[1]
"""The greatest costs of a slot, and of passes times KiB: with higher ones, in each of the slots
that a store may have, an edited file could exhaust the machine."""

_AS_WRITTEN = "44 characters as `factmem keys generate` writes them"


class KeyDerivation(TypedDict):
    """The derivation of a slot's key from a passphrase."""

    name: str
    salt: str
    t: int
    m: int
    p: int


class Key:
    """A secret of 32 bytes, or a passphrase from which one is derived.

    Create it with `Key.generate`, `from_base64`, `from_env`, `from_file`, `from_keyring` or
    `from_passphrase`; `Key(secret)` accepts the bytes. Its secret never appears in `repr`, `str`,
    errors, pickles or copies; only `to_base64` returns it. Comparison takes constant time.
    """

    __slots__ = ("_derived", "_passphrase", "_secret")

    def __init__(self, secret: bytes) -> None:
        if type(secret) is not bytes or len(secret) != KEY_BYTES:
            raise ValueError(
                f"A key is {KEY_BYTES} bytes: use Key.generate(), or Key.from_base64 for a string"
            )
        self._secret: bytes | None = secret
        self._passphrase = b""
        self._derived: dict[tuple[bytes, int, int, int], bytes] = {}

    @classmethod
    def generate(cls) -> "Key":
        """Return a new random key."""
        return cls(os.urandom(KEY_BYTES))

    @classmethod
    def from_base64(cls, text: str | bytes) -> "Key":
        """Return the key of a `to_base64` string: 44 characters, url-safe or standard alphabet.

        Raises:
            TypeError: `text` is neither a string nor bytes.
            ValueError: `text` is not an encoded key. The message does not contain it.
        """
        if not isinstance(text, str | bytes):
            raise TypeError(f"text must be a str, not {kind_of(text)}: Key.from_base64(text)")
        data = text.encode() if isinstance(text, str) else bytes(text)
        try:
            secret = base64.b64decode(data.strip().translate(_URL_SAFE), validate=True)
        except binascii.Error:
            raise ValueError(
                f"The key is not base64: expected {_AS_WRITTEN}. A passphrase is given by "
                "from_passphrase or --passphrase"
            ) from None
        if len(secret) != KEY_BYTES:
            raise ValueError(
                f"The key has {len(secret)} bytes instead of {KEY_BYTES}: expected {_AS_WRITTEN}"
            )
        return cls(secret)

    @classmethod
    def from_passphrase(cls, passphrase: str) -> "Key":
        """Return a key that is derived from a passphrase with Argon2id.

        The store contains the salt and the cost, so the same passphrase opens it on any machine.
        The passphrase is normalised (NFKC). The key is derived in a worker thread when a store is
        opened, in about 0.3 s, with 64 MiB.

        Args:
            passphrase: A string that is not empty; the longer, the better.

        Raises:
            TypeError: The passphrase is not a string.
            ValueError: The passphrase is empty.
        """
        expect(passphrase, str, "passphrase", "Key.from_passphrase(getpass())")
        normal = normalized("NFKC", passphrase)
        if not normal.strip():
            raise ValueError("passphrase must not be empty: pass one, or use Key.generate()")
        key = cls(bytes(KEY_BYTES))
        key._secret, key._passphrase = None, normal.encode()
        return key

    @classmethod
    def from_env(cls, variable: str = "FACTMEM_KEY") -> "Key":
        """Return the base64 key in an environment variable.

        Raises:
            KeyRequiredError: The variable is not set.
            ValueError: Its value is not a key.
            TypeError: `variable` is not a string.
        """
        expect(variable, str, "variable", 'Key.from_env("FACTMEM_KEY")')
        text = os.environ.get(variable)
        if not text:
            raise KeyRequiredError(
                f"The environment variable {variable!r} is not set: set it to {_AS_WRITTEN}"
            )
        try:
            return cls.from_base64(text)
        except ValueError as exc:
            raise ValueError(f"In the environment variable {variable!r}: {exc}") from None

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> "Key":
        """Return the base64 key in a file that only its owner can read, or that is read-only.

        The latter is how containers mount secrets (mode 0440 or 0444): who may read them is decided
        outside of the file.

        Raises:
            KeyRequiredError: There is no such file, or it is a folder.
            PermissionError: Its group or others may read it, and it is writable.
            TypeError: `path` is not a path.
            ValueError: Its content is not a key.
        """
        expect_path(path, "path", 'Key.from_file("factmem.key")')
        file = Path(path).expanduser()
        try:
            with file.open("rb") as opened:
                # The mode of what is read, also if the path is replaced at this moment.
                mode = os.fstat(opened.fileno()).st_mode
                text = opened.read(4096)
        except (FileNotFoundError, IsADirectoryError):
            raise KeyRequiredError(
                f"There is no key file {str(file)!r}: `factmem keys generate` writes one"
            ) from None
        is_mounted = not mode & (stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH)
        if mode & (stat.S_IRWXG | stat.S_IRWXO) and not is_mounted:
            raise PermissionError(
                f"The key file {str(file)!r} can be read by others: chmod 600 it, and change "
                f"the key if others may have read it; a secret of a container has mode 440 or 444"
            )
        try:
            return cls.from_base64(text)
        except ValueError as exc:
            raise ValueError(f"In the key file {str(file)!r}: {exc}") from None

    @classmethod
    def from_keyring(cls, service: str, name: str, *, create: bool = False) -> "Key":
        """Return the key in the system's keyring (extra `keyring`).

        Args:
            service: The keyring's service name, such as "factmem".
            name: The name of the entry.
            create: Store a new random key if the entry does not exist.

        Raises:
            MissingExtraError: The package `keyring` is not installed.
            KeyRequiredError: The entry does not exist, and `create` is False.
        """
        try:
            import keyring
        except ImportError:
            raise MissingExtraError(
                "Keys in the system's keyring need the package 'keyring': "
                "pip install 'factmem[keyring]'"
            ) from None
        try:
            text = keyring.get_password(service, name)
            if text is None and create:
                keyring.set_password(service, name, cls.generate().to_base64())
                # Read back, because another process may have stored a key meanwhile.
                text = keyring.get_password(service, name) or ""
        except Exception as exc:  # noqa: BLE001
            # Each keyring service raises errors of its own, which may quote what was asked for.
            raise KeyRequiredError(
                f"The system's keyring cannot be used ({type(exc).__name__}): use a key file or an "
                "environment variable where there is none, as in containers"
            ) from None
        if text is None:
            raise KeyRequiredError(
                f"The keyring has no entry {name!r} of {service!r}: pass create=True to make one"
            )
        return cls.from_base64(text)

    def to_base64(self) -> str:
        """Return the key as 44 url-safe characters.

        Raises:
            ValueError: It is derived from a passphrase: keep that instead.
        """
        if self._secret is None:
            raise ValueError("A key from a passphrase has no base64: keep the passphrase")
        return base64.urlsafe_b64encode(self._secret).decode()

    def __repr__(self) -> str:
        return "<Key>"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Key):
            return NotImplemented
        return hmac.compare_digest(self._comparable(), other._comparable())

    __hash__: ClassVar[None] = None  # type: ignore[assignment]

    def __reduce__(self) -> NoReturn:
        raise TypeError("A key cannot be pickled or copied: pass to_base64() if you must")

    def _comparable(self) -> bytes:
        # Digests have one length, so that the time does not show that of a passphrase.
        return sha256(b"raw" + self._secret if self._secret else self._passphrase).digest()

    def new_derivation(self) -> KeyDerivation | None:
        """Return the derivation of a new slot from this passphrase; None for a key of bytes."""
        if self._secret is not None:
            return None
        passes, kib, lanes = _COST
        salt = base64.b64encode(os.urandom(_SALT_BYTES)).decode()
        return {"name": "argon2id", "salt": salt, "t": passes, "m": kib, "p": lanes}

    def secret(self, derivation: KeyDerivation | None) -> bytes | None:
        """Return the 32 bytes for a slot, or None if the slot is for the other kind of key.

        Raises:
            TamperedError: No version of factmem wrote this derivation.
        """
        if derivation is None or self._secret is not None:
            return self._secret if derivation is None else None
        salt, passes, kib, lanes = _checked_derivation(derivation)
        known = self._derived.get((salt, passes, kib, lanes))
        if known is None:
            known = argon2id(self._passphrase, salt, passes, kib, lanes)
            self._derived[salt, passes, kib, lanes] = known
        return known


_URL_SAFE = bytes.maketrans(b"-_", b"+/")


def _checked_derivation(derivation: KeyDerivation) -> tuple[bytes, int, int, int]:
    try:
        salt = base64.b64decode(derivation["salt"], validate=True)
        passes, kib, lanes = derivation["t"], derivation["m"], derivation["p"]
        if (
            derivation["name"] == "argon2id"
            and all(type(each) is int for each in (passes, kib, lanes))
            and len(salt) >= 8
            and 1 <= passes <= _MOST_PASSES
            and 8 * lanes <= kib <= _MOST_KIB
            and passes * kib <= _MOST_WORK
            and 1 <= lanes <= _MOST_LANES
        ):
            return salt, passes, kib, lanes
    except (KeyError, TypeError, ValueError):
        pass
    raise TamperedError(
        "A key slot has a key derivation that no version of factmem wrote: restore the store "
        "from a backup"
    )
