"""The facts that hold in some places, ready to be searched by words and by meaning: pure."""

from array import array
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import TypeAlias

from factmem.ledger.resolution import PlacedFact
from factmem.models.facts import AnyFact
from factmem.models.places import Identity
from factmem.recall.documents import FIELD_WEIGHTS, RECURRING_FIELDS, words_of
from factmem.recall.lexical.bm25 import LexicalIndex
from factmem.recall.match import Match
from factmem.recall.query import RecallQuery
from factmem.recall.ranking import Candidates, Ranking

__all__ = ["FactIndex", "Similarities"]


Similarities: TypeAlias = Mapping[Identity, Mapping[bytes, float]]
"""The cosine between a question and each text that stands for facts, by place and `text_digest`."""

_NO_COSINES: Mapping[bytes, float] = {}


class _Shelf:
    """What the index holds of one place."""

    __slots__ = ("numbers", "texts")

    def __init__(self) -> None:
        self.numbers: dict[str, dict[str, int]] = {}
        """The numbers of the facts, by keyword and id."""
        self.texts: dict[int, bytes] = {}
        """The digests of their texts, by number."""


class FactIndex:
    """Facts, each under its place, keyword and id. Not safe for a change during another call."""

    def __init__(self) -> None:
        self._lexical: LexicalIndex[int] = LexicalIndex(
            weights=FIELD_WEIGHTS, recurring=RECURRING_FIELDS
        )
        self._placed: list[PlacedFact[AnyFact] | None] = []
        """By number; None where a fact was dropped, whose number the next one gets."""
        self._heard_at: array[float] = array("d")
        self._free: list[int] = []
        self._shelves: dict[Identity, _Shelf] = {}

    def __len__(self) -> int:
        return len(self._placed) - len(self._free)

    def put(self, identity: Identity, placed: PlacedFact[AnyFact], digest: bytes = b"") -> None:
        """Hold a fact, instead of what is held of it. Its words are analysed if they are new.

        Args:
            identity: The fact's place.
            placed: The fact.
            digest: That of its text; without one it is found by words alone.
        """
        fact = placed.fact
        shelf = self._shelves.get(identity)
        if shelf is None:
            shelf = self._shelves[identity] = _Shelf()
        numbers = shelf.numbers.setdefault(fact.concept.keyword, {})
        number = numbers.get(fact.id)
        before = None if number is None else self._placed[number]
        if number is None:
            number = numbers[fact.id] = self._number()
        elif before is not None and before.fact is fact:
            return
        if before is None or before.fact != fact:
            self._lexical.add(number, words_of(fact, placed.place.subject.entity))
        self._placed[number] = placed
        self._heard_at[number] = placed.heard_at.timestamp()
        shelf.texts[number] = digest

    def _number(self) -> int:
        if self._free:
            return self._free.pop()
        self._placed.append(None)
        self._heard_at.append(0.0)
        return len(self._placed) - 1

    def drop(self, identity: Identity, keyword: str, ids: Iterable[str]) -> None:
        """Let go of facts, if they are held."""
        shelf = self._shelves.get(identity)
        numbers = None if shelf is None else shelf.numbers.get(keyword)
        if shelf is None or numbers is None:
            return
        for each in ids:
            number = numbers.pop(each, None)
            if number is not None:
                self._lexical.remove(number)
                self._placed[number] = None
                self._free.append(number)
                del shelf.texts[number]
        if not numbers:
            del shelf.numbers[keyword]

    def ids(self, identity: Identity, keyword: str) -> Collection[str]:
        """Return the ids of the facts that are held of a place's keyword."""
        shelf = self._shelves.get(identity)
        return () if shelf is None else shelf.numbers.get(keyword, {}).keys()

    def keywords(self, identity: Identity) -> Collection[str]:
        """Return the keywords of which facts of a place are held."""
        shelf = self._shelves.get(identity)
        return () if shelf is None else shelf.numbers.keys()

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
            among = [
                number
                for number, placed in enumerate(self._placed)
                if placed is not None and query.concerns(placed)
            ]
        words = self._lexical.scan(query.text, candidates=among)
        cosines = {} if similar is None else self._cosines(similar, among)
        ranking = Ranking(query, now, has_meaning=similar is not None)
        return ranking.best(Candidates(self._placed, self._heard_at), words, cosines)

    def _cosines(self, similar: Similarities, among: Sequence[int] | None) -> dict[int, float]:
        """Return the cosine of each candidate that has a vector.

        None have those whose text was refused, or came after the vectors were compared.
        """
        cosines: dict[int, float] = {}
        for identity, shelf in self._shelves.items():
            known = similar.get(identity, _NO_COSINES)
            texts = shelf.texts
            try:
                cosines |= zip(texts, map(known.__getitem__, texts.values()), strict=True)
            except KeyError:
                cosines |= {n: known[text] for n, text in texts.items() if text in known}
        return cosines if among is None else {n: cosines[n] for n in among if n in cosines}
