"""RecallQuery, a validated question with its filter and weights, and RecallSettings."""

from dataclasses import dataclass, field, fields, replace
from datetime import datetime, timedelta
from math import isfinite
from typing import Literal, NamedTuple, TypeAlias

from factmem._arguments import expect, expect_within
from factmem.models.places import Place
from factmem.models.recall_filter import RecallFilter

__all__ = ["Depth", "RecallSettings", "RecallWeights"]


_SHORT = 500
"""The most characters of a question that the event loop analyses, in 2 ms at most. A message of 70,000
new words takes a second."""


class LeastRelevance(NamedTuple):
    """The thresholds of relevance."""

    match: float
    """The least relevance of each match."""
    best: float
    """The least relevance of the best match. Below it, the recall returns no matches."""


LEAST_RELEVANCE = {False: LeastRelevance(0.2, 0.26), True: LeastRelevance(0.1, 0.205)}
"""The default thresholds, without an embedder and with one. Chosen by cross-validation on the grown
corpus of `benchmarks/recall`."""

SURE_RELEVANCE = {False: 0.33, True: 0.26}
"""The least relevance of a best match that is probably right: 2 of 3 unanswerable questions have none."""

Depth: TypeAlias = Literal["shallow", "deep"]
"""Whether a chat model splits the question."""


@dataclass(frozen=True, slots=True)
class RecallWeights:
    """The weights of the parts of a match's score; only their ratios matter.

        score = (fused + support) · (L + S + recency weight · recency + importance weight ·
            importance) / sum
        fused = (L · lexical + S · semantic) / (L + S)

    L and S are the weights of the lexical and the semantic part. Recency and importance scale
    relevance and never replace it: an irrelevant fact scores 0, however recent it is. By default
    they decide a tenth of the score.

    Raises:
        TypeError: A weight is not a number.
        ValueError: A weight is negative or not finite, or `lexical` and `semantic` are both 0.
    """

    lexical: float = 0.45
    """The words that the question and the fact share."""
    semantic: float = 0.45
    """The similarity of the embeddings. Without an embedder this weight is added to `lexical`."""
    recency: float = 0.05
    """The time since the fact was last confirmed."""
    importance: float = 0.05
    """The fact's importance."""

    def __post_init__(self) -> None:
        for each in fields(self):
            weight = getattr(self, each.name)
            expect_within(weight, float, each.name, f"{each.name}=0.2", least=0)
        if not self.relevance or not isfinite(self.relevance + self.recency + self.importance):
            raise ValueError("weights must be finite, and `lexical` or `semantic` above 0")

    @property
    def relevance(self) -> float:
        """The sum of `lexical` and `semantic`."""
        return self.lexical + self.semantic


@dataclass(frozen=True, slots=True)
class RecallSettings:
    """The settings of a memory's recalls.

    Raises:
        TypeError: An option has the wrong type, such as a dict of weights.
        ValueError: A number is out of range.
    """

    weights: RecallWeights = field(default_factory=RecallWeights)
    half_life: timedelta = timedelta(days=30)
    """The time since its last confirmation after which a fact's recency is 0.5."""
    min_score: float | None = None
    """The least `relevance` of a match, from 0 to 1. By default each match must reach 0.2 and the
    best one 0.26, and with an embedder 0.1 and 0.205; otherwise there are no matches."""

    def __post_init__(self) -> None:
        expect(self.weights, RecallWeights, "weights", "weights=RecallWeights(recency=0.2)")
        example = "half_life=timedelta(days=30)"
        expect_within(self.half_life, timedelta, "half_life", example, above=timedelta(0))
        _check_min_score(self.min_score)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallQuery:
    """A question with its filter, weights and limits."""

    text: str
    limit: int
    min_score: float | None
    """The least relevance; None to use `LEAST_RELEVANCE`."""
    weights: RecallWeights
    half_life: timedelta
    filter: RecallFilter
    subjects: frozenset[str] | None = None
    """The names of the subjects to search; None means all."""

    @classmethod
    def of_arguments(
        cls,
        text: str,
        settings: RecallSettings,
        *,
        limit: int,
        min_score: float | None = None,
        where: RecallFilter | None = None,
    ) -> "RecallQuery":
        """Return a query of the arguments of `AgentMemory.recall`.

        Raises:
            ValueError: The question has no word, or a number is out of range.
            TypeError: An argument has the wrong type.
        """
        if not checked_question(text).strip():
            raise ValueError("question must have at least one word; current() returns all facts")
        expect_within(limit, int, "limit", "limit=5", least=1)
        _check_min_score(min_score)
        if where is not None:
            expect(where, RecallFilter, "where", "where=RecallFilter(concepts=['city'])")
        return cls(
            text=text,
            limit=limit,
            min_score=settings.min_score if min_score is None else min_score,
            weights=settings.weights,
            half_life=settings.half_life,
            filter=RecallFilter() if where is None else where,
        )

    @property
    def is_narrowed(self) -> bool:
        """Whether it searches only some facts."""
        return self.subjects is not None or not self.filter.is_open

    @property
    def is_short(self) -> bool:
        """Whether the event loop may analyse its text."""
        return len(self.text) <= _SHORT

    def least_relevance(self, *, has_meaning: bool) -> LeastRelevance:
        """Return the thresholds of relevance."""
        if self.min_score is not None:
            return LeastRelevance(self.min_score, self.min_score)
        return LEAST_RELEVANCE[has_meaning]

    def is_about(self, place: Place) -> bool:
        """Whether it searches a place."""
        return self.subjects is None or place.subject.name in self.subjects

    def narrowed(
        self,
        text: str,
        *,
        subjects: frozenset[str] | None,
        since: datetime | None,
        until: datetime | None,
    ) -> "RecallQuery":
        """Return a query for another text, about some subjects and a part of the time."""
        return replace(self, text=text, subjects=subjects, filter=self.filter.within(since, until))


def checked_question(text: str) -> str:
    """Return a question; raise `TypeError` if it is not a string."""
    return expect(text, str, "question", "memory.recall('which theme')")


def _check_min_score(min_score: float | None) -> None:
    if min_score is not None:
        expect_within(min_score, float, "min_score", "min_score=0.3", least=0, most=1)
