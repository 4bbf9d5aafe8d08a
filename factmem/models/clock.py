"""Clocks: aware UTC times, and who tells them."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import TypeAlias

from factmem.models.names import (
    with_article,
)

__all__ = ["TimeProvider", "system_clock", "utc"]


def utc(moment: datetime, what: str) -> datetime:
    """Return an aware datetime in UTC.

    Raises:
        ValueError: It is naive.
    """
    if not isinstance(moment, datetime):
        raise TypeError(f"{with_article(what)} is a datetime, not {type(moment).__name__}")
    if moment.tzinfo is UTC:
        return moment
    if moment.utcoffset() is None:
        raise ValueError(
            f"{with_article(what)} is naive: give it a time zone, as in datetime.now(UTC)"
        )
    return moment.astimezone(UTC)


TimeProvider: TypeAlias = Callable[[], datetime]
"""Tells the time, as an aware datetime: what a store records entries by and judges expiry by."""


def system_clock() -> datetime:
    """Tell the time of this machine."""
    return datetime.now(UTC)
