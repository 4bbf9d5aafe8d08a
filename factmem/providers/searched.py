"""The values of a search in a store: the question, the documents and the candidates."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

from factmem.models.facts import AnyFact, Concept
from factmem.models.places import Identity
from factmem.models.recall_filter import RecallFilter

__all__ = ["PlaceStatistics", "SearchAnswer", "SearchCandidate", "SearchDocument", "SearchQuestion"]


TextVectors: TypeAlias = Mapping[bytes, Sequence[float] | None]
"""The vectors of texts by their digests; None marks a text that the embedder refused."""


class SearchDocument(NamedTuple):
    """The search document of a fact: its weighted terms and the digest of its text."""

    own: Mapping[str, float]
    """The weighted count of each term of the fact, including its neighbours' share of that term."""
    around: Mapping[str, float]
    """The weighted counts of the terms that only its neighbours have."""
    length: float
    """The sum of all counts."""
    digest: bytes
    """A digest of 16 bytes of the text that is embedded."""


Describe: TypeAlias = Callable[[Sequence[AnyFact], str | None], Iterable[SearchDocument]]
"""Returns the documents of all facts of an entity, which are each other's possible neighbours. A
pure function."""


@dataclass(frozen=True, slots=True)
class SearchQuestion:
    """The question of a search."""

    terms: Sequence[str]
    """The search terms, without duplicates."""
    limit: int
    """The number of candidates to return from each place, by words and by meaning each."""
    filter: RecallFilter = field(default_factory=RecallFilter)
    model: str = ""
    """The embedding model of the vector."""
    vector: Sequence[float] | None = None
    """The embedding of the question, of length 1; None to search only by words."""
    common: float = 0.0
    """The share of a fact's cosine with the mean of all vectors that ranking subtracts."""


class SearchCandidate(NamedTuple):
    """A fact that may answer a question."""

    identity: Identity
    """The place of the fact."""
    counts: Mapping[str, tuple[float, bool]]
    """For each term of the question, its weighted count and whether the fact itself has it."""
    length: float
    cosine: float | None
    """The cosine between its text and the question; None without a vector."""
    ranked: float | None
    """The same cosine, reduced as `SearchQuestion.common` says."""
    load: Callable[[Mapping[str, Concept[Any, Any]]], AnyFact]
    """Returns the fact, with the type of its concept if the passed mapping has its keyword. Raises
    `StoredFactError` if a value does not fit that type."""


@dataclass(frozen=True, slots=True)
class PlaceStatistics:
    """Statistics of all facts of a place, which the scores of its candidates depend on."""

    facts: int
    length: float
    """The sum of the facts' lengths."""
    holders: Mapping[str, int]
    """For each term of the question, how many facts have it themselves."""
    vectors: int = 0
    cosines: float = 0.0
    """The sum of the cosines of all vectors with the question."""
    ranked: float = 0.0
    """The sum of the cosines reduced as `SearchQuestion.common` says."""
    least: float | None = None
    """Approximately the least of the reduced cosines."""


@dataclass(frozen=True, slots=True)
class SearchAnswer:
    """The result of a search."""

    candidates: Sequence[SearchCandidate]
    places: Mapping[Identity, PlaceStatistics]
    """The statistics of the places that are not empty."""
    others: Sequence[SearchCandidate] = ()
    """Facts with the candidates' keywords in other places, which may take precedence over them."""
    has_meaning: bool = False
    """Whether vectors were compared."""
    unembedded: frozenset[Identity] = frozenset()
    """The places with facts that have no vector of the question's model: `facts_to_embed` returns
    these facts. Empty if the question has no vector or the store keeps none."""
