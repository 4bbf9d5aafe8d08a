"""Hints in a question: the entity and the days it names."""

import re
from collections.abc import Collection, Iterable
from datetime import datetime
from functools import lru_cache
from typing import NamedTuple

from factmem.recall._arrays import Array
from factmem.recall._lexical.analysis import Word, words
from factmem.recall._lexical.function_words import FUNCTION_WORDS

__all__ = ["Day", "asked_days", "day_number", "name_terms", "named_entity"]


class Day(NamedTuple):
    """A day or a month, with or without its year; 0 for a part that is not named."""

    year: int
    month: int
    day: int

    def has(self, day: "int | Array") -> "bool | Array":
        """Whether a `day_number` is this day or in this month, also for each item of an array."""
        is_month = day // 100 % 100 == self.month
        is_year = not self.year or day // 10_000 == self.year
        return is_month & is_year & (not self.day or day % 100 == self.day)


@lru_cache(maxsize=1024)
def name_terms(entity: str) -> frozenset[str]:
    """Return the terms by which a question names an entity; empty if they are too common."""
    terms = frozenset(term for word in words(entity) for term in word)
    is_telling = any(not term.isdecimal() and term not in FUNCTION_WORDS for term in terms)
    return terms if is_telling else frozenset()


def named_entity(asked: Iterable[Word], entities: Collection[str]) -> str | None:
    """Return the only entity that a question names; None if it names none or several.

    Args:
        asked: The words of the question.
        entities: The entities of all searched places.
    """
    if not entities:
        return None
    terms = {term for word in asked for term in word}
    named = [entity for entity in entities if (name := name_terms(entity)) and name <= terms]
    return named[0] if len(named) == 1 else None


_MONTHS = {
    name: number
    for number, names in enumerate(
        (
            ("january", "jan", "januar", "jänner"),
            ("february", "feb", "februar"),
            ("march", "mar", "märz"),
            ("april", "apr"),
            ("may", "mai"),
            ("june", "jun", "juni"),
            ("july", "jul", "juli"),
            ("august", "aug"),
            ("september", "sept", "sep"),
            ("october", "oct", "oktober", "okt"),
            ("november", "nov"),
            ("december", "dec", "dezember", "dez"),
        ),
        start=1,
    )
    for name in names
}
_NAME = "|".join(sorted(_MONTHS, key=len, reverse=True))
_days = re.compile(
    r"(?<!\d)(?P<y1>[12]\d{3})-(?P<m1>\d{1,2})(?:-(?P<d1>\d{1,2}))?(?!\d)"  # 2026-05-17, 2026-05
    r"|(?<!\d)(?:(?P<y2>[12]\d{3})[년年] ?)?(?P<m2>\d{1,2})[월月](?: ?(?P<d2>\d{1,2})[일日])?"
    rf"|(?<![^\W_])(?:(?P<d3>\d{{1,2}})(?:st|nd|rd|th)?\.? (?:of )?)?(?P<m3>{_NAME})\b\.?"
    r"(?: (?P<d4>\d{1,2})(?:st|nd|rd|th)?(?!\d))?(?:,? (?P<y3>[12]\d{3})(?!\d))?",
    re.IGNORECASE,
)
_AMBIGUOUS = frozenset({"may", "mar", "march", "jan", "dec", "sep"})
"""Names of months that are also words or names. Without a number next to them, they count only if
they are capitalised and not at the start of a sentence."""


def day_number(when: datetime) -> int:
    """Return the day of a time as a number for `Day.has`, such as 20260517."""
    return when.year * 10_000 + when.month * 100 + when.day


def asked_days(question: str) -> list[Day]:
    """Return the days and months that a question names.

    Supports English, German, Korean, Japanese, Chinese and ISO 8601.
    """
    found: list[Day] = []
    for match in _days.finditer(question[:4000]):
        groups = match.groupdict()
        name = groups["m3"]
        year, day = (
            next((int(groups[each]) for each in keys if groups[each]), 0)
            for keys in (("y1", "y2", "y3"), ("d1", "d2", "d3", "d4"))
        )
        is_word = name and name.lower() in _AMBIGUOUS and not (year or day)
        opening = question[: match.start()].rstrip()[-1:]
        if is_word and (name.islower() or opening in ("", ".", "!", "?")):
            continue
        month = _MONTHS[name.lower()] if name else int(groups["m1"] or groups["m2"])
        if 1 <= month <= 12 and day <= 31:
            found.append(Day(year, month, day))
    return found
