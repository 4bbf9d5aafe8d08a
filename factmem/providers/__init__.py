"""Stores of facts: the protocols, and stores in memory, local files and PostgreSQL.

Imports ledger and encryption.
"""

from typing import TYPE_CHECKING

from factmem._lazy import lazily

if TYPE_CHECKING:
    from factmem.providers._backend import (
        Backend,
        Change,
        Decision,
        Erased,
        ErasedSinceError,
        Extension,
        Present,
    )
    from factmem.providers._clock import StoreClock
    from factmem.providers._ledger_store import LedgerStore
    from factmem.providers._place_lists import place_info
    from factmem.providers._postgres.driver import Pool
    from factmem.providers.base import AgentMemoryProvider, FactStore
    from factmem.providers.conditions import ForgetConditions
    from factmem.providers.conversations import (
        ConversationInfo,
        ConversationStore,
        LearningState,
        LearningTask,
        NewTurn,
        Turn,
        TurnChanges,
    )
    from factmem.providers.durable import DurableStore
    from factmem.providers.erasures import erasing
    from factmem.providers.in_memory import InMemoryProvider
    from factmem.providers.limits import PlaceLimit
    from factmem.providers.local_file import LocalFileMemoryProvider
    from factmem.providers.no_memory import NoMemory
    from factmem.providers.postgres import PostgresMemoryProvider
    from factmem.providers.provider_keys import ProviderKeys
    from factmem.providers.results import (
        ErasureReceipt,
        Forgotten,
        Learned,
        Moment,
        PlaceChanges,
        PlaceInfo,
        RetractedFact,
    )
    from factmem.providers.searched import (
        PlaceStatistics,
        SearchAnswer,
        SearchCandidate,
        SearchDocument,
        SearchQuestion,
    )
    from factmem.providers.storages import EncryptedStorage, SimpleStorage

__all__ = [
    "AgentMemoryProvider",
    "Backend",
    "Change",
    "ConversationInfo",
    "ConversationStore",
    "Decision",
    "DurableStore",
    "EncryptedStorage",
    "Erased",
    "ErasedSinceError",
    "ErasureReceipt",
    "Extension",
    "FactStore",
    "ForgetConditions",
    "Forgotten",
    "InMemoryProvider",
    "Learned",
    "LearningState",
    "LearningTask",
    "LedgerStore",
    "LocalFileMemoryProvider",
    "Moment",
    "NewTurn",
    "NoMemory",
    "PlaceChanges",
    "PlaceInfo",
    "PlaceLimit",
    "PlaceStatistics",
    "Pool",
    "PostgresMemoryProvider",
    "Present",
    "ProviderKeys",
    "RetractedFact",
    "SearchAnswer",
    "SearchCandidate",
    "SearchDocument",
    "SearchQuestion",
    "SimpleStorage",
    "StoreClock",
    "Turn",
    "TurnChanges",
    "erasing",
    "place_info",
]

if not TYPE_CHECKING:  # type checkers report a name that does not exist
    __getattr__, __dir__ = lazily(
        __name__,
        {
            "factmem.providers._backend": (
                "Backend",
                "Change",
                "Decision",
                "Erased",
                "ErasedSinceError",
                "Extension",
                "Present",
            ),
            "factmem.providers._clock": ("StoreClock",),
            "factmem.providers._ledger_store": ("LedgerStore",),
            "factmem.providers._place_lists": ("place_info",),
            "factmem.providers.conversations": (
                "ConversationInfo",
                "ConversationStore",
                "LearningState",
                "LearningTask",
                "NewTurn",
                "Turn",
                "TurnChanges",
            ),
            "factmem.providers._postgres.driver": ("Pool",),
            "factmem.providers.provider_keys": ("ProviderKeys",),
            "factmem.providers.base": (
                "AgentMemoryProvider",
                "FactStore",
            ),
            "factmem.providers.conditions": ("ForgetConditions",),
            "factmem.providers.durable": ("DurableStore",),
            "factmem.providers.erasures": ("erasing",),
            "factmem.providers.in_memory": ("InMemoryProvider",),
            "factmem.providers.limits": ("PlaceLimit",),
            "factmem.providers.local_file": ("LocalFileMemoryProvider",),
            "factmem.providers.no_memory": ("NoMemory",),
            "factmem.providers.postgres": ("PostgresMemoryProvider",),
            "factmem.providers.results": (
                "ErasureReceipt",
                "Forgotten",
                "Learned",
                "Moment",
                "PlaceChanges",
                "PlaceInfo",
                "RetractedFact",
            ),
            "factmem.providers.searched": (
                "PlaceStatistics",
                "SearchAnswer",
                "SearchCandidate",
                "SearchDocument",
                "SearchQuestion",
            ),
            "factmem.providers.storages": (
                "EncryptedStorage",
                "SimpleStorage",
            ),
        },
    )
