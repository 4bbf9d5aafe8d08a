"""Stores of facts: the protocols, in memory, in local files, in PostgreSQL.

Imports ledger and storage.
"""

from typing import TYPE_CHECKING

from factmem._lazy import lazily

if TYPE_CHECKING:
    from factmem.providers.base import AgentMemoryProvider, ErasureReceipt, FactStore, PlaceInfo
    from factmem.providers.erasures import erasing
    from factmem.providers.in_memory import InMemoryProvider
    from factmem.providers.indexed import FollowedStore, IndexedStore, PlaceChanges
    from factmem.providers.local_file import LocalFileMemoryProvider
    from factmem.providers.no_memory import NoMemory
    from factmem.providers.postgres import PostgresMemoryProvider
    from factmem.providers.shredding import ShreddingStore, ShredReceipt

__all__ = [
    "AgentMemoryProvider",
    "ErasureReceipt",
    "FactStore",
    "FollowedStore",
    "InMemoryProvider",
    "IndexedStore",
    "LocalFileMemoryProvider",
    "NoMemory",
    "PlaceChanges",
    "PlaceInfo",
    "PostgresMemoryProvider",
    "ShredReceipt",
    "ShreddingStore",
    "erasing",
]

if not TYPE_CHECKING:  # type checkers report a name that does not exist
    __getattr__, __dir__ = lazily(
        __name__,
        {
            "factmem.providers.base": (
                "AgentMemoryProvider",
                "ErasureReceipt",
                "FactStore",
                "PlaceInfo",
            ),
            "factmem.providers.erasures": ("erasing",),
            "factmem.providers.in_memory": ("InMemoryProvider",),
            "factmem.providers.indexed": (
                "FollowedStore",
                "IndexedStore",
                "PlaceChanges",
            ),
            "factmem.providers.local_file": ("LocalFileMemoryProvider",),
            "factmem.providers.no_memory": ("NoMemory",),
            "factmem.providers.postgres": ("PostgresMemoryProvider",),
            "factmem.providers.shredding": (
                "ShredReceipt",
                "ShreddingStore",
            ),
        },
    )
