"""ShreddingStore: a store that can make erasures final in every copy of its storage.

The logs and standbys of a database keep erased data for a while, and backups keep it longer. If all
of it is encrypted and the key is stored elsewhere, destroying the key makes these copies
unreadable.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, runtime_checkable

__all__ = ["ShredReceipt", "ShreddingStore"]


@dataclass(frozen=True, slots=True)
class ShredReceipt:
    """The result of `shred`. Keep it with the receipts of erasures, which it makes final."""

    began_at: datetime
    """Data that was erased or purged before this time is now unreadable in all copies of the store
    made before."""
    places: int
    """The number of remaining places. The data key of each is now encrypted under a new key."""


@runtime_checkable
class ShreddingStore(Protocol):
    """A `FactStore` that can destroy the keys of erased data."""

    async def shred(self) -> ShredReceipt:
        """Destroy the keys of all data that was erased or purged before now.

        Other processes may use the store meanwhile. Call it again after a crash or an error: no
        erasure is final before it returns.

        Raises:
            ValueError: The keys of the store cannot be destroyed, or other keys open it too.
            StorageError: The store failed.
        """
        ...
