"""Synchronous twins of memories and stores, for scripts, notebooks and synchronous frameworks.

Imports memory and every room below it.
"""

from typing import TYPE_CHECKING

from factmem._lazy import lazily

if TYPE_CHECKING:
    from factmem.sync.local_stores import LocalStoreSync
    from factmem.sync.memory import MemorySync
    from factmem.sync.portal import Portal
    from factmem.sync.postgres_stores import PostgresStoreSync
    from factmem.sync.stores import StoreSync

__all__ = ["LocalStoreSync", "MemorySync", "Portal", "PostgresStoreSync", "StoreSync"]

if not TYPE_CHECKING:  # type checkers report a name that does not exist
    __getattr__, __dir__ = lazily(
        __name__,
        {
            "factmem.sync.local_stores": ("LocalStoreSync",),
            "factmem.sync.memory": ("MemorySync",),
            "factmem.sync.portal": ("Portal",),
            "factmem.sync.postgres_stores": ("PostgresStoreSync",),
            "factmem.sync.stores": ("StoreSync",),
        },
    )
