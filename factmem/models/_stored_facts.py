"""Fast constructors of facts and concepts that a store returns, without validation.

They were validated when they were saved. Setting the fields of a frozen object one by one through
`object.__setattr__` takes three times as long as an `__init__` that assigns them, and 100,000 facts
have 1.4 million fields. Each object is therefore created by a class with the same slots that is not
frozen, and gets its final class at the end. Python allows this only for classes of the same layout.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Any, Generic, cast

from typing_extensions import TypeVar

from factmem.models._metadata import Metadata
from factmem.models.actors import FactState
from factmem.models.facts import AnyFact, Concept, FactType, SingleFact
from factmem.models.sources import FactSource
from factmem.models.when import When

T = TypeVar("T")
F = TypeVar("F")


class _StoredConcept(Generic[T, F]):
    __slots__ = Concept.__slots__

    def __init__(
        self: Any, keyword: str, description: str, fact_type: FactType, value_type: object
    ) -> None:
        self.keyword = keyword
        self.description = description
        self.fact_type = fact_type
        self.value_type = value_type
        self.detect = True
        self.was = ()
        self.read = None
        self.review = False
        self.__class__ = Concept


class _StoredSingle(AnyFact):
    __slots__ = ("concept", "value")

    # Overrides the inherited methods of a frozen class, which reject assignments.
    __setattr__ = object.__setattr__
    __delattr__ = object.__delattr__

    def __init__(  # noqa: PLR0917 - keyword arguments would take a fifth of its time
        self: Any,
        concept: Concept[Any, Any],
        value: object,
        fact_id: str,
        timestamp: datetime,
        confirmed_at: datetime,
        importance: float,
        expires_at: datetime | None,
        source: FactSource | None,
        metadata: Metadata,
        since: When | None = None,
        until: When | None = None,
        state: FactState = FactState.STATED,
        actor: str | None = None,
        reason: str | None = None,
    ) -> None:
        self.concept = concept  # pyright: ignore[reportIncompatibleMethodOverride]
        self.value = value
        self.id = fact_id
        self.timestamp = timestamp
        self.confirmed_at = confirmed_at
        self.importance = importance
        self.expires_at = expires_at
        self.source = source
        self.metadata = metadata
        self.since = since
        self.until = until
        self.state = state
        self.actor = actor
        self.reason = reason
        self.__class__ = SingleFact


stored_concept: Callable[[str, str, FactType, object], Concept[Any, Any]] = cast(
    "Any", _StoredConcept
)
"""Creates a concept from its keyword, description, fact type and value type."""

stored_single: Callable[..., SingleFact[Any]] = cast("Any", _StoredSingle)
"""Creates a fact with one value; for the arguments see `_StoredSingle`."""
