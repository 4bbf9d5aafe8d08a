"""Synchronous twins of memories and stores, for scripts, notebooks and synchronous frameworks.

Imports memory and every room below it.
"""

from typing import TYPE_CHECKING

from factmem._lazy import lazily

if TYPE_CHECKING:
    from factmem.sync.contents import ContentsSync
    from factmem.sync.conversations import ConversationsSync, ConversationSync
    from factmem.sync.documents import ConsolidationSync, DocumentsSync, ToolSync
    from factmem.sync.local_stores import KeysSync, LocalStoreSync
    from factmem.sync.memory import MemorySync
    from factmem.sync.portal import Portal
    from factmem.sync.postgres_stores import PostgresStoreSync
    from factmem.sync.review import ReviewSync
    from factmem.sync.stores import ProviderSync, StoreSync

__all__ = [
    "ConsolidationSync",
    "ContentsSync",
    "ConversationSync",
    "ConversationsSync",
    "DocumentsSync",
    "KeysSync",
    "LocalStoreSync",
    "MemorySync",
    "Portal",
    "PostgresStoreSync",
    "ProviderSync",
    "ReviewSync",
    "StoreSync",
    "ToolSync",
]

if not TYPE_CHECKING:  # type checkers report a name that does not exist
    __getattr__, __dir__ = lazily(
        __name__,
        {
            "factmem.sync.contents": ("ContentsSync",),
            "factmem.sync.conversations": (
                "ConversationSync",
                "ConversationsSync",
            ),
            "factmem.sync.documents": (
                "ConsolidationSync",
                "DocumentsSync",
                "ToolSync",
            ),
            "factmem.sync.local_stores": (
                "KeysSync",
                "LocalStoreSync",
            ),
            "factmem.sync.memory": ("MemorySync",),
            "factmem.sync.portal": ("Portal",),
            "factmem.sync.postgres_stores": ("PostgresStoreSync",),
            "factmem.sync.review": ("ReviewSync",),
            "factmem.sync.stores": (
                "ProviderSync",
                "StoreSync",
            ),
        },
    )
