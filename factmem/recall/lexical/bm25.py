"""Ranking by words: BM25 over documents that come and go.

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

What is said around a document counts in tf and length too, each term times its weight. It counts in
neither n(t) nor coverage: a document is not about what its neighbours say.
"""

from array import array
from bisect import bisect_left
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from math import inf, log
from typing import NamedTuple, TypeAlias

from factmem.recall.arrays import Array, numpy_or_none
from factmem.recall.lexical.analysis import STOP_WORDS, Word, content_terms, words

__all__ = ["DenseScores", "QueryWords", "TermIndex", "WordScores"]


_LEAST_WEIGHT = 1.0
"""What a word adds to coverage however many documents hold it. By rarity alone a word that all
documents have would weigh nothing beside one that none has, so where everything is about printers
"printer broken" would find nothing. With 2, a person's name alone would be enough."""

_LEAST_SIZE = 50
"""A word that no document holds weighs no more beside one that a single document holds than it does
among so many documents. Among two it would weigh so much more that the one fact that a question of
four words is about would not cover it."""

_WEIGHT_STEP = 16
"""Weights are multiples of 1/16: sums of those are exact, in any order."""

WordScores = dict[int, tuple[float, float]]
"""BM25 and coverage by slot, of the documents that hold a term of the query."""


class QueryWords(NamedTuple):
    """The words of a query."""

    wanted: Sequence[Word]
    """The words that are searched."""
    covered: Sequence[Word]
    """Those of them that count in coverage."""


class DenseScores(NamedTuple):
    """BM25 and coverage of every slot, as numpy arrays; 0 where a document holds no term."""

    bm25: Array
    coverage: Array


class _Postings:
    """The documents that hold a term, by ascending slots."""

    __slots__ = ("arrays", "counts", "holders", "own", "slots", "term")

    def __init__(self, term: str) -> None:
        self.term = term
        """The one string of the term that all documents share. Interned strings are never freed on
        Python 3.12."""
        self.slots = array("I")
        self.counts = array("f")
        """How often each document holds the term, weighted; what is around it counts too."""
        self.own = bytearray()
        """1 where the document itself holds the term, 0 where only its neighbours do."""
        self.holders = 0
        """How many documents hold the term themselves."""
        self.arrays: _Term | None = None
        """The same as numpy arrays, from the first search for the term to its next change."""

    def insert(self, slot: int, count: float, is_own: bool) -> None:
        at = bisect_left(self.slots, slot)
        self.slots.insert(at, slot)
        self.counts.insert(at, count)
        self.own.insert(at, is_own)
        self.holders += is_own
        self.arrays = None

    def drop(self, slot: int) -> None:
        self.arrays = None
        at = bisect_left(self.slots, slot)
        self.holders -= self.own[at]
        del self.slots[at], self.counts[at], self.own[at]

    @property
    def is_all_own(self) -> bool:
        return self.holders == len(self.slots)


_NOWHERE = _Postings("")
_WeightedTexts: TypeAlias = tuple[tuple[str, float], ...]


class _Term(NamedTuple):
    """A term of a query, among the documents that are looked at."""

    holders: int
    slots: Sequence[int]
    counts: Sequence[float]
    own: Sequence[int]
    """The slots of documents that hold it themselves."""


class TermIndex:
    """Documents in numbered slots, found by the terms they share with a query.

    Putting and dropping in any order gives the scores that building afresh gives. Not safe for a
    change during another call: threads need a lock of the caller's.

    Args:
        weights: How much a term in a field counts, by the field's name; 1 for a field that is not
            named, 0 leaves it out. Rounded to sixteenths.
        k1: How soon more of the same term stops to matter.
        b: How much longer documents are held back, from 0 to 1.
        analyze: Cuts documents and queries into words, and these into terms.
        stop_words: Words that are left out of a query, unless it has no others.
        recurring: Groups of fields whose strings many documents share: those of a group are analysed
            together once, and some thousand of such analyses are kept in this process.

    Raises:
        ValueError: k1 or a weight is negative or not finite, or b is not between 0 and 1.
    """

    def __init__(
        self,
        *,
        weights: Mapping[str, float] | None = None,
        k1: float = 1.2,
        b: float = 0.75,
        analyze: Callable[[str], Sequence[Word]] = words,
        stop_words: Collection[str] = STOP_WORDS,
        recurring: Sequence[Collection[str]] = (),
    ) -> None:
        if not 0 <= b <= 1 or not all(0 <= n < inf for n in (k1, *(weights or {}).values())):
            raise ValueError("k1 and weights must be finite and 0 or more, and b from 0 to 1")
        self._weights = {name: _rounded(weight) for name, weight in (weights or {}).items()}
        self._k1, self._b = k1, b
        self._analyze = analyze
        self._stop_words = frozenset(stop_words)
        self._groups = [tuple(group) for group in recurring]
        self._recurring = frozenset(chain.from_iterable(recurring))
        self._postings: dict[str, _Postings] = {}
        self._terms: list[tuple[str, ...] | None] = []
        """By slot; None where there is no document."""
        self._lengths: array[float] = array("d")
        self._total = 0.0
        self._count = 0
        self._norms: Array | None = None
        """What the length of each document adds below the fraction line, until the next change."""

    def __len__(self) -> int:
        return self._count

    def put(
        self, slot: int, fields: Mapping[str, str], around: Sequence[tuple[str, float]] = ()
    ) -> None:
        """Index a document, in place of what the slot holds.

        Args:
            slot: A number from 0 on; slots should have few gaps.
            fields: Strings by field name.
            around: What is said around the document, each string with its weight.
        """
        counts, length = self._counted(fields)
        self.drop(slot)
        self._norms = None
        while len(self._terms) <= slot:
            self._terms.append(None)
            self._lengths.append(0.0)
        beside: dict[str, float] = {}
        for text, weight in around:
            length += self._add(beside, ((text, _rounded(weight)),))
        if beside:
            for term in counts.keys() & beside.keys():
                counts[term] += beside.pop(term)
        terms = [*self._post(slot, counts, True), *self._post(slot, beside, False)]
        self._terms[slot] = tuple(terms)
        self._lengths[slot] = length
        self._total += length
        self._count += 1

    def _post(self, slot: int, counts: Mapping[str, float], is_own: bool) -> list[str]:
        """Add a slot to the postings of terms, and return the strings that these share."""
        postings, terms = self._postings, list[str]()
        for term, count in counts.items():
            held = postings.get(term)
            if held is None:
                held = postings[term] = _Postings(term)
            slots = held.slots
            if slots and slots[-1] >= slot:
                held.insert(slot, count, is_own)
            else:  # written out: an index of 50,000 facts comes here a million times
                slots.append(slot)
                held.counts.append(count)
                held.own.append(is_own)
                held.holders += is_own
                held.arrays = None
            terms.append(held.term)
        return terms

    def drop(self, slot: int) -> bool:
        """Forget the document in a slot. Returns False when there is none."""
        terms = self._terms[slot] if slot < len(self._terms) else None
        if terms is None:
            return False
        self._norms = None
        for term in terms:
            postings = self._postings[term]
            postings.drop(slot)
            if not postings.slots:
                del self._postings[term]
        self._total -= self._lengths[slot]
        self._terms[slot], self._lengths[slot] = None, 0.0
        self._count -= 1
        return True

    def query(self, words: Sequence[Word], name: Collection[str] = ()) -> QueryWords:
        """Return the words of a query to search for.

        Args:
            words: Those of a question, as `analyze` cuts it.
            name: The terms of a name that narrows the query already. Every document about that
                entity has it, so that it says nothing of what else the document is about.
        """
        wanted = self._searched(words)
        covered = [word for word in wanted if not any(term in name for term in word)]
        return QueryWords(wanted, covered or wanted)

    def scan(self, query: QueryWords, among: bytearray | None = None) -> WordScores:
        """Return BM25 and coverage of all documents that share a term with a query.

        Args:
            query: The words to search for.
            among: By slot, 1 for a document to look at. The others move neither score nor coverage.
        """
        size, average = self._count, self._total / (self._count or 1)
        if among is not None:
            size = sum(among)
            average = sum(n for n, is_in in zip(self._lengths, among, strict=False) if is_in)
            average /= size or 1
        lengths, k1 = self._lengths, self._k1
        constant, per_length = k1 * (1 - self._b), k1 * self._b / (average or 1.0)
        terms = {
            term: _looked_up(self._postings.get(term, _NOWHERE), among)
            for term in chain.from_iterable(query.wanted)
        }
        scores: dict[int, float] = {}
        score_so_far = scores.get
        for term in terms.values():
            weight = _idf(term.holders, size) * (k1 + 1)
            for slot, count in zip(term.slots, term.counts, strict=True):
                scores[slot] = score_so_far(slot, 0.0) + weight * count / (
                    count + constant + per_length * lengths[slot]
                )
        covered = dict.fromkeys(scores, 0.0)
        whole, weights = _weights(query.covered, terms, size)
        for word, weight in zip(query.covered, weights, strict=True):
            known = [terms[term].own for term in word]
            for slot in known[0] if len(known) == 1 else {*chain.from_iterable(known)}:
                covered[slot] += weight
        return {slot: (score, covered[slot] / whole) for slot, score in scores.items()}

    def dense_scan(self, query: QueryWords, among: bytearray | None = None) -> DenseScores:
        """Do what `scan` does with numpy arrays: the same numbers, many times faster. numpy must be there."""
        np: Array = numpy_or_none()
        size, mask = self._count, None
        if among is None:
            norms = self._norms
            if norms is None:
                norms = self._norms = self._dense_norms(np.array(self._lengths), self._total, size)
        else:
            lengths = np.array(self._lengths)
            mask = np.frombuffer(among, np.bool_)[: len(lengths)]
            size = int(np.count_nonzero(mask))
            norms = self._dense_norms(lengths, float(lengths[mask].sum()), size)
        terms = {
            term: _dense(np, self._postings.get(term), mask)
            for term in chain.from_iterable(query.wanted)
        }
        scores, covered = np.zeros(len(norms)), np.zeros(len(norms))
        for held in terms.values():
            if len(held.slots):
                counts: Array = held.counts
                parts = counts * (_idf(held.holders, size) * (self._k1 + 1))
                parts /= counts + norms[held.slots]
                scores[held.slots] += parts
        whole, weights = _weights(query.covered, terms, size)
        for word, weight in zip(query.covered, weights, strict=True):
            known = [terms[term].own for term in word if len(terms[term].own)]
            if len(known) == 1:
                covered[known[0]] += weight
            elif known:
                has = np.zeros(len(norms), np.bool_)
                for slots in known:
                    has[slots] = True
                covered[has] += weight
        covered /= whole or 1.0
        return DenseScores(scores, covered)

    def _dense_norms(self, lengths: Array, total: float, size: int) -> Array:
        lengths *= self._k1 * self._b / (total / (size or 1) or 1.0)
        lengths += self._k1 * (1 - self._b)
        return lengths

    def _counted(self, fields: Mapping[str, str]) -> tuple[dict[str, float], float]:
        """Return the weighted count of each term, and their sum."""
        weights, counts, length = self._weights, dict[str, float](), 0.0
        for group in self._groups:
            found = [(fields[name], weights.get(name, 1.0)) for name in group if name in fields]
            length += self._add(counts, tuple(found))
        for name, text in fields.items():
            if name not in self._recurring and (weight := weights.get(name, 1.0)):
                for word in self._analyze(text):
                    for term in word:
                        counts[term] = counts.get(term, 0.0) + weight
                        length += weight
        return counts, length

    def _add(self, counts: dict[str, float], texts: _WeightedTexts) -> float:
        """Add the weighted counts of the terms of some texts, and return their sum."""
        terms, length = _recurring(self._analyze, texts)
        if counts.keys().isdisjoint(terms):
            counts.update(terms)
        else:
            for term, count in terms.items():
                counts[term] = counts.get(term, 0.0) + count
        return length

    def _searched(self, words: Sequence[Word]) -> list[Word]:
        """Return each word of a query once, without stop words where others remain."""
        wanted = dict.fromkeys(words)
        content = (content_terms(word) for word in wanted if not self._stop_words.issuperset(word))
        return list(dict.fromkeys(filter(None, content))) or list(wanted)


def _rounded(weight: float) -> float:
    return round(weight * _WEIGHT_STEP) / _WEIGHT_STEP


@lru_cache(maxsize=2**13)
def _recurring(
    analyze: Callable[[str], Sequence[Word]], texts: _WeightedTexts
) -> tuple[Mapping[str, float], float]:
    """Return the weighted count of each term of some texts, and their sum."""
    counts: dict[str, float] = {}
    for text, weight in texts:
        if weight:
            for term in chain.from_iterable(analyze(text)):
                counts[term] = counts.get(term, 0.0) + weight
    return counts, sum(counts.values())


_NO_TERM = _Term(0, (), (), ())


def _looked_up(postings: _Postings, among: bytearray | None) -> _Term:
    slots: Sequence[int] = postings.slots
    counts: Sequence[float] = postings.counts
    if postings.is_all_own and among is None:
        return _Term(postings.holders, slots, counts, slots)
    kept = [
        (slot, count, is_own)
        for slot, count, is_own in zip(slots, counts, postings.own, strict=True)
        if among is None or among[slot]
    ]
    own = [slot for slot, _, is_own in kept if is_own]
    return _Term(len(own), [slot for slot, _, _ in kept], [count for _, count, _ in kept], own)


def _dense(np: Array, postings: _Postings | None, mask: Array | None) -> _Term:
    if postings is None:
        return _NO_TERM
    held = postings.arrays
    if held is None:
        slots: Array = np.array(postings.slots, np.intp)
        own = slots
        if not postings.is_all_own:
            own = slots[np.array(postings.own, np.bool_)]
        counts = np.array(postings.counts, np.float64)
        held = postings.arrays = _Term(len(own), slots, counts, own)
    if mask is None:
        return held
    slots, counts, own = held.slots, held.counts, held.own
    kept, own = mask[slots], own[mask[own]]
    return _Term(len(own), slots[kept], counts[kept], own)


def _idf(holders: int, size: int) -> float:
    return log(1 + (size - holders + 0.5) / (holders + 0.5))


def _weights(
    wanted: Sequence[Word], terms: Mapping[str, _Term], size: int
) -> tuple[float, list[float]]:
    """Return the sum of the weights of a query's words in its coverage, and each of them.

    A word that has several terms, a Korean one with its particle, is covered by any of them, and
    weighs what the rarest of them weighs that some document holds. Were its terms counted one by
    one, the particle would hold the coverage of every Korean question below that of an English one.
    """
    least = max(size, _LEAST_SIZE)
    unknown = _idf(1, size) * _idf(0, least) / _idf(1, least)
    weights: list[float] = []
    for word in wanted:
        holders = [count for term in word if (count := terms[term].holders)]
        weights.append(_LEAST_WEIGHT + (_idf(min(holders), size) if holders else unknown))
    return sum(weights), weights
