"""The stored data types: facts, concepts, subjects, scopes and places.

Imports errors and argument checks.
"""

from typing import TYPE_CHECKING

from factmem._lazy import lazily
from factmem.models.actors import FactState, acting
from factmem.models.boundary import Boundary
from factmem.models.clock import TimeProvider
from factmem.models.concepts import ConceptDefinition
from factmem.models.facts import AnyFact, Concept, Fact, FactType, MultipleFacts, SingleFact
from factmem.models.places import MemoryScope, MemoryScopeType, MemorySubject, Place
from factmem.models.scopes import MemoryScopesProfile
from factmem.models.sources import FactSource, SourceKind
from factmem.models.when import When

if TYPE_CHECKING:
    from factmem.models.profile import Profile, remembered

__all__ = [
    "AnyFact",
    "Boundary",
    "Concept",
    "ConceptDefinition",
    "Fact",
    "FactSource",
    "FactState",
    "FactType",
    "MemoryScope",
    "MemoryScopeType",
    "MemoryScopesProfile",
    "MemorySubject",
    "MultipleFacts",
    "Place",
    "Profile",
    "SingleFact",
    "SourceKind",
    "TimeProvider",
    "When",
    "acting",
    "remembered",
]

if not TYPE_CHECKING:  # type checkers report a name that does not exist
    __getattr__, __dir__ = lazily(__name__, {"factmem.models.profile": ("Profile", "remembered")})
