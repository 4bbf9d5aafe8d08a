"""A typed fact store for AI agents.

An agent learns that Alice prefers Kotlin. factmem keeps that as a fact about a concept
("preferred-language"), concerning a subject (the user Alice), visible in a scope (the product
"my-app"): durable, encrypted if wanted, and there again in the next conversation.

Everything in daily use is here. Importing it reads no file but Python's own, starts nothing, and
loads neither stores nor `openai` nor `cryptography`: they wait for their first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from factmem.errors import (
    ChatModelError,
    CorruptJournalError,
    DecryptionError,
    EmbeddingError,
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
from factmem.ledger.history import HistoryAction, HistoryEntry
from factmem.models.clock import TimeProvider
from factmem.models.facts import (
    AnyFact,
    Concept,
    Fact,
    FactType,
    MultipleFacts,
    SingleFact,
)
from factmem.models.places import (
    MemoryScope,
    MemoryScopeType,
    MemorySubject,
    Place,
)
from factmem.models.sources import FactSource, SourceKind
from factmem.providers.base import (
    AgentMemoryProvider,
    ErasureReceipt,
    FactStore,
    PlaceInfo,
)
from factmem.providers.indexed import (
    FollowedStore,
    IndexedStore,
    PlaceChanges,
)
from factmem.usage import Usage

if TYPE_CHECKING:
    from factmem.agent.agent import Agent
    from factmem.agent.context import (
        AgentContext,
        AgentFeature,
        AgentResult,
        AgentTool,
        FeatureError,
    )
    from factmem.agent.nodes import (
        MemoryNode,
        Node,
        Strategy,
        node_llm_compress_history,
        node_llm_request,
        node_load_all_facts_from_memory,
        node_load_from_memory,
        node_recall_from_memory,
        node_save_to_memory,
        node_save_to_memory_auto_detect_facts,
    )
    from factmem.agent.tool_loop import StepLimitError
    from factmem.agent.tools import Tool, ToolError
    from factmem.detection.candidates import RejectedItem, RejectionReason
    from factmem.detection.compression import CompressionReport, RetrieveFactsFromHistory
    from factmem.detection.reconciliation import DetectionReport
    from factmem.embedding.base import Embedder, QueryEmbedder
    from factmem.embedding.callable import CallableEmbedder
    from factmem.embedding.litellm import LiteLLMEmbedder
    from factmem.embedding.openai import OpenAIEmbedder
    from factmem.embedding.sentence_transformer import SentenceTransformerEmbedder
    from factmem.events import (
        EventListener,
        MemoryEvent,
        MemoryOperation,
        correlated,
    )
    from factmem.llm.base import (
        ChatModel,
        ChatResponse,
        Extraction,
    )
    from factmem.llm.openai import OpenAIChatModel
    from factmem.memory.agent_memory import AgentMemory
    from factmem.memory.consolidation import ConsolidationReport, Merge
    from factmem.memory.contents import (
        ConceptInfo,
        MemoryContents,
        MemoryTree,
        ResetReport,
    )
    from factmem.memory.origin import FactOrigin
    from factmem.memory.tools import MemoryTool
    from factmem.models.boundary import Boundary
    from factmem.models.scopes import MemoryScopesProfile
    from factmem.prompt.memory_message import LoadReport
    from factmem.prompt.tokens import (
        TokenCounter,
        estimate_tokens,
        tiktoken_counter,
    )
    from factmem.providers.in_memory import InMemoryProvider
    from factmem.providers.local_file import LocalFileMemoryProvider
    from factmem.providers.no_memory import NoMemory
    from factmem.recall.match import (
        Match,
        RecallReport,
        RecallResult,
    )
    from factmem.recall.query import RecallSettings, RecallWeights
    from factmem.storage.base import SalvagedJournal, Storage
    from factmem.storage.encrypted import EncryptedStorage
    from factmem.storage.encryption.aes256gcm import Aes256GCMEncryptor, Encryption
    from factmem.storage.encryption.key import Key
    from factmem.storage.simple import SimpleStorage
    from factmem.transfer.bundle import (
        ExportReport,
        ImportReport,
        export_facts,
        import_facts,
    )
    from factmem.transfer.koog import KoogReport, import_koog

__all__ = [
    "Aes256GCMEncryptor",
    "Agent",
    "AgentContext",
    "AgentFeature",
    "AgentMemory",
    "AgentMemoryProvider",
    "AgentResult",
    "AgentTool",
    "AnyFact",
    "Boundary",
    "CallableEmbedder",
    "ChatModel",
    "ChatModelError",
    "ChatResponse",
    "CompressionReport",
    "Concept",
    "ConceptInfo",
    "ConsolidationReport",
    "CorruptJournalError",
    "DecryptionError",
    "DetectionReport",
    "Embedder",
    "EmbeddingError",
    "EncryptedStorage",
    "Encryption",
    "ErasureReceipt",
    "EventListener",
    "ExportReport",
    "Extraction",
    "ExtractionError",
    "Fact",
    "FactOrigin",
    "FactSource",
    "FactStore",
    "FactType",
    "FactmemError",
    "FeatureError",
    "FollowedStore",
    "HistoryAction",
    "HistoryEntry",
    "ImportReport",
    "InMemoryProvider",
    "IndexedStore",
    "Key",
    "KeyRequiredError",
    "KoogReport",
    "LiteLLMEmbedder",
    "LoadReport",
    "LocalFileMemoryProvider",
    "Match",
    "MemoryAccessError",
    "MemoryContents",
    "MemoryEvent",
    "MemoryNode",
    "MemoryOperation",
    "MemoryScope",
    "MemoryScopeType",
    "MemoryScopesProfile",
    "MemorySubject",
    "MemoryTool",
    "MemoryTree",
    "Merge",
    "MissingExtraError",
    "MultipleFacts",
    "NoMemory",
    "Node",
    "OpenAIChatModel",
    "OpenAIEmbedder",
    "Place",
    "PlaceChanges",
    "PlaceInfo",
    "QueryEmbedder",
    "RecallReport",
    "RecallResult",
    "RecallSettings",
    "RecallWeights",
    "RejectedItem",
    "RejectionReason",
    "ResetReport",
    "RetrieveFactsFromHistory",
    "SalvagedJournal",
    "SentenceTransformerEmbedder",
    "SimpleStorage",
    "SingleFact",
    "SourceKind",
    "StepLimitError",
    "Storage",
    "StorageError",
    "StoreBusyError",
    "StoredFactError",
    "Strategy",
    "TamperedError",
    "TimeProvider",
    "TokenCounter",
    "Tool",
    "ToolError",
    "UnboundSubjectError",
    "Usage",
    "WrongKeyError",
    "correlated",
    "estimate_tokens",
    "export_facts",
    "import_facts",
    "import_koog",
    "node_llm_compress_history",
    "node_llm_request",
    "node_load_all_facts_from_memory",
    "node_load_from_memory",
    "node_recall_from_memory",
    "node_save_to_memory",
    "node_save_to_memory_auto_detect_facts",
    "tiktoken_counter",
]

_LATER = {
    "factmem.agent.agent": ("Agent",),
    "factmem.models.boundary": ("Boundary",),
    "factmem.transfer.bundle": ("ExportReport", "ImportReport", "export_facts", "import_facts"),
    "factmem.detection.compression": ("CompressionReport", "RetrieveFactsFromHistory"),
    "factmem.memory.consolidation": ("ConsolidationReport", "Merge"),
    "factmem.memory.contents": (
        "ConceptInfo",
        "MemoryContents",
        "MemoryTree",
        "ResetReport",
    ),
    "factmem.agent.context": ("AgentContext", "AgentResult", "AgentTool", "FeatureError"),
    "factmem.detection.reconciliation": ("DetectionReport", "RejectedItem", "RejectionReason"),
    "factmem.embedding.base": ("Embedder", "QueryEmbedder"),
    "factmem.embedding.callable": ("CallableEmbedder",),
    "factmem.embedding.litellm": ("LiteLLMEmbedder",),
    "factmem.embedding.openai": ("OpenAIEmbedder",),
    "factmem.embedding.sentence_transformer": ("SentenceTransformerEmbedder",),
    "factmem.storage.encryption.aes256gcm": ("Aes256GCMEncryptor", "Encryption", "Key"),
    "factmem.events": (
        "EventListener",
        "MemoryEvent",
        "MemoryOperation",
        "correlated",
    ),
    "factmem.agent.context": ("AgentFeature",),
    "factmem.transfer.koog": ("KoogReport", "import_koog"),
    "factmem.llm.base": ("ChatModel", "ChatResponse", "Extraction"),
    "factmem.llm.openai": ("OpenAIChatModel",),
    "factmem.memory.agent_memory": ("AgentMemory",),
    "factmem.prompt.memory_message": ("LoadReport",),
    "factmem.memory.tools": ("MemoryTool",),
    "factmem.agent.nodes": (
        "MemoryNode",
        "Node",
        "Strategy",
        "node_llm_compress_history",
        "node_llm_request",
        "node_load_all_facts_from_memory",
        "node_load_from_memory",
        "node_recall_from_memory",
        "node_save_to_memory",
        "node_save_to_memory_auto_detect_facts",
    ),
    "factmem.memory.origin": ("FactOrigin",),
    "factmem.providers.in_memory": ("InMemoryProvider",),
    "factmem.providers.local_file": ("LocalFileMemoryProvider",),
    "factmem.providers.no_memory": ("NoMemory",),
    "factmem.recall.match": ("Match", "RecallReport", "RecallResult"),
    "factmem.recall.query": ("RecallSettings", "RecallWeights"),
    "factmem.models.scopes": ("MemoryScopesProfile",),
    "factmem.storage.base": ("SalvagedJournal", "Storage"),
    "factmem.storage.encrypted": ("EncryptedStorage",),
    "factmem.storage.simple": ("SimpleStorage",),
    "factmem.prompt.tokens": ("TokenCounter", "estimate_tokens", "tiktoken_counter"),
    "factmem.agent.tool_loop": ("StepLimitError",),
    "factmem.agent.tools": ("Tool", "ToolError"),
}
"""Names that are imported at their first use. The stores are among them: they take three quarters of
the import, and a program that only defines concepts, or is a command that only prints its help,
never needs one."""

if not TYPE_CHECKING:  # type checkers are to notice a name that is not there

    def __getattr__(name: str) -> object:
        for module, names in _LATER.items():
            if name in names:
                globals()[name] = found = getattr(import_module(module), name)
                return found
        raise AttributeError(f"module 'factmem' has no attribute {name!r}")

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
