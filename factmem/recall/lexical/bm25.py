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
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from math import inf, log
from typing import NamedTuple, TypeAlias

from factmem.recall.arrays import Array, numpy_or_none
from factmem.recall.lexical.analysis import STOP_WORDS, Word, content_terms, words
from factmem.recall.lexical.postings import Document, PostingLists, Term, TermCounts

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


Fields: TypeAlias = Mapping[str, str]
"""The strings of a document by field name."""

Around: TypeAlias = Sequence[tuple[str, float]]
"""What is said around a document, each string with its weight."""


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
        self._groups = [
            (tuple(group), tuple(self._weights.get(name, 1.0) for name in group))
            for group in recurring
        ]
        self._recurring = frozenset(chain.from_iterable(recurring))
        self._lists = PostingLists()
        self._lengths: array[float] = array("d")
        self._total = 0.0
        self._count = 0
        self._norms: Array | None = None
        """What the length of each document adds below the fraction line, until the next change."""

    def __len__(self) -> int:
        return self._count

    def put(self, slot: int, fields: Fields, around: Around = ()) -> None:
        """Index a document, in place of what the slot holds.

        Args:
            slot: A number from 0 on; slots should have few gaps.
            fields: Strings by field name.
            around: What is said around the document, each string with its weight.
        """
        document = self.document(fields, around)
        self.drop(slot)
        self._lists.put(slot, document)
        self._measure(slot, document)

    def put_many(self, documents: Iterable[tuple[int, Fields, Around]]) -> None:
        """Index documents, each as for `put`, in ascending slots."""
        self._lists.extend(self._new(documents))

    def _new(
        self, documents: Iterable[tuple[int, Fields, Around]]
    ) -> Iterator[tuple[int, Document]]:
        """Yield the documents behind all others; put the rest one by one."""
        width = len(self._lists)
        for slot, fields, around in documents:
            if slot < width:
                self.put(slot, fields, around)
            else:
                document = self.document(fields, around)
                self._measure(slot, document)
                yield slot, document

    def _measure(self, slot: int, document: Document) -> None:
        self._norms = None
        if slot >= len(self._lengths):
            self._lengths.extend([0.0] * (slot + 1 - len(self._lengths)))
        self._lengths[slot] = length = document.length
        self._total += length
        self._count += 1

    def drop(self, slot: int) -> bool:
        """Remove the document of a slot. Returns False if there is none."""
        if slot not in self._lists:
            return False
        self._lists.drop(slot)
        self._norms = None
        self._total -= self._lengths[slot]
        self._lengths[slot] = 0.0
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
        terms = {term: self._lists.term(term, among) for term in chain.from_iterable(query.wanted)}
        return self.scores(query, terms, self._lengths, size=size, average=average)

    def scores(
        self,
        query: QueryWords,
        terms: Mapping[str, Term],
        lengths: Sequence[float],
        *,
        size: int,
        average: float,
    ) -> WordScores:
        """Return BM25 and coverage of the documents that hold a term of a query.

        Args:
            query: The words to search for.
            terms: The documents that hold each of their terms.
            lengths: The lengths of the documents by slot.
            size: How many documents there are, with those that hold none.
            average: The average length of all of them.
        """
        k1 = self._k1
        constant, per_length = k1 * (1 - self._b), k1 * self._b / (average or 1.0)
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
            term: self._lists.dense_term(np, term, mask)
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

    def document(self, fields: Fields, around: Around = ()) -> Document:
        """Return what `put` indexes."""
        weights, analyze = self._weights, self._analyze
        shared: list[TermCounts] = []
        for names, of_group in self._groups:
            texts = tuple([fields.get(name, "") for name in names])
            shared.append(_recurring(analyze, texts, of_group))
        own = [
            ([*chain.from_iterable(analyze(text))], weights.get(name, 1.0))
            for name, text in fields.items()
            if name not in self._recurring
        ]
        beside = [_recurring(analyze, (text,), (_rounded(weight),)) for text, weight in around]
        return Document(shared, [each for each in own if each[1]], beside)

    def _searched(self, words: Sequence[Word]) -> list[Word]:
        """Return each word of a query once, without stop words where others remain."""
        wanted = dict.fromkeys(words)
        content = (content_terms(word) for word in wanted if not self._stop_words.issuperset(word))
        return list(dict.fromkeys(filter(None, content))) or list(wanted)


def _rounded(weight: float) -> float:
    return round(weight * _WEIGHT_STEP) / _WEIGHT_STEP


@lru_cache(maxsize=2**13)
def _recurring(
    analyze: Callable[[str], Sequence[Word]], texts: tuple[str, ...], weights: tuple[float, ...]
) -> TermCounts:
    """Return the weighted count of each term of some texts."""
    counts: dict[str, float] = {}
    for text, weight in zip(texts, weights, strict=True):
        if weight:
            for term in chain.from_iterable(analyze(text)):
                counts[term] = counts.get(term, 0.0) + weight
    return TermCounts(counts)


def _idf(holders: int, size: int) -> float:
    return log(1 + (size - holders + 0.5) / (holders + 0.5))


def _weights(
    wanted: Sequence[Word], terms: Mapping[str, Term], size: int
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
