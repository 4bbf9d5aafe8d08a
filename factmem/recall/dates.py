"""Dates as people write them, so that a question about May finds what was said in May."""

from datetime import date

__all__ = ["date_words"]

_MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)


def date_words(moment: date) -> str:
    """Write a day in English, ISO 8601 and Korean: "17 May 2023 2023-05-17 2023년 5월 17일".

    Analysed by `factmem.recall.analysis.words`, the Korean form also meets questions in Japanese
    and Chinese ("2023年5月"). Month names do not depend on the process's locale.

    Args:
        moment: A date or a datetime, which is taken in the time zone that it carries.
    """
    year, month, day = moment.year, moment.month, moment.day
    iso = f"{year:04}-{month:02}-{day:02}"
    return f"{day} {_MONTHS[month - 1]} {year} {iso} {year}년 {month}월 {day}일"
