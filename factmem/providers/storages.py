"""SimpleStorage and EncryptedStorage: how a local store is stored."""

import threading
from dataclasses import dataclass
from typing import TypeAlias

from factmem._arguments import expect
from factmem.encryption.aes256gcm import Encryption, checked_encryption

__all__ = ["EncryptedStorage", "SimpleStorage"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Files:
    """The use of a folder."""

    busy_timeout: float = 30.0
    """How many seconds a write waits for the store's lock before it raises `StoreBusyError`."""
    allow_network_folder: bool = False
    """Accept a folder on a network file system, where locks between machines may not work."""
    mode: int = 0o700
    """Who may use a new store: its owner by default, 0o750 also lets the group read, and 0o770 lets it
    write. Files get the same permissions without the right to execute."""

    def __post_init__(self) -> None:
        example = "busy_timeout=5.0"
        seconds = self.busy_timeout
        expect(float(seconds) if type(seconds) is int else seconds, float, "busy_timeout", example)
        if not 0 <= seconds <= threading.TIMEOUT_MAX:
            raise ValueError(f"busy_timeout must be a number of seconds from 0 on: {example}")
        mode = expect(self.mode, int, "mode", "mode=0o750")
        if mode >> 6 != 0o7 or not {mode >> 3 & 0o7, mode & 0o7} <= {0, 0o5, 0o7}:
            raise ValueError("mode must be 0o700, 0o750, 0o770 or the same for others: mode=0o750")


@dataclass(frozen=True, slots=True)
class SimpleStorage(_Files):
    """A plain database, which any SQLite tool opens.

    Checksums detect accidental damage. Anyone who can write the file can forge it.

    Raises:
        TypeError: The timeout or the mode is not a number.
        ValueError: The timeout is negative, or no store can have the mode.
    """


@dataclass(frozen=True, slots=True)
class EncryptedStorage(_Files):
    """A database whose names and values are encrypted with AES-256-GCM, which also detects tampering.

    Raises:
        TypeError: The encryption has another type, such as a key, or the timeout or the mode is not a
            number.
        ValueError: The timeout is negative, or no store can have the mode.
    """

    encryption: Encryption
    """Wraps the store's key ring: `Aes256GCMEncryptor(key)`."""

    def __post_init__(self) -> None:
        checked_encryption(self.encryption)
        _Files.__post_init__(self)


Storage: TypeAlias = SimpleStorage | EncryptedStorage
"""How a local store is stored."""
