"""The score of a match: the formula of `RecallWeights`, over the candidates of one question.

Each part is normalised over the candidates: BM25 is divided by the greatest one, and cosines are
scaled from the least to the greatest. The weighted sum of normalised scores is called convex
fusion. Bruch, Gai and Ingber, "An Analysis of Fusion Functions for Hybrid Retrieval", ACM
Transactions on Information Systems 42(1), 2023, found it to be better than reciprocal ranks.

Words alone are ranked by plain Python if there are few facts or no numpy; everything else by numpy.
Both give the same scores.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from heapq import nlargest
from operator import itemgetter
from typing import NamedTuple, TypeAlias

from factmem.ledger.resolution import PlacedFact
from factmem.models.facts import AnyFact
from factmem.recall._bm25 import DenseScores, WordScores
from factmem.recall._place_vectors import Array, Nearness, numpy_or_none
from factmem.recall.match import Match, RecallQuery

NAMED = 0.2
"""The bonus of a fact whose entity the question names."""

OTHERS = 0.5
"""The factor on the relevance of other entities' facts if the question names an entity."""

TIME = 0.2
"""The bonus of a fact that holds or was said at a time that the question names; half of it if that
time is only one of several."""

TOGETHER = 0.3
"""The bonus of each of the best three facts of a conversation, times the mean score of the others
among the three."""

USUAL = 20
"""The number of facts with cosine 0 that are added to the mean that estimates a random fact's
cosine. With few facts that mean is unreliable, and the right fact may dominate it."""

_DIGITS = 9
"""The digits to which scores are compared, because sums of floats depend on their order."""

_SUPPORTERS = 3

_Scored: TypeAlias = tuple[float, float, int, float, float, float, float, float]
"""Score, when it was last confirmed, slot, relevance, lexical, semantic, support, recency."""


class Candidates(NamedTuple):
    """The facts that may be matches, by slot."""

    placed: Sequence[PlacedFact[AnyFact] | None]
    """The facts; None for a free slot."""
    heard_at: Sequence[float]
    """When each was last confirmed, in seconds since 1970."""
    importance: Sequence[float]
    loose: Sequence[int] | None = None
    """See `Conversations.loose`."""


@dataclass(frozen=True, slots=True)
class Hints:
    """The facts that the question hints at; None if it has no such hint."""

    named: int | None = None
    """The number of the entity that it names."""
    of: Sequence[int] = ()
    """The number of each fact's entity, by slot; -1 without one."""
    times: bytearray | None = None
    """By slot: 2 for facts that hold or were said at a time that it names, 1 if they only may."""


class Ranking:
    """Computes the scores of candidates from their parts."""

    def __init__(
        self, query: RecallQuery, now: datetime, hints: Hints, *, has_meaning: bool
    ) -> None:
        self._weights = weights = query.settings.weights
        self._lexical = weights.lexical / weights.relevance if has_meaning else 1.0
        self._semantic = weights.semantic / weights.relevance if has_meaning else 0.0
        self._query = query
        self._now = now.timestamp()
        self._half_life = query.settings.half_life.total_seconds()
        self._whole = weights.relevance + weights.recency + weights.importance
        self._hints = hints

    def best(
        self, candidates: Candidates, words: WordScores | DenseScores, near: Nearness | None
    ) -> list[Match]:
        """Return the matches, best first; equal ones by the time of confirmation, latest first.

        Remaining ties are ordered by keyword, id and place, and never by slot, which depends on the
        order of indexing.

        Args:
            candidates: The facts by slot.
            words: BM25 and coverage of the facts that have words of the question.
            near: The cosine of each candidate with a vector; needs `DenseScores`. The relevance of
                the others depends only on words, and they are ranked as if their cosine was the
                mean.
        """
        limit = self._query.limit
        if isinstance(words, DenseScores):
            best = self._dense(candidates, words, near)
        else:
            scored = self._scored(candidates, words)
            best = nlargest(limit, scored)
            if best and len(best) < len(scored):
                # Keep all that tie with the last one, but for rounding: their names decide.
                least = best[-1][0] - 10.0**-_DIGITS
                best = [each for each in scored if each[0] >= least]
        # Few are equal, and only for these the names are needed.
        ordered = list[tuple[float, float, _Scored, PlacedFact[AnyFact]]]()
        for each in best:
            placed = candidates.placed[each[2]]
            if placed is not None:
                ordered.append((-round(each[0], _DIGITS), -each[1], each, placed))
        if len({each[:2] for each in ordered}) < len(ordered):
            ordered.sort(key=lambda each: _names(each[3]))
        ordered.sort(key=itemgetter(0, 1))
        return [_match(placed, each) for *_, each, placed in ordered[:limit]]

    def _scored(self, candidates: Candidates, words: WordScores) -> list[_Scored]:
        """Score the facts that have words of the question, without numpy."""
        most = max((score for score, _ in words.values()), default=1.0)
        lexical = {slot: score / most for slot, (score, _) in words.items()}
        support = self._supports(lexical, candidates.loose)
        named, of, weights = self._hints.named, self._hints.of, self._weights
        scored = list[_Scored]()
        for slot, (_, coverage) in words.items():
            is_other = named is not None and of[slot] not in (named, -1)
            relevance = coverage * OTHERS if is_other else coverage
            heard_at = candidates.heard_at[slot]  # another host's clock may be ahead of `now`
            recency = 0.5 ** (max(self._now - heard_at, 0.0) / self._half_life)
            prior = weights.recency * recency + weights.importance * candidates.importance[slot]
            score = (lexical[slot] + support[slot]) * (weights.relevance + prior) / self._whole
            scored.append(
                (score, heard_at, slot, relevance, lexical[slot], 0.0, support[slot], recency)
            )
        return scored

    def _supports(
        self, fused: Mapping[int, float], conversations: Sequence[int] | None
    ) -> dict[int, float]:
        named, of, times = self._hints.named, self._hints.of, self._hints.times
        support = {
            slot: NAMED * (named is not None and of[slot] == named)
            + TIME / 2 * (0 if times is None else times[slot])
            for slot in fused
        }
        if conversations is not None:
            groups: dict[int, list[tuple[float, int]]] = {}
            for slot, score in fused.items():
                if slot < len(conversations) and conversations[slot] >= 0:
                    groups.setdefault(conversations[slot], []).append((score, slot))
            for group in groups.values():
                best = nlargest(_SUPPORTERS, group)
                whole = sum(score for score, _ in best)
                for score, slot in group:
                    if score < best[-1][0]:
                        continue  # all that tie with the last one count, in whatever slots they are
                    support[slot] += TOGETHER * (whole - score) / (_SUPPORTERS - 1)
        return support

    def _dense(
        self, candidates: Candidates, words: DenseScores, near: Nearness | None
    ) -> Iterable[_Scored]:
        np: Array = numpy_or_none()
        bm25 = words.bm25
        if not len(bm25):
            return ()
        known: Array = None if near is None else ~np.isnan(near.cosines)
        if known is not None and known.all():
            known = True  # the usual case; it saves the copies that a mask makes
        weights, most = self._weights, float(bm25.max())
        least = weights.relevance / self._whole  # of a score, by recency and importance
        relevance = self._dense_relevance(np, words.coverage, near, known)
        if near is not None:
            slots = np.flatnonzero(relevance + bm25)
        else:  # no others are among the best; but a conversation adds up all of its facts
            bonus = NAMED + TIME if candidates.loose is None else 1.0
            share = _share_of_best(np, bm25, self._query.limit) * least - bonus
            slots = np.flatnonzero(bm25 > max(share, 0.0) * most)
        if not len(slots):
            return ()
        lexical = bm25[slots] / (most or 1.0)
        semantic, fused = np.zeros(len(slots)), lexical
        if near is not None and np.any(known):
            semantic = _stretched(np, near, known)[slots]
            fused = self._lexical * lexical + self._semantic * semantic
        support = self._dense_support(np, slots, fused, candidates.loose)
        sums = fused + support  # most facts have one common word, and need no recency and no order
        share = _share_of_best(np, sums, self._query.limit) * least * (1 - 10.0**-_DIGITS)
        some = np.flatnonzero(sums >= share * float(sums.max()))
        slots, lexical, semantic, fused, support = (
            column[some] for column in (slots, lexical, semantic, fused, support)
        )
        heard_at = np.frombuffer(candidates.heard_at)[slots]
        recency = np.exp2(-np.maximum(self._now - heard_at, 0.0) / self._half_life)
        importance = np.frombuffer(candidates.importance)[slots]
        prior = weights.recency * recency + weights.importance * importance
        score = (fused + support) * ((weights.relevance + prior) / self._whole)
        best = np.arange(len(slots))
        if len(slots) > self._query.limit:
            at = len(slots) - self._query.limit
            best = np.flatnonzero(score >= np.partition(score, at)[at])
        relevance = relevance[slots]
        if self._hints.named is not None:
            of = np.frombuffer(self._hints.of, np.int32)[slots]
            is_other = (of >= 0) & (of != self._hints.named)
            relevance = np.where(is_other, relevance * OTHERS, relevance)
        columns = (score, heard_at, slots, relevance, lexical, semantic, support, recency)
        return zip(*(column[best].tolist() for column in columns), strict=True)

    def _dense_relevance(
        self, np: Array, coverage: Array, near: Nearness | None, known: Array
    ) -> Array:
        """Return the relevance of each slot. `known` marks slots with a cosine; True means all."""
        if near is None:
            return coverage
        named = None
        if self._hints.named is not None:
            named = np.frombuffer(self._hints.of, np.int32)[: len(coverage)] == self._hints.named
        usual = self._usual(near, known, named)
        above = np.maximum(near.cosines - usual, 0.0)
        above *= self._semantic / (1 - usual)
        above += self._lexical * coverage
        return above if known is True else np.where(known, above, coverage)

    def _usual(self, near: Nearness, known: Array, named: Array | None) -> float:
        """Estimate the cosine of a random fact, of the named entity if the question names one."""
        if near.spread is not None:
            return near.spread.usual
        own = near.cosines
        if known is not True or named is not None:
            own = own[known if named is None else known & named]
        return float(own.sum()) / (len(own) + USUAL)

    def _dense_support(
        self, np: Array, slots: Array, fused: Array, conversations: Sequence[int] | None
    ) -> Array:
        support = np.zeros(len(slots))
        if self._hints.named is not None:
            support += NAMED * (np.frombuffer(self._hints.of, np.int32)[slots] == self._hints.named)
        if self._hints.times is not None:
            support += TIME / 2 * np.frombuffer(self._hints.times, np.uint8)[slots]
        if conversations is not None:
            known = np.frombuffer(conversations, np.int32)
            groups = np.where(slots < len(known), known[np.minimum(slots, len(known) - 1)], -1)
            among = np.flatnonzero(groups >= 0)
            order = among[np.lexsort((-fused[among], groups[among]))]
            groups, scores = groups[order], fused[order]
            if not len(order):
                return support
            starts = np.flatnonzero(np.diff(groups, prepend=-1))
            rank = np.arange(len(order)) - np.repeat(starts, np.diff(starts, append=len(order)))
            best = rank < _SUPPORTERS
            group_of = np.cumsum(rank == 0) - 1
            whole = np.bincount(group_of[best], scores[best])
            gain = TOGETHER * (whole[group_of] - scores) / (_SUPPORTERS - 1)
            least = np.minimum.reduceat(np.where(best, scores, np.inf), starts)
            winners = scores >= least[group_of]
            support[order[winners]] += gain[winners]
        return support


def _share_of_best(np: Array, scores: Array, limit: int) -> float:
    """Return a share of the best score that `limit` of the scores have; 0 if too few have any."""
    most = float(scores.max())
    shares = (0.8, 0.6, 0.4, 0.2)
    return next((s for s in shares if np.count_nonzero(scores >= s * most) >= limit), 0.0)


def _stretched(np: Array, near: Nearness, known: Array) -> Array:
    """Scale ranked cosines to the range from 0 to 1, and replace unknown ones by their mean.

    Args:
        np: numpy.
        near: The cosines.
        known: A mask of the known ones; True for all.
    """
    ranked, spread = near.ranked, near.spread
    found = ranked if known is True else ranked[known]
    least = spread.least if spread else float(found.min())
    span = float(found.max()) - least
    mean = spread.mean if spread else float(found.mean(dtype=np.float64))
    usual = (mean - least) / span if span else 1.0  # equal cosines do not order the candidates
    stretched = (ranked - least) / span if span else np.full(len(ranked), usual)
    return stretched if known is True else np.where(known, stretched, usual)


def _names(placed: PlacedFact[AnyFact]) -> tuple[str, ...]:
    """Return a sort key that is unique for each fact."""
    kind, scope, subject, entity = placed.place.identity
    return placed.fact.concept.keyword, placed.fact.id, kind, scope, subject, entity or ""


def _match(placed: PlacedFact[AnyFact], scored: _Scored) -> Match:
    score, _, _, relevance, lexical, semantic, support, recency = scored
    return Match(
        fact=placed.fact,
        place=placed.place,
        score=score,
        relevance=min(relevance, 1.0),  # sums of floats may exceed 1 by a rounding error
        lexical=lexical,
        semantic=semantic,
        support=support,
        recency=recency,
        importance=placed.fact.importance,
    )
