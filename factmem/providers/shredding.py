"""ShreddingStore: a store whose erasures can be made final for every copy of its storage.

A database keeps what was erased in its logs and standbys for a while, and backups keep it longer. If
everything in them is encrypted, and the key is kept somewhere else, destroying the key destroys all
of these copies.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, runtime_checkable

__all__ = ["ShredReceipt", "ShreddingStore"]


@dataclass(frozen=True, slots=True)
class ShredReceipt:
    """What `shred` did, to be kept with the receipts of erasures: it makes them final."""

    began_at: datetime
    """What was erased or purged before this time is unreadable now in every copy of the store that
    was made before."""
    places: int
    """How many places are left; each has its data key under a new key."""


@runtime_checkable
class ShreddingStore(Protocol):
    """A `FactStore` that can destroy the keys of what was erased."""

    async def shred(self) -> ShredReceipt:
        """Destroy the keys of everything that was erased or purged before now.

        Other processes may use the store meanwhile. Call it again after a crash or an error: nothing
        is final before it returns.

        Raises:
            ValueError: The keys of the store cannot be destroyed, or others than these open it.
            StorageError: The store refused.
        """
        ...
