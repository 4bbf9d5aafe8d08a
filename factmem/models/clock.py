"""Clocks, aware UTC times, and stamps: times as the strings that entries store."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta, tzinfo
from typing import TypeAlias

import orjson

from factmem._arguments import expect
from factmem.models._names import with_article

__all__ = ["TimeProvider", "system_clock"]


def utc(when: datetime, what: str) -> datetime:
    """Convert an aware datetime to UTC.

    Raises:
        ValueError: The datetime is naive, or in UTC before the year 1 or after 9999.
        TypeError: The argument is not a datetime.
    """
    if type(when) is not datetime:
        expect(when, datetime, what, "datetime.now(UTC)")
    if when.tzinfo is UTC:
        return when
    if when.utcoffset() is None:
        raise ValueError(
            f"{with_article(what)} is naive: give it a time zone, as in datetime.now(UTC)"
        )
    try:
        return when.astimezone(UTC)
    except OverflowError:
        raise ValueError(
            f"{with_article(what)} must be between the years 1 and 9999 in UTC"
        ) from None


def stamp(when: datetime) -> str:
    """Return an aware datetime as a stamp. Stamps sort in the order of their times."""
    if when.tzinfo is not UTC:  # the times of facts are UTC already
        when = when.astimezone(UTC)
    # Takes a quarter of a microsecond; isoformat takes a whole one. Each save needs two stamps.
    text = orjson.dumps(when, option=orjson.OPT_UTC_Z)[1:-1].decode()
    return text if when.microsecond else f"{text[:-1]}.000000Z"


def moment(text: str) -> datetime:
    """Return the datetime of a stamp."""
    return datetime.fromisoformat(text)


def before(now: str, span: timedelta) -> str:
    """Return the stamp that is `span` earlier than `now`; empty if that is before the year 1."""
    try:
        return stamp(moment(now) - span)
    except OverflowError:
        return ""


TimeProvider: TypeAlias = Callable[[], datetime]
"""Returns the time as an aware datetime. A store uses it to record entries and to check expiry."""


def system_clock() -> datetime:
    """Return the time of this machine."""
    return datetime.now(UTC)


def day_in(moment: datetime, zone: tzinfo) -> str:
    """Return the day of a time in a zone, such as "2026-05-17"."""
    try:
        return moment.astimezone(zone).date().isoformat()
    except OverflowError:  # before the year 1 or after 9999 in that zone
        return moment.date().isoformat()
