"""Synchronous twins of memories and stores, for scripts, notebooks and synchronous frameworks.

Imports memory and every room below it.
"""

from typing import TYPE_CHECKING

from factmem._lazy import lazily

if TYPE_CHECKING:
    from factmem.sync.contents import (
        ContentsSync,
        DocumentsSync,
        FailedTextsSync,
        ToolSync,
    )
    from factmem.sync.memory import MemorySync
    from factmem.sync.portal import SHARED_PORTAL, Portal
    from factmem.sync.stores import (
        IndexedStoreSync,
        KeysSync,
        LocalStoreSync,
        PostgresStoreSync,
        ProviderSync,
        StoreSync,
    )

__all__ = [
    "SHARED_PORTAL",
    "ContentsSync",
    "DocumentsSync",
    "FailedTextsSync",
    "IndexedStoreSync",
    "KeysSync",
    "LocalStoreSync",
    "MemorySync",
    "Portal",
    "PostgresStoreSync",
    "ProviderSync",
    "StoreSync",
    "ToolSync",
]

if not TYPE_CHECKING:  # type checkers report a name that does not exist
    __getattr__, __dir__ = lazily(
        __name__,
        {
            "factmem.sync.contents": (
                "ContentsSync",
                "DocumentsSync",
                "FailedTextsSync",
                "ToolSync",
            ),
            "factmem.sync.memory": ("MemorySync",),
            "factmem.sync.portal": ("SHARED_PORTAL", "Portal"),
            "factmem.sync.stores": (
                "IndexedStoreSync",
                "KeysSync",
                "LocalStoreSync",
                "PostgresStoreSync",
                "ProviderSync",
                "StoreSync",
            ),
        },
    )
