"""AES-256-GCM, keys, and the key ring of an encrypted store."""

from typing import TYPE_CHECKING

from factmem._lazy import lazily

if TYPE_CHECKING:
    from factmem.encryption.aes256gcm import (
        Aes256GCMEncryptor,
        Encryption,
        KeySlot,
        Unwrapped,
    )
    from factmem.encryption.key import Key, KeyDerivation
    from factmem.encryption.key_file import KeyFile, RenewableEncryption

__all__ = [
    "Aes256GCMEncryptor",
    "Encryption",
    "Key",
    "KeyDerivation",
    "KeyFile",
    "KeySlot",
    "RenewableEncryption",
    "Unwrapped",
]

if not TYPE_CHECKING:  # type checkers report a name that does not exist
    __getattr__, __dir__ = lazily(
        __name__,
        {
            "factmem.encryption.aes256gcm": (
                "Aes256GCMEncryptor",
                "Encryption",
                "KeySlot",
                "Unwrapped",
            ),
            "factmem.encryption.key": (
                "Key",
                "KeyDerivation",
            ),
            "factmem.encryption.key_file": (
                "KeyFile",
                "RenewableEncryption",
            ),
        },
    )
