"""Quotes: strings folded for comparison, the search for a quote in them, and negations."""

import re
import unicodedata
from array import array
from collections.abc import Sequence
from functools import lru_cache
from itertools import repeat

from factmem.models._text import case_folded, normalized

_PLAIN_MARKS = str.maketrans(
    "`\u00b4\u2018\u2019\u201a\u201b\u2032\u201c\u201d\u201e\u201f"
    "\u2010\u2011\u2012\u2013\u2014\u2015\u2212",
    "'''''''\"\"\"\"-------",
)
_KEPT_MARKS = frozenset("#%&@")
"""Punctuation that changes what a word means: C# is not C."""


def folded(text: str) -> str:
    """Fold a string for comparing values and questions.

    It folds compatibility forms (NFKC), case and the shapes of quotation marks and dashes, and
    removes white space and invisible characters. Models change these when they copy, and Korean and
    Chinese text has no fixed spaces and line breaks.
    """
    plain = case_folded(text.translate(_PLAIN_MARKS)).translate(_PLAIN_MARKS)
    kept = (c for c in normalized("NFKC", plain) if not c.isspace())
    return "".join(c for c in kept if unicodedata.category(c) != "Cf")


class FoldedText:
    """A string folded for searching quotes: letters, digits and symbols, without case.

    White space, punctuation, emoji and invisible characters are ignored. Every match maps to a
    position in `plain`.
    """

    __slots__ = ("bare", "offsets", "plain")

    def __init__(self, text: str) -> None:
        self.plain: str = normalized("NFKC", text.translate(_PLAIN_MARKS)).translate(_PLAIN_MARKS)
        """The string in NFKC with plain quotation marks and dashes; spaces and case are kept."""
        pieces: list[str] = []
        self.offsets: array[int] = array("L")
        """The position in `plain` of each character of `bare`."""
        for position, char in enumerate(self.plain):
            if piece := _bare(char):
                pieces.append(piece)
                self.offsets.extend(repeat(position, len(piece)))
        self.bare: str = "".join(pieces)
        """The folded string that is searched."""

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Return the span in `plain` of the characters `start` to `end` of `bare`."""
        return self.offsets[start], self.offsets[end - 1] + 1


@lru_cache(maxsize=8192)
def _bare(char: str) -> str:
    """Fold one character; empty if it is ignored in comparisons."""
    category = unicodedata.category(char)
    is_word = category[0] in "LN" or category in {"Mc", "Me", "Mn", "Sm", "Sc"}
    is_selector = "\ufe00" <= char <= "\ufe0f"
    if (not is_word and char not in _KEPT_MARKS) or is_selector:
        return ""
    return unicodedata.normalize("NFKC", char.casefold())


_LONGEST_GAP = 300

_WORDS = (
    # English
    "no|not|never|none|neither|nor|nobody|nothing|nowhere|hardly|without|cannot|cant|dont|doesnt"
    "|didnt|isnt|wasnt|wont|n't"
    # German
    "|nicht|nie|niemals|kein|keine|keinen|keinem|keiner|keines|ohne|weder|kaum"
    # French, Spanish, Italian, Portuguese
    "|ne|pas|jamais|sans|nunca|jam[aá]s|senza|n[aã]o"
    # Dutch, Swedish, Danish, Norwegian
    "|niet|geen|nooit|inte|aldrig|ikke|aldri"
    # Russian, Polish, Turkish
    "|не|нет|никогда|без|nie|nigdy|değil"
)
_NEGATION = re.compile(
    rf"(?<![^\W_])(?:{_WORDS})(?![^\W_])"
    r"|\w(?:n't|n\u2019t)(?!\w)"
    # Korean: before the verb, and the endings of "not", "cannot", "without", "is not"
    r"|(?<!\w)(?:안|못)(?=\s)|않|못하|못했|없|아니(?!면)|말고"
    # Japanese and Chinese
    r"|ない|ません|なかった|ずに|不(?!过|仅|但|同)|没|沒|别|非(?!常)|未(?!来|來)|無い",
    re.IGNORECASE,
)


def has_negation(text: str) -> bool:
    """Return whether a string contains a negation in English, German or Korean.

    The most common words of French, Spanish, Italian, Portuguese, Dutch, the Nordic languages,
    Russian, Polish, Turkish, Japanese and Chinese are recognised as well.
    """
    return _NEGATION.search(text) is not None


def find_quote(text: FoldedText, parts: Sequence[str]) -> tuple[int, int] | None:
    """Return the span of a quote's parts in order; None if not found or a gap has a negation."""
    start = text.bare.find(parts[0])
    if start < 0:
        return None
    end = start + len(parts[0])
    for part in parts[1:]:
        after = text.bare.find(part, end, end + _LONGEST_GAP + len(part))
        if after < 0:
            return None
        if after > end and has_negation(
            text.plain[text.offsets[end - 1] + 1 : text.offsets[after]]
        ):
            return None
        end = after + len(part)
    return text.span(start, end)
