"""TermIndex: BM25 over a changing set of documents.

The score of a document d for a query q is the one of Robertson and Zaragoza, "The Probabilistic
Relevance Framework: BM25 and Beyond", Foundations and Trends in Information Retrieval 3(4), 2009:

    score(d, q) = Σ idf(t) · tf · (k1 + 1) / (tf + k1 · (1 - b + b · length / average length))
    idf(t)      = ln(1 + (N - n(t) + 0.5) / (n(t) + 0.5))

over the terms t of q that are in d, with N documents, n(t) of which have t. The 1 inside the
logarithm, which Lucene adds too, avoids negative weights of terms that most documents have. tf and
length are sums over the fields of a document, multiplied by the field's weight (section 3.6 of the
paper: BM25F with one b for all fields).

k1 = 1.2 and b = 0.75 are within the ranges that the paper found to be good in many circumstances
(1.2 to 2, and 0.5 to 0.8). They were not tuned: on the corpus in benchmarks/recall, hit@5 differs
by at most 0.012 for k1 from 0.6 to 2 and b from 0 to 1.

The text around a document counts in tf and length too, multiplied by its weight. It does not count
in n(t) and coverage, because a document is not about the content of its neighbours.

Posting lists: the documents of each term, with their counts.
"""

from array import array
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from heapq import nlargest
from itertools import chain
from math import log
from operator import itemgetter
from typing import NamedTuple

from factmem._text.analysis import FUNCTION_WORDS, Word, content_words
from factmem.providers.results import Letters
from factmem.recall._documents import Document
from factmem.recall._letters import Vocabulary, grams, is_compared, likeness, sums, triples
from factmem.recall._place_vectors import Array, numpy_or_none


class Term(NamedTuple):
    """The searched documents of a query's term."""

    holders: int
    """The number of documents that have the term themselves."""
    slots: Sequence[int]
    counts: Sequence[float]
    own: Sequence[int]
    """The slots of the documents that have the term themselves."""


NO_TERM = Term(0, (), (), ())
"""A term that no document has."""


class _Postings:
    """The documents of a term, in ascending slots."""

    __slots__ = ("counts", "holders", "own", "slots")

    def __init__(self) -> None:
        self.slots = array("I")
        self.counts = array("f")
        """The weighted count of each document, including the text around it."""
        self.own = bytearray()
        """1 if the document itself has the term, 0 if only its neighbours have it."""
        self.holders = 0
        """The number of documents that have the term themselves."""

    def put(self, slot: int, count: float, *, is_own: bool) -> None:
        slots = self.slots
        at = len(slots) if not slots or slots[-1] < slot else bisect_left(slots, slot)
        slots.insert(at, slot)
        self.counts.insert(at, count)
        self.own.insert(at, is_own)
        self.holders += is_own

    def drop(self, slot: int) -> None:
        at = bisect_left(self.slots, slot)
        self.holders -= self.own[at]
        del self.slots[at], self.counts[at], self.own[at]

    @property
    def is_all_own(self) -> bool:
        return self.holders == len(self.slots)


class PostingLists:
    """The terms of documents in numbered slots. Calls must not overlap with a change."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        """The number of each term, which is never reused."""
        self._postings: list[_Postings | None] = []
        """The postings of each term; None if no document has it any more."""
        self._terms: list[str] = []
        self.vocabulary = Vocabulary(self._terms)
        """The terms of the documents."""
        self._numbered = array("I")
        """The numbers of the terms of all documents, concatenated: an array for each document would
        take a third of the memory of an index."""
        self._starts: array[int] = array("q")
        """Where the numbers of each slot begin, its own terms first; -1 without a document."""
        self._sizes, self._own = array("I"), array("I")
        """The number of terms, and of own terms, of each slot."""
        self._gone = 0
        """How many of the numbers belong to removed documents."""

    def own(self, slot: int) -> list[str]:
        """Return the terms that the document of a slot has itself."""
        start = self._starts[slot]
        numbers = self._numbered[start : start + self._own[slot]]
        return [self._terms[number] for number in numbers]

    def own_numbers(self, np: Array, slots: Array) -> tuple[Array, Array, Array]:
        """Return slots with such terms, the numbers of these as an array, and where each begins."""
        sizes = np.frombuffer(self._own, np.uint32)[slots].astype(np.intp)
        if not sizes.all():
            slots, sizes = slots[sizes > 0], sizes[sizes > 0]
        begins = np.cumsum(sizes) - sizes
        starts = np.frombuffer(self._starts, np.int64)[slots]
        at = np.arange(int(sizes.sum())) + (starts - begins).repeat(sizes)
        return slots, np.frombuffer(self._numbered, np.uint32)[at].astype(np.intp), begins

    def lettered(
        self, np: Array, slots: Array
    ) -> Iterator[tuple[Vocabulary, Callable[[], tuple[Array, Array, Array]]]]:
        """Yield a vocabulary, and what returns `own_numbers` for the slots with terms of it."""
        yield self.vocabulary, partial(self.own_numbers, np, slots)

    def __contains__(self, slot: int) -> bool:
        return slot < len(self._starts) and self._starts[slot] >= 0

    def put(self, slot: int, document: Document) -> None:
        """Add a document to a slot that has none.

        Args:
            slot: A number of at least 0. Slots should have few gaps.
            document: The terms of the document.
        """
        for column, empty in ((self._starts, -1), (self._sizes, 0), (self._own, 0)):
            column.extend([empty] * (slot + 1 - len(column)))
        self._starts[slot] = len(self._numbered)
        for part, is_own in ((document.own, True), (document.beside, False)):
            for term, counted in part.items():
                number = self._numbers.get(term)
                if number is None:
                    number = self._numbers[term] = len(self._terms)
                    self._terms.append(term)
                    self._postings.append(_Postings())
                if (postings := self._postings[number]) is not None:
                    postings.put(slot, counted, is_own=is_own)
                self._numbered.append(number)
        self._own[slot] = len(document.own)
        self._sizes[slot] = len(document.own) + len(document.beside)

    def drop(self, slot: int) -> None:
        """Remove the document of a slot, if there is one."""
        if slot not in self:
            return
        start, size = self._starts[slot], self._sizes[slot]
        for number in self._numbered[start : start + size]:
            if (postings := self._postings[number]) is None:
                continue
            postings.drop(slot)
            if not postings.slots:
                self.vocabulary.drop(number)
                del self._numbers[self._terms[number]]
                self._terms[number], self._postings[number] = "", None
        self._starts[slot], self._sizes[slot], self._own[slot] = -1, 0, 0
        self._gone += size
        if self._gone > len(self._numbered) // 2:
            self._compact()

    def _compact(self) -> None:
        numbered = array("I")
        for slot, (start, size) in enumerate(zip(self._starts, self._sizes, strict=True)):
            if start >= 0:
                self._starts[slot] = len(numbered)
                numbered += self._numbered[start : start + size]
        self._numbered, self._gone = numbered, 0

    def _of(self, term: str) -> _Postings | None:
        number = self._numbers.get(term)
        return None if number is None else self._postings[number]

    def term(self, term: str, among: bytearray | None) -> Term:
        """Return the documents of a term, of all slots or of those in a mask."""
        postings = self._of(term)
        if postings is None:
            return NO_TERM
        slots, counts = postings.slots, postings.counts
        if postings.is_all_own and among is None:
            return Term(postings.holders, slots, counts, slots)
        kept = [
            (slot, counted, is_own)
            for slot, counted, is_own in zip(slots, counts, postings.own, strict=True)
            if among is None or among[slot]
        ]
        own = [slot for slot, _, is_own in kept if is_own]
        return Term(len(own), [slot for slot, _, _ in kept], [each for _, each, _ in kept], own)

    def dense_term(self, np: Array, term: str, mask: Array | None) -> Term:
        """Return a term's documents as numpy arrays, without the own ones; `mask` may be None."""
        if (postings := self._of(term)) is None:
            return Term(0, np.zeros(0, np.intp), np.zeros(0), ())
        slots, counts = np.array(postings.slots, np.intp), np.array(postings.counts, np.float64)
        if mask is not None:
            kept = mask[slots]
            slots, counts = slots[kept], counts[kept]
        return Term(len(self.dense_own(np, term, mask)), slots, counts, ())

    def dense_own(self, np: Array, term: str, mask: Array | None = None) -> Array:
        """Return the slots of the documents that have a term themselves, as a numpy array."""
        postings = self._of(term)
        slots = np.array(() if postings is None else postings.slots, np.intp)
        if postings is not None and not postings.is_all_own:
            slots = slots[np.array(postings.own, np.bool_)]
        return slots if mask is None else slots[mask[slots]]


K1, B = 1.2, 0.75
"""The saturation of repeated terms, and the strength of length normalisation."""

_LEAST_WEIGHT = 1.0
"""The least weight of a word in coverage. By rarity alone, a word of all documents would weigh
nothing compared with one of no document: if all facts are about printers, "printer broken" would
find nothing. With 2, a person's name alone would be enough for a match."""

_LEAST_SIZE = 50
"""Unknown words are weighted as if there were at least this many documents. With two, an unknown
word would weigh so much that the right fact would not cover a question of four words."""

SIMILAR, _LETTERED = 0.3, 30
"""See `QueryWords`, for the languages whose function words are known."""

_STRANGE = 20.0, 200
"""For other languages, where common words are often function words: the factor on SIMILAR, and the
other number. In 14 languages they find .07 more of the right texts among 30,000."""

_LEAST_KNOWN = 0.3
"""The least share of function words in a question of a known language; usually it is half."""

LETTERS = 0.6
"""The weight of the best score by letters, beside the best one of both."""

_MOST_EQUAL = 3
"""Documents that tie with the last one are scored by letters too, up to so many times as many."""

_MOST_KEPT = 24
"""The size of the cache of words of questions, in slots for each document: about 400 bytes."""

_ROUNDING = 1e-9
"""Scores that differ by less are equal, because sums of floats depend on their order."""

WordScores = dict[int, tuple[float, float]]
"""BM25 and coverage by slot, for the documents that have a term of the query."""


class QueryWords(NamedTuple):
    """The words of a query."""

    wanted: Sequence[Word]
    """The words to search for."""
    covered: Sequence[Word]
    """The words among them that count in coverage."""
    similar: float
    """The weight of the best score by similar words beside the best one by words."""
    lettered: int
    """The number of documents that are scored by letters, the best by words."""


def query_words(words: Sequence[Word], name: Collection[str] = ()) -> QueryWords:
    """Return the words of a query to search for.

    Args:
        words: The words of a question, in order.
        name: The terms of an entity's name that already restricts the query. Every document of
            that entity has them, so they do not count in coverage.
    """
    every = list(dict.fromkeys(words))
    wanted = _content(tuple(words)) or every
    covered = [word for word in wanted if not any(term in name for term in word)]
    # Korean, Chinese and Japanese have few function words: their words have several terms each.
    is_spaced = max(map(len, every), default=1) == 1
    if is_spaced and len(wanted) > (1 - _LEAST_KNOWN) * len(every):
        return QueryWords(wanted, covered or wanted, SIMILAR * _STRANGE[0], _STRANGE[1])
    return QueryWords(wanted, covered or wanted, SIMILAR, _LETTERED)


class DenseScores(NamedTuple):
    """BM25 and coverage of every slot, as numpy arrays; 0 for a document without a term."""

    bm25: Array
    coverage: Array


class Everywhere(NamedTuple):
    """The statistics of all documents, where an index has only the candidates of a question."""

    size: int
    length: float
    """The sum of their lengths."""
    holders: Mapping[str, int]
    """How many documents have each term of the question, and each similar one."""
    vocabularies: Sequence[Letters]
    """The terms of the documents, place by place."""


class _Near(NamedTuple):
    """The documents of a word or of similar ones, as numpy arrays."""

    slots: Array
    shares: Array
    """The similarity of the most similar term of each."""
    scores: Array


class TermIndex:
    """An index of documents in numbered slots, by their terms.

    The scores do not depend on the order in which documents were put and dropped. Calls must not
    overlap with a change: threads need a lock.

    Args:
        everywhere: The statistics to score with; by default those of the documents in the index.
        lists: The documents in the index.
        lengths: The lengths of these.
        has_letters: Whether documents are compared by the letters of a question, too.
    """

    def __init__(
        self,
        *,
        everywhere: Everywhere | None = None,
        lists: PostingLists | None = None,
        lengths: Iterable[float] = (),
        has_letters: bool = True,
    ) -> None:
        self._everywhere = everywhere
        self._has_letters = has_letters
        self._lists = lists or PostingLists()
        self._lengths: array[float] = array("d", lengths)
        self._total = 0.0
        self._count = 0
        self._vocabularies: Sequence[Letters] = [self._lists.vocabulary]
        if everywhere is not None:
            self._vocabularies = everywhere.vocabularies
        self._norms: Array | None = None
        """The length term in the denominator for each document, cached until the next change."""
        self._kept = 0
        """The number of slots in the next two."""
        self._scored: dict[str, Term] = {}
        """The terms of questions with their scores as counts, until then."""
        self._near: dict[Word, _Near] = {}
        """The words of questions, until then."""

    def __len__(self) -> int:
        return self._count

    def put(self, slot: int, document: Document) -> None:
        """Index a document; it replaces the document in its slot. Slots should have few gaps."""
        self.drop(slot)
        self._lists.put(slot, document)
        self._forget()  # each document changes the average length
        if slot >= len(self._lengths):
            self._lengths.extend([0.0] * (slot + 1 - len(self._lengths)))
        self._lengths[slot] = document.length
        self._total += document.length
        self._count += 1

    def drop(self, slot: int) -> bool:
        """Remove the document of a slot. Returns False if there is none."""
        if slot not in self._lists:
            return False
        self._lists.drop(slot)
        self._forget()
        self._total -= self._lengths[slot]
        self._lengths[slot] = 0.0
        self._count -= 1
        return True

    def _forget(self) -> None:
        self._norms, self._kept = None, 0
        self._scored.clear()
        self._near.clear()

    def _keep(self, size: int) -> None:
        """Evict cached words of questions to make room for `size` slots."""
        if self._kept > _MOST_KEPT * len(self._lengths):
            self._kept = 0
            self._scored.clear()
            self._near.clear()
        self._kept += size

    def slots(self, term: str, np: Array | None = None) -> Sequence[int]:
        """Return the slots of the documents that have a term themselves; as an array with numpy."""
        lists = self._lists
        return lists.term(term, None).own if np is None else lists.dense_own(np, term)

    def scan(self, query: QueryWords, among: bytearray | None = None) -> WordScores:
        """Return BM25 and coverage of all documents that share a term with a query.

        Args:
            query: The words to search for.
            among: A mask of the slots to search. Other documents do not affect score and coverage.
        """
        size, average = self._count, self._total / (self._count or 1)
        if among is not None:
            size = sum(among)
            average = sum(n for n, is_in in zip(self._lengths, among, strict=False) if is_in)
            average /= size or 1
        find = partial(self._lists.term, among=among)
        terms = {term: find(term) for term in chain.from_iterable(query.wanted)}
        constant, per_length = K1 * (1 - B), K1 * B / (average or 1.0)
        scores: dict[int, float] = {}
        for term in terms.values():
            weight = rarity(term.holders, size) * (K1 + 1)
            for slot, count in zip(term.slots, term.counts, strict=True):
                norm = constant + per_length * self._lengths[slot]
                scores[slot] = scores.get(slot, 0.0) + weight * count / (count + norm)
        near, covered = dict[int, float](), dict.fromkeys(scores, 0.0)
        for word, weight in self._weighted(query, terms, size):
            best, similar = dict[int, float](), [*self._similar(word)]
            for each, share in similar:
                best.update(dict.fromkeys(find(each).own, share))
            idf = rarity(self._holders(len(best), word, similar), size)
            for slot, share in best.items():
                norm = constant + per_length * self._lengths[slot]
                near[slot] = near.get(slot, 0.0) + share * idf / (1 + norm)
                covered[slot] = covered.get(slot, 0.0) + share * weight
        ratio = _fused(query, max(scores.values(), default=0.0), max(near.values(), default=0.0))
        whole = {slot: scores.get(slot, 0.0) + ratio * near.get(slot, 0.0) for slot in covered}
        most = max(whole.values(), default=0.0)
        top = _top(whole, query.lettered) if self._has_letters else ()
        for slot, share in self._by_letters(query, top, is_filtered=among is not None):
            whole[slot] += most * share
        return {slot: (score, min(covered[slot], 1.0)) for slot, score in whole.items()}

    def dense_scan(self, query: QueryWords, among: bytearray | None = None) -> DenseScores:
        """Return the result of `scan` as numpy arrays, many times faster. Requires numpy."""
        np: Array = numpy_or_none()
        size, total, mask = self._count, self._total, None
        if self._everywhere is not None:
            size, total = self._everywhere.size, self._everywhere.length
        if among is None:
            norms = self._norms
            if norms is None:
                norms = self._norms = self._dense_norms(np.array(self._lengths), total, size)
        else:
            lengths = np.array(self._lengths)
            mask = np.frombuffer(among, np.bool_)[: len(lengths)]
            size = int(np.count_nonzero(mask))
            norms = self._dense_norms(lengths, float(lengths[mask].sum()), size)
        terms = self._dense_terms(np, query, mask, norms=norms, size=size)
        weighted = [*self._weighted(query, terms, size)]
        near = [self._dense_near(np, each, mask, norms=norms, size=size) for each, _ in weighted]
        if not (weighted and len(norms)):
            return DenseScores(np.zeros(len(norms)), np.zeros(len(norms)))
        joined, width = np.concatenate, len(norms)
        at = joined([each.slots for each in terms.values()])
        scores = _sums(np, at, joined([each.counts for each in terms.values()]), width)
        at, sizes = joined([each.slots for each in near]), [len(each.slots) for each in near]
        shares = joined([each.shares for each in near])
        covered = _sums(
            np, at, shares * np.repeat([weight for _, weight in weighted], sizes), width
        )
        alike = _sums(np, at, joined([each.scores for each in near]), width)
        alike *= _fused(query, float(scores.max()), float(alike.max()))
        scores += alike
        if self._has_letters:
            top, most = _dense_top(np, scores, query.lettered), float(scores.max())
            top, by_letters = self._dense_letters(np, query, top, is_filtered=mask is not None)
            scores[top] += most * by_letters
        return DenseScores(scores, np.minimum(covered, 1.0, out=covered))  # floats sum to 1 + 2e-16

    def _dense_terms(
        self, np: Array, query: QueryWords, mask: Array | None, *, norms: Array, size: int
    ) -> dict[str, Term]:
        """Return the terms of a query, with BM25 as counts."""
        known = self._scored if mask is None else {}
        found: dict[str, Term] = {}
        for name in chain.from_iterable(query.wanted):
            term = known.get(name)
            if term is None:
                holders, slots, counts, _ = self._lists.dense_term(np, name, mask)
                if self._everywhere is not None:
                    holders = self._everywhere.holders.get(name, 0)
                counts *= rarity(holders, size) * (K1 + 1) / (counts + norms[slots])
                if mask is None:
                    self._keep(len(slots))
                term = known[name] = Term(holders, slots, counts, ())
            found[name] = term
        return found

    def _dense_near(
        self, np: Array, word: Word, mask: Array | None, *, norms: Array, size: int
    ) -> _Near:
        """Return the documents of a word or of similar ones."""
        known = self._near if mask is None else {}
        found = known.get(word)
        if found is None:
            terms = [*self._similar(word)]
            of_term = [self._lists.dense_own(np, term, mask) for term, _ in terms]
            slots = np.concatenate(of_term)
            shares = np.repeat([share for _, share in terms], [*map(len, of_term)])
            # Of several similar terms in a document the most similar one counts: the last.
            order, last = np.arange(len(slots)), np.empty(len(norms), np.intp)
            last[slots] = order
            slots, shares = slots[is_last := last[slots] == order], shares[is_last]
            idf = rarity(self._holders(len(slots), word, terms), size)
            if mask is None:
                self._keep(len(slots))
            found = known[word] = _Near(slots, shares, shares * idf / (1 + norms[slots]))
        return found

    def _by_letters(
        self, query: QueryWords, slots: Sequence[int], *, is_filtered: bool
    ) -> Iterator[tuple[int, float]]:
        """Yield documents with the sum of how near their terms are to the words of a query.

        That is, for each word, of the nearest term: the weight of the groups of three letters that
        both have, times the share of these groups in the word and `likeness`. The least sum is
        taken from all, and then the best one is `LETTERS`.
        """
        if not slots:
            return
        asked = [triples(word) for word in query.wanted]
        grams_of = list(set[str]().union(*asked))
        terms: dict[int, list[str]] = {}
        for slot in slots:
            terms[slot] = [*filter(is_compared, self._lists.own(slot))]
        found = set(chain.from_iterable(terms.values()))
        if is_filtered:  # other documents must not affect the scores
            size, holders = len(found), [sum(g in grams(t) for t in found) for g in grams_of]
        else:
            size, holders = len(self._lists.vocabulary), self._lists.vocabulary.counts(grams_of)
        idf = {gram: rarity(few, size) for gram, few in zip(grams_of, holders, strict=True)}
        scores = dict.fromkeys(terms, 0.0)
        for word in filter(None, asked):
            whole = sum(map(idf.__getitem__, word))
            near = {
                term: sum(map(idf.__getitem__, common)) ** 2
                / whole
                * likeness(len(word), len(groups))
                for term in found - FUNCTION_WORDS
                if (common := word & (groups := grams(term)))
            }
            for slot, own in terms.items():
                scores[slot] += max(
                    map(near.__getitem__, filter(near.__contains__, own)), default=0
                )
        lengths = {slot: sum(len(grams(term)) for term in own) for slot, own in terms.items()}
        average = sum(lengths.values()) / (len(lengths) or 1) or 1.0
        for slot, length in lengths.items():
            scores[slot] /= 1 + K1 * (1 - B + B * length / average)
        best, least = max(scores.values(), default=0.0), min(scores.values(), default=0.0)
        for slot, score in scores.items():
            yield slot, LETTERS * (score - least) / (best or 1.0)

    def _dense_letters(
        self, np: Array, query: QueryWords, slots: Array, *, is_filtered: bool
    ) -> tuple[Array, Array]:
        """Return the result of `_by_letters`, by numpy."""
        parts = list[tuple[Array, Array, Array]]()
        for vocabulary, own_numbers in self._lists.lettered(np, slots):
            # Most terms share no letters with the question: none, if it is in Korean or Chinese.
            found = [vocabulary.nearest(np, word, None) for word in query.wanted]
            if not any(len(numbers) for numbers, _ in found):
                continue
            some, own, starts = own_numbers()
            if not len(some):
                continue
            if is_filtered:
                among = np.zeros(len(vocabulary.sizes), np.bool_)
                among[own] = True
                found = [vocabulary.nearest(np, word, among) for word in query.wanted]
            parts.append((some, *sums(np, vocabulary, found, own, starts)))
        if not parts:
            return slots, np.zeros(len(slots))
        slots, scores, lengths = map(np.concatenate, zip(*parts, strict=True))
        norms = K1 * (1 - B) + K1 * B / (int(lengths.sum()) / len(slots) or 1.0) * lengths
        scores /= 1 + norms
        return slots, LETTERS * (scores - scores.min()) / (float(scores.max()) or 1.0)

    def _weighted(
        self, query: QueryWords, terms: Mapping[str, Term], size: int
    ) -> Iterator[tuple[Word, float]]:
        """Yield each word of a query with its share of the coverage."""
        whole, weights = _weights(query.covered, terms, size)
        shares = dict(zip(query.covered, weights, strict=True))
        for word in query.wanted:
            yield word, shares.get(word, 0.0) / (whole or 1.0)

    def _similar(self, word: Word) -> Iterator[tuple[str, float]]:
        """Yield the terms with similar letters, the least similar first, then those of a word."""
        found: dict[str, float] = {}
        for each in self._vocabularies:
            found |= each.similar(word)
        yield from sorted(found.items(), key=itemgetter(1))
        for term in word:
            yield term, 1.0

    def _holders(self, found: int, word: Word, terms: Iterable[tuple[str, float]]) -> int:
        """Return how many documents have a word or a similar term, given how many were found."""
        if self._everywhere is None:
            return found
        known = self._everywhere.holders
        others = sum(known.get(term, 0) for term, _ in terms if term not in word)
        few = max(known.get(term, 0) for term in word) + others
        return min(max(found, few), self._everywhere.size)

    def _dense_norms(self, lengths: Array, total: float, size: int) -> Array:
        lengths *= K1 * B / (total / (size or 1) or 1.0)
        lengths += K1 * (1 - B)
        return lengths


@lru_cache(maxsize=512)
def _content(words: tuple[Word, ...]) -> Sequence[Word]:
    return tuple(content_words(words))


def _sums(np: Array, slots: Array, weights: Array, width: int) -> Array:
    sums: Array = np.bincount(slots, weights, width)
    return sums.astype(np.float64, copy=False)  # of nothing they are integers


def _fused(query: QueryWords, words: float, near: float) -> float:
    """Return the factor on scores by similar words, given the best ones by words and by these."""
    return query.similar * (words or 1.0) / near if near else 0.0


def rarity(holders: int, size: int) -> float:
    return log(1 + (size - holders + 0.5) / (holders + 0.5))


def _top(scores: Mapping[int, float], few: int) -> list[int]:
    """Return the slots of the best scores to compare by letters, with those equal to the last.

    Without the equal ones if these are many; never some of them, as their order is by chance.
    """
    least = min(nlargest(few, scores.values()), default=0.0)
    top = [slot for slot, score in scores.items() if score >= least * (1 - _ROUNDING)]
    if len(top) > _MOST_EQUAL * few:
        top = [slot for slot in top if scores[slot] > least * (1 + _ROUNDING)]
    return top


def _dense_top(np: Array, scores: Array, few: int) -> Array:
    """Return the result of `_top` for the scores of all slots."""
    at: Array = np.flatnonzero(scores > 0.5 * float(scores.max()))
    if len(at) < few:
        at = np.flatnonzero(scores)
    found = scores[at]
    if len(at) > few:
        least = np.partition(found, -few)[-few]
        equal = at[found >= least * (1 - _ROUNDING)]
        at = equal if len(equal) <= _MOST_EQUAL * few else at[found > least * (1 + _ROUNDING)]
    return at


def _weights(
    wanted: Sequence[Word], terms: Mapping[str, Term], size: int
) -> tuple[float, list[float]]:
    """Return the sum of the weights of a query's words in coverage, and each weight.

    A word with several terms, such as a Korean word with its particle, is covered by any of them
    and has the weight of its rarest term that occurs in a document. If each term counted
    separately, the particles would lower the coverage of Korean questions compared with English
    ones.
    """
    least = max(size, _LEAST_SIZE)
    unknown = rarity(1, size) * rarity(0, least) / rarity(1, least)
    weights: list[float] = []
    for word in wanted:
        holders = [count for term in word if (count := terms[term].holders)]
        weights.append(_LEAST_WEIGHT + (rarity(min(holders), size) if holders else unknown))
    return sum(weights), weights
