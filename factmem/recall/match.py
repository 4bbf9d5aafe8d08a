"""The results of a recall; RecallQuery, a validated question with its filter; RecallSettings."""

from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from datetime import UTC, timedelta
from math import exp, isfinite
from typing import Any

from factmem._arguments import expect, expect_within
from factmem.errors import InputValueError
from factmem.ledger.resolution import UnreadableConcept
from factmem.models._display import Displayed, Sheet, fact_cells, one_kind
from factmem.models.facts import AnyFact
from factmem.models.places import Place
from factmem.models.recall_filter import OPEN, RecallFilter
from factmem.prompt.memory_message import LoadReport, harmless, period_text, value_text
from factmem.providers.conversations import Turn

__all__ = ["Match", "RecallResult", "RecallSettings", "RecallWeights"]

_CONFIDENCE = {False: (0.39, 8.5), True: (0.31, 12.7)}
"""The middle and the steepness of a logistic regression from the best match's relevance to whether
a question has an answer, without an embedder and with one. Fitted on 569 questions."""


def plain_values(fact: AnyFact) -> list[Any]:
    """Return the values of a fact as plain JSON."""
    concept = fact.concept
    if concept.codec.is_plain_text:
        return list(fact.values)
    plain: list[Any] = []
    for value in fact.values:
        try:
            plain.append(concept.codec.dump(value, concept.keyword))
        except ValueError:  # the loaded value is not valid for saving
            plain.append(str(value))
    return plain


def prompt_line(fact: AnyFact) -> str:
    """Return a fact on one line for a prompt; see `Match.text`."""
    concept = fact.concept
    values = ", ".join(map(value_text, plain_values(fact)))
    period = "" if fact.until is None else period_text(fact, UTC)
    return (
        f"{harmless(' '.join((concept.description or concept.keyword).split()))}: {values}{period}"
    )


@dataclass(frozen=True, slots=True)
class Match(Displayed):
    """A fact that may answer a question, with the parts of its score.

    `score` orders the matches of one recall; `RecallWeights` has its formula. `relevance` can be
    compared between questions.
    """

    fact: AnyFact
    place: Place
    score: float
    """From 0 to 1, plus up to 0.7 from `support`. Comparable only within one recall."""
    relevance: float
    """From 0 to 1. Without an embedder: the share of the question's weight that the fact covers.
    With one: the weighted mean of that share and of how much closer than a random fact it is."""
    lexical: float
    """BM25 divided by the greatest BM25 of the candidates; from 0 to 1."""
    semantic: float
    """The cosine, scaled from 0 for the least of the candidates to 1 for the greatest. 0 without an
    embedder; the mean of the other candidates if only this fact has no vector."""
    support: float
    """The bonus for names and days in the question, and for other facts of the same conversation;
    usually 0, at most 0.7."""
    recency: float
    """0.5 to the power of the number of half-lives since the fact was last confirmed."""
    importance: float
    """The importance of the fact."""

    @property
    def text(self) -> str:
        """The fact on one line for a prompt, such as `The theme that the user prefers: "dark"`.

        Each value is JSON, in which a value cannot end its line, act as markup, or be invisible.
        """
        return prompt_line(self.fact)


@dataclass(frozen=True, slots=True)
class TurnMatch(Displayed):
    """A message of a conversation that may answer a question."""

    turn: Turn
    conversation: str
    """The id of its conversation: `memory.conversation(match.conversation)`."""
    place: Place
    quote: str = field(repr=False)
    """The part of the message that matches: some of its sentences."""
    score: float
    """The score of `Match` over the messages, times a factor for what tells an answer from chatter:
    see docs/recall.md. Not comparable with the score of a fact."""
    relevance: float
    """From 0 to 1: the share of the question's weight that the message covers."""

    @property
    def text(self) -> str:
        """The quote on one line for a prompt, as JSON that cannot end its line or act as markup."""
        return value_text(self.quote)


class RecallResult(list[Match], Displayed):
    """The matches of a recall, best first: a list with the recall's failures and costs."""

    def __init__(
        self,
        matches: Iterable[Match] = (),
        *,
        is_semantic: bool = False,
        failures: Iterable[Exception] = (),
        unreadable: Iterable[UnreadableConcept] = (),
        embedding_calls: int = 0,
        embedded_texts: int = 0,
        refused_texts: int = 0,
        turns: Iterable[TurnMatch] = (),
    ) -> None:
        super().__init__(matches)
        self.turns: list[TurnMatch] = list(turns)
        """The messages of stored conversations that may answer the question, best first."""
        self.is_semantic = is_semantic
        """Whether meanings were compared; False without an embedder, or if it failed."""
        self.failures: list[Exception] = list(failures)
        """The errors of the embedder that the recall continued without, including refusals of new
        texts; usually empty."""
        self.unreadable: list[UnreadableConcept] = list(unreadable)
        """Concepts that were skipped, because a value does not fit the declared type."""
        self.embedding_calls = embedding_calls
        """The number of requests to the embedder."""
        self.embedded_texts = embedded_texts
        """The number of texts sent to the embedder: the question, and facts without a vector."""
        self.refused_texts = refused_texts
        """The number of texts of facts that the embedder refuses, found by this recall or an
        earlier one. Those facts are found only by words."""

    def to_rows(self) -> list[dict[str, Any]]:
        """Return a row for each value: `pandas.DataFrame(matches.to_rows())`."""
        return one_kind(
            {
                "relevance": match.relevance,
                "place": str(match.place),
                **fact_cells(match.fact, position),
            }
            for match in self
            for position in range(len(match.fact.values))
        )

    def _sheet(self) -> Sheet:
        rows = [
            (f"{m.relevance:.2f}", m.place, m.fact.concept.keyword, m.fact.values, m.fact.timestamp)
            for m in self
        ]
        return Sheet("Matches", ("relevance", "place", "keyword", "value", "said"), rows)

    @property
    def confidence(self) -> float:
        """The probability that the facts answer the question, from 0 to 1; 0 without a match.

        It is estimated from the relevance of the best match, on the corpus in `benchmarks/recall`,
        under the assumption that half of all questions have an answer.
        """
        if not self:
            return 0.0
        middle, steepness = _CONFIDENCE[self.is_semantic]
        best = max(match.relevance for match in self)
        return 1 / (1 + exp(steepness * (middle - best)))


@dataclass(frozen=True, slots=True)
class RecallReport(LoadReport):
    """The facts that a recall added to a chat: those of `matches`, best first."""

    matches: RecallResult
    """The matches with their scores, and the costs and failures of the recall."""


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
            raise InputValueError("weights must be finite, and `lexical` or `semantic` above 0")

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
        cls, text: str, settings: RecallSettings, *, limit: int, where: RecallFilter | None = None
    ) -> "RecallQuery":
        """Return a query of the arguments of `AgentMemory.recall`.

        Raises:
            ValueError: The question has no word, or a number is out of range.
            TypeError: An argument has the wrong type.
        """
        if not checked_question(text).strip():
            raise InputValueError(
                "question must have at least one word; current() returns all facts"
            )
        expect_within(limit, int, "limit", "limit=5", least=1)
        if where is not None:
            expect(where, RecallFilter, "where", "where=RecallFilter(concepts=['city'])")
        return cls(text=text, limit=limit, settings=settings, filter=where or OPEN)


def checked_question(text: str) -> str:
    """Return a question; raise `TypeError` if it is not a string."""
    return expect(text, str, "question", "memory.recall('which theme'), or memory.value(CONCEPT)")
