"""EncryptedStorage: journals encrypted with AES-256-GCM, which also detects tampering."""

from dataclasses import dataclass
from pathlib import Path

from factmem.storage._files import LocalFiles
from factmem.storage._folder import JournalFolder
from factmem.storage._keys import SealedMode, StoreKeys
from factmem.storage._lock import check_timeout
from factmem.storage.base import Journals
from factmem.storage.encryption.aes256gcm import Encryption, checked_encryption

__all__ = ["EncryptedStorage"]


@dataclass(frozen=True, slots=True)
class EncryptedStorage:
    """Stores journals encrypted; file names are hidden as well.

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
        check_timeout(self.busy_timeout)

    def open(self, folder: Path) -> Journals:
        """Return the journals of a folder, without touching the disk."""
        mode = SealedMode(self.encryption)
        journals = JournalFolder(
            LocalFiles(str(folder)),
            mode,
            busy_timeout=self.busy_timeout,
            allow_network=self.allow_network_folder,
        )
        journals.keys = StoreKeys(journals, mode)
        return journals
