"""Aes256GCMEncryptor: wraps the keys of a store with the user's keys.

A store has a key ring: random data keys, and a key for names. The row of the store contains one
wrapped copy of it for each key slot; `Encryption` wraps and unwraps it. Records are encrypted with
keys derived from the ring, never with the user's key.
"""

import base64
import hmac
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn, NotRequired, Protocol

from typing_extensions import TypedDict

from factmem._arguments import expect_methods
from factmem.encryption._ciphers import KEY_BYTES, NONCE_BYTES, Aead, canonical_base64, hkdf
from factmem.encryption.key import Key, KeyDerivation
from factmem.errors import InputValueError, TamperedError, WrongKeyError

__all__ = ["Aes256GCMEncryptor", "Encryption", "KeySlot", "Unwrapped"]

_MOST_DERIVED = 32
"""The most slots of passphrases that are tried. An edited row could have thousands."""


class KeySlot(TypedDict):
    """One wrapped copy of a store's key ring."""

    kid: str
    wrap: str
    kdf: NotRequired[KeyDerivation]


@dataclass(frozen=True, slots=True, repr=False)
class Unwrapped:
    """A key ring, and the id of the slot that it was in."""

    ring: bytes
    kid: str


class Encryption(Protocol):
    """Wraps and unwraps a store's key ring, with a local key or by a key service.

    Called from worker threads, once for each opening of a store and each change of keys.
    """

    def wrap(self, ring: bytes, store: str) -> KeySlot:
        """Return a slot with the secret `ring` for the preferred key, bound to a store's id."""
        ...

    def unwrap(self, slots: Sequence[KeySlot], store: str) -> Unwrapped:
        """Return the ring of the first slot that one of the keys fits.

        Raises:
            WrongKeyError: No slot fits.
            TamperedError: A slot fits but does not verify.
        """
        ...


class Aes256GCMEncryptor:
    """Wraps a store's key ring with one or more keys, by AES-256-GCM.

    The first key is the preferred one, used for new stores; each of them may open a store. A key
    may be a base64 string.

    Raises:
        TypeError: A key is neither a `Key` nor a string.
        ValueError: A string is not a key.
    """

    def __init__(self, key: Key | str, *older_keys: Key | str) -> None:
        self._keys = [each if isinstance(each, Key) else _read(each) for each in (key, *older_keys)]

    @staticmethod
    def generate_key() -> str:
        """Return a new random key as 44 url-safe base64 characters."""
        return Key.generate().to_base64()

    def __repr__(self) -> str:
        return f"<Aes256GCMEncryptor with {len(self._keys)} keys>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("An encryptor has keys and cannot be pickled or copied")

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
        if sum("kdf" in slot for slot in slots) > _MOST_DERIVED:
            raise TamperedError(
                f"The store has more than {_MOST_DERIVED} slots of passphrases, and each takes up "
                "to seconds to try: restore it from a backup, or remove slots"
            )
        for key in self._keys:
            for slot in slots:
                secret = key.secret(slot.get("kdf"))
                if secret is None:
                    continue
                aead, kid = _slot_key(secret, store)
                if hmac.compare_digest(kid.encode(), slot["kid"].encode()):
                    return Unwrapped(_open_slot(aead, slot, store), kid)
        raise WrongKeyError(
            "None of the store's key slots opens with this key: pass the key that the store was "
            "created with or last rotated to"
        )


def checked_encryption(encryption: Encryption) -> Encryption:
    """Return `encryption` if it has the methods of one."""
    expect_methods(
        encryption, ("wrap", "unwrap"), "encryption", "EncryptedStorage(Aes256GCMEncryptor(key))"
    )
    return encryption


def encryption_of(key: Key | str | Encryption) -> Encryption:
    """Return an encryption unchanged, or an encryption with a key."""
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
            "The key slot of this key does not verify: the row of the store was changed. Restore "
            "it from a backup"
        ) from None


def _read(key: str) -> Key:
    try:
        return Key.from_base64(key)
    except ValueError as exc:
        raise InputValueError(
            f"{exc}. A passphrase: Aes256GCMEncryptor(Key.from_passphrase(passphrase))"
        ) from None
