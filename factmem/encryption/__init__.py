"""AES-256-GCM, keys, and the key ring of an encrypted store."""

from factmem.encryption.aes256gcm import Aes256GCMEncryptor, Encryption, KeySlot, Unwrapped
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
