"""Synchronous twins of memories and stores, for scripts, notebooks and synchronous frameworks.

Imports memory and every room below it.
"""

from typing import TYPE_CHECKING

from factmem._lazy import lazily

if TYPE_CHECKING:
    from factmem.sync.devices import sync_devices as sync_devices
    from factmem.sync.local_stores import LocalStoreSync as LocalStoreSync
    from factmem.sync.memory import MemorySync as MemorySync
    from factmem.sync.portal import Portal as Portal
    from factmem.sync.postgres_stores import PostgresStoreSync as PostgresStoreSync
    from factmem.sync.stores import StoreSync as StoreSync
else:
    __getattr__, __dir__, __all__ = lazily(
        __name__,
        {
            "devices": "sync_devices",
            "local_stores": "LocalStoreSync",
            "memory": "MemorySync",
            "portal": "Portal",
            "postgres_stores": "PostgresStoreSync",
            "stores": "StoreSync",
        },
    )
