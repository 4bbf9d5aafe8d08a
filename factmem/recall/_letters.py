"""Vocabulary: the terms of an index that share letters with a word, whatever its language.

Endings, compounds, typing errors and other spellings change some letters of a word and keep the rest, so
that words are compared by the groups of three letters in them, their beginning and their end included.
The measure is the coefficient of Dice. Letters are folded first: case, width, marks, and letters of other
scripts to Latin ones, so that "Müller", "Mueller" and "Мюллер" are similar.
"""

import unicodedata
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import lru_cache
from heapq import nlargest

from factmem._text.analysis import FUNCTION_WORDS
from factmem.models._values import normalized
from factmem.recall._place_vectors import Array, numpy_or_none

LEAST = 0.4
"""The least similarity of a term. With 0.3 and 0.5 fewer right texts are among the first three."""

_MOST = 20
"""The most similar terms of a word."""

_NEW = 500
"""So many new terms are compared one by one, until the table is made again: 40 ms for 30,000 terms."""

_LATIN = str.maketrans(
    dict(
        zip(
            "абвгґдеєжзиіїйклмнопрстуфхцчшщъыьэюяёў",
            [
                "a",
                "b",
                "v",
                "g",
                "g",
                "d",
                "e",
                "e",
                "zh",
                "z",
                "i",
                "i",
                "i",
                "y",
                "k",
                "l",
                "m",
                "n",
                "o",
                "p",
                "r",
                "s",
                "t",
                "u",
                "f",
                "h",
                "c",
                "ch",
                "sh",
                "sh",
                "",
                "y",
                "",
                "e",
                "yu",
                "ya",
                "e",
                "u",
            ],
            strict=True,
        )
    )
    | dict(
        zip(
            "αβγδεζηθικλμνξοπρσςτυφχψω",
            [
                "a",
                "b",
                "g",
                "d",
                "e",
                "z",
                "i",
                "th",
                "i",
                "k",
                "l",
                "m",
                "n",
                "x",
                "o",
                "p",
                "r",
                "s",
                "s",
                "t",
                "u",
                "f",
                "h",
                "ps",
                "o",
            ],
            strict=True,
        )
    )
    | {"ł": "l", "ø": "o", "đ": "d", "ð": "d", "þ": "th", "\u0131": "i", "æ": "ae", "œ": "oe"}
)
"""Letters that have no decomposition into a Latin one."""


@lru_cache(maxsize=2**14)
def folded(word: str) -> str:
    """Return a word in letters that its other spellings have, too."""
    word = word.casefold()
    if word.isascii():
        return word
    bare = normalized("NFKD", word)
    return "".join(c for c in bare if not unicodedata.combining(c)).translate(_LATIN)


@lru_cache(maxsize=2**15)
def grams(word: str) -> frozenset[str]:
    """Return the groups of three letters in a folded word between its ends."""
    ends = f"_{word}_"
    return frozenset(ends[at : at + 3] for at in range(len(ends) - 2))


def has_letters(term: str) -> bool:
    """Whether a term is compared by letters: not a number, and not one or two characters."""
    return len(term) > 2 and not term.isdecimal()


class Vocabulary:
    """The terms of an index, with the number of documents that have each. Calls must not overlap."""

    def __init__(self) -> None:
        self._terms: list[str] = []
        self._table: _Table | None = None
        self._known: dict[str, None] = {}
        self._of: Mapping[str, int] = {}

    def update(self, terms: Mapping[str, int]) -> None:
        """Take the terms of an index at present; a live view, whose order is that of insertion."""
        self._of = terms
        if len(terms) > len(self._known):
            for term in terms:
                if term not in self._known:
                    self._known[term] = None
                    self._terms.append(term)

    def similar(self, words: Collection[str]) -> dict[str, float]:
        """Return the terms that are similar to any of some words, with their similarities.

        Args:
            words: The terms of one word of a question.
        """
        found: dict[str, float] = {}
        is_known = any(word in self._of for word in words)
        for word in filter(has_letters, words):
            for term, share in self._near(grams(folded(word))):
                is_new = share > found.get(term, 0.0) and term not in words
                # "the" has half of the letters of "theme", and nearly every text has it: a word
                # that the index has is no other spelling of a function word.
                is_word = has_letters(term) and not (is_known and term in FUNCTION_WORDS)
                if is_new and is_word and term in self._of:
                    found[term] = share
        best = nlargest(_MOST, found.items(), key=lambda each: (each[1], each[0]))
        return dict(best)

    def holders(self, asked: Iterable[str]) -> dict[str, int]:
        """Return about how many documents have each of some groups of letters."""
        found = dict.fromkeys(asked, 0)
        start = 0
        if (table := self._whole()) is not None:
            start = len(table)
            found = {each: table.holders(each) for each in found}
        for term in self._terms[start:]:
            for each in grams(folded(term)) & found.keys():
                found[each] += self._of.get(term, 0)
        return found

    def _whole(self) -> "_Table | None":
        """Return the table of most terms; None for few of them or without numpy."""
        np: Array = numpy_or_none() if len(self._terms) > _NEW else None
        if np is None:
            return None
        if self._table is None or len(self._terms) > len(self._table) + _NEW:
            self._table = _Table(np, self._terms, self._of)
        return self._table

    def _near(self, asked: AbstractSet[str]) -> Iterator[tuple[str, float]]:
        start = 0
        if (table := self._whole()) is not None:
            start = len(table)
            for at, share in table.near(asked):
                yield self._terms[at], share
        for term in self._terms[start:]:
            own = grams(folded(term))
            share = 2 * len(own & asked) / (len(own) + len(asked))
            if share >= LEAST:
                yield term, share


class _Table:
    """The groups of letters of many terms, sorted, each with the number of its term."""

    def __init__(self, np: Array, terms: Sequence[str], holders: Mapping[str, int]) -> None:
        self._np = np
        text = "\n".join(f"_{folded(term)}_" for term in terms) + "\n"
        codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32).astype(np.int64)
        numbers = np.cumsum(codes == ord("\n"))
        whole = (codes[:-2] << 42) | (codes[1:-1] << 21) | codes[2:]
        inside = (codes[:-2] != ord("\n")) & (codes[1:-1] != ord("\n")) & (codes[2:] != ord("\n"))
        whole, numbers = whole[inside], numbers[:-2][inside]
        order = np.argsort(whole, kind="stable")
        self._codes: Array = whole[order]
        self._numbers: Array = numbers[order].astype(np.int32)
        self._sizes: Array = np.bincount(numbers, minlength=len(terms))
        self._holders: Array = np.array([holders.get(each, 0) for each in terms])

    def __len__(self) -> int:
        return len(self._sizes)

    def near(self, asked: Collection[str]) -> Iterable[tuple[int, float]]:
        """Return the numbers of similar terms with their similarities."""
        np = self._np
        parts = [self._having(each) for each in asked]
        common = np.bincount(np.concatenate(parts), minlength=len(self))
        shares = 2 * common / (self._sizes + len(asked))
        at = np.flatnonzero(shares >= LEAST)
        return zip(at.tolist(), np.minimum(shares[at], 1.0).tolist(), strict=True)

    def holders(self, asked: str) -> int:
        """Return how many documents have terms with a group of letters, with repetitions."""
        return int(self._holders[self._having(asked)].sum())

    def _having(self, asked: str) -> Array:
        first, last = self._np.searchsorted(self._codes, [_code(asked), _code(asked) + 1])
        return self._numbers[first:last]


def _code(gram: str) -> int:
    first, second, third = map(ord, gram)
    return (first << 42) | (second << 21) | third
