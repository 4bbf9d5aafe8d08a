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
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from heapq import nlargest
from itertools import chain
from math import log
from operator import itemgetter
from typing import NamedTuple, TypeAlias

from factmem._text.analysis import FUNCTION_WORDS, Word, content_words, words
from factmem.providers.results import Letters
from factmem.recall._letters import Vocabulary, grams, is_compared
from factmem.recall._place_vectors import Array, numpy_or_none


class Document(NamedTuple):
    """The weighted counts of a document's terms."""

    own: Mapping[str, float]
    """Of its own terms, with the counts that its neighbours add to these."""
    beside: Mapping[str, float]
    """Of the terms that only its neighbours have."""

    @property
    def length(self) -> float:
        """The sum of all counts."""
        return sum(self.own.values()) + sum(self.beside.values())


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

    __slots__ = ("arrays", "counts", "holders", "own", "slots")

    def __init__(self) -> None:
        self.slots = array("I")
        self.counts = array("f")
        """The weighted count of each document, including the text around it."""
        self.own = bytearray()
        """1 if the document itself has the term, 0 if only its neighbours have it."""
        self.holders = 0
        """The number of documents that have the term themselves."""
        self.arrays: Term | None = None
        """The same as numpy arrays, cached from the first search for the term to its next
        change."""

    def put(self, slot: int, count: float, *, is_own: bool) -> None:
        slots = self.slots
        at = len(slots) if not slots or slots[-1] < slot else bisect_left(slots, slot)
        slots.insert(at, slot)
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


class PostingLists:
    """The terms of documents in numbered slots. Calls must not overlap with a change."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        """The number of each term; not used again for another one."""
        self._postings: list[_Postings | None] = []
        """The postings of each term; None if no document has it any more."""
        self._terms: list[str] = []
        self.vocabulary = Vocabulary(self._terms)
        """The terms of the documents."""
        self._held: list[array[int] | None] = []
        """The numbers of each slot's terms, first of its own ones; None without a document."""
        self._own = array("I")
        """The number of own terms of each slot."""

    def own(self, slot: int) -> list[str]:
        """Return the terms that the document of a slot has itself."""
        return [self._terms[number] for number in (self._held[slot] or ())[: self._own[slot]]]

    def own_numbers(self, np: Array, slots: Iterable[int]) -> tuple[list[int], Array, list[int]]:
        """Return slots with such terms, the numbers of these as an array, and how many each has."""
        kept, numbers, sizes = list[int](), array("I"), list[int]()
        for slot in slots:
            if (held := self._held[slot]) and (size := self._own[slot]):
                kept.append(slot)
                numbers += held if size == len(held) else held[:size]
                sizes.append(size)
        return kept, np.frombuffer(numbers, np.uint32), sizes

    def __contains__(self, slot: int) -> bool:
        return slot < len(self._held) and self._held[slot] is not None

    def put(self, slot: int, document: Document) -> None:
        """Add a document to a slot that has none.

        Args:
            slot: A number of at least 0. Slots should have few gaps.
            document: The terms of the document.
        """
        self._grow(slot + 1)
        numbers = array("I")
        for part, is_own in ((document.own, True), (document.beside, False)):
            for term, counted in part.items():
                number = self._numbers.get(term)
                if number is None:
                    number = self._numbers[term] = len(self._terms)
                    self._terms.append(term)
                    self._postings.append(_Postings())
                if (postings := self._postings[number]) is not None:
                    postings.put(slot, counted, is_own=is_own)
                numbers.append(number)
        self._held[slot] = numbers
        self._own[slot] = len(document.own)

    def _grow(self, width: int) -> None:
        self._own.extend([0] * (width - len(self._held)))
        self._held += [None] * (width - len(self._held))

    def drop(self, slot: int) -> None:
        """Remove the document of a slot, if there is one."""
        held = self._held[slot] if slot < len(self._held) else None
        if held is None:
            return
        for number in held:
            if (postings := self._postings[number]) is None:
                continue
            postings.drop(slot)
            if not postings.slots:
                self.vocabulary.drop(number)
                del self._numbers[self._terms[number]]
                self._terms[number], self._postings[number] = "", None
        self._held[slot] = None

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
        """Return the documents of a term as numpy arrays; `mask` is a mask of slots or None."""
        postings = self._of(term)
        if postings is None:
            return NO_TERM
        held = postings.arrays
        if held is None:
            slots: Array = np.array(postings.slots, np.intp)
            own = slots
            if not postings.is_all_own:
                own = slots[np.array(postings.own, np.bool_)]
            counts = np.array(postings.counts, np.float64)
            held = postings.arrays = Term(len(own), slots, counts, own)
        if mask is None:
            return held
        slots, counts, own = held.slots, held.counts, held.own
        kept, own = mask[slots], own[mask[own]]
        return Term(len(own), slots[kept], counts[kept], own)


_K1, _B = 1.2, 0.75
"""The saturation of repeated terms, and the strength of length normalisation."""

_LEAST_WEIGHT = 1.0
"""The least weight of a word in coverage. By rarity alone, a word that all documents have would
weigh nothing compared with one that none has: if all facts are about printers, "printer broken"
would find nothing. With 2, a person's name alone would be enough for a match."""

_LEAST_SIZE = 50
"""The least number of documents for the ratio of the weight of a word that no document has to that
of a word that one document has. With two documents the unknown word would weigh so much that the
right fact would not cover a question of four words."""

SIMILAR = 0.5
"""The weight of the best score by similar words beside the best one by words."""

LETTERS = 0.4
"""The weight of the best score by letters, beside the best one of both."""

_LETTERED = 30
"""The documents that are scored by letters, the best by words. 20 find fewer, 100 no more."""

_MOST_EQUAL = 100
"""The most of them with those that are equal to the last one."""

_ROUNDING = 1e-9
"""Sums of floats depend on their order."""

_WEIGHT_STEP = 16
"""Weights are multiples of 1/16, so that their sums are exact in any order."""

WordScores = dict[int, tuple[float, float]]
"""BM25 and coverage by slot, for the documents that have a term of the query."""


class QueryWords(NamedTuple):
    """The words of a query."""

    wanted: Sequence[Word]
    """The words to search for."""
    covered: Sequence[Word]
    """The words among them that count in coverage."""


class DenseScores(NamedTuple):
    """BM25 and coverage of every slot, as numpy arrays; 0 for a document without a term."""

    bm25: Array
    coverage: Array


Fields: TypeAlias = Mapping[str, str]
"""The strings of a document by field name."""

Around: TypeAlias = Sequence[tuple[str, float]]
"""The strings around a document, with their weights."""


class Everywhere(NamedTuple):
    """The statistics of all documents, where an index has only the candidates of a question."""

    size: int
    length: float
    """The sum of their lengths."""
    holders: Mapping[str, int]
    """How many documents have each term of the question, and each similar one."""
    vocabularies: Sequence[Letters]
    """The terms of the documents, place by place."""


class TermIndex:
    """An index of documents in numbered slots, by their terms.

    The scores do not depend on the order in which documents were put and dropped. Calls must not
    overlap with a change: threads need a lock.

    Args:
        weights: The weight of a term in each field, by the field's name. A field that is not named
            has weight 1; 0 omits a field. Weights are rounded to multiples of 1/16.
        analyze: Splits documents and queries into words and their terms.
        recurring: Groups of fields whose strings many documents share. The strings of a group are
            analysed together, and this process caches some thousand such analyses.
        everywhere: The statistics to score with; by default those of the documents in the index.
        has_letters: Whether documents are compared by the letters of a question, too.
    """

    def __init__(
        self,
        *,
        weights: Mapping[str, float] | None = None,
        analyze: Callable[[str], Sequence[Word]] = words,
        recurring: Sequence[Collection[str]] = (),
        everywhere: Everywhere | None = None,
        has_letters: bool = True,
    ) -> None:
        self._everywhere = everywhere
        self._has_letters = has_letters
        self._own: dict[int, list[str]] = {}
        """The own terms of each document, in an index for one question."""
        self._weights = {name: _rounded(weight) for name, weight in (weights or {}).items()}
        self._analyze = analyze
        self._groups = [
            (tuple(group), tuple(self._weights.get(name, 1.0) for name in group))
            for group in recurring
        ]
        self._recurring = frozenset(chain.from_iterable(recurring))
        self._lists = PostingLists()
        self._lengths: array[float] = array("d")
        self._total = 0.0
        self._count = 0
        self._vocabularies: Sequence[Letters] = [self._lists.vocabulary]
        if everywhere is not None:
            self._vocabularies = everywhere.vocabularies
        self._norms: Array | None = None
        """The length term in the denominator for each document, cached until the next change."""

    def __len__(self) -> int:
        return self._count

    def put(self, slot: int, fields: Fields, around: Around = ()) -> None:
        """Index a document; it replaces the document in its slot.

        Args:
            slot: A number of at least 0. Slots should have few gaps.
            fields: Strings by field name.
            around: The strings around the document, with their weights.
        """
        document = self.document(fields, around)
        self.drop(slot)
        if self._everywhere is not None:  # an index for one question needs no other terms
            self._own[slot] = [*document.own]
            wanted = self._everywhere.holders
            parts = ({t: n for t, n in part.items() if t in wanted} for part in document)
            self._lists.put(slot, Document(*parts))
        else:
            self._lists.put(slot, document)
        self._norms = None  # each document changes the average length
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

    def slots(self, term: str, np: Array | None = None) -> Sequence[int]:
        """Return the slots of the documents that have a term themselves; as an array with numpy."""
        lists = self._lists
        return lists.term(term, None).own if np is None else lists.dense_term(np, term, None).own

    def query(self, words: Sequence[Word], name: Collection[str] = ()) -> QueryWords:
        """Return the words of a query to search for.

        Args:
            words: The words of a question, as returned by `analyze`.
            name: The terms of an entity's name that already restricts the query. Every document of
                that entity has them, so they do not count in coverage.
        """
        wanted = content_words(words) or list(dict.fromkeys(words))
        covered = [word for word in wanted if not any(term in name for term in word)]
        return QueryWords(wanted, covered or wanted)

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
        if self._everywhere is not None:
            size, average = self._everywhere.size, self._everywhere.length / self._everywhere.size
        find = partial(self._lists.term, among=among)
        terms = self._found(query, find)
        constant, per_length = _K1 * (1 - _B), _K1 * _B / (average or 1.0)
        scores: dict[int, float] = {}
        for term in terms.values():
            weight = _idf(term.holders, size) * (_K1 + 1)
            for slot, count in zip(term.slots, term.counts, strict=True):
                norm = constant + per_length * self._lengths[slot]
                scores[slot] = scores.get(slot, 0.0) + weight * count / (count + norm)
        near, covered = dict[int, float](), dict.fromkeys(scores, 0.0)
        for word, weight in self._weighted(query, terms, size):
            best: dict[int, float] = {}
            for share, term in self._similar(word, terms, find):
                best.update(dict.fromkeys(term.own, share))
            idf = _idf(self._holders(len(best), word), size)
            for slot, share in best.items():
                norm = constant + per_length * self._lengths[slot]
                near[slot] = near.get(slot, 0.0) + share * idf / (1 + norm)
                covered[slot] = covered.get(slot, 0.0) + share * weight
        ratio = _fused(max(scores.values(), default=0.0), max(near.values(), default=0.0))
        whole = {slot: scores.get(slot, 0.0) + ratio * near.get(slot, 0.0) for slot in covered}
        most = max(whole.values(), default=0.0)
        top = _top(whole) if self._has_letters else ()
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
        find = partial(self._lists.dense_term, np, mask=mask)
        terms = self._found(query, find)
        scores, covered = np.zeros(len(norms)), np.zeros(len(norms))
        for held in terms.values():
            if len(held.slots):
                counts: Array = held.counts
                parts = counts * (_idf(held.holders, size) * (_K1 + 1))
                parts /= counts + norms[held.slots]
                scores[held.slots] += parts
        if len(scores):
            covered, near = self._dense_near(np, query, terms, find, norms=norms, size=size)
            near *= _fused(float(scores.max()), float(near.max()))
            scores += near
            most = float(scores.max())
            top = _dense_top(np, scores) if self._has_letters else ()
            by_letters = self._dense_letters if self._everywhere is None else self._by_letters
            for slot, share in by_letters(query, top, is_filtered=mask is not None):
                scores[slot] += most * share
        return DenseScores(scores, covered)

    def _dense_near(
        self,
        np: Array,
        query: QueryWords,
        terms: Mapping[str, Term],
        find: Callable[[str], Term],
        *,
        norms: Array,
        size: int,
    ) -> tuple[Array, Array]:
        """Return coverage, and the scores by similar words."""
        covered, near = np.zeros(len(norms)), np.zeros(len(norms))
        last = np.empty(len(norms), np.intp)
        for word, weight in self._weighted(query, terms, size):
            found = [each for each in self._similar(word, terms, find) if len(each[1].own)]
            if not found:
                continue
            *alike, (share, term) = found
            parts = [(share, term.own)]
            if alike:
                # Of several similar terms in a document the most similar one counts: the last.
                at: Array = np.concatenate([each.own for _, each in alike])
                shares = np.array([share for share, _ in alike])
                order = np.arange(len(at))
                last[at] = order
                last[term.own] = -1
                is_last = last[at] == order
                shares = shares.repeat([len(each.own) for _, each in alike])
                parts.append((shares[is_last], at[is_last]))
            idf = _idf(self._holders(sum(len(at) for _, at in parts), word), size)
            for shares, at in parts:
                covered[at] += shares * weight
                near[at] += shares * idf
        near /= 1 + norms
        return np.minimum(covered, 1.0, out=covered), near  # as floats sum to 1 + 2e-16

    def _by_letters(
        self, query: QueryWords, slots: Sequence[int], *, is_filtered: bool
    ) -> Iterator[tuple[int, float]]:
        """Yield documents with their BM25 by the letters of a query, above that of the last one.

        The difference between the best one and 0 is `LETTERS`. A document counts a group of letters
        once for each of its terms.
        """
        if not slots:
            return
        asked = frozenset[str]().union(*map(grams, chain.from_iterable(query.wanted)))
        counts, lengths = dict[int, Counter[str]](), dict[int, int]()
        for slot in slots:
            terms = self._lists.own(slot) if self._everywhere is None else self._own[slot]
            own = [term for term in terms if is_compared(term)]
            telling = (asked & grams(term) for term in own if term not in FUNCTION_WORDS)
            counts[slot] = Counter(chain.from_iterable(telling))
            lengths[slot] = sum(len(grams(term)) for term in own)
        size, names = len(slots), list(asked)
        if is_filtered:  # other documents must not affect the scores
            holders = [sum(gram in each for each in counts.values()) for gram in names]
        else:
            size = sum(map(len, self._vocabularies))
            holders = [*map(sum, zip(*(v.counts(names) for v in self._vocabularies), strict=True))]
        idf = {gram: _idf(few, size) for gram, few in zip(names, holders, strict=True)}
        average = sum(lengths.values()) / (len(lengths) or 1) or 1.0
        scores = {
            slot: sum(
                idf[gram] * few / (few + _K1 * (1 - _B + _B * lengths[slot] / average))
                for gram, few in found.items()
            )
            for slot, found in counts.items()
        }
        best, least = max(scores.values(), default=0.0), min(scores.values(), default=0.0)
        for slot, score in scores.items():
            yield slot, LETTERS * (score - least) / (best or 1.0)

    def _dense_letters(
        self, query: QueryWords, slots: Sequence[int], *, is_filtered: bool
    ) -> Iterable[tuple[int, float]]:
        """Return the result of `_by_letters`, by numpy."""
        np: Array = numpy_or_none()
        lists, vocabulary = self._lists, self._lists.vocabulary
        asked = list(frozenset[str]().union(*map(grams, chain.from_iterable(query.wanted))))
        slots, own, sizes = lists.own_numbers(np, slots)
        if not (slots and asked and len(vocabulary)):
            return ()
        rows = vocabulary.rows(asked)
        size, holders = len(vocabulary), np.array([*map(len, rows)])
        has = np.zeros((len(vocabulary.sizes), len(asked)), np.uint8)
        numbers = np.concatenate(rows, dtype=np.intp, casting="unsafe")  # an empty row has floats
        has[numbers, np.arange(len(asked)).repeat(holders)] = 1
        has[vocabulary.functional] = 0
        starts = np.cumsum(sizes) - sizes
        counts = np.add.reduceat(has[own], starts, dtype=np.uint16)
        lengths = np.add.reduceat(
            np.frombuffer(vocabulary.sizes, np.uint8)[own], starts, dtype=np.intp
        )
        if is_filtered:
            size, holders = len(slots), np.count_nonzero(counts, axis=0)
        idf = np.log(1 + (size - holders + 0.5) / (holders + 0.5))
        average = int(lengths.sum()) / len(slots) or 1.0
        norms = _K1 * (1 - _B) + _K1 * _B / average * lengths
        scores = (counts / (counts + norms[:, None])) @ idf
        scores = LETTERS * (scores - scores.min()) / (float(scores.max()) or 1.0)
        return zip(slots, scores.tolist(), strict=True)

    def _weighted(
        self, query: QueryWords, terms: Mapping[str, Term], size: int
    ) -> Iterator[tuple[Word, float]]:
        """Yield each word of a query with its share of the coverage."""
        whole, weights = _weights(query.covered, terms, size)
        shares = dict(zip(query.covered, weights, strict=True))
        for word in query.wanted:
            yield word, shares.get(word, 0.0) / (whole or 1.0)

    def _found(self, query: QueryWords, find: Callable[[str], Term]) -> dict[str, Term]:
        """Return the documents of the terms of a query."""
        terms = {term: find(term) for term in chain.from_iterable(query.wanted)}
        if self._everywhere is None:
            return terms
        holders = self._everywhere.holders
        return {term: each._replace(holders=holders.get(term, 0)) for term, each in terms.items()}

    def _similar(
        self, word: Word, terms: Mapping[str, Term], find: Callable[[str], Term]
    ) -> Iterator[tuple[float, Term]]:
        """Yield the documents of terms with similar letters, the least similar first, then its own."""
        found: dict[str, float] = {}
        for each in self._vocabularies:
            found |= each.similar(word)
        for term, share in sorted(found.items(), key=itemgetter(1)):
            yield share, find(term)
        for term in word:
            yield 1.0, terms[term]

    def _holders(self, found: int, word: Word) -> int:
        """Return how many documents have a word or a similar one, given how many were found."""
        if self._everywhere is None:
            return found
        terms = {*word}.union(*(each.similar(word) for each in self._vocabularies))
        few = sum(self._everywhere.holders.get(term, 0) for term in terms)
        return min(max(found, few), self._everywhere.size)

    def _dense_norms(self, lengths: Array, total: float, size: int) -> Array:
        lengths *= _K1 * _B / (total / (size or 1) or 1.0)
        lengths += _K1 * (1 - _B)
        return lengths

    def document(self, fields: Fields, around: Around = ()) -> Document:
        """Return the terms of a document, as `put` indexes them."""
        analyze, own, beside = self._analyze, dict[str, float](), dict[str, float]()
        for names, of_group in self._groups:
            texts = tuple([fields.get(name, "") for name in names])
            _add(own, _recurring(analyze, texts, of_group))
        for name, text in fields.items():
            if name not in self._recurring and (weight := self._weights.get(name, 1.0)):
                for term in chain.from_iterable(analyze(text)):
                    own[term] = own.get(term, 0.0) + weight
        for text, weight in around:
            _add(beside, _recurring(analyze, (text,), (_rounded(weight),)))
        for term in own.keys() & beside.keys():
            own[term] += beside.pop(term)
        return Document(own, beside)


def _add(counts: dict[str, float], more: Mapping[str, float]) -> None:
    for term, counted in more.items():
        counts[term] = counts.get(term, 0.0) + counted


def _rounded(weight: float) -> float:
    return round(weight * _WEIGHT_STEP) / _WEIGHT_STEP


@lru_cache(maxsize=2**13)
def _recurring(
    analyze: Callable[[str], Sequence[Word]], texts: tuple[str, ...], weights: tuple[float, ...]
) -> Mapping[str, float]:
    """Return the weighted count of each term of some texts."""
    counts: dict[str, float] = {}
    for text, weight in zip(texts, weights, strict=True):
        if weight:
            for term in chain.from_iterable(analyze(text)):
                counts[term] = counts.get(term, 0.0) + weight
    return counts


def _fused(words: float, near: float) -> float:
    """Return the factor on scores by similar words, given the best ones by words and by similar words."""
    return SIMILAR * (words or 1.0) / near if near else 0.0


def _idf(holders: int, size: int) -> float:
    return log(1 + (size - holders + 0.5) / (holders + 0.5))


def _top(scores: Mapping[int, float]) -> list[int]:
    """Return the slots of the best scores that are compared by letters, with those equal to the last.

    Without the equal ones if these are many; never some of them, as their order is by chance.
    """
    least = min(nlargest(_LETTERED, scores.values()), default=0.0)
    top = [slot for slot, score in scores.items() if score >= least * (1 - _ROUNDING)]
    if len(top) > _MOST_EQUAL:
        top = [slot for slot in top if scores[slot] > least * (1 + _ROUNDING)]
    return top


def _dense_top(np: Array, scores: Array) -> list[int]:
    """Return the result of `_top` for the scores of all slots."""
    at: Array = np.flatnonzero(scores > 0.5 * float(scores.max()))
    if len(at) < _LETTERED:
        at = np.flatnonzero(scores)
    found = scores[at]
    if len(at) > _LETTERED:
        least = np.partition(found, -_LETTERED)[-_LETTERED]
        equal = at[found >= least * (1 - _ROUNDING)]
        at = equal if len(equal) <= _MOST_EQUAL else at[found > least * (1 + _ROUNDING)]
    top: list[int] = at.tolist()
    return top


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
    unknown = _idf(1, size) * _idf(0, least) / _idf(1, least)
    weights: list[float] = []
    for word in wanted:
        holders = [count for term in word if (count := terms[term].holders)]
        weights.append(_LEAST_WEIGHT + (_idf(min(holders), size) if holders else unknown))
    return sum(weights), weights
