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
    from factmem.providers._clock import StoreClock as StoreClock
    from factmem.providers._place_lists import place_info as place_info
    from factmem.providers._postgres.driver import Pool as Pool
    from factmem.providers.base import AgentMemoryProvider as AgentMemoryProvider
    from factmem.providers.base import FactStore
    from factmem.providers.conditions import ForgetConditions as ForgetConditions
    from factmem.providers.conversations import ConversationInfo as ConversationInfo
    from factmem.providers.conversations import ConversationStore as ConversationStore
    from factmem.providers.conversations import LearningState as LearningState
    from factmem.providers.conversations import LearningTask as LearningTask
    from factmem.providers.conversations import NewTurn as NewTurn
    from factmem.providers.conversations import Turn as Turn
    from factmem.providers.conversations import TurnChanges as TurnChanges
    from factmem.providers.durable import DurableStore as DurableStore
    from factmem.providers.erasures import erasing as erasing
    from factmem.providers.in_memory import InMemoryProvider as InMemoryProvider
    from factmem.providers.limits import PlaceLimit as PlaceLimit
    from factmem.providers.local_file import LocalFileMemoryProvider as LocalFileMemoryProvider
    from factmem.providers.no_memory import NoMemory as NoMemory
    from factmem.providers.postgres import PostgresMemoryProvider as PostgresMemoryProvider
    from factmem.providers.provider_keys import ProviderKeys as ProviderKeys
    from factmem.providers.results import ErasureReceipt as ErasureReceipt
    from factmem.providers.results import Forgotten as Forgotten
    from factmem.providers.results import Learned as Learned
    from factmem.providers.results import Moment as Moment
    from factmem.providers.results import PlaceChanges as PlaceChanges
    from factmem.providers.results import PlaceInfo as PlaceInfo
    from factmem.providers.results import RetractedFact as RetractedFact
    from factmem.providers.searched import PlaceStatistics as PlaceStatistics
    from factmem.providers.searched import SearchAnswer as SearchAnswer
    from factmem.providers.searched import SearchCandidate as SearchCandidate
    from factmem.providers.searched import SearchDocument as SearchDocument
    from factmem.providers.searched import SearchQuestion as SearchQuestion
    from factmem.providers.storages import EncryptedStorage as EncryptedStorage
    from factmem.providers.storages import SimpleStorage as SimpleStorage
else:
    __getattr__, __dir__, __all__ = lazily(
        __name__,
        {
            "_backend": [
                "Backend",
                "Change",
                "Decision",
                "Erased",
                "ErasedSinceError",
                "Extension",
                "Present",
            ],
            "_clock": ["StoreClock"],
            "_place_lists": ["place_info"],
            "_postgres.driver": ["Pool"],
            "base": ["AgentMemoryProvider", "FactStore"],
            "conditions": ["ForgetConditions"],
            "conversations": [
                "ConversationInfo",
                "ConversationStore",
                "LearningState",
                "LearningTask",
                "NewTurn",
                "Turn",
                "TurnChanges",
            ],
            "durable": ["DurableStore"],
            "erasures": ["erasing"],
            "in_memory": ["InMemoryProvider"],
            "limits": ["PlaceLimit"],
            "local_file": ["LocalFileMemoryProvider"],
            "no_memory": ["NoMemory"],
            "postgres": ["PostgresMemoryProvider"],
            "provider_keys": ["ProviderKeys"],
            "results": [
                "ErasureReceipt",
                "Forgotten",
                "Learned",
                "Moment",
                "PlaceChanges",
                "PlaceInfo",
                "RetractedFact",
            ],
            "searched": [
                "PlaceStatistics",
                "SearchAnswer",
                "SearchCandidate",
                "SearchDocument",
                "SearchQuestion",
            ],
            "storages": ["EncryptedStorage", "SimpleStorage"],
        },
    )
