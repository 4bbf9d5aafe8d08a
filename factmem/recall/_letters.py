"""Vocabulary: the terms of an index that share letters with a word, whatever its language.

Endings, compounds, typing errors and other spellings change some letters of a word and keep the
rest, so that words are compared by the groups of two and of three letters in them, their beginning
and their end included. The measure is the coefficient of Dice. Letters are folded first: case,
width, marks, and other scripts to Latin: "Müller", "Mueller" and "Мюллер" are similar.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache
from heapq import nlargest
from itertools import chain
from typing import Any
from zlib import crc32

from factmem._text.analysis import FUNCTION_WORDS, Word
from factmem._text.spelling import plain_letters
from factmem.recall._place_vectors import Array, numpy_or_none

# ruff: noqa: RUF001 - Cyrillic and Greek letters that look like Latin ones

LEAST = 0.43
"""The least similarity of a term. With 0.5, fewer right texts are among the first three; with 0.42,
"cat" is similar to "car"."""

_MOST = 10
"""The most similar terms of a word."""

_LONGEST = 64
"""The longest term that is compared."""

_MOST_WORDS = 512
"""The words of questions whose nearest terms are kept, each some kilobytes."""

_NEW = 1_000
"""The table is rebuilt, in 40 ms for 30,000 terms, when this many terms are new, and a tenth of the
others."""

_CYRILLIC = (
    "а:a б:b в:v г:g ґ:g д:d е:e є:e ж:zh з:z и:i і:i ї:i й:y к:k л:l м:m н:n о:o п:p р:r с:s т:t "
    "у:u ф:f х:h ц:c ч:ch ш:sh щ:sh ъ: ы:y ь: э:e ю:yu я:ya ё:e ў:u"
)
_GREEK = (
    "α:a β:b γ:g δ:d ε:e ζ:z η:i θ:th ι:i κ:k λ:l μ:m ν:n ξ:x ο:o π:p ρ:r σ:s ς:s τ:t υ:u φ:f "
    "χ:h ψ:ps ω:o"
)
_LATIN = {ord(each[0]): each[2:] for each in f"{_CYRILLIC} {_GREEK}".split(" ")}


@lru_cache(maxsize=2**15)
def grams(term: str) -> frozenset[str]:
    """Return the groups of two and of three letters in a folded term between its ends.

    By three alone, "voilin" is no "violin": an error changes three of these groups.
    """
    ends = f"_{folded(term)}_"
    return frozenset(ends[at : at + n] for n in (2, 3) for at in range(len(ends) - n + 1))


def folded(word: str) -> str:
    """Return a word in the letters that its spellings have in common."""
    return word.casefold() if word.isascii() else plain_letters(word).translate(_LATIN)


@lru_cache(maxsize=2**12)
def triples(word: Word) -> frozenset[str]:
    """Return the groups of three letters in the terms of a word: many terms have most pairs."""
    return frozenset(gram for term in word for gram in grams(term) if len(gram) == 3)


def term_code(term: str) -> int:
    """Return a number of 24 bits for a term, by which stored documents name it."""
    return crc32(term.encode("utf-8", "surrogatepass")) >> 8


def likeness(asked: int, groups: Any) -> Any:
    """Return a factor by the number of triples of a word, and of all groups of letters of a term.

    1 if both are equally long, and more for a shorter term: long terms share letters by chance.
    """
    return 2 / (1 + groups / (2 * asked + 1))


class Vocabulary:
    """The terms of an index, by number. Calls must not overlap with a change.

    Args:
        terms: The terms by number. More may follow; an empty string is a term that no document has.
    """

    def __init__(self, terms: Sequence[str] = ()) -> None:
        self._terms = terms
        self.sizes = bytearray()
        """The number of groups of letters of each term; 0 for a term that is not compared."""
        self.functional: list[int] = []
        """The numbers of function words, which say nothing of a document."""
        self._new: dict[str, list[int]] = {}
        """The numbers of terms by group of letters, of those that are not in the table."""
        self._table: _Table | None = None
        self._count = 0
        """The number of terms that are compared."""
        self._gone: dict[int, frozenset[str]] = {}
        """The groups of letters of terms that are no longer in any document, until the next
        search."""
        self._similar: dict[Word, dict[str, float]] = {}
        """The similar terms of words, until a term is added or removed."""
        self._nearest: dict[Word, tuple[Any, Any]] = {}
        """The terms that have letters of words, until then."""
        self._rows: dict[str, Any] = {}
        """The numbers of the terms that have a group of letters, until then."""
        self._codes: tuple[Any, Any] = ((), ())
        """The codes of the terms in order, and the numbers of these terms."""

    def drop(self, number: int) -> None:
        """Remove a term; then its string may be replaced."""
        if number < len(self.sizes) and self.sizes[number]:
            self._gone[number] = grams(self._terms[number])

    def __len__(self) -> int:
        """Return the number of terms that are compared."""
        self._follow()
        return self._count

    def similar(self, word: Word) -> dict[str, float]:
        """Return the terms that are similar to those of a word, the least similar first."""
        self._follow()
        found = self._similar.get(word)
        if found is None:
            alike = {term: self._alike(term) for term in word if is_compared(term)}
            # "the" has half of the letters of "theme", and nearly every text has it: a word that
            # the index has is no other spelling of a function word.
            is_known = any(term in each for term, each in alike.items())
            shares = sorted(
                (share, term) for each in alike.values() for term, share in each.items()
            )
            found = self._similar[word] = {
                term: share
                for share, term in shares
                if term not in word and not (is_known and term in FUNCTION_WORDS)
            }
        return found

    def _alike(self, word: str) -> dict[str, float]:
        asked = grams(word)
        rows = self.rows(asked)
        least = LEAST * len(asked) / 2
        common: Iterable[tuple[int, int]]
        if self._table is None:
            common = Counter(chain.from_iterable(rows)).items()
        else:
            common = self._table.common(rows, self.sizes, len(asked))
        shares = (
            (2 * few / (self.sizes[number] + len(asked)), self._terms[number])
            for number, few in common
            if few > least
        )
        best = nlargest(_MOST, (each for each in shares if each[0] >= LEAST))
        return {term: share for share, term in best}

    def nearest(self, np: Array, word: Word, among: Array | None) -> tuple[Array, Array]:
        """Return the terms with letters of a word, and how near they are to it, by numpy.

        See `TermIndex`. `among` is true for the only terms that affect the weight of letters.
        """
        self._follow()
        found = self._nearest.get(word) if among is None else None
        if found is None:
            rows = self.rows(triples(word))
            counts = holders = np.array([*map(len, rows)], np.intp)
            if not counts.any():
                return np.zeros(0, np.intp), np.zeros(0)
            numbers = np.concatenate(rows, dtype=np.intp, casting="unsafe")  # () has floats
            size, sizes = self._count, np.frombuffer(self.sizes, np.uint8)
            if among is not None:
                row_of = np.arange(len(rows)).repeat(counts)
                holders = np.bincount(row_of[among[numbers]], minlength=len(rows))
                size = np.count_nonzero(among * sizes)
            idf = np.log(1 + (size - holders + 0.5) / (holders + 0.5))
            weights = np.bincount(numbers, idf.repeat(counts), len(sizes))
            weights[self.functional] = 0
            numbers = np.flatnonzero(weights if among is None else weights * among)
            weights = weights[numbers] ** 2 / float(idf.sum()) * likeness(len(rows), sizes[numbers])
            found = numbers, weights
            if among is None:
                if len(self._nearest) >= _MOST_WORDS:
                    self._nearest.clear()
                self._nearest[word] = found
        return found

    def rows(self, asked: Iterable[str]) -> list[Any]:
        """Return the numbers of the terms that have each of some groups of letters."""
        self._follow()
        asked = [*asked]
        if new := [gram for gram in asked if gram not in self._rows]:
            rows: Sequence[Any] = [self._new.get(gram, ()) for gram in new]
            self._rows.update(
                zip(new, rows if self._table is None else self._table.rows(new, rows), strict=True)
            )
        return [*map(self._rows.__getitem__, asked)]

    def numbers(self, np: Array, codes: Array) -> Array:
        """Return the numbers of the terms with some codes; -1 for a code that no term has."""
        if len(self._codes[0]) != len(self._terms):
            every = np.array([*map(term_code, self._terms)], np.uint32)
            order = np.argsort(every)
            self._codes = every[order], order
        known, order = self._codes
        at = np.minimum(np.searchsorted(known, codes), len(known) - 1)
        return np.where(known[at] == codes, order[at], -1)

    def counts(self, asked: Collection[str]) -> list[int]:
        """Return how many terms have each of some groups of letters."""
        return [len(row) for row in self.rows(asked)]

    def _follow(self) -> None:
        """Take the terms that were added and removed."""
        start = before = len(self.sizes)
        end = len(self._terms)
        if start == end and not self._gone:
            return
        self._similar.clear()
        self._nearest.clear()
        self._rows.clear()
        for number, own in self._gone.items():
            self.sizes[number] = 0
            for gram in own:
                if number in (row := self._new.get(gram, [])):
                    row.remove(number)
        if self._table is not None:
            self._table.drop(self._gone)
        self._gone.clear()
        done = 0 if self._table is None else self._table.size
        np: Array = numpy_or_none() if end - done > _NEW + done // 10 else None
        if np is not None:
            self._table = _Table(np, self._terms)
            self._new.clear()
            self.sizes, start = self._table.sizes(), end
        for number in range(start, end):
            term = self._terms[number]
            groups = grams(term) if is_compared(term) else ()
            self.sizes.append(min(len(groups), 255))
            for gram in groups:
                self._new.setdefault(gram, []).append(number)
        self._count = end - self.sizes.count(0)
        known = enumerate(self._terms[before:end], before)
        self.functional += [number for number, term in known if term in FUNCTION_WORDS]


def sums(
    np: Array,
    vocabulary: Vocabulary,
    found: Sequence[tuple[Array, Array]],
    own: Array,
    starts: Array,
) -> tuple[Array, Array]:
    """Return the sums of the nearest terms of documents, and how many groups of letters they have.

    `found` are the terms with letters of each word, `own` those of all documents, which begin at
    `starts`.
    """
    sizes = np.frombuffer(vocabulary.sizes, np.uint8)
    is_near = np.zeros(len(sizes), np.bool_)
    is_near[np.concatenate([numbers for numbers, _ in found])] = True
    is_some = is_near[own]
    is_some[starts] = True  # so that every document has one
    some = own[is_some]
    row_of = np.zeros(len(sizes), np.intp)
    row_of[some] = np.arange(1, len(some) + 1)
    near = np.zeros((len(some) + 1, len(found)))
    for n, (numbers, weights) in enumerate(found):
        near[row_of[numbers], n] = weights
    near[0] = 0
    firsts = is_some.cumsum()[starts] - 1
    scores = np.maximum.reduceat(near[row_of[some]], firsts).sum(axis=1)
    return scores, np.add.reduceat(sizes[own].astype(np.intp), starts)


def is_compared(term: str) -> bool:
    """Whether a term is compared: not a number, and of 3 to 64 characters."""
    return 2 < len(term) <= _LONGEST and not term.isdecimal()


class _Table:
    """The groups of letters of many terms, sorted, each with the number of its term."""

    def __init__(self, np: Array, terms: Sequence[str]) -> None:
        self._np = np
        self.size = len(terms)
        lines = (f"_{folded(term)}_\n" if is_compared(term) else "\n" for term in terms)
        text = "".join(lines).encode("utf-32-le", "surrogatepass")
        codes = np.frombuffer(text, np.uint32).astype(np.int64)
        numbers = np.cumsum(codes == ord("\n")).astype(np.int32)
        is_letter = codes != ord("\n")
        pairs = (codes[:-1] << 42) | (codes[1:] << 21)
        is_pair = is_letter[:-1] & is_letter[1:]
        is_triple = is_pair[:-1] & is_letter[2:]
        whole = np.concatenate([pairs[is_pair], (pairs[:-1] | codes[2:])[is_triple]])
        numbers = np.concatenate([numbers[:-1][is_pair], numbers[:-2][is_triple]])
        order = np.argsort(whole, kind="stable")
        whole, numbers = whole[order], numbers[order]
        is_first = np.ones(len(whole), np.bool_)  # a term may have a group of letters twice
        is_first[1:] = (whole[1:] != whole[:-1]) | (numbers[1:] != numbers[:-1])
        self._codes: Array = whole[is_first]
        self._numbers: Array = numbers[is_first]

    def sizes(self) -> bytearray:
        """Return the number of groups of letters of each term."""
        np = self._np
        sizes = np.bincount(self._numbers, minlength=self.size)
        return bytearray(np.minimum(sizes, 255).astype(np.uint8))

    def drop(self, numbers: Collection[int]) -> None:
        """Remove terms."""
        np = self._np
        is_kept = np.ones(self.size, np.bool_)
        is_kept[[each for each in numbers if each < self.size]] = False
        kept = is_kept[self._numbers]
        self._codes, self._numbers = self._codes[kept], self._numbers[kept]

    def rows(self, grams: Sequence[str], more: Sequence[Sequence[int]]) -> list[Array]:
        """Return the numbers of the terms that have each group of letters, with others."""
        np, codes = self._np, [*map(_code, grams)]
        ends = np.searchsorted(self._codes, (codes, [code + 1 for code in codes])).tolist()
        return [
            np.append(self._numbers[first:last], np.array(new, np.int32))
            if new
            else self._numbers[first:last]
            for first, last, new in zip(*ends, more, strict=True)
        ]

    def common(
        self, rows: Sequence[Array], sizes: bytearray, asked: int
    ) -> Iterable[tuple[int, int]]:
        """Return the terms that have enough of some groups, with the number of those they have."""
        np = self._np
        counts = np.bincount(np.concatenate(rows))
        at = np.flatnonzero(counts > LEAST * asked / 2)
        at = at[2 * counts[at] >= 0.999 * LEAST * (np.frombuffer(sizes, np.uint8)[at] + asked)]
        return zip(at.tolist(), counts[at].tolist(), strict=True)


def _code(gram: str) -> int:
    first, second, *third = map(ord, gram)
    return (first << 42) | (second << 21) | sum(third)
