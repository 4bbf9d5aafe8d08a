"""AES-256-GCM, keys, and the key ring of an encrypted store."""

from typing import TYPE_CHECKING

from factmem._lazy import lazily

if TYPE_CHECKING:
    from factmem.storage.encryption.aes256gcm import (
        Aes256GCMEncryptor,
        Encryption,
        KeySlot,
        Unwrapped,
    )
    from factmem.storage.encryption.key import Key, KeyDerivation
    from factmem.storage.encryption.key_file import KeyFile, RenewableEncryption

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
            "factmem.storage.encryption.aes256gcm": (
                "Aes256GCMEncryptor",
                "Encryption",
                "KeySlot",
                "Unwrapped",
            ),
            "factmem.storage.encryption.key": (
                "Key",
                "KeyDerivation",
            ),
            "factmem.storage.encryption.key_file": (
                "KeyFile",
                "RenewableEncryption",
            ),
        },
    )
