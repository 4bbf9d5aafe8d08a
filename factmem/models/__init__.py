"""The stored data types: facts, concepts, subjects, scopes and places.

Imports errors and argument checks.
"""

from factmem.models.boundary import Boundary
from factmem.models.clock import TimeProvider
from factmem.models.facts import AnyFact, Concept, Fact, FactType, MultipleFacts, SingleFact
from factmem.models.places import MemoryScope, MemoryScopeType, MemorySubject, Place
from factmem.models.scopes import MemoryScopesProfile, ScopeChoice
from factmem.models.sources import FactSource, SourceKind
from factmem.models.when import When

__all__ = [
    "AnyFact",
    "Boundary",
    "Concept",
    "Fact",
    "FactSource",
    "FactType",
    "MemoryScope",
    "MemoryScopeType",
    "MemoryScopesProfile",
    "MemorySubject",
    "MultipleFacts",
    "Place",
    "ScopeChoice",
    "SingleFact",
    "SourceKind",
    "TimeProvider",
    "When",
]
