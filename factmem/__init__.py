"""A typed fact store for AI agents.

An agent learns that Alice prefers Kotlin. factmem stores this as a fact: it has a concept
("preferred-language"), a subject (the user Alice) and a scope (the product "my-app"). Facts are
durable, optionally encrypted, and available in the next conversation.

This module exports the names that a first program needs. Import all others from their package, such
as `factmem.recall` or `factmem.errors`. The import starts no thread, reads no files other than
Python modules, and loads `openai` and `cryptography` only on first use.
"""

from typing import TYPE_CHECKING

from factmem._lazy import lazily
from factmem.errors import FactmemError, MemoryAccessError, StorageError, UnboundSubjectError
from factmem.models.actors import acting
from factmem.models.facts import Concept, Fact, FactType, MultipleFacts, SingleFact
from factmem.models.places import MemoryScope, MemoryScopeType, MemorySubject, Place
from factmem.models.scopes import MemoryScopesProfile
from factmem.models.sources import FactSource, SourceKind

if TYPE_CHECKING:
    from factmem.agent.agent import Agent
    from factmem.agent.nodes import Strategy
    from factmem.detection.request import Detection
    from factmem.embedding.base import Embedder
    from factmem.embedding.callable import CallableEmbedder
    from factmem.embedding.openai import OpenAIEmbedder
    from factmem.encryption.aes256gcm import Aes256GCMEncryptor
    from factmem.encryption.key import Key
    from factmem.llm.base import ChatModel
    from factmem.llm.openai import OpenAIChatModel
    from factmem.memory.agent_memory import AgentMemory
    from factmem.models.profile import Profile, remembered
    from factmem.providers.base import AgentMemoryProvider, FactStore
    from factmem.providers.in_memory import InMemoryProvider
    from factmem.providers.local_file import LocalFileMemoryProvider
    from factmem.providers.storages import EncryptedStorage, SimpleStorage
    from factmem.recall.query import RecallSettings
    from factmem.transfer.bundle import export_facts, import_facts

__version__ = "0.1.0"

__all__ = [
    "Aes256GCMEncryptor",
    "Agent",
    "AgentMemory",
    "AgentMemoryProvider",
    "CallableEmbedder",
    "ChatModel",
    "Concept",
    "Detection",
    "Embedder",
    "EncryptedStorage",
    "Fact",
    "FactSource",
    "FactStore",
    "FactType",
    "FactmemError",
    "InMemoryProvider",
    "Key",
    "LocalFileMemoryProvider",
    "MemoryAccessError",
    "MemoryScope",
    "MemoryScopeType",
    "MemoryScopesProfile",
    "MemorySubject",
    "MultipleFacts",
    "OpenAIChatModel",
    "OpenAIEmbedder",
    "Place",
    "Profile",
    "RecallSettings",
    "SimpleStorage",
    "SingleFact",
    "SourceKind",
    "StorageError",
    "Strategy",
    "UnboundSubjectError",
    "acting",
    "export_facts",
    "import_facts",
    "remembered",
]

if not TYPE_CHECKING:  # type checkers report a name that does not exist
    __getattr__, _ = lazily(
        __name__,
        {
            "factmem.agent.agent": ("Agent",),
            "factmem.agent.nodes": ("Strategy",),
            "factmem.detection.request": ("Detection",),
            "factmem.embedding.base": ("Embedder",),
            "factmem.embedding.callable": ("CallableEmbedder",),
            "factmem.embedding.openai": ("OpenAIEmbedder",),
            "factmem.llm.base": ("ChatModel",),
            "factmem.llm.openai": ("OpenAIChatModel",),
            "factmem.memory.agent_memory": ("AgentMemory",),
            "factmem.models.profile": ("Profile", "remembered"),
            "factmem.providers.base": (
                "AgentMemoryProvider",
                "FactStore",
            ),
            "factmem.providers.in_memory": ("InMemoryProvider",),
            "factmem.providers.local_file": ("LocalFileMemoryProvider",),
            "factmem.recall.query": ("RecallSettings",),
            "factmem.providers.storages": (
                "EncryptedStorage",
                "SimpleStorage",
            ),
            "factmem.encryption.aes256gcm": ("Aes256GCMEncryptor",),
            "factmem.encryption.key": ("Key",),
            "factmem.transfer.bundle": (
                "export_facts",
                "import_facts",
            ),
        },
    )

    def __dir__() -> list[str]:
        return sorted([*__all__, "__version__"])
