"""SearchedStore: a store that finds the candidates of a recall itself, where a place is large."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple, Protocol, TypeAlias, runtime_checkable

from factmem.models.facts import AnyFact, Concept
from factmem.models.metadata import NO_METADATA
from factmem.models.places import Identity, MemoryScope, MemorySubject, Place
from factmem.models.sources import SourceKind
from factmem.models.values import JsonValue

__all__ = [
    "Describe",
    "PlaceStatistics",
    "SearchAnswer",
    "SearchCandidate",
    "SearchDocument",
    "SearchFilter",
    "SearchQuestion",
    "SearchedStore",
]


class SearchDocument(NamedTuple):
    """What a fact is found by."""

    own: Mapping[str, float]
    """How often the fact has each of its terms, weighted; what is said around it counts too."""
    around: Mapping[str, float]
    """The terms that only its neighbours have."""
    length: float
    """The sum of all counts."""
    digest: bytes
    """16 bytes that name the text that is embedded."""


Describe: TypeAlias = Callable[[Sequence[AnyFact], str | None], Iterable[SearchDocument]]
"""Makes the document of each fact of an entity; the others are its possible neighbours. Pure."""


@dataclass(frozen=True, slots=True)
class SearchFilter:
    """Which facts a search looks at; all of them by default."""

    keywords: frozenset[str] | None = None
    since: datetime | None = None
    """When they were said: from this time on."""
    until: datetime | None = None
    """When they were said: before this time."""
    source_kinds: frozenset[SourceKind] | None = None
    min_importance: float | None = None
    metadata: Mapping[str, JsonValue] = field(default_factory=lambda: NO_METADATA)
    """What their metadata must hold."""


@dataclass(frozen=True, slots=True)
class SearchQuestion:
    """What a store is asked for."""

    terms: Sequence[str]
    """The terms that are searched, each once."""
    limit: int
    """How many candidates are wanted of each place, by words and by meaning each."""
    filter: SearchFilter = field(default_factory=SearchFilter)
    model: str = ""
    """The model of the vector."""
    vector: Sequence[float] | None = None
    """The question's embedding, of length 1; None to search by words alone."""
    common: float = 0.0
    """How much of a fact's cosine with the mean of all vectors is taken off for ranking."""


@dataclass(frozen=True, slots=True)
class SearchCandidate:
    """A fact that may answer a question."""

    identity: Identity
    """Its place."""
    topic: int
    """A number for its keyword."""
    counts: Mapping[str, tuple[float, bool]]
    """Of the question's terms: how often it has each, and whether the fact itself has it."""
    length: float
    heard_at: float
    """When it was last confirmed, in seconds since 1970."""
    said_at: float
    importance: float
    conversation: int | None
    """A number for its conversation."""
    is_numbered: bool
    """Whether its message has a number in the conversation."""
    cosine: float | None
    """Between its text and the question; None without a vector."""
    ranked: float | None
    """The same without a part of the common direction."""
    load: Callable[[Mapping[str, Concept[Any, Any]]], AnyFact]
    """Returns the fact, in the type of its concept if that is among those given by keyword. Raises
    `StoredFactError` where a value does not fit it."""


@dataclass(frozen=True, slots=True)
class PlaceStatistics:
    """What the scores of a place's candidates depend on besides: all of its facts."""

    facts: int
    length: float
    """The sum of their lengths."""
    holders: Mapping[str, int]
    """How many facts have each term of the question themselves."""
    vectors: int = 0
    cosines: float = 0.0
    """The sum of the cosines of all vectors with the question."""
    ranked: float = 0.0
    """The same without a part of the common direction."""
    least: float | None = None
    """About the least of the latter."""


@dataclass(frozen=True, slots=True)
class SearchAnswer:
    """The candidates in some places."""

    candidates: Sequence[SearchCandidate]
    places: Mapping[Identity, PlaceStatistics]
    """The places that hold anything."""
    others: Sequence[SearchCandidate] = ()
    """Facts of the candidates' keywords in other places, which may stand in the place of them."""
    has_meaning: bool = False
    """Whether vectors were compared."""


@runtime_checkable
class SearchedStore(Protocol):
    """What a `FactStore` may offer besides: recalls in which the store finds the candidates.

    The library scores the candidates as it scores facts that it has in memory. So a recall over a
    very large place neither reads nor indexes all of it in this process.
    """

    async def is_searched(self, places: Sequence[Place], describe: Describe) -> bool:
        """Return whether `candidates` is the way to search these places, after preparing for it.

        What was saved before the call is found by `candidates` after it, and what was forgotten is
        not.

        Args:
            places: All places of a recall.
            describe: Makes the documents of facts that are new; may run in a worker thread.

        Raises:
            StorageError: The store refused.
        """
        ...

    async def facts_to_embed(
        self,
        subject: MemorySubject,
        scope: MemoryScope,
        *,
        model: str,
        dimensions: int,
        limit: int,
    ) -> Mapping[bytes, AnyFact]:
        """Return facts whose text has no vector of a model yet, by the digests of these texts.

        Nothing where the store keeps no vectors.
        """
        ...

    async def add_vectors(
        self,
        subject: MemorySubject,
        scope: MemoryScope,
        vectors: Mapping[bytes, Sequence[float] | None],
        *,
        model: str,
        dimensions: int,
    ) -> None:
        """Keep the vectors of texts by their digests, None for a text that has none.

        Texts that no fact has any more are ignored.
        """
        ...

    async def candidates(self, places: Sequence[Place], question: SearchQuestion) -> SearchAnswer:
        """Return the facts of some places that may answer a question, from nowhere else.

        Raises:
            StorageError: The store refused.
        """
        ...
