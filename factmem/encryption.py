"""Keys, and everything that factmem does with AES-256-GCM, HKDF and Argon2id.

The only module that uses the package `cryptography`, which is imported at the first use. A store
has a key ring (random data keys, and a key for file names), kept in the store's `factmem.json` as
one wrapped copy per key slot; `Encryption` wraps and unwraps it. Records are sealed with keys
derived from the ring, so the user's key touches no record.
"""

import base64
import binascii
import hmac
import os
import stat
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import ClassVar, NoReturn, NotRequired, Protocol

from typing_extensions import TypedDict

from factmem.errors import KeyRequiredError, MissingExtraError, TamperedError, WrongKeyError

__all__ = [
    "Aead",
    "Aes256GCMEncryptor",
    "Encryption",
    "Key",
    "KeyDerivation",
    "KeySlot",
    "Unwrapped",
    "argon2id",
    "canonical_base64",
    "checked_encryption",
    "encryption_of",
    "hkdf",
    "open_sealed",
]

KEY_BYTES = 32
NONCE_BYTES = 12
TAG_BYTES = 16
_SALT_BYTES = 16

_COSTS: Mapping[str, tuple[int, int, int]] = {
    # passes, KiB, lanes
    "interactive": (2, 19 * 1024, 1),  # OWASP's minimum for Argon2id
    "moderate": (3, 64 * 1024, 4),  # RFC 9106, section 4, second choice
    "sensitive": (1, 2 * 1024 * 1024, 4),  # RFC 9106, section 4, first choice
}
_MOST_PASSES, _MOST_KIB, _MOST_LANES = 16, 2 * 1024 * 1024, 16
"""What a slot may ask for: more would let an edited file exhaust the machine."""


class KeyDerivation(TypedDict):
    """How a slot's key comes from a passphrase."""

    name: str
    salt: str
    t: int
    m: int
    p: int


class KeySlot(TypedDict):
    """One wrapped copy of a store's key ring, as it stands in `factmem.json`."""

    kid: str
    wrap: str
    kdf: NotRequired[KeyDerivation]


@dataclass(frozen=True, slots=True, repr=False)
class Unwrapped:
    """A key ring, and the id of the slot that it was in."""

    ring: bytes
    kid: str


class Encryption(Protocol):
    """Wraps and unwraps a store's key ring: with a key at hand, or by a key service.

    Called from worker threads, seldom: once per opening and per change of keys.
    """

    def wrap(self, ring: bytes, store: str) -> KeySlot:
        """Return a slot that holds `ring`, readable with the preferred key only.

        Args:
            ring: The key ring; secret.
            store: The store's id, to which the slot must be bound.
        """
        ...

    def unwrap(self, slots: Sequence[KeySlot], store: str) -> Unwrapped:
        """Return the ring of the first slot that one of the keys fits.

        Raises:
            WrongKeyError: No slot fits.
            TamperedError: A slot fits but does not verify.
        """
        ...


class Key:
    """A secret of 32 bytes, or a passphrase that becomes one.

    It never shows itself: not in `repr`, `str`, errors, pickles or copies. `to_base64` gives it
    out. Comparison takes constant time.
    """

    __slots__ = ("_cost", "_derived", "_passphrase", "_secret")

    def __init__(self, secret: bytes) -> None:
        if type(secret) is not bytes or len(secret) != KEY_BYTES:
            raise ValueError(
                f"A key is {KEY_BYTES} bytes: use Key.generate(), or Key.from_base64 for a text"
            )
        self._secret: bytes | None = secret
        self._passphrase = b""
        self._cost = _COSTS["moderate"]
        self._derived: dict[tuple[bytes, int, int, int], bytes] = {}

    @classmethod
    def generate(cls) -> "Key":
        """Return a new random key."""
        return cls(os.urandom(KEY_BYTES))

    @classmethod
    def from_base64(cls, text: str | bytes) -> "Key":
        """Return the key that `to_base64` gave: 44 characters, url-safe or standard alphabet.

        Raises:
            TypeError: It is no text.
            ValueError: The text is no such key; the message does not show it.
        """
        if not isinstance(text, str | bytes):
            raise TypeError(f"A key's base64 is a text, not {_kind(text)}")
        data = text.encode() if isinstance(text, str) else bytes(text)
        try:
            secret = base64.b64decode(data.strip().translate(_URL_SAFE), validate=True)
        except binascii.Error:
            raise ValueError(
                "The key is not base64: expected the 44 characters of Key.to_base64(); 32 bytes "
                "become a key by Key(...), a passphrase by Key.from_passphrase"
            ) from None
        if len(secret) != KEY_BYTES:
            raise ValueError(
                f"The key has {len(secret)} bytes instead of {KEY_BYTES}: expected the 44 "
                f"characters of Key.to_base64()"
            )
        return cls(secret)

    @classmethod
    def from_passphrase(cls, passphrase: str, *, cost: str = "moderate") -> "Key":
        """Return a key that is derived from a passphrase with Argon2id.

        The salt and the cost are kept in the store, so the same passphrase opens it anywhere. The
        passphrase is normalised (NFKC). Deriving happens when a store is opened, in a worker
        thread: about 0.05 s and 19 MiB for "interactive", 0.3 s and 64 MiB for "moderate", 4 s
        and 2 GiB for "sensitive".

        Args:
            passphrase: Anything that is not empty; long is good.
            cost: What a new slot costs; an existing slot keeps its own.

        Raises:
            TypeError: The passphrase is no text.
            ValueError: The passphrase is empty or the cost unknown.
        """
        if not isinstance(passphrase, str):
            raise TypeError(f"A passphrase is a text, not {_kind(passphrase)}")
        normal = unicodedata.normalize("NFKC", passphrase)
        if not normal.strip():
            raise ValueError("The passphrase is empty: give one, or use Key.generate()")
        if cost not in _COSTS:
            raise ValueError(f"The cost of a passphrase is one of {', '.join(_COSTS)}")
        key = cls(bytes(KEY_BYTES))
        key._secret, key._passphrase, key._cost = None, normal.encode(), _COSTS[cost]
        return key

    @classmethod
    def from_env(cls, variable: str = "FACTMEM_KEY") -> "Key":
        """Return the base64 key in an environment variable.

        Raises:
            KeyRequiredError: The variable is not set.
            ValueError: It holds no key.
        """
        text = os.environ.get(variable)
        if not text:
            raise KeyRequiredError(
                f"The environment variable {variable!r} is not set: put a key there as "
                f"Key.generate().to_base64() gives it"
            )
        try:
            return cls.from_base64(text)
        except ValueError as exc:
            raise ValueError(f"In the environment variable {variable!r}: {exc}") from None

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> "Key":
        """Return the base64 key in a file that nobody but its owner can read.

        Raises:
            KeyRequiredError: There is no such file.
            PermissionError: Group or others may read it.
            ValueError: It holds no key.
        """
        file = Path(path)
        try:
            with file.open("rb") as opened:
                mode = os.fstat(opened.fileno()).st_mode
                text = opened.read(4096)
        except FileNotFoundError:
            raise KeyRequiredError(f"There is no key file {str(file)!r}") from None
        if mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise PermissionError(
                f"The key file {str(file)!r} can be read by others: chmod 600 it, and change "
                f"the key if others may have read it"
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
            create: Put a new random key there if there is none.

        Raises:
            MissingExtraError: The package `keyring` is not installed.
            KeyRequiredError: There is no such entry, and `create` is False.
        """
        try:
            import keyring
        except ImportError:
            raise MissingExtraError(
                "Keys in the system's keyring need the package 'keyring': "
                "pip install 'factmem[keyring]'"
            ) from None
        text = keyring.get_password(service, name)
        if text is None:
            if not create:
                raise KeyRequiredError(
                    f"The keyring has no entry {name!r} of {service!r}: pass create=True to make "
                    f"one"
                )
            keyring.set_password(service, name, cls.generate().to_base64())
            # What the keyring holds is the key: another process may have made one meanwhile.
            text = keyring.get_password(service, name) or ""
        return cls.from_base64(text)

    def to_base64(self) -> str:
        """Return the key as 44 url-safe characters.

        Raises:
            ValueError: It comes from a passphrase: keep that instead.
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
        raise TypeError("A key is not pickled or copied: pass on to_base64() if you must")

    def _comparable(self) -> bytes:
        return sha256(b"raw" + self._secret if self._secret else self._passphrase).digest()

    def new_derivation(self) -> KeyDerivation | None:
        """Return how a new slot derives from this passphrase; None for a key of bytes."""
        if self._secret is not None:
            return None
        passes, kib, lanes = self._cost
        salt = base64.b64encode(os.urandom(_SALT_BYTES)).decode()
        return {"name": "argon2id", "salt": salt, "t": passes, "m": kib, "p": lanes}

    def secret(self, derivation: KeyDerivation | None) -> bytes | None:
        """Return the 32 bytes for a slot, or None where the slot is not for this kind of key.

        Raises:
            TamperedError: The derivation asks for what no version ever wrote.
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
        is_sane = (
            derivation["name"] == "argon2id"
            and all(type(each) is int for each in (passes, kib, lanes))
            and len(salt) >= 8
            and 1 <= passes <= _MOST_PASSES
            and 8 * lanes <= kib <= _MOST_KIB
            and 1 <= lanes <= _MOST_LANES
        )
    except (KeyError, TypeError, ValueError):
        is_sane = False
    else:
        if is_sane:
            return salt, passes, kib, lanes
    raise TamperedError(
        "A key slot asks for a key derivation that no version of factmem wrote: restore "
        "factmem.json from a backup"
    )


class Aes256GCMEncryptor:
    """Keeps a store's key ring under one or more keys with AES-256-GCM.

    The first key is the preferred one, under which new stores are made; any of them may open a
    store. A key may be given as its base64 text.

    Raises:
        TypeError: Something is neither.
        ValueError: A text is no key.
    """

    def __init__(self, key: Key | str, *older_keys: Key | str) -> None:
        self._keys = [_as_key(each) for each in (key, *older_keys)]

    @staticmethod
    def generate_key() -> str:
        """Return a new random key as 44 url-safe base64 characters."""
        return Key.generate().to_base64()

    def __repr__(self) -> str:
        return f"<Aes256GCMEncryptor with {len(self._keys)} keys>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("An encryptor holds keys: it is not pickled or copied")

    def wrap(self, ring: bytes, store: str) -> KeySlot:
        """See `Encryption.wrap`."""
        key = self._keys[0]
        derivation = key.new_derivation()
        secret = key.secret(derivation)
        assert secret is not None  # noqa: S101 - a key fits the derivation that it made itself
        aead, kid = _slot_key(secret, store)
        nonce = os.urandom(NONCE_BYTES)
        sealed = nonce + aead.seal(nonce, ring, _slot_aad(store, kid))
        slot: KeySlot = {"kid": kid, "wrap": base64.b64encode(sealed).decode()}
        if derivation is not None:
            slot["kdf"] = derivation
        return slot

    def unwrap(self, slots: Sequence[KeySlot], store: str) -> Unwrapped:
        """See `Encryption.unwrap`."""
        for key in self._keys:
            for slot in slots:
                secret = key.secret(slot.get("kdf"))
                if secret is None:
                    continue
                aead, kid = _slot_key(secret, store)
                if hmac.compare_digest(kid.encode(), slot["kid"].encode()):
                    return Unwrapped(_open_slot(aead, slot, store), kid)
        raise WrongKeyError(
            "None of the store's key slots opens with this key: give the key that the store was "
            "made with, or that it was last rotated to"
        )


def _as_key(key: Key | str) -> Key:
    if isinstance(key, Key):
        return key
    if not isinstance(key, str | bytes):
        raise TypeError(f"A key is a Key or its base64 text, not {_kind(key)}")
    return Key.from_base64(key)


def _kind(given: object) -> str:
    """Name what was given instead, and never show it: it may be a secret."""
    return f"the class {given.__name__}" if isinstance(given, type) else type(given).__name__


def checked_encryption(encryption: Encryption) -> Encryption:
    """Return `encryption` if it is one.

    Raises:
        TypeError: It is something else, such as the key itself.
    """
    parts = (getattr(encryption, name, None) for name in ("wrap", "unwrap"))
    if isinstance(encryption, type) or not all(map(callable, parts)):
        raise TypeError(
            f"An encrypted store takes an encryption, not {_kind(encryption)}: "
            f"Aes256GCMEncryptor(key), as in EncryptedStorage(Aes256GCMEncryptor(key))"
        )
    return encryption


def encryption_of(key: Key | str | Encryption) -> Encryption:
    """Return an encryption as it is, and the one that a key stands for.

    Raises:
        TypeError: It is neither.
        ValueError: It is a text that is no key.
    """
    if isinstance(key, Key | str):
        return Aes256GCMEncryptor(key)
    return checked_encryption(key)


def _slot_key(secret: bytes, store: str) -> tuple["Aead", str]:
    okm = hkdf(secret, bytes.fromhex(store), b"factmem/1/kek", KEY_BYTES + 8)
    return Aead(okm[:KEY_BYTES]), okm[KEY_BYTES:].hex()


def _slot_aad(store: str, kid: str) -> bytes:
    return f"factmem/1/slot {store} {kid}".encode()


def _open_slot(aead: "Aead", slot: KeySlot, store: str) -> bytes:
    try:
        sealed = canonical_base64(slot["wrap"].encode())
        nonce, sealed = sealed[:NONCE_BYTES], sealed[NONCE_BYTES:]
        return aead.open(nonce, sealed, _slot_aad(store, slot["kid"]))
    except ValueError:
        raise TamperedError(
            "The key slot of this key does not verify: factmem.json was changed. Restore it from "
            "a backup"
        ) from None


def canonical_base64(text: bytes) -> bytes:
    """Return the bytes that `text` stands for, if it is the one way to write them.

    Raises:
        ValueError: It is not base64, or another spelling of the same bytes.
    """
    data = binascii.a2b_base64(text, strict_mode=True)
    if binascii.b2a_base64(data, newline=False) != text:
        raise ValueError("not canonical base64")
    return data


class Aead:
    """AES-256-GCM under one key."""

    __slots__ = ("_cipher", "_invalid")

    def __init__(self, key: bytes) -> None:
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        self._cipher = AESGCM(key)
        self._invalid = InvalidTag

    def seal(self, nonce: bytes, data: bytes, aad: bytes | None) -> bytes:
        """Return the ciphertext of `data` with its tag of 16 bytes at the end."""
        return self._cipher.encrypt(nonce, data, aad)

    def open(self, nonce: bytes, sealed: bytes, aad: bytes | None) -> bytes:
        """Return what was sealed.

        Raises:
            ValueError: It does not verify.
        """
        try:
            return self._cipher.decrypt(nonce, sealed, aad)
        except self._invalid:
            raise ValueError("does not verify") from None


def open_sealed(key: bytes, nonce: bytes, sealed: bytes, aad: bytes | None = None) -> bytes:
    """Return what was sealed with AES-256-GCM.

    Raises:
        TamperedError: It does not verify: another key, or changed bytes.
    """
    try:
        return Aead(key).open(nonce, sealed, aad)
    except ValueError:
        raise TamperedError("The bytes do not verify under this key") from None


def hkdf(key: bytes, salt: bytes, info: bytes, length: int) -> bytes:
    """Return `length` bytes derived by HKDF-SHA256 (RFC 5869)."""
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    return HKDF(SHA256(), length, salt, info).derive(key)


def argon2id(
    passphrase: bytes, salt: bytes, passes: int, kib: int, lanes: int, *, length: int = KEY_BYTES
) -> bytes:
    """Return `length` bytes derived by Argon2id (RFC 9106)."""
    from cryptography.hazmat.primitives.kdf.argon2 import Argon2id

    kdf = Argon2id(salt=salt, length=length, iterations=passes, lanes=lanes, memory_cost=kib)
    return kdf.derive(passphrase)
