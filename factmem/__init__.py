"""A typed fact store for AI agents.

An agent learns that Alice prefers Kotlin. factmem keeps that as a fact about a concept
("preferred-language"), concerning a subject (the user Alice), visible in a scope (the product
"my-app"): durable, encrypted if wanted, and there again in the next conversation.

Everything in daily use is here. Importing it reads no file but Python's own, starts nothing, and
loads neither `openai` nor `cryptography`: they wait for their first use.
"""

from factmem.encryption import Aes256GCMEncryptor, Encryption, Key
from factmem.errors import (
    ChatModelError,
    CorruptJournalError,
    DecryptionError,
    ExtractionError,
    FactmemError,
    KeyRequiredError,
    MemoryAccessError,
    MissingExtraError,
    StorageError,
    StoreBusyError,
    StoredFactError,
    TamperedError,
    UnboundSubjectError,
    WrongKeyError,
)
from factmem.models import (
    AnyFact,
    Concept,
    Fact,
    FactSource,
    FactType,
    MemoryScope,
    MemoryScopeType,
    MemorySubject,
    MultipleFacts,
    Place,
    SingleFact,
    SourceKind,
)
from factmem.provider import (
    AgentMemoryProvider,
    ErasureReceipt,
    FactStore,
    HistoryAction,
    HistoryEntry,
    PlaceInfo,
    TimeProvider,
)

__all__ = [
    "Aes256GCMEncryptor",
    "AgentMemoryProvider",
    "AnyFact",
    "ChatModelError",
    "Concept",
    "CorruptJournalError",
    "DecryptionError",
    "Encryption",
    "ErasureReceipt",
    "ExtractionError",
    "Fact",
    "FactSource",
    "FactStore",
    "FactType",
    "FactmemError",
    "HistoryAction",
    "HistoryEntry",
    "Key",
    "KeyRequiredError",
    "MemoryAccessError",
    "MemoryScope",
    "MemoryScopeType",
    "MemorySubject",
    "MissingExtraError",
    "MultipleFacts",
    "Place",
    "PlaceInfo",
    "SingleFact",
    "SourceKind",
    "StorageError",
    "StoreBusyError",
    "StoredFactError",
    "TamperedError",
    "TimeProvider",
    "UnboundSubjectError",
    "WrongKeyError",
]
