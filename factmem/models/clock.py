"""Clocks and aware UTC times."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import TypeAlias

from factmem._arguments import expect
from factmem.models.names import with_article

__all__ = ["TimeProvider", "system_clock", "utc"]


def utc(moment: datetime, what: str) -> datetime:
    """Return an aware datetime in UTC.

    Raises:
        ValueError: It is naive.
        TypeError: It is not a datetime.
    """
    if type(moment) is not datetime:
        expect(moment, datetime, what, "datetime.now(UTC)")
    if moment.tzinfo is UTC:
        return moment
    if moment.utcoffset() is None:
        raise ValueError(
            f"{with_article(what)} is naive: give it a time zone, as in datetime.now(UTC)"
        )
    return moment.astimezone(UTC)


TimeProvider: TypeAlias = Callable[[], datetime]
"""Returns the time as an aware datetime. A store records entries and judges expiry by it."""


def system_clock() -> datetime:
    """Return the time of this machine."""
    return datetime.now(UTC)
