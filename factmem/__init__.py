"""A typed fact store for AI agents.

An agent learns that Alice prefers Kotlin. factmem keeps that as a fact about a concept
("preferred-language"), concerning a subject (the user Alice), visible in a scope (the product
"my-app"): durable, encrypted if wanted, and there again in the next conversation.

Everything in daily use is here. Importing it reads no file but Python's own, starts nothing, and
loads neither `openai` nor `cryptography`: they wait for their first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING

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
from factmem.providers.in_memory import InMemoryProvider
from factmem.providers.local_file import LocalFileMemoryProvider
from factmem.providers.no_memory import NoMemory
from factmem.storage.base import SalvagedJournal, Storage
from factmem.storage.encrypted import EncryptedStorage
from factmem.storage.simple import SimpleStorage

if TYPE_CHECKING:
    from factmem.bundle import ExportReport, ImportReport, export_facts, import_facts
    from factmem.compression import RetrieveFactsFromHistory
    from factmem.detection import DetectionReport
    from factmem.koog import KoogReport, import_koog
    from factmem.llm.base import ChatModel, ChatResponse, Extraction, Usage
    from factmem.llm.openai import OpenAIChatModel
    from factmem.memory import AgentMemory
    from factmem.scopes import MemoryScopesProfile

__all__ = [
    "Aes256GCMEncryptor",
    "AgentMemory",
    "AgentMemoryProvider",
    "AnyFact",
    "ChatModel",
    "ChatModelError",
    "ChatResponse",
    "Concept",
    "CorruptJournalError",
    "DecryptionError",
    "DetectionReport",
    "EncryptedStorage",
    "Encryption",
    "ErasureReceipt",
    "ExportReport",
    "Extraction",
    "ExtractionError",
    "Fact",
    "FactSource",
    "FactStore",
    "FactType",
    "FactmemError",
    "HistoryAction",
    "HistoryEntry",
    "ImportReport",
    "InMemoryProvider",
    "Key",
    "KeyRequiredError",
    "KoogReport",
    "LocalFileMemoryProvider",
    "MemoryAccessError",
    "MemoryScope",
    "MemoryScopeType",
    "MemoryScopesProfile",
    "MemorySubject",
    "MissingExtraError",
    "MultipleFacts",
    "NoMemory",
    "OpenAIChatModel",
    "Place",
    "PlaceInfo",
    "RetrieveFactsFromHistory",
    "SalvagedJournal",
    "SimpleStorage",
    "SingleFact",
    "SourceKind",
    "Storage",
    "StorageError",
    "StoreBusyError",
    "StoredFactError",
    "TamperedError",
    "TimeProvider",
    "UnboundSubjectError",
    "Usage",
    "WrongKeyError",
    "export_facts",
    "import_facts",
    "import_koog",
]

_LATER = {
    "factmem.bundle": ("ExportReport", "ImportReport", "export_facts", "import_facts"),
    "factmem.compression": ("RetrieveFactsFromHistory",),
    "factmem.detection": ("DetectionReport",),
    "factmem.koog": ("KoogReport", "import_koog"),
    "factmem.llm.base": ("ChatModel", "ChatResponse", "Extraction", "Usage"),
    "factmem.llm.openai": ("OpenAIChatModel",),
    "factmem.memory": ("AgentMemory",),
    "factmem.scopes": ("MemoryScopesProfile",),
}
"""What is seldom needed, or takes long to import, comes when it is first asked for."""

if not TYPE_CHECKING:  # type checkers are to notice a name that is not there

    def __getattr__(name: str) -> object:
        for module, names in _LATER.items():
            if name in names:
                globals()[name] = found = getattr(import_module(module), name)
                return found
        raise AttributeError(f"module 'factmem' has no attribute {name!r}")

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
