"""Keywords that models give: the known one where they mean it, else a tidy new one."""

from collections.abc import Iterable
from typing import Any
from unicodedata import category

from factmem.models.facts import Concept
from factmem.models.names import checked_name
from factmem.models.text import case_folded, normalized

__all__ = ["Keywords", "alike", "tidy_keyword"]


MAX_KEYWORD = 64
"""The longest keyword, in characters, that a model may make up."""

_LONGEST_TEXT = 1_000
"""More than any keyword with its separators: a longer string is rejected unread."""

_PART_MARKS = frozenset("+#")
_PATH_MARKS = frozenset("/\\")


def tidy_keyword(text: str) -> str:
    """Return a keyword as words in lower case, joined by hyphens.

    Raises:
        ValueError: It looks like a path, holds control characters, or has no letter or digit; or
            it is longer than 64 characters.
    """
    if len(text) > _LONGEST_TEXT:
        raise ValueError(f"is longer than {MAX_KEYWORD} characters")
    plain = normalized("NFKC", text)
    if _PATH_MARKS & set(plain) or ".." in plain:
        raise ValueError("looks like a path")
    words: list[str] = []
    word = ""
    for char, before in zip(plain, " " + plain, strict=False):
        kind = category(char)
        if kind == "Cc" and not char.isspace():
            raise ValueError("holds control characters")
        if kind[0] not in "LMN" and char not in _PART_MARKS:
            words.append(word)
            word = ""
        elif kind == "Lu" and before.islower():
            words.append(word)
            word = char
        else:
            word += char
    keyword = "-".join(each for each in (*words, word) if each).casefold()
    if not any(char.isalnum() for char in keyword):
        raise ValueError("has no letter or digit")
    if len(keyword) > MAX_KEYWORD:
        raise ValueError(f"is longer than {MAX_KEYWORD} characters")
    return checked_name(keyword, "keyword")


class Keywords:
    """The keywords that are known, found again in whatever spelling a model gives.

    "Preferred Language", "preferred_language" and "preferredLanguage" all mean
    "preferred-language" when that is known. Of several that look alike the first is meant, unless
    one is written exactly so.
    """

    def __init__(self, concepts: Iterable[Concept[Any, Any]]) -> None:
        self._exact: set[str] = set()
        self._alike: dict[str, str] = {}
        for concept in concepts:
            self.add(concept.keyword)

    def add(self, keyword: str) -> None:
        """Know a keyword from now on."""
        self._exact.add(keyword)
        self._alike.setdefault(alike(keyword), keyword)

    def known(self, text: str) -> str | None:
        """Return the known keyword that is meant, or None for a new one."""
        exact = normalized("NFC", text.strip())
        return exact if exact in self._exact else self._alike.get(alike(text))


def alike(keyword: str) -> str:
    """Return what is the same for keywords that look alike."""
    plain = case_folded(keyword)
    kept = "".join(c for c in plain if category(c)[0] in "LMN" or c in _PART_MARKS)
    return kept or plain
