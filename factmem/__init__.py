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

__version__ = "0.1.0"

if TYPE_CHECKING:
    from factmem.agent.agent import Agent as Agent
    from factmem.agent.nodes import Strategy as Strategy
    from factmem.detection.compression import RetrieveFactsFromHistory as RetrieveFactsFromHistory
    from factmem.detection.report import Detection as Detection
    from factmem.detection.report import DetectionReport as DetectionReport
    from factmem.embedding.base import CallableEmbedder as CallableEmbedder
    from factmem.embedding.base import Embedder as Embedder
    from factmem.embedding.openai import OpenAIEmbedder as OpenAIEmbedder
    from factmem.encryption.aes256gcm import Aes256GCMEncryptor as Aes256GCMEncryptor
    from factmem.encryption.key import Key as Key
    from factmem.errors import FactmemError as FactmemError
    from factmem.errors import MemoryAccessError as MemoryAccessError
    from factmem.errors import StorageError as StorageError
    from factmem.errors import UnboundSubjectError as UnboundSubjectError
    from factmem.llm.base import ChatModel as ChatModel
    from factmem.llm.openai import OpenAIChatModel as OpenAIChatModel
    from factmem.memory.agent_memory import AgentMemory as AgentMemory
    from factmem.models.facts import Concept as Concept
    from factmem.models.facts import Fact as Fact
    from factmem.models.facts import FactSource as FactSource
    from factmem.models.facts import FactType as FactType
    from factmem.models.facts import MultipleFacts as MultipleFacts
    from factmem.models.facts import SingleFact as SingleFact
    from factmem.models.facts import SourceKind as SourceKind
    from factmem.models.places import MemoryScope as MemoryScope
    from factmem.models.places import MemoryScopesProfile as MemoryScopesProfile
    from factmem.models.places import MemoryScopeType as MemoryScopeType
    from factmem.models.places import MemorySubject as MemorySubject
    from factmem.models.places import Place as Place
    from factmem.models.places import acting as acting
    from factmem.models.profile import Profile as Profile
    from factmem.models.profile import remembered as remembered
    from factmem.providers.in_memory import InMemoryProvider as InMemoryProvider
    from factmem.providers.local_file import LocalFileMemoryProvider as LocalFileMemoryProvider
    from factmem.providers.no_memory import NoMemory as NoMemory
    from factmem.providers.provider import AgentMemoryProvider as AgentMemoryProvider
    from factmem.providers.storages import EncryptedStorage as EncryptedStorage
    from factmem.providers.storages import SimpleStorage as SimpleStorage
    from factmem.providers.store import FactStore as FactStore
    from factmem.recall.match import RecallSettings as RecallSettings
    from factmem.transfer.bundle import export_facts as export_facts
    from factmem.transfer.bundle import import_facts as import_facts
else:
    __getattr__, __dir__, __all__ = lazily(
        __name__,
        {
            "agent.agent": "Agent",
            "agent.nodes": "Strategy",
            "detection.compression": "RetrieveFactsFromHistory",
            "detection.report": "Detection DetectionReport",
            "embedding.base": "CallableEmbedder Embedder",
            "embedding.openai": "OpenAIEmbedder",
            "encryption.aes256gcm": "Aes256GCMEncryptor",
            "encryption.key": "Key",
            "errors": "FactmemError MemoryAccessError StorageError UnboundSubjectError",
            "llm.base": "ChatModel",
            "llm.openai": "OpenAIChatModel",
            "memory.agent_memory": "AgentMemory",
            "models.facts": "Concept Fact FactSource FactType MultipleFacts SingleFact SourceKind",
            "models.places": (
                "MemoryScope MemoryScopeType MemoryScopesProfile MemorySubject Place acting"
            ),
            "models.profile": "Profile remembered",
            "providers.provider": "AgentMemoryProvider",
            "providers.store": "FactStore",
            "providers.in_memory": "InMemoryProvider",
            "providers.local_file": "LocalFileMemoryProvider",
            "providers.no_memory": "NoMemory",
            "providers.storages": "EncryptedStorage SimpleStorage",
            "recall.match": "RecallSettings",
            "transfer.bundle": "export_facts import_facts",
        },
    )
