"""The facts that hold in some places, ready to be searched by words and by meaning: pure."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple, TypeAlias

from factmem.models import AnyFact, Identity
from factmem.recall.documents import words_of
from factmem.recall.fields import FIELD_WEIGHTS
from factmem.recall.lexical import LexicalIndex
from factmem.recall.match import Match
from factmem.recall.query import RecallQuery
from factmem.recall.ranking import Candidate, Ranking
from factmem.resolution import PlacedFact

__all__ = ["Digests", "FactIndex", "FactKey", "Similarities", "fact_key"]

FactKey: TypeAlias = tuple[str, str]
"""What names a fact in its place: its keyword and its id."""

Digests: TypeAlias = Mapping[Identity, Mapping[FactKey, bytes]]
"""Which text stands for each fact when meanings are compared, by place: see `text_digest`."""

Similarities: TypeAlias = Mapping[Identity, Mapping[bytes, float]]
"""The cosine between a question and each of those texts, by place."""

_NO_DIGESTS: Mapping[FactKey, bytes] = {}
_NO_COSINES: Mapping[bytes, float] = {}


def fact_key(fact: AnyFact) -> FactKey:
    """Return what names a fact in its place."""
    return fact.concept.keyword, fact.id


class _Name(NamedTuple):
    """What a fact is known by."""

    identity: Identity
    key: FactKey
    digest: bytes


class FactIndex:
    """Facts, each under its place and key. Not safe for a change during another call."""

    def __init__(self) -> None:
        self._lexical: LexicalIndex[int] = LexicalIndex(weights=FIELD_WEIGHTS)
        self._facts: dict[int, Candidate] = {}
        self._names: dict[int, _Name] = {}
        self._numbers: dict[tuple[Identity, FactKey], int] = {}
        self._texts: dict[Identity, tuple[list[int], list[bytes]]] = {}
        """The numbers of the facts of each place, and the digests of their texts."""
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
            digest = digests.get(identity, _NO_DIGESTS).get(key, b"")
            self._facts[number] = Candidate(placed, heard_at)
            self._names[number] = _Name(identity, key, digest)
        for number in gone:
            self._lexical.remove(number)
            del self._facts[number]
            name = self._names.pop(number)
            del self._numbers[name.identity, name.key]
        self._texts = {}
        for number, name in self._names.items():
            numbers, texts = self._texts.setdefault(name.identity, ([], []))
            numbers.append(number)
            texts.append(name.digest)

    def search(
        self, query: RecallQuery, now: datetime, similar: Similarities | None = None
    ) -> list[Match]:
        """Return the best matches, best first; of equal ones the last confirmed goes first.

        Args:
            query: What to look for.
            now: The time that recency is reckoned from.
            similar: The cosines with the question; without them the words decide alone.
        """
        among: Sequence[int] | None = None
        if query.is_narrowed:
            among = [n for n, each in self._facts.items() if query.concerns(each.placed)]
        words = self._lexical.scan(query.text, candidates=among)
        cosines = {} if similar is None else self._cosines(similar, among)
        ranking = Ranking(query, now, has_meaning=similar is not None)
        return ranking.best(self._facts, words, cosines)

    def _cosines(self, similar: Similarities, among: Sequence[int] | None) -> dict[int, float]:
        """Return the cosine of each candidate; 0 where its place has changed since."""
        cosines: dict[int, float] = {}
        if among is not None:
            for number in among:
                identity, _, text = self._names[number]
                cosines[number] = similar.get(identity, _NO_COSINES).get(text, 0.0)
            return cosines
        for identity, (numbers, texts) in self._texts.items():
            known = similar.get(identity, _NO_COSINES)
            try:
                cosines |= zip(numbers, map(known.__getitem__, texts), strict=True)
            except KeyError:
                cosines |= zip(numbers, [known.get(text, 0.0) for text in texts], strict=True)
        return cosines
