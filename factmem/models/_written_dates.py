"""Dates in writing: days, months and years, in digits and with names of months."""

import re
from datetime import date, timedelta
from typing import NamedTuple

from factmem.models._text import normalized

_MONTH_NAMES = (
    ("jan", "january", "januar", "jänner"), ("feb", "february", "februar"),
    ("mar", "march", "märz"), ("apr", "april"), ("may", "mai"), ("jun", "june", "juni"),
    ("jul", "july", "juli"), ("aug", "august"), ("sep", "sept", "september"),
    ("oct", "october", "oktober", "okt"), ("nov", "november"), ("dec", "december", "dezember",
    "dez"),
)  # fmt: skip
MONTHS = {name: month for month, names in enumerate(_MONTH_NAMES, 1) for name in names}
"""The number of each month's name in English and German."""
MONTH = "|".join(sorted(MONTHS, key=len, reverse=True))
"""A pattern of these names."""
YEAR = r"(?:19|20)\d\d"


_PATTERNS = (
    rf"(?<!\d)(?P<y>{YEAR})[-/.](?P<m>\d{{1,2}})(?:[-/.](?P<d>\d{{1,2}}))?(?!\d)",
    rf"(?<!\d)(?P<y>{YEAR})[年년]\s*(?P<m>\d{{1,2}})[月월](?:\s*(?P<d>\d{{1,2}})[日일])?",
    r"(?<!\d)(?P<m>\d{1,2})[月월]\s*(?P<d>\d{1,2})[日일]",
    rf"(?<!\d)(?P<d>\d{{1,2}})\.\s?(?P<m>\d{{1,2}})\.(?P<y>{YEAR})",
    rf"(?<!\d)(?P<d>\d{{1,2}})(?:st|nd|rd|th)?\.?\s+(?:of\s+)?(?P<n>{MONTH})\b\.?,?(?:\s+(?P<y>{YEAR}))?",
    rf"\b(?P<n>{MONTH})\b\.?\s+(?P<d>\d{{1,2}})(?!\d)(?:st|nd|rd|th)?,?(?:\s+(?P<y>{YEAR}))?",
    rf"\b(?P<n>{MONTH})\b\.?,?\s+(?:of\s+)?(?P<y>{YEAR})",
    rf"(?<![\d.,])(?P<y>{YEAR})(?!\d|[.,]\d)",
)
DATES = [re.compile(pattern, re.IGNORECASE) for pattern in _PATTERNS]


class WrittenDate(NamedTuple):
    """A written date: a day, a month, a year, or a day or month without its year."""

    year: int | None
    month: int | None = None
    day: int | None = None

    def span(self, year: int) -> tuple[date, date] | None:
        """Return the first and the last day, in `year` if it has none of its own."""
        try:
            first = date(self.year or year, self.month or 1, self.day or 1)
        except ValueError:
            return None
        if self.day is not None:
            return first, first
        if self.month is not None:
            return first, month_end(first)
        return first, date(first.year, 12, 31)


def dates_in(text: str) -> tuple[list[WrittenDate], str]:
    """Return the dates in a string, and the string without them."""
    found: list[WrittenDate] = []
    rest = normalized("NFKC", text)
    for pattern in DATES:

        def taken(match: re.Match[str]) -> str:
            found.append(written(match))
            return " "

        rest = pattern.sub(taken, rest)
    return found, rest


def written(match: re.Match[str]) -> WrittenDate:
    """Return the date that a pattern of `DATES` found."""
    given = match.groupdict()
    name = given.get("n")
    month = MONTHS[name.lower()] if name else _int(given.get("m"))
    return WrittenDate(_int(given.get("y")), month, _int(given.get("d")))


def shifted(day: date, days: int) -> date:
    """Return a day some days later; the day itself where no date is left."""
    try:
        return day + timedelta(days)
    except OverflowError:
        return day


def month_after(day: date, months: int) -> date:
    """Return the first day of a month some months later."""
    year, number = divmod(day.year * 12 + day.month - 1 + months, 12)
    return date(min(max(year, 1), 9999), number + 1, 1)


def month_end(day: date) -> date:
    """Return the last day of a month."""
    after = month_after(day, 1)
    return shifted(after, -1) if after > day else date(day.year, 12, 31)


def _int(text: str | None) -> int | None:
    return int(text) if text else None
