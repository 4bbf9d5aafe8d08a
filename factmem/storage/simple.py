"""SimpleStorage: journals as plain JSON Lines with checksums."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from factmem.errors import CorruptJournalError, KeyRequiredError
from factmem.storage._files import LocalFiles
from factmem.storage._folder import JournalFolder
from factmem.storage._journal import Damage
from factmem.storage._lock import check_timeout
from factmem.storage._plain_codec import Codec, PlainCodec
from factmem.storage.base import Journals

__all__ = ["SimpleStorage"]


@dataclass(frozen=True, slots=True)
class SimpleStorage:
    """Stores journals unencrypted.

    Checksums detect accidental damage. Anyone who can write the files can forge them.

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
        check_timeout(self.busy_timeout)

    def open(self, folder: Path) -> Journals:
        """Return the journals of a folder, without touching the disk."""
        return JournalFolder(
            LocalFiles(str(folder)),
            PlainMode(),
            busy_timeout=self.busy_timeout,
            allow_network=self.allow_network_folder,
        )


class PlainMode:
    """The mode of an unencrypted store."""

    name = "plain"
    is_sealed = False

    def new_manifest(self, store: str) -> dict[str, Any]:
        """See `Mode.new_manifest`."""
        return {}

    def codec(self, manifest: dict[str, Any]) -> Codec:
        """See `Mode.codec`."""
        return PlainCodec()

    def refusal(self, path: str) -> Exception:
        """See `Mode.refusal`."""
        return KeyRequiredError(
            f"The store of {path!r} is encrypted: open it with "
            f"storage=EncryptedStorage(Aes256GCMEncryptor(key))"
        )

    def error_of(self, damage: Damage, path: str) -> Exception:
        """See `Mode.error_of`."""
        return corrupt(damage, path)


def corrupt(damage: Damage, path: str) -> CorruptJournalError:
    """Return the error for a damaged journal."""
    return CorruptJournalError(
        f"The journal {path!r} is damaged, {damage}. Nothing was changed: restore it from a "
        f"backup, or keep the readable records with salvage()"
    )
