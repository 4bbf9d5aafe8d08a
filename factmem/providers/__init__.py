"""Stores of facts: the protocols, and stores in memory, local files and PostgreSQL.

Imports ledger and encryption.
"""

from typing import TYPE_CHECKING

from factmem._lazy import lazily

if TYPE_CHECKING:
    from factmem.providers._backend import Backend as Backend
    from factmem.providers._backend import Change as Change
    from factmem.providers._backend import Decision as Decision
    from factmem.providers._backend import Erased as Erased
    from factmem.providers._backend import ErasedSinceError as ErasedSinceError
    from factmem.providers._backend import Extension as Extension
    from factmem.providers._backend import Present as Present
    from factmem.providers._backend import Unread as Unread
    from factmem.providers._postgres.driver import Pool as Pool
    from factmem.providers.conversation_store import ConversationStore as ConversationStore
    from factmem.providers.conversations import ConversationInfo as ConversationInfo
    from factmem.providers.conversations import LearningState as LearningState
    from factmem.providers.conversations import LearningTask as LearningTask
    from factmem.providers.conversations import NewTurn as NewTurn
    from factmem.providers.conversations import Turn as Turn
    from factmem.providers.conversations import TurnChanges as TurnChanges
    from factmem.providers.in_memory import InMemoryProvider as InMemoryProvider
    from factmem.providers.local_file import LocalFileMemoryProvider as LocalFileMemoryProvider
    from factmem.providers.no_memory import NoMemory as NoMemory
    from factmem.providers.postgres import PostgresMemoryProvider as PostgresMemoryProvider
    from factmem.providers.provider import AgentMemoryProvider as AgentMemoryProvider
    from factmem.providers.results import ErasureReceipt as ErasureReceipt
    from factmem.providers.results import ForgetConditions as ForgetConditions
    from factmem.providers.results import Forgotten as Forgotten
    from factmem.providers.results import Learned as Learned
    from factmem.providers.results import Moment as Moment
    from factmem.providers.results import PlaceChanges as PlaceChanges
    from factmem.providers.results import PlaceInfo as PlaceInfo
    from factmem.providers.results import PlaceLimit as PlaceLimit
    from factmem.providers.results import PlaceStatistics as PlaceStatistics
    from factmem.providers.results import RetractedFact as RetractedFact
    from factmem.providers.results import SearchAnswer as SearchAnswer
    from factmem.providers.results import SearchCandidate as SearchCandidate
    from factmem.providers.results import SearchDocument as SearchDocument
    from factmem.providers.results import SearchQuestion as SearchQuestion
    from factmem.providers.results import place_info as place_info
    from factmem.providers.storages import EncryptedStorage as EncryptedStorage
    from factmem.providers.storages import ProviderKeys as ProviderKeys
    from factmem.providers.storages import SimpleStorage as SimpleStorage
    from factmem.providers.store import FactStore as FactStore
else:
    __getattr__, __dir__, __all__ = lazily(
        __name__,
        {
            "_backend": "Backend Change Decision Erased ErasedSinceError Extension Present Unread",
            "_postgres.driver": "Pool",
            "conversation_store": "ConversationStore",
            "conversations": "ConversationInfo LearningState LearningTask NewTurn Turn TurnChanges",
            "in_memory": "InMemoryProvider",
            "local_file": "LocalFileMemoryProvider",
            "no_memory": "NoMemory",
            "postgres": "PostgresMemoryProvider",
            "provider": "AgentMemoryProvider",
            "results": (
                "ErasureReceipt ForgetConditions Forgotten Learned Moment PlaceChanges PlaceInfo "
                "PlaceLimit PlaceStatistics RetractedFact SearchAnswer SearchCandidate "
                "SearchDocument SearchQuestion place_info"
            ),
            "storages": "EncryptedStorage ProviderKeys SimpleStorage",
            "store": "FactStore",
        },
    )
