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
        mode: Who may use a new store: its owner by default, 0o750 also lets the group read, and 0o770
            lets it write. Files get the same permissions without the right to execute.

    Raises:
        TypeError: The timeout or the mode is not a number.
        ValueError: The timeout is negative, or no store can have the mode.
    """

    busy_timeout: float = 30.0
    allow_network_folder: bool = False
    mode: int = 0o700

    def __post_init__(self) -> None:
        _check_timeout(self.busy_timeout)
        _check_mode(self.mode)


@dataclass(frozen=True, slots=True)
class EncryptedStorage:
    """A database whose names and values are encrypted with AES-256-GCM, which also detects tampering.

    Args:
        encryption: Wraps the store's key ring: `Aes256GCMEncryptor(key)`.
        busy_timeout: How many seconds a write waits for the store's lock before it raises
            `StoreBusyError`.
        allow_network_folder: Accept a folder on a network file system, where locks between machines
            may not work.
        mode: Who may use a new store: its owner by default, 0o750 also lets the group read, and 0o770
            lets it write. Files get the same permissions without the right to execute.

    Raises:
        TypeError: The encryption has another type, such as a key, or the timeout or the mode is not a
            number.
        ValueError: The timeout is negative, or no store can have the mode.
    """

    encryption: Encryption
    busy_timeout: float = 30.0
    allow_network_folder: bool = False
    mode: int = 0o700

    def __post_init__(self) -> None:
        checked_encryption(self.encryption)
        _check_timeout(self.busy_timeout)
        _check_mode(self.mode)


Storage: TypeAlias = SimpleStorage | EncryptedStorage
"""How a local store is stored."""


def _check_timeout(seconds: float) -> None:
    expect(float(seconds) if type(seconds) is int else seconds, float, *_TIMEOUT)
    if not 0 <= seconds <= threading.TIMEOUT_MAX:
        raise ValueError(f"busy_timeout must be a number of seconds from 0 on: {_TIMEOUT[1]}")


def _check_mode(mode: int) -> None:
    expect(mode, int, "mode", "mode=0o750")
    if mode >> 6 != 0o7 or not {mode >> 3 & 0o7, mode & 0o7} <= {0, 0o5, 0o7}:
        raise ValueError("mode must be 0o700, 0o750, 0o770 or the same for others: mode=0o750")


_TIMEOUT = ("busy_timeout", "busy_timeout=5.0")
