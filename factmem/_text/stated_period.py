"""Periods of values: from when and until when one holds, as far as its sentence says so.

The times of an item are compared with those that are spoken in its sentence, and with its numbers.
"""

import re
from collections.abc import Mapping, Sequence
from datetime import date, datetime

from factmem._text.numbers import numbers_in
from factmem._text.spelling import has_unspaced_script, is_english_or_german
from factmem._text.spoken_time import SpokenTime, WrittenDate, dates_in, spoken_times
from factmem.models.when import When

_CLAUSE = re.compile(r"[,;]|\b(?:but|and now|aber|und jetzt)\b")
"""Where a clause ends: a time beyond it belongs to something else."""
_FEW_WORDS = 4
"""A clause of so few words with a time is nothing but a time."""


def stated_period(
    item: Mapping[str, object],
    around: tuple[str, str, str],
    said_at: datetime,
    *,
    is_event: bool = False,
) -> tuple[When | None, When | None]:
    """Return from when and until when a value holds, as far as its message says so.

    The words decide, and a model only says which of them it means: the precision is theirs, and a
    time that they do not name is left out. Where the words are not read, the numbers decide.

    Args:
        item: The item, with `since` and `until` as a model wrote them.
        around: The sentence of the quote: what is before it, the quote, and what is behind it.
        said_at: When the message was written.
        is_event: Whether the value may be an event. Then "yesterday" says when it began, and not
            that it is over.
    """
    dates = [_first_date(item.get(role)) for role in ("since", "until")]
    if dates == [None, None]:
        return None, None
    *earlier, before = _CLAUSE.split(around[0])
    after, *later = _CLAUSE.split(around[2])
    clause = f"{before}{around[1]}{after}"
    times = spoken_times(clause, said_at.date())
    if not times:  # "In March 2021, I started ..."
        short = [each for each in (*earlier, *later) if len(each.split()) <= _FEW_WORDS]
        times = tuple(time for each in short for time in spoken_times(each, said_at.date()))
    since, until = (
        _supporting(written, role, times)
        for written, role in zip(dates, ("since", "until"), strict=True)
    )
    if not times and not is_english_or_german(clause) and not has_unspaced_script(clause):
        since, until = (_named(each, clause, said_at.date()) for each in dates)
    if is_event and since is not None and until is not None and since.start == until.start:
        until = None
    key = getattr(said_at.tzinfo, "key", "UTC")
    zone = "" if key == "UTC" else f"[{key}]"
    begin = None if since is None else When(since.text("since") + zone)
    finish = None if until is None else When(until.text("until") + zone)
    if begin is not None and finish is not None and finish.end <= begin.begin:
        return None, None
    return begin, finish


def _first_date(given: object) -> WrittenDate | None:
    dates = dates_in(given[:40])[0] if isinstance(given, str) else []
    return dates[0] if dates else None


def _supporting(
    written: WrittenDate | None, role: str, times: Sequence[SpokenTime]
) -> SpokenTime | None:
    """Return the time that a model means by a date; one with its role before one without."""
    span = None if written is None or written.year is None else written.span(written.year)
    if span is None:
        return None
    meant = [
        each
        for each in times
        if each.role in (role, "")
        and (
            (each.first <= span[0] and span[1] <= each.last)
            or (span[0] <= each.first and each.last <= span[1])
        )
    ]
    return max(meant, key=lambda each: each.role == role, default=None)


def _named(written: WrittenDate | None, text: str, said: date) -> SpokenTime | None:
    """Return the time of a model in a language whose times are not read, as far as it is named.

    A year and a day need their numbers, or the number by which they are counted. Without a number
    the day, month and year before and after the message's are taken, and the last months and days:
    models make up other times, and that of the message.
    """
    if written is None or written.year is None:
        return None
    numbers = numbers_in(text)
    if (written.month, written.day) == (1, 1) and not numbers & {1.0}:
        written = written._replace(month=None, day=None)
    year, day = written.year, written.day
    if day is not None and year not in numbers and day not in numbers:
        return _time(written, said) if _is_near(written, said, numbers) else None
    if day is not None and day not in numbers:
        written = written._replace(day=None)
    if year in numbers or day in numbers:
        return _time(written, said)
    return _time(written, said) if _is_near(written, said, numbers) else None


def _is_near(written: WrittenDate, said: date, numbers: set[float]) -> bool:
    span = written.span(said.year)
    if span is None:
        return False
    first = span[0]
    months = (said.year - first.year) * 12 + said.month - (written.month or said.month)
    days = (said - first).days if written.day is not None else 0
    if numbers:
        if written.day is None and written.month in numbers:  # "tháng 5"
            return -1 <= months < 12
        counts = {float(abs(months)), abs(months) / 12, float(abs(days)), abs(days) / 7}
        return bool((counts - {0.0}) & numbers)
    if written.day is not None:
        return -1 <= days <= 7 and days != 0
    if written.month is not None:
        return -1 <= months < 12 and months != 0
    return -1 <= said.year - first.year <= 10 and first.year != said.year


def _time(written: WrittenDate, said: date) -> SpokenTime | None:
    span = written.span(said.year)
    unit = "day" if written.day else "month" if written.month else "year"
    return None if span is None else SpokenTime(*span, "", unit, 0, 0)
