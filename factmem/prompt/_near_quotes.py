"""Quotes that a model copied inexactly: the words of the message that they mean.

Models write "I am" for "I'm", "she" for "I", drop a word or an accent, and put "User said:" before
their quotes. A near quote is found by letters alone: most letters of the quote's words follow in
the same order in one place of the message. Short words weigh little, in any language, and numbers
must be equal. What is returned, and stored, are the message's own words.
"""

import re
from collections.abc import Iterator, Sequence
from html import unescape
from typing import NamedTuple

from factmem._text.spelling import letters_of
from factmem.models._values import normalized
from factmem.prompt._transcript import FoldedText, has_negation

_LEAST = 0.6
"""The least share of a quote's letters that are in the message."""
_MOST_BETWEEN = 0.5
"""The most letters between the matching words, as a share of those that match."""
_FEWEST = 6
"""Fewer matching letters are in too many messages to prove anything; half of it if they are letters
of a script that writes a word with one or two of them."""
_STEM = 4
"""Words with so many equal first letters are forms of one word."""
_MOST_SKIPPED = 4
"""The most words of the message that are skipped between two matching ones."""
_MOST_WORDS = 5_000
_MOST_QUOTED = 80
_PIECE = re.compile(r"[^\W_]+")
_SPOKEN = re.compile(r"^[^:\n\"]{1,40}[:,]\s*(?=\S)")
"""What a model puts before a quote: "User said:"."""

_INSIDE = re.compile(r"[\"“„«「『]([^\"”“»」』]+)[\"”“»」』]")


class _Word(NamedTuple):
    letters: str
    start: int
    end: int

    @property
    def weight(self) -> int:
        return len(self.letters) * (1 if self.letters.isascii() else 2)


def near_span(text: FoldedText, quote: str) -> tuple[int, int] | None:
    """Return the span that an inexact quote means, with the same numbers and negation, or None."""
    said = _words(text.plain)[:_MOST_WORDS]
    for form in _forms(quote):
        asked = _words(FoldedText(form).plain)
        if asked and len(asked) <= _MOST_QUOTED and (span := _found(text, said, asked, form)):
            return span
    return None


def _forms(quote: str) -> Iterator[str]:
    plain = unescape(quote).strip()
    if (head := _SPOKEN.match(plain)) is not None:
        yield plain[head.end() :]
    if (inside := _INSIDE.search(plain)) is not None:
        yield inside.group(1)
    yield plain


def _found(
    text: FoldedText, said: Sequence[_Word], asked: Sequence[_Word], quote: str
) -> tuple[int, int] | None:
    total = sum(each.weight for each in asked)
    best, best_places = 0.0, list[int]()
    for start, word in enumerate(said):
        if not any(_is_same(word, each) for each in asked[:3]):
            continue
        places = _aligned(said, asked, start)
        hit = sum(said[at].weight for at in places)
        between = sum(
            said[at].weight for at in range(places[0], places[-1] + 1) if at not in places
        )
        if between <= _MOST_BETWEEN * hit and hit - between / 2 > best:
            best, best_places = hit - between / 2, places
    if not best_places:
        return None
    hit = min(sum(said[at].weight for at in best_places), total)
    if hit < _LEAST * total or hit < _FEWEST:
        return None
    first, last = best_places[0], best_places[-1]
    first = _extended(text.plain, said, first, _missing_before(said[first], asked))
    span = said[first].start, said[last].end
    words = text.plain[span[0] : span[1]]
    is_equal = _numbers(words) == _numbers(quote) and has_negation(words) == has_negation(quote)
    return span if is_equal else None


def _aligned(said: Sequence[_Word], asked: Sequence[_Word], start: int) -> list[int]:
    """Return the places of the words of a quote that follow each other from a place on."""
    places = list[int]()
    at = start
    for each in asked:
        limit = start + 1 if not places else at + 1 + _MOST_SKIPPED
        for place in range(at, min(limit, len(said))):
            if _is_same(said[place], each):
                places.append(place)
                at = place + 1
                break
    return places


def _missing_before(first: _Word, asked: Sequence[_Word]) -> int:
    """Return how many words of a quote stand before the first one that the message has."""
    return next(number for number, each in enumerate(asked) if _is_same(first, each))


def _extended(plain: str, said: Sequence[_Word], first: int, count: int) -> int:
    """Return where a span begins that has the words in place of the first of the quote."""
    for _ in range(count + bool(count)):  # one more: "I'm" is two words
        if not first or plain[said[first - 1].end : said[first].start].strip(" '"):
            break
        first -= 1
    return first


def _is_same(one: _Word, other: _Word) -> bool:
    first, second = one.letters, other.letters
    if first == second:
        return True
    if min(len(first), len(second)) < _STEM or first.isdigit() or second.isdigit():
        return False
    return first[:_STEM] == second[:_STEM]


def _numbers(text: str) -> list[str]:
    return sorted(re.findall(r"\d+", normalized("NFKC", text)))


def _words(text: str) -> list[_Word]:
    """Return the words of a text in plain letters, single characters of scripts without spaces."""
    found = list[_Word]()
    for piece in _PIECE.finditer(text):
        for letters, start, end in letters_of(piece.group()):
            found.append(_Word(letters, piece.start() + start, piece.start() + end))
    return found
