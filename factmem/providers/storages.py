"""SimpleStorage and EncryptedStorage: how a local store is stored.

ProviderKeys: the keys that open an encrypted store.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from factmem._arguments import expect
from factmem._concurrency import Workers
from factmem.encryption.aes256gcm import Encryption, checked_encryption, encryption_of
from factmem.encryption.key import Key
from factmem.providers._sql.keys import StoreKeys
from factmem.providers.results import check_progress

__all__ = ["EncryptedStorage", "ProviderKeys", "SimpleStorage"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Files:
    """The use of a folder."""

    busy_timeout: float = 30.0
    """How many seconds a write waits for the store's lock before it raises `StoreBusyError`."""
    allow_network_folder: bool = False
    """Accept a folder on a network file system, where locks between machines may not work."""
    mode: int = 0o700
    """Who may use a new store: its owner by default, 0o750 also lets the group read, and 0o770 lets
    it write. Files get the same permissions without the right to execute."""

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
    """A database with names and values encrypted by AES-256-GCM, which also detects tampering.

    Raises:
        TypeError: The encryption has another type, such as a key, or the timeout or the mode is not
            a number.
        ValueError: The timeout is negative, or no store can have the mode.
    """

    encryption: Encryption
    """Wraps the store's key ring: `Aes256GCMEncryptor(key)`."""
    name: str = field(default="default", kw_only=True)
    """Sealed into the store when it is created. With a name per store, such as that of a tenant, no
    database of another store under the same key is accepted in its place."""

    def __post_init__(self) -> None:
        checked_encryption(self.encryption)
        if not expect(self.name, str, "name", 'name="tenant-7"'):
            raise ValueError('name must not be empty: name="tenant-7"')
        _Files.__post_init__(self)


Storage: TypeAlias = SimpleStorage | EncryptedStorage
"""How a local store is stored."""


class ProviderKeys:
    """The keys that open an encrypted store; a key may be a base64 string."""

    def __init__(self, slots: StoreKeys, workers: Workers) -> None:
        self._slots = slots
        self._workers = workers

    async def ids(self) -> list[str]:
        """Return the ids of the key slots; an id reveals nothing about its key."""
        return await self._workers.run(self._slots.ids)

    async def add(self, key: Key | str | Encryption) -> None:
        """Add a key that opens the store."""
        encryption = encryption_of(key)
        await self._workers.run(lambda: self._slots.add(encryption))

    async def remove(self, key: Key | str | Encryption) -> None:
        """Remove a key, so that it no longer opens the store.

        With that key and an old copy of the store the present rows can still be read; `rotate`
        prevents that.

        Raises:
            WrongKeyError: The key does not open the store.
            ValueError: It is the only key.
        """
        encryption = encryption_of(key)
        await self._workers.run(lambda: self._slots.remove(encryption))

    async def rotate(
        self,
        key: Key | str | Encryption,
        *,
        rewrite: bool = True,
        progress: Callable[[int, int], None] | None = None,
    ) -> None:
        """Give the store a new key and new data keys, and rewrite every place with them.

        All other keys stop working at once. This provider continues with the new key; other
        processes need it as well. Store the new key safely before the call, and keep the old one
        until the call returns. After a crash or an error call it again. With `rewrite=False` only
        the wrapping of the data keys changes, at once: right for a changed passphrase, wrong for a
        leaked key. `progress` is called in a worker thread after each place, with the number done
        and the total.
        """
        encryption = encryption_of(key)
        check_progress(progress)
        await self._workers.run(
            lambda: self._slots.rotate(encryption, rewrite=rewrite, progress=progress)
        )
