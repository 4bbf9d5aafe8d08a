"""The facts that hold in some places, ready to be searched by words and by meaning: pure."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from heapq import nlargest
from typing import NamedTuple, TypeAlias

from factmem.models import AnyFact, Identity
from factmem.recall.documents import words_of
from factmem.recall.fields import FIELD_WEIGHTS
from factmem.recall.lexical import LexicalIndex
from factmem.recall.match import Match
from factmem.recall.query import RecallQuery
from factmem.resolution import PlacedFact

__all__ = ["Digests", "FactIndex", "FactKey", "Similarities", "fact_key"]

FactKey: TypeAlias = tuple[str, str]
"""What names a fact in its place: its keyword and its id."""

Digests: TypeAlias = Mapping[Identity, Mapping[FactKey, bytes]]
"""Which text stands for each fact when meanings are compared, by place: see `text_digest`."""

Similarities: TypeAlias = Mapping[Identity, Mapping[bytes, float]]
"""The cosine between a question and each of those texts, by place."""


def fact_key(fact: AnyFact) -> FactKey:
    """Return what names a fact in its place."""
    return fact.concept.keyword, fact.id


class _Indexed(NamedTuple):
    placed: PlacedFact[AnyFact]
    identity: Identity
    key: FactKey
    heard_at: float
    """When it was last confirmed, in seconds."""
    digest: bytes


class _Words(NamedTuple):
    lexical: float
    coverage: float


_NO_WORDS = _Words(0.0, 0.0)
_NO_DIGESTS: Mapping[FactKey, bytes] = {}
_NO_COSINES: Mapping[bytes, float] = {}


class FactIndex:
    """Facts, each under its place and key. Not safe for a change during another call."""

    def __init__(self) -> None:
        self._lexical: LexicalIndex[int] = LexicalIndex(weights=FIELD_WEIGHTS)
        self._facts: dict[int, _Indexed] = {}
        self._numbers: dict[tuple[Identity, FactKey], int] = {}
        self._following = 0

    def __len__(self) -> int:
        return len(self._facts)

    def update(self, facts: Iterable[PlacedFact[AnyFact]], digests: Digests) -> None:
        """Hold these facts and no others. Only the words of those that are new are analysed.

        Args:
            facts: What holds.
            digests: Their texts; without one a fact is near to no question.
        """
        gone = set(self._facts)
        for placed in facts:
            identity, key = placed.place.identity, fact_key(placed.fact)
            digest = digests.get(identity, _NO_DIGESTS).get(key, b"")
            number = self._numbers.get((identity, key))
            if number is None:
                number = self._numbers[identity, key] = self._following
                self._following += 1
                before = None
            else:
                before = self._facts[number].placed.fact
                gone.discard(number)
            if before is None or before != placed.fact:
                self._lexical.add(number, words_of(placed.fact, placed.place.subject.entity))
            heard_at = placed.heard_at.timestamp()
            self._facts[number] = _Indexed(placed, identity, key, heard_at, digest)
        for number in gone:
            self._lexical.remove(number)
            indexed = self._facts.pop(number)
            del self._numbers[indexed.identity, indexed.key]

    def search(
        self, query: RecallQuery, now: datetime, similar: Similarities | None = None
    ) -> list[Match]:
        """Return the best matches, best first; of equal ones the last confirmed goes first.

        Args:
            query: What to look for.
            now: The time that recency is reckoned from.
            similar: The cosines with the question; without them the words decide alone.
        """
        numbers: Sequence[int] | None = None
        if query.is_narrowed:
            numbers = [n for n, each in self._facts.items() if query.concerns(each.placed)]
        words = self._words(query.text, numbers)
        cosines = {} if similar is None else self._cosines(similar, numbers)
        ranking = _Ranking(query, now, has_meaning=similar is not None)
        return ranking.best(self._facts, words, cosines)

    def _words(self, text: str, numbers: Sequence[int] | None) -> dict[int, _Words]:
        hits = self._lexical.search(text, candidates=numbers)
        best = hits[0].score if hits else 1.0
        return {hit.id: _Words(hit.score / best, hit.coverage) for hit in hits}

    def _cosines(self, similar: Similarities, numbers: Sequence[int] | None) -> dict[int, float]:
        if numbers is None:
            among = self._facts.items()
        else:
            among = {number: self._facts[number] for number in numbers}.items()
        return {
            number: similar.get(each.identity, _NO_COSINES).get(each.digest, 0.0)
            for number, each in among
        }


class _Ranked(NamedTuple):
    """The parts of a match; ordered as matches are."""

    score: float
    heard_at: float
    older: int
    relevance: float
    lexical: float
    semantic: float
    recency: float
    indexed: _Indexed


class _Ranking:
    """Puts the parts of each candidate's score together."""

    def __init__(self, query: RecallQuery, now: datetime, *, has_meaning: bool) -> None:
        weights = query.weights
        self._lexical = weights.lexical / weights.relevance if has_meaning else 1.0
        self._semantic = weights.semantic / weights.relevance if has_meaning else 0.0
        self._weights = weights
        self._sum = weights.relevance + weights.recency + weights.importance
        self._query = query
        self._now = now.timestamp()
        self._half_life = query.half_life.total_seconds()

    def best(
        self, facts: Mapping[int, _Indexed], words: dict[int, _Words], cosines: dict[int, float]
    ) -> list[Match]:
        """Rank what is relevant enough.

        Args:
            facts: The facts by their numbers.
            words: The lexical side of the candidates that have words of the question.
            cosines: The semantic side of all candidates; empty where only words are compared.
        """
        least = min(cosines.values(), default=0.0)
        span = max(cosines.values(), default=0.0) - least
        ranked: list[_Ranked] = []
        for number in self._possible(words, cosines):
            lexical, coverage = words.get(number, _NO_WORDS)
            cosine = cosines.get(number, 0.0)
            relevance = self._lexical * coverage + self._semantic * max(cosine, 0.0)
            if relevance >= self._query.min_score and relevance > 0:
                semantic = (cosine - least) / span if span else float(bool(cosines))
                ranked.append(self._ranked(number, facts[number], relevance, lexical, semantic))
        return [_match(each) for each in nlargest(self._query.limit, ranked)]

    def _possible(self, words: dict[int, _Words], cosines: dict[int, float]) -> Iterable[int]:
        """Give the candidates that can be relevant enough: few, as a rule, of all there are."""
        if not self._semantic:
            return words
        bar = self._query.min_score / self._semantic
        near = [number for number, cosine in cosines.items() if cosine >= bar]
        return words.keys() | near

    def _ranked(
        self, number: int, indexed: _Indexed, relevance: float, lexical: float, semantic: float
    ) -> _Ranked:
        age = max(self._now - indexed.heard_at, 0.0)
        recency = 0.5 ** (age / self._half_life)
        weights, importance = self._weights, indexed.placed.fact.importance
        scale = weights.relevance + weights.recency * recency + weights.importance * importance
        score = (self._lexical * lexical + self._semantic * semantic) * scale / self._sum
        return _Ranked(
            score, indexed.heard_at, -number, relevance, lexical, semantic, recency, indexed
        )


def _match(ranked: _Ranked) -> Match:
    placed = ranked.indexed.placed
    return Match(
        fact=placed.fact,
        place=placed.place,
        score=ranked.score,
        relevance=min(ranked.relevance, 1.0),
        lexical=ranked.lexical,
        semantic=ranked.semantic,
        recency=ranked.recency,
        importance=placed.fact.importance,
    )
