"""The score of a match: the formula of `RecallWeights`, over the candidates of one question.

What a part is worth is settled among the candidates: BM25 is divided by the best one's, and cosines
are stretched from the least to the greatest. Such a combination of normalised scores is convex
fusion: Bruch, Gai and Ingber, "An Analysis of Fusion Functions for Hybrid Retrieval", ACM
Transactions on Information Systems 42(1), 2023, found it to be better than reciprocal ranks.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from heapq import nlargest
from operator import itemgetter
from typing import NamedTuple, TypeAlias

from factmem.ledger.resolution import PlacedFact
from factmem.models.facts import AnyFact
from factmem.recall.match import Match
from factmem.recall.query import RecallQuery

__all__ = ["Candidates", "Ranking"]


_NO_WORDS = (0.0, 0.0)

_Scored: TypeAlias = tuple[float, float, int, float, float, float, float]
"""Score, when it was last confirmed, the number, relevance, lexical, semantic, recency."""

_Rank: TypeAlias = tuple[float, float, tuple[str, ...]]


class Candidates(NamedTuple):
    """The facts that may be matches, by their numbers."""

    placed: Sequence[PlacedFact[AnyFact] | None]
    """None where no fact has the number: then nothing else has it either."""
    heard_at: Sequence[float]
    """When they were last confirmed, in seconds."""


class Ranking:
    """Puts the parts of each candidate's score together.

    Args:
        query: What is looked for, and how it is weighed.
        now: The time that recency is reckoned from.
        has_meaning: Whether meanings are compared; else words alone have the weight of both.
    """

    def __init__(self, query: RecallQuery, now: datetime, *, has_meaning: bool) -> None:
        weights = query.weights
        self._lexical = weights.lexical / weights.relevance if has_meaning else 1.0
        self._semantic = weights.semantic / weights.relevance if has_meaning else 0.0
        self._query = query
        self._now = now.timestamp()

    def best(
        self,
        candidates: Candidates,
        words: Mapping[int, tuple[float, float]],
        cosines: Mapping[int, float],
    ) -> list[Match]:
        """Return the matches, best first; of equal ones the last confirmed goes first.

        What is equal in that too comes by its keyword, id and place: never by its number, which
        tells in which order facts were met.

        Args:
            candidates: The facts by their numbers.
            words: BM25 and coverage of those that have words of the question.
            cosines: The cosine of each candidate that has a vector. The relevance of others is
                what words alone give; they are ranked as if they meant what candidates do in the
                mean.
        """
        scored = self._scored(candidates, words, cosines)
        limit = self._query.limit
        best = nlargest(limit, scored)
        if best and len(best) < len(scored):
            least = best[-1][0]
            best = [each for each in scored if each[0] >= least]
        ordered: list[tuple[_Rank, Match]] = []
        for each in best:
            placed = candidates.placed[each[2]]
            if placed is not None:
                ordered.append((_rank(placed, each), _match(placed, each)))
        ordered.sort(key=itemgetter(0))
        return [match for _, match in ordered[:limit]]

    def _scored(
        self,
        candidates: Candidates,
        words: Mapping[int, tuple[float, float]],
        cosines: Mapping[int, float],
    ) -> list[_Scored]:
        """Score what is relevant enough. One loop without calls: it sees thousands."""
        lexical_weight, semantic_weight, weights = (
            self._lexical,
            self._semantic,
            self._query.weights,
        )
        whole = weights.relevance + weights.recency + weights.importance
        half_life = self._query.half_life.total_seconds()
        most = max((score for score, _ in words.values()), default=1.0)
        least = min(cosines.values(), default=0.0)
        span = max(cosines.values(), default=0.0) - least
        usual = (sum(cosines.values()) / len(cosines) - least) / span if span else 1.0
        facts, times = candidates
        scored: list[_Scored] = []
        for number in self._possible(words, cosines):
            bm25, coverage = words.get(number, _NO_WORDS)
            cosine = cosines.get(number)
            if cosine is None:
                relevance = coverage
            else:
                relevance = lexical_weight * coverage + semantic_weight * max(cosine, 0.0)
            if relevance < self._query.min_score or relevance <= 0:
                continue
            placed, heard_at = facts[number], times[number]
            if placed is None:
                continue
            lexical = bm25 / most
            recency = 0.5 ** (max(self._now - heard_at, 0.0) / half_life)
            prior = weights.recency * recency + weights.importance * placed.fact.importance
            if not cosines:
                semantic, fused = 0.0, lexical
            else:
                semantic = (cosine - least) / span if cosine is not None and span else usual
                fused = lexical_weight * lexical + semantic_weight * semantic
            score = fused * (weights.relevance + prior) / whole
            scored.append((score, heard_at, number, relevance, lexical, semantic, recency))
        return scored

    def _possible(
        self, words: Mapping[int, tuple[float, float]], cosines: Mapping[int, float]
    ) -> Iterable[int]:
        """Return the candidates that can be relevant enough: few, as a rule, of all there are."""
        if not self._semantic:
            return words
        bar = self._query.min_score / self._semantic
        return words.keys() | [number for number, cosine in cosines.items() if cosine >= bar]


def _rank(placed: PlacedFact[AnyFact], scored: _Scored) -> _Rank:
    """Return what facts are ordered by, the least first; ties end here."""
    kind, scope, subject, entity = placed.place.identity
    fact = placed.fact
    names = (fact.concept.keyword, fact.id, kind, scope, subject, entity or "")
    return -scored[0], -scored[1], names


def _match(placed: PlacedFact[AnyFact], scored: _Scored) -> Match:
    score, _, _, relevance, lexical, semantic, recency = scored
    return Match(
        fact=placed.fact,
        place=placed.place,
        score=score,
        relevance=min(relevance, 1.0),
        lexical=lexical,
        semantic=semantic,
        recency=recency,
        importance=placed.fact.importance,
    )
