"""The stored data types: facts, concepts, subjects, scopes and places.

Imports errors and argument checks.
"""

from typing import TYPE_CHECKING

from factmem._lazy import lazily

if TYPE_CHECKING:
    from factmem.models.facts import AnyFact as AnyFact
    from factmem.models.facts import Concept as Concept
    from factmem.models.facts import ConceptDefinition as ConceptDefinition
    from factmem.models.facts import Fact as Fact
    from factmem.models.facts import FactSource as FactSource
    from factmem.models.facts import FactState as FactState
    from factmem.models.facts import FactType as FactType
    from factmem.models.facts import MultipleFacts as MultipleFacts
    from factmem.models.facts import SingleFact as SingleFact
    from factmem.models.facts import SourceKind as SourceKind
    from factmem.models.places import Boundary as Boundary
    from factmem.models.places import MemoryScope as MemoryScope
    from factmem.models.places import MemoryScopesProfile as MemoryScopesProfile
    from factmem.models.places import MemoryScopeType as MemoryScopeType
    from factmem.models.places import MemorySubject as MemorySubject
    from factmem.models.places import Place as Place
    from factmem.models.places import acting as acting
    from factmem.models.profile import Profile as Profile
    from factmem.models.profile import remembered as remembered
    from factmem.models.when import StoreClock as StoreClock
    from factmem.models.when import TimeProvider as TimeProvider
    from factmem.models.when import When as When
else:
    __getattr__, __dir__, __all__ = lazily(
        __name__,
        {
            "facts": (
                "AnyFact Concept ConceptDefinition Fact FactSource FactState FactType "
                "MultipleFacts SingleFact SourceKind"
            ),
            "places": (
                "Boundary MemoryScope MemoryScopeType MemoryScopesProfile MemorySubject Place "
                "acting"
            ),
            "profile": "Profile remembered",
            "when": "StoreClock TimeProvider When",
        },
    )
