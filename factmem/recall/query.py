"""RecallQuery, a validated question with its filters and weights, and RecallSettings."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import datetime, timedelta
from math import isfinite
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

from pydantic import JsonValue
from typing_extensions import TypedDict

from factmem._arguments import expect, expect_all, expect_member, expect_within, expect_word
from factmem.models.clock import utc
from factmem.models.facts import Concept
from factmem.models.metadata import NO_METADATA, checked_metadata
from factmem.models.places import Place
from factmem.models.sources import SourceKind

__all__ = [
    "LEAST_RELEVANCE",
    "Depth",
    "RecallFilters",
    "RecallQuery",
    "RecallSettings",
    "RecallWeights",
    "Strictness",
    "checked_question",
]


_CONCEPTS = "concepts=['city']"

_SHORT = 500
"""The most characters of a question that the event loop analyses, in 2 ms at most. A message of 70,000
new words takes a second."""

Strictness: TypeAlias = Literal["many", "balanced", "few"]
"""Whether a recall returns many matches, or few that are mostly right."""


class LeastRelevance(NamedTuple):
    """The thresholds of relevance."""

    match: float
    """The least relevance of each match."""
    best: float
    """The least relevance of the best match. Below it, the recall returns no matches."""


LEAST_RELEVANCE: dict[bool, dict[Strictness, LeastRelevance]] = {
    False: {
        "many": LeastRelevance(0.15, 0.15),
        "balanced": LeastRelevance(0.2, 0.26),
        "few": LeastRelevance(0.26, 0.33),
    },
    True: {
        "many": LeastRelevance(0.05, 0.1),
        "balanced": LeastRelevance(0.1, 0.205),
        "few": LeastRelevance(0.15, 0.26),
    },
}
"""The default thresholds, without an embedder and with one. Chosen by cross-validation on the grown
corpus of `benchmarks/recall`."""

Depth: TypeAlias = Literal["shallow", "deep", "auto"]
"""Whether a chat model splits the question: never, always, or only if it is long."""


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
    """The defaults of a memory's recalls; arguments of a call override them.

    Raises:
        TypeError: An option has the wrong type, such as a dict of weights.
        ValueError: A number is out of range.
    """

    weights: RecallWeights = field(default_factory=RecallWeights)
    half_life: timedelta = timedelta(days=30)
    """The time since its last confirmation after which a fact's recency is 0.5."""
    min_score: float | None = None
    """The least `relevance` of a match, from 0 to 1. By default `strictness` decides."""
    strictness: Strictness = "balanced"
    """Whether a recall returns many matches, or few that are mostly right. Without an embedder,
    "many" requires a relevance of 0.15, "balanced" of 0.2 and "few" of 0.26; the best match must
    reach 0.15, 0.26 and 0.33, or there are no matches. With an embedder the values are 0.05, 0.1
    and 0.15, and 0.1, 0.205 and 0.26 for the best match."""
    prompt_min_score: float = 0.1
    """The least relevance for `recall_facts_to_agent`. It is low because chat messages have many
    words that no fact has, and because the chat model ignores facts that do not help."""
    auto_tokens: int = 60
    """`depth="auto"` asks the chat model about questions longer than this, in estimated tokens."""
    planning_seconds: float = 10.0
    """The time limit of the chat model for one question."""
    embedding_seconds: float = 30.0
    """The time limit for vectors: for the embedder, and for other recalls that embed facts of the
    same place. After it, the recall compares only words. Vectors received before are kept, and the
    next recall embeds the rest. `float("inf")` sets no limit."""

    def __post_init__(self) -> None:
        _check_scale(self.weights, self.half_life, self.min_score)
        expect_word(self.strictness, get_args(Strictness), "strictness", 'strictness="few"')
        example = "prompt_min_score=0.1"
        expect_within(self.prompt_min_score, float, "prompt_min_score", example, least=0, most=1)
        expect_within(self.auto_tokens, float, "auto_tokens", "auto_tokens=60", least=0)
        for name in ("planning_seconds", "embedding_seconds"):
            expect_within(getattr(self, name), float, name, f"{name}=10.0", above=0)


class RecallFilters(TypedDict, total=False):
    """Filters of `AgentMemory.recall` and `recall_facts_to_agent`; see there."""

    concepts: Iterable[Concept[Any, Any] | str] | None
    since: datetime | None
    until: datetime | None
    source_kinds: Iterable[SourceKind] | None
    min_importance: float | None
    metadata: Mapping[str, JsonValue] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallQuery:
    """A question with its filters, weights and limits."""

    text: str
    limit: int
    min_score: float | None
    """The least relevance; None to use `strictness`."""
    weights: RecallWeights
    half_life: timedelta
    keywords: frozenset[str] | None = None
    """The concepts to search; None means all."""
    subjects: frozenset[str] | None = None
    """The names of the subjects to search; None means all."""
    since: datetime | None = None
    """Only facts said at this time or later."""
    until: datetime | None = None
    """Only facts said before this time."""
    source_kinds: frozenset[SourceKind] | None = None
    """The kinds of sources to search; None means all, including facts without a source."""
    min_importance: float | None = None
    metadata: Mapping[str, JsonValue] = field(default_factory=lambda: NO_METADATA)
    """Only facts whose metadata has all of these keys, with equal values."""
    strictness: Strictness = "balanced"

    @classmethod
    def of_arguments(
        cls,
        text: str,
        settings: RecallSettings,
        *,
        limit: int,
        min_score: float | None,
        concepts: Iterable[Concept[Any, Any] | str] | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        weights: RecallWeights | None = None,
        half_life: timedelta | None = None,
        source_kinds: "Iterable[SourceKind | str] | None" = None,
        min_importance: float | None = None,
        metadata: Mapping[str, JsonValue] | None = None,
    ) -> "RecallQuery":
        """Return a query, with defaults from the settings.

        Raises:
            ValueError: The text is empty, `limit` is less than 1, a number is out of range, or the
                time range is naive or empty.
            TypeError: An argument has the wrong type, such as one concept instead of a list.
        """
        if not checked_question(text).strip():
            raise ValueError("question must have at least one word; current_all returns all facts")
        expect_within(limit, int, "limit", "limit=5", least=1)
        since = None if since is None else utc(since, "time range's begin")
        until = None if until is None else utc(until, "time range's end")
        if since is not None and until is not None and since >= until:
            raise ValueError("since must be before until; the time range is empty")
        min_score = settings.min_score if min_score is None else min_score
        half_life = settings.half_life if half_life is None else half_life
        weights = settings.weights if weights is None else weights
        _check_scale(weights, half_life, min_score)
        if min_importance is not None:
            expect_within(min_importance, float, "min_importance", "min_importance=0.7")
        return cls(
            text=text,
            limit=limit,
            min_score=min_score,
            weights=weights,
            half_life=half_life,
            keywords=None if concepts is None else _keywords(concepts),
            since=since,
            until=until,
            source_kinds=None if source_kinds is None else _kinds(source_kinds),
            min_importance=min_importance,
            metadata=NO_METADATA if metadata is None else checked_metadata(metadata),
            strictness=settings.strictness,
        )

    @property
    def is_narrowed(self) -> bool:
        """Whether it has a filter."""
        return bool(self.metadata) or any(
            each is not None
            for each in (
                *(self.keywords, self.subjects, self.since, self.until),
                *(self.source_kinds, self.min_importance),
            )
        )

    @property
    def is_short(self) -> bool:
        """Whether the event loop may analyse its text."""
        return len(self.text) <= _SHORT

    def least_relevance(self, *, has_meaning: bool) -> LeastRelevance:
        """Return the thresholds of relevance."""
        if self.min_score is not None:
            return LeastRelevance(self.min_score, self.min_score)
        return LEAST_RELEVANCE[has_meaning][self.strictness]

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
        """Return a query for another text, with additional filters."""
        return replace(
            self,
            text=text,
            subjects=_fewer(self.subjects, subjects),
            since=max((each for each in (self.since, since) if each), default=None),
            until=min((each for each in (self.until, until) if each), default=None),
        )


def _kinds(kinds: "Iterable[SourceKind | str]") -> frozenset[SourceKind]:
    given = expect_all(kinds, object, "source_kinds", "source_kinds=[SourceKind.USER]")
    return frozenset(expect_member(each, SourceKind, "source_kinds") for each in given)


def checked_question(text: str) -> str:
    """Return a question; raise `TypeError` if it is not a string."""
    return expect(text, str, "question", "memory.recall('which theme')")


def _keywords(concepts: "Iterable[Concept[Any, Any] | str]") -> frozenset[str]:
    # expect_all rejects a single string, whose letters would otherwise count as keywords.
    named: tuple[Any, ...] = expect_all(concepts, (Concept, str), "concepts", _CONCEPTS)
    return frozenset(each if isinstance(each, str) else each.keyword for each in named)


def _fewer(ours: frozenset[str] | None, theirs: frozenset[str] | None) -> frozenset[str] | None:
    if ours is None or theirs is None:
        return ours if theirs is None else theirs
    return ours & theirs


def _check_scale(weights: RecallWeights, half_life: timedelta, min_score: float | None) -> None:
    """Check the arguments that scores are computed from and compared with."""
    expect(weights, RecallWeights, "weights", "weights=RecallWeights(recency=0.2)")
    example = "half_life=timedelta(days=30)"
    expect_within(half_life, timedelta, "half_life", example, above=timedelta(0))
    if min_score is not None:
        expect_within(min_score, float, "min_score", "min_score=0.3", least=0, most=1)
