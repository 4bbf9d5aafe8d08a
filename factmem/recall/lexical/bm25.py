"""Ranking by words: BM25 over an index that grows and shrinks with its documents.

The score of a document d for a query q is the one of Robertson and Zaragoza, "The Probabilistic
Relevance Framework: BM25 and Beyond", Foundations and Trends in Information Retrieval 3(4), 2009:

    score(d, q) = Σ idf(t) · tf · (k1 + 1) / (tf + k1 · (1 - b + b · length / average length))
    idf(t)      = ln(1 + (N - n(t) + 0.5) / (n(t) + 0.5))

over the terms t of q that are in d; N documents, n(t) of them with t. The 1 inside the logarithm,
which Lucene adds too, keeps a term that most documents have from counting against them. tf and
length are sums over the fields of a document, each times its field's weight (section 3.6 there:
BM25F with one b for all fields).

k1 = 1.2 and b = 0.75 lie in the middle of what that paper found to be good in many circumstances
(1.2 to 2, 0.5 to 0.8). They were not tuned: on the corpus in benchmarks/recall, hit@5 stays within
0.012 of theirs for k1 from 0.6 to 2 and b from 0 to 1.
"""

from array import array
from bisect import bisect_left
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from heapq import heappop, heappush, nlargest
from itertools import chain
from math import inf, log
from operator import itemgetter
from typing import Generic, NamedTuple

from typing_extensions import TypeVar

from factmem.recall.lexical.analysis import (
    STOP_WORDS,
    Word,
    content_terms,
    words,
)

__all__ = ["LexicalHit", "LexicalIndex"]


K = TypeVar("K", bound=Hashable, default=str)

_LEAST_WEIGHT = 1.0
"""What a word adds to coverage however many documents hold it. By rarity alone a word that all
documents have would weigh nothing beside one that none has, so where everything is about printers
nothing would be found for "printer broken". With 2, the name of whom a question is about would do."""

_LEAST_SIZE = 50
"""A word that no document holds weighs no more beside one that a single document holds than it does
among so many documents. Among two it would weigh so much more that a question of four words were
not covered by the one fact it is about."""

_WEIGHT_STEP = 16
"""Weights are multiples of 1/16: sums of those are exact, in any order."""


class LexicalHit(NamedTuple, Generic[K]):
    """A document that shares a term with the query."""

    id: K
    score: float
    """BM25: above 0, without an upper bound, comparable only within one search."""
    coverage: float
    """The share of the query's words that the document has, a rare one weighing more: above 0, up to 1.
    It means the same for every query, so a threshold can be set on it."""


class _Postings(NamedTuple):
    term: str
    """The string that all documents with the term share."""
    slots: "array[int]"
    """Where the documents that hold a term are, ascending."""
    counts: "array[float]"
    """How often each of them holds it, weighted."""

    def among(self, allowed: set[int]) -> "_Postings":
        """Give what is left of these when only some slots count."""
        kept = _Postings(self.term, array("I"), array("f"))
        for slot, count in zip(self.slots, self.counts, strict=True):
            if slot in allowed:
                kept.slots.append(slot)
                kept.counts.append(count)
        return kept


_NOWHERE = _Postings("", array("I"), array("f"))
_Counts = tuple[list[tuple[str, int]], int]

_Found = tuple[float, _Postings]
"""The idf of a term of the query, and the documents under consideration that hold it."""


class LexicalIndex(Generic[K]):
    """Documents under ids of the caller's, found by the words they share with a query.

    An index is a value in memory, built from its documents: adding and removing in any order gives
    the scores that building afresh gives. Not safe for a change during another call; threads need a
    lock of the caller's.
    """

    def __init__(
        self,
        *,
        weights: Mapping[str, float] | None = None,
        k1: float = 1.2,
        b: float = 0.75,
        analyze: Callable[[str], Sequence[Word]] = words,
        stop_words: Collection[str] = STOP_WORDS,
        recurring: Collection[str] = (),
    ) -> None:
        """Start without documents.

        Args:
            weights: How much a term in a field counts, by the field's name; 1 for a field that is
                not named, 0 leaves it out. Rounded to sixteenths.
            k1: How soon more of the same term stops to matter.
            b: How much longer documents are held back, from 0 to 1.
            analyze: Cuts documents and queries into words, and these into terms.
            stop_words: Words that a query is searched without, unless it has no others.
            recurring: The fields whose texts many documents share: each text is analysed once, and
                some thousand of them are kept in this process.

        Raises:
            ValueError: k1 or a weight is negative or not finite, or b is not between 0 and 1.
        """
        if not 0 <= b <= 1 or not all(0 <= n < inf for n in (k1, *(weights or {}).values())):
            raise ValueError("k1 and weights must be finite and 0 or more, and b from 0 to 1")
        self._weights = {
            name: round(weight * _WEIGHT_STEP) / _WEIGHT_STEP
            for name, weight in (weights or {}).items()
        }
        self._k1, self._b = k1, b
        self._analyze = analyze
        self._stop_words = frozenset(stop_words)
        self._recurring = frozenset(recurring)
        self._postings: dict[str, _Postings] = {}
        self._slots: dict[K, int] = {}
        self._ids: dict[int, K] = {}
        self._terms: list[tuple[str, ...]] = []
        self._lengths: array[float] = array("d")
        self._total = 0.0
        self._free: list[int] = []

    def __len__(self) -> int:
        return len(self._slots)

    def __contains__(self, id: object) -> bool:  # noqa: A002
        return id in self._slots

    def __iter__(self) -> Iterator[K]:
        return iter(self._slots)

    def add(self, id: K, text: str | Mapping[str, str]) -> None:  # noqa: A002
        """Index a document; one that has the id already is replaced.

        Takes time linear in the text, plus, for each of its terms, the length of that term's list
        where the document goes into a slot that a removed one has left.

        Args:
            id: What a search gives back.
            text: One text, or texts by field name.
        """
        counts, length = self._count({"": text} if isinstance(text, str) else text)
        self.remove(id)
        slot = self._slot()
        self._slots[id] = slot
        self._ids[slot] = id
        self._lengths[slot] = length
        self._total += length
        # The documents share one string per term through the postings, and not by sys.intern: from
        # Python 3.12 to 3.13 an interned string stays in memory until the process ends.
        terms: list[str] = []
        for term, count in counts.items():
            postings = self._postings.get(term)
            if postings is None:
                postings = self._postings[term] = _Postings(term, array("I"), array("f"))
            shared, slots, counts_there = postings
            terms.append(shared)
            if not slots or slots[-1] < slot:
                slots.append(slot)
                counts_there.append(count)
            else:
                at = bisect_left(slots, slot)
                slots.insert(at, slot)
                counts_there.insert(at, count)
        self._terms[slot] = tuple(terms)

    def remove(self, id: K) -> bool:  # noqa: A002
        """Forget a document. False when there is none under the id."""
        slot = self._slots.pop(id, None)
        if slot is None:
            return False
        for term in self._terms[slot]:
            postings = self._postings[term]
            at = bisect_left(postings.slots, slot)
            del postings.slots[at], postings.counts[at]
            if not postings.slots:
                del self._postings[term]
        self._total -= self._lengths[slot]
        del self._ids[slot]
        self._terms[slot], self._lengths[slot] = (), 0.0
        heappush(self._free, slot)
        return True

    def search(
        self, query: str, *, limit: int | None = None, candidates: Iterable[K] | None = None
    ) -> list[LexicalHit[K]]:
        """Rank the documents that share a term with a query, best first.

        The time is linear in the number of documents that hold each term of the query, and in the
        number of candidates where they are given.

        Args:
            query: A question or a few words.
            limit: How many hits at most; all of them without it.
            candidates: Ids to search among; others are not in the index as far as scores go: what
                they contain moves neither score nor coverage. Unknown ids are passed over.
        """
        scores, wanted, found, size = self._scored(query, candidates)
        best = nlargest(len(scores) if limit is None else limit, scores.items(), key=itemgetter(1))
        coverage = _coverage(wanted, found, {slot for slot, _ in best}, size)
        return [LexicalHit(self._ids[slot], score, coverage[slot]) for slot, score in best]

    def scan(
        self, query: str, *, candidates: Iterable[K] | None = None
    ) -> dict[K, tuple[float, float]]:
        """Return score and coverage of all documents that share a term with a query, unordered.

        They are those of `search`, which makes a hit of each and sorts them.
        """
        scores, wanted, found, size = self._scored(query, candidates)
        coverage = _coverage(wanted, found, set(scores), size)
        ids = self._ids
        return {ids[slot]: (score, coverage[slot]) for slot, score in scores.items()}

    def _scored(
        self, query: str, candidates: Iterable[K] | None
    ) -> tuple[dict[int, float], list[Word], dict[str, _Found], int]:
        allowed = None
        if candidates is not None:
            slots = map(self._slots.get, candidates)
            allowed = {slot for slot in slots if slot is not None}
        wanted = self._query_words(query)
        size = len(self._slots) if allowed is None else len(allowed)
        found = self._matching(wanted, allowed, size)
        return self._scores(found, allowed), wanted, found, size

    def _count(self, fields: Mapping[str, str]) -> tuple[dict[str, float], float]:
        """Give the weighted count of each term, and their sum."""
        counts: dict[str, float] = {}
        length = 0.0
        for name, text in fields.items():
            weight = self._weights.get(name, 1.0)
            if weight:
                counted = _recurring if name in self._recurring else _counted
                terms, total = counted(self._analyze, text)
                length += weight * total
                for term, count in terms:
                    counts[term] = counts.get(term, 0.0) + weight * count
        return counts, length

    def _slot(self) -> int:
        """Give an empty slot, the lowest that a removed document has left or a new one."""
        if self._free:
            return heappop(self._free)
        self._terms.append(())
        self._lengths.append(0.0)
        return len(self._terms) - 1

    def _query_words(self, query: str) -> list[Word]:
        """Give each word of a query once, without stop words where others remain."""
        wanted = dict.fromkeys(self._analyze(query))
        content = (content_terms(word) for word in wanted if not self._stop_words.issuperset(word))
        return list(dict.fromkeys(filter(None, content))) or list(wanted)

    def _matching(
        self, wanted: list[Word], allowed: set[int] | None, size: int
    ) -> dict[str, _Found]:
        """Look up each term of a query once, in the query's order."""
        found: dict[str, _Found] = {}
        for term in dict.fromkeys(chain.from_iterable(wanted)):
            postings = self._postings.get(term, _NOWHERE)
            if allowed is not None:
                postings = postings.among(allowed)
            holders = len(postings.slots)
            found[term] = _idf(holders, size), postings
        return found

    def _scores(self, found: dict[str, _Found], allowed: set[int] | None) -> dict[int, float]:
        """Score every slot that holds one of the terms."""
        lengths = self._lengths
        if allowed is None:
            average = self._total / (len(self._slots) or 1)
        else:
            average = sum(lengths[slot] for slot in allowed) / (len(allowed) or 1)
        constant = self._k1 * (1 - self._b)
        per_length = self._k1 * self._b / (average or 1.0)
        scores: dict[int, float] = {}
        score_so_far = scores.get
        for idf, postings in found.values():
            weight = idf * (self._k1 + 1)
            for slot, count in zip(postings.slots, postings.counts, strict=True):
                scores[slot] = score_so_far(slot, 0.0) + weight * count / (
                    count + constant + per_length * lengths[slot]
                )
        return scores


def _counted(analyze: Callable[[str], Sequence[Word]], text: str) -> _Counts:
    """Give the terms of a text, each with how often it is there, and how many there are."""
    counts: dict[str, int] = {}
    for term in chain.from_iterable(analyze(text)):
        counts[term] = counts.get(term, 0) + 1
    return list(counts.items()), sum(counts.values())


_recurring = lru_cache(maxsize=2**12)(_counted)


def _idf(holders: int, size: int) -> float:
    return log(1 + (size - holders + 0.5) / (holders + 0.5))


def _coverage(
    wanted: list[Word], found: dict[str, _Found], slots: set[int], size: int
) -> dict[int, float]:
    """Give the share of a query's weight that each slot covers.

    A word that has several terms, a Korean one with its particle, is covered by any of them, and
    weighs what the rarest of them weighs that some document holds. Were its terms counted one by
    one, the particle would hold the coverage of every Korean question below that of an English one.
    """
    covered = dict.fromkeys(slots, 0.0)
    whole, least = 0.0, max(size, _LEAST_SIZE)
    unknown = _idf(1, size) * _idf(0, least) / _idf(1, least)
    for word in wanted:
        known = [held.slots for term in word if (held := found[term][1]).slots]
        rarity = _idf(min(map(len, known)), size) if known else unknown
        weight = _LEAST_WEIGHT + rarity
        whole += weight
        holders: Collection[int] = known[0] if len(known) == 1 else {*chain.from_iterable(known)}
        # `scan` asks about all holders, and a set of them would cost more than this loop; `search`
        # asks about a few slots among many holders, which a set finds without a loop.
        if len(holders) > len(slots):
            holders = slots.intersection(holders)
        for slot in holders:
            if slot in covered:
                covered[slot] += weight
    for slot, share in covered.items():
        covered[slot] = share / whole  # not zero: where slots were found, there were words
    return covered
