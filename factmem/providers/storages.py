"""SimpleStorage and EncryptedStorage: how a local store is stored."""

import threading
from dataclasses import dataclass
from typing import TypeAlias

from factmem._arguments import expect
from factmem.encryption.aes256gcm import Encryption, checked_encryption

__all__ = ["EncryptedStorage", "SimpleStorage"]


@dataclass(frozen=True, slots=True)
class SimpleStorage:
    """A plain database, which any SQLite tool opens.

    Checksums detect accidental damage. Anyone who can write the file can forge it.

    Args:
        busy_timeout: How many seconds a write waits for the store's lock before it raises
            `StoreBusyError`.
        allow_network_folder: Accept a folder on a network file system, where locks between machines
            may not work.

    Raises:
        TypeError: The timeout is not a number.
        ValueError: The timeout is negative.
    """

    busy_timeout: float = 30.0
    allow_network_folder: bool = False

    def __post_init__(self) -> None:
        _check_timeout(self.busy_timeout)


@dataclass(frozen=True, slots=True)
class EncryptedStorage:
    """A database whose names and values are encrypted with AES-256-GCM, which also detects tampering.

    Args:
        encryption: Wraps the store's key ring: `Aes256GCMEncryptor(key)`.
        busy_timeout: How many seconds a write waits for the store's lock before it raises
            `StoreBusyError`.
        allow_network_folder: Accept a folder on a network file system, where locks between machines
            may not work.

    Raises:
        TypeError: The encryption has another type, such as a key, or the timeout is not a number.
        ValueError: The timeout is negative.
    """

    encryption: Encryption
    busy_timeout: float = 30.0
    allow_network_folder: bool = False

    def __post_init__(self) -> None:
        checked_encryption(self.encryption)
        _check_timeout(self.busy_timeout)


Storage: TypeAlias = SimpleStorage | EncryptedStorage
"""How a local store is stored."""


def _check_timeout(seconds: float) -> None:
    expect(float(seconds) if type(seconds) is int else seconds, float, *_TIMEOUT)
    if not 0 <= seconds <= threading.TIMEOUT_MAX:
        raise ValueError(f"busy_timeout must be a number of seconds from 0 on: {_TIMEOUT[1]}")


_TIMEOUT = ("busy_timeout", "busy_timeout=5.0")
