"""Comparison of values by their words."""

import unicodedata


def folded(text: str) -> str:
    """Return a text in one width, case and spacing."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def has(text: str, value: str) -> bool:
    """Whether a folded text has a value that does not begin or end inside an English word or number.

    "art" is not in "party", and a Korean noun is in itself with a particle. An empty value is in no text.
    """
    wanted, at = folded(value), -1
    while wanted and (at := text.find(wanted, at + 1)) >= 0:
        end = at + len(wanted)
        before, after = text[at - 1 : at] if at else "", text[end : end + 1]
        if not (_joined(before, wanted[0]) or _joined(wanted[-1], after)):
            return True
    return False


def _joined(before: str, after: str) -> bool:
    both = before + after
    return len(both) == 2 and both.isascii() and both.isalnum()
