"""Keywords that models write: matched to known ones, or tidied into new ones."""

import unicodedata
from collections.abc import Iterable
from typing import Any

from factmem.models.facts import Concept
from factmem.models.names import checked_name
from factmem.models.text import normalized

__all__ = ["Keywords", "alike", "near_key", "tidy_keyword"]


MAX_KEYWORD = 64
"""The longest keyword, in characters, that a model may make up."""

_LONGEST = 1_000
"""The longest text that is read as a keyword. A name has at most 200 characters in NFC, and
decomposed at most 4 times as many."""

_PART_MARKS = frozenset("+#")
"""Marks that are part of a keyword: "c++" is not "c"."""
_PATH_MARKS = frozenset("/\\")
"""Marks of paths: a keyword must not look like one."""
_FILLERS = frozenset(
    ("a", "an", "current", "currently", "home", "my", "own", "personal", "the", "user", "users")
)
"""Words that do not change the meaning of a keyword: "home-city" and "user-city" are "city"."""


def tidy_keyword(text: str) -> str:
    """Return a keyword as words in lower case, joined by hyphens.

    Raises:
        ValueError: It looks like a path, holds control characters, or has no letter or digit; or
            it is longer than 64 characters.
    """
    if len(text) > _LONGEST:
        raise ValueError(f"is longer than {MAX_KEYWORD} characters")
    plain = normalized("NFKC", text)
    if _PATH_MARKS & set(plain) or ".." in plain:
        raise ValueError("looks like a path")
    words = [""]
    for char, before in zip(plain, " " + plain, strict=False):
        kind = unicodedata.category(char)
        if kind == "Cc" and not char.isspace():
            raise ValueError("holds control characters")
        if kind[0] not in "LMN" and char not in _PART_MARKS:
            words.append("")
        elif kind == "Lu" and before.islower():
            words.append(char)
        else:
            words[-1] += char
    keyword = "-".join(each for each in words if each).casefold()
    if not any(char.isalnum() for char in keyword):
        raise ValueError("has no letter or digit")
    if len(keyword) > MAX_KEYWORD:
        raise ValueError(f"is longer than {MAX_KEYWORD} characters")
    return checked_name(keyword, "keyword")


class Keywords:
    """The known keywords, found by any spelling of them.

    "Preferred Language", "preferred_language" and "preferredLanguage" are all
    "preferred-language" if that is known. If several look alike, an exact match has priority, then
    the one that was added first.
    """

    def __init__(self, concepts: Iterable[Concept[Any, Any]]) -> None:
        self._exact: set[str] = set()
        self._alike: dict[str, str] = {}
        self._near: dict[tuple[str, ...], str] = {}
        for concept in concepts:
            self.add(concept.keyword)

    def add(self, keyword: str) -> None:
        """Add a known keyword."""
        self._exact.add(keyword)
        self._alike.setdefault(alike(keyword), keyword)
        if key := near_key(keyword):
            self._near.setdefault(key, keyword)

    def known(self, text: str) -> str | None:
        """Return the known keyword with this spelling, or None for a new one."""
        if len(text) > _LONGEST:
            return None
        exact = normalized("NFC", text.strip())
        return exact if exact in self._exact else self._alike.get(alike(text))

    def near(self, keyword: str) -> str | None:
        """Return a known keyword with the same words in any order, singular or plural, or None."""
        return self._near.get(near_key(keyword))


def alike(keyword: str) -> str:
    """Return a key that is equal for keywords that look alike."""
    plain = normalized("NFKC", keyword[:_LONGEST]).casefold()
    kept = "".join(c for c in plain if unicodedata.category(c)[0] in "LMN" or c in _PART_MARKS)
    return kept or plain


def near_key(keyword: str) -> tuple[str, ...]:
    """Return a key that is equal for keywords of the same words: "hobbies" and "user-hobby"."""
    try:
        words = tidy_keyword(keyword).split("-")
    except ValueError:
        return ()
    singular = {_singular(word) for word in words}
    return tuple(sorted(singular - _FILLERS or singular))


def _singular(word: str) -> str:
    if not word.isascii() or len(word) < 4 or word.endswith(("ss", "us", "is")):
        return word
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    if word.endswith(("ches", "shes", "sses", "xes", "zes")):
        return word[:-2]
    return word.removesuffix("s")
