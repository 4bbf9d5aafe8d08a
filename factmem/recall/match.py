"""The results of a recall."""

from collections.abc import Iterable
from dataclasses import dataclass
from math import exp
from typing import Any, Literal

from factmem.ledger.resolution import UnreadableConcept
from factmem.models.display import Displayed, Sheet, fact_cells, one_kind
from factmem.models.facts import AnyFact
from factmem.models.places import Place
from factmem.prompt.memory_message import LoadReport
from factmem.recall.query import LEAST_RELEVANCE
from factmem.usage import Usage

__all__ = ["Match", "RecallReport", "RecallResult"]


_CONFIDENCE = {False: (0.39, 8.5), True: (0.31, 12.7)}
"""At which relevance of the best match a question is as likely to have an answer as not, and how
fast that changes, without an embedder and with one: a logistic regression over 569 questions."""


@dataclass(frozen=True, slots=True)
class Match(Displayed):
    """A fact that a question may be about, and why it ranks where it does.

    `score` orders the matches of one recall, and is made of the four parts as `RecallWeights`
    says. `relevance` means the same for every question; it is what `min_score` is compared with.
    """

    fact: AnyFact
    place: Place
    score: float
    """Comparable within one recall: from 0 to 1, and up to 0.7 more by `support`."""
    relevance: float
    """From 0 to 1: the share of the question's weight that the fact covers, and with an embedder
    the mean of that and of how much nearer than a random fact it is, weighted as the parts are."""
    lexical: float
    """BM25, divided by the best that a candidate has; from 0 to 1."""
    semantic: float
    """The cosine, from the least that a candidate has, 0, to the greatest, 1; 0 without an
    embedder, and where only this one has no vector, what the others have in the mean."""
    support: float
    """What names and days in the question add, and other facts of the same conversation; 0 as a
    rule, up to 0.7."""
    recency: float
    """One half to the power of the half-lives since the fact was last confirmed."""
    importance: float
    """The fact's own."""


class RecallResult(list[Match], Displayed):
    """The matches of a recall, best first: a list with the queries, failures and costs of the recall."""

    def __init__(
        self,
        matches: Iterable[Match] = (),
        *,
        depth: Literal["shallow", "deep"] = "shallow",
        is_semantic: bool = False,
        queries: Iterable[str] = (),
        failures: Iterable[Exception] = (),
        unreadable: Iterable[UnreadableConcept] = (),
        usage: Usage | None = None,
        embedding_calls: int = 0,
        embedded_texts: int = 0,
        refused_texts: int = 0,
    ) -> None:
        super().__init__(matches)
        self.depth = depth
        """How it was searched in the end: `shallow` also where a deep search failed."""
        self.is_semantic = is_semantic
        """Whether meanings were compared; False without an embedder, or where it failed."""
        self.queries: list[str] = list(queries)
        """The searched questions: the one of the call, or those that the chat model made of it."""
        self.failures: list[Exception] = list(failures)
        """What kept it from searching deeper, or by meaning, and what a text was refused for that
        was never embedded before; empty as a rule."""
        self.unreadable: list[UnreadableConcept] = list(unreadable)
        """Concepts that were left out, as a value does not fit the type that was declared."""
        self.usage: Usage = usage or Usage()
        """What the chat model cost."""
        self.embedding_calls = embedding_calls
        """How often the embedder was called."""
        self.embedded_texts = embedded_texts
        """How many texts it was given: the question, and facts that it had not seen yet."""
        self.refused_texts = refused_texts
        """How many texts of facts it refuses, as this recall found or an earlier one: words alone
        find those facts."""

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
            (
                f"{match.relevance:.2f}",
                match.place,
                match.fact.concept.keyword,
                match.fact.values,
                match.fact.timestamp,
            )
            for match in self
        ]
        return Sheet("Matches", ("relevance", "place", "keyword", "value", "said"), rows)

    @property
    def is_sure(self) -> bool:
        """Whether a match is as relevant as the strictness "few" asks for."""
        return self._best >= LEAST_RELEVANCE[self.is_semantic]["few"].best

    @property
    def confidence(self) -> float:
        """How likely the question has an answer among the facts, from 0 to 1; 0 without a match.

        By the relevance of the best match, as it was on the corpus in `benchmarks/recall`, if half
        of all questions have an answer.
        """
        if not self:
            return 0.0
        middle, steepness = _CONFIDENCE[self.is_semantic]
        return 1 / (1 + exp(steepness * (middle - self._best)))

    @property
    def _best(self) -> float:
        return max((match.relevance for match in self), default=0.0)


@dataclass(frozen=True, slots=True)
class RecallReport(LoadReport):
    """What a recall put into a chat: its `facts` are those of `matches`, the best first."""

    matches: RecallResult
    """Why each fact was chosen, what that cost, and what kept it from being searched for better."""
