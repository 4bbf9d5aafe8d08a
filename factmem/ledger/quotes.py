"""Quotes that contain purged values: finding the values in them, and taking them out."""

import re
from collections.abc import Iterable, Iterator
from unicodedata import normalize

from factmem.models.values import JsonValue

__all__ = ["REMOVED", "QuotedValues", "texts_in"]


REMOVED = "[…]"
"""Replaces a purged value in a quote."""

# Scripts without spaces are compared character by character, all others word by word.
_TOKEN = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|[^\W\u3040-\u9fff\uac00-\ud7af]+")

_SHORTEST_CODE = 3
"""The fewest characters of a word with a digit that is looked for by itself: a model that writes
"PIN 1234" for "my PIN is 1234" repeats its number."""


_LONGEST = 64
"""The most words that are compared at once; longer values are looked for in parts of so many. A
quote that repeats one word would take quadratic time otherwise."""


class _Node:
    """The words that may follow, in a tree of all values: a quote is walked through once."""

    __slots__ = ("is_end", "next")

    def __init__(self) -> None:
        self.next: dict[str, _Node] = {}
        self.is_end = False


class QuotedValues:
    """Values that are looked for in quotes, whatever case and punctuation they have there.

    Args:
        values: The purged values; the parts of lists and objects count one by one.
        quotes: Quotes that are known to prove one of them. They go whole if no value is found.
    """

    def __init__(self, values: Iterable[JsonValue], quotes: Iterable[str] = ()) -> None:
        self._root = _Node()
        self._quotes = frozenset(quotes)
        for value in values:
            for text in texts_in(value):
                self._add([word for word, _, _ in _words(text)])

    def _add(self, words: list[str]) -> None:
        codes = [[word] for word in words if len(word) >= _SHORTEST_CODE and _has_digit(word)]
        parts = [words[at : at + _LONGEST] for at in range(0, len(words), _LONGEST)]
        for path in (*parts, *codes):
            node = self._root
            for word in path:
                node = node.next.setdefault(word, _Node())
            node.is_end = True

    def are_in(self, quote: str) -> bool:
        """Whether a quote contains one of the values."""
        return quote in self._quotes or next(self._found(quote), None) is not None

    def removed_from(self, quote: str) -> str:
        """Return a quote without the values; empty if it proved one of them in other words."""
        if not self.are_in(quote):
            return quote
        quote = normalize("NFC", quote)
        parts, end = list[str](), 0
        for start, stop in self._found(quote):
            parts += [quote[end:start], REMOVED]
            end = stop
        return "".join([*parts, quote[end:]]) if parts else ""

    def _found(self, quote: str) -> Iterator[tuple[int, int]]:
        """Yield the spans of the values, from left to right, the longest at each word."""
        words = list(_words(quote))
        at = 0
        while at < len(words):
            length = self._longest(words, at)
            if length:
                yield words[at][1], words[at + length - 1][2]
            at += length or 1

    def _longest(self, words: list[tuple[str, int, int]], at: int) -> int:
        node, longest = self._root, 0
        for behind in range(at, len(words)):
            following = node.next.get(words[behind][0])
            if following is None:
                break
            node = following
            if node.is_end:
                longest = behind + 1 - at
        return longest


def _words(text: str) -> Iterator[tuple[str, int, int]]:
    for match in _TOKEN.finditer(normalize("NFC", text)):
        yield normalize("NFKC", match.group()).casefold(), match.start(), match.end()


def texts_in(value: JsonValue, *, keys: bool = False) -> Iterator[str]:
    """Yield the strings and numbers in a value, as strings."""
    rest = [value]
    while rest:
        part = rest.pop()
        if isinstance(part, dict):
            rest += part.values()
            if keys:
                yield from part
        elif isinstance(part, list):
            rest += part
        elif isinstance(part, str):
            yield part
        elif part is not None and not isinstance(part, bool):
            yield str(part)


def _has_digit(word: str) -> bool:
    return any(each.isdigit() for each in word)
