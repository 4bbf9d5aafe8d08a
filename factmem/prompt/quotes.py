"""Quotes: their place in a text, and negations, which no quote may leave out."""

import re
from collections.abc import Sequence

from factmem.prompt.folding import FoldedText

__all__ = ["find_quote", "has_negation"]


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
    """Whether a negation is among the words of a text in English, German, Korean or a like language.

    French, Spanish, Italian, Portuguese, Dutch, the Nordic languages, Russian, Polish, Turkish,
    Japanese and Chinese are read as well, by their commonest words.
    """
    return _NEGATION.search(text) is not None


def find_quote(text: FoldedText, parts: Sequence[str]) -> tuple[int, int] | None:
    """Return the span of a quote's parts, in order, with gaps that hold no negation; or None."""
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
