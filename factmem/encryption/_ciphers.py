"""AES-256-GCM, HKDF and Argon2id.

The only module that uses the package `cryptography`, which is imported at the first use.
"""

import binascii

KEY_BYTES = 32
NONCE_BYTES = 12
TAG_BYTES = 16


def canonical_base64(text: bytes) -> bytes:
    """Decode `text`, which must be the canonical encoding of its bytes."""
    data = binascii.a2b_base64(text, strict_mode=True)
    # The strict parser rejects all else but unused bits in the last four characters and missing
    # padding. Encoding only the end again avoids a second pass over the text.
    end = binascii.b2a_base64(data[-((len(data) - 1) % 3 + 1) :], newline=False)
    if text[-4:] != end or len(text) != (len(data) + 2) // 3 * 4:
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

    def open(self, nonce: bytes, sealed: bytes | memoryview, aad: bytes | None) -> bytes:
        """Return the decrypted bytes."""
        try:
            return self._cipher.decrypt(nonce, sealed, aad)
        except self._invalid:
            raise ValueError("does not verify") from None


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
