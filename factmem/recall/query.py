"""RecallQuery, a validated question with its filter and weights, and RecallSettings."""

from dataclasses import dataclass, field, fields
from datetime import timedelta
from math import isfinite

from factmem._arguments import expect, expect_within
from factmem.models.recall_filter import OPEN, RecallFilter

__all__ = ["RecallSettings", "RecallWeights"]


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

    def __post_init__(self) -> None:
        expect(self.weights, RecallWeights, "weights", "weights=RecallWeights(recency=0.2)")
        example = "half_life=timedelta(days=30)"
        expect_within(self.half_life, timedelta, "half_life", example, above=timedelta(0))


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallQuery:
    """A question with its filter, settings and limit."""

    text: str
    limit: int
    settings: RecallSettings
    filter: RecallFilter

    @classmethod
    def of_arguments(
        cls,
        text: str,
        settings: RecallSettings,
        *,
        limit: int,
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
        if where is not None:
            expect(where, RecallFilter, "where", "where=RecallFilter(concepts=['city'])")
        return cls(text=text, limit=limit, settings=settings, filter=where or OPEN)


def checked_question(text: str) -> str:
    """Return a question; raise `TypeError` if it is not a string."""
    return expect(text, str, "question", "memory.recall('which theme')")
