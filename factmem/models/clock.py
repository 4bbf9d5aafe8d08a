"""Clocks, aware UTC times, and stamps: the strings by which entries record a time."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import TypeAlias

import orjson

from factmem._arguments import expect
from factmem.models.names import with_article

__all__ = ["TimeProvider", "moment", "stamp", "system_clock", "utc"]


def utc(when: datetime, what: str) -> datetime:
    """Return an aware datetime in UTC.

    Raises:
        ValueError: It is naive.
        TypeError: It is not a datetime.
    """
    if type(when) is not datetime:
        expect(when, datetime, what, "datetime.now(UTC)")
    if when.tzinfo is UTC:
        return when
    if when.utcoffset() is None:
        raise ValueError(
            f"{with_article(what)} is naive: give it a time zone, as in datetime.now(UTC)"
        )
    return when.astimezone(UTC)


def stamp(when: datetime) -> str:
    """Return an aware datetime as a stamp. Stamps sort as their times do."""
    if when.tzinfo is not UTC:  # facts hold UTC already
        when = when.astimezone(UTC)
    # A quarter of a microsecond; isoformat takes one, and each save needs two stamps.
    text = orjson.dumps(when, option=orjson.OPT_UTC_Z)[1:-1].decode()
    return text if when.microsecond else f"{text[:-1]}.000000Z"


def moment(text: str) -> datetime:
    """Return the datetime of a stamp."""
    return datetime.fromisoformat(text)


TimeProvider: TypeAlias = Callable[[], datetime]
"""Returns the time as an aware datetime. A store records entries and judges expiry by it."""


def system_clock() -> datetime:
    """Return the time of this machine."""
    return datetime.now(UTC)
