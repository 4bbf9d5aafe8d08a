"""Times of messages in a history, and their days in prompts."""

from collections.abc import Mapping
from datetime import UTC, datetime, tzinfo
from math import isfinite

_KEYS = ("timestamp", "created_at")
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_LONGEST = 40
_MILLISECONDS = 100_000_000_000
"""Epochs from this number on are in milliseconds: in seconds it is the year 5138."""
_MICROSECONDS = 100_000_000_000_000


def message_time(message: Mapping[str, object], zone: tzinfo) -> datetime | None:
    """Return the time in a message's own fields, or None.

    It is parsed from `timestamp`, then from `created_at`: a datetime, an ISO 8601 string, or
    seconds, milliseconds or microseconds since 1970. A time without a zone, or in UTC, is read in
    `zone`. Anything else is ignored: histories come from many programs, and a wrong field must not
    stop detection.
    """
    for key in _KEYS:
        if (moment := _read(message.get(key), zone)) is not None:
            return moment
    return None


def day_of(moment: datetime) -> str:
    """Return the day of a time in the form of prompts: "2024-05-12, Sunday"."""
    return f"{moment:%Y-%m-%d}, {_DAYS[moment.weekday()]}"


def _read(given: object, zone: tzinfo) -> datetime | None:
    if isinstance(given, datetime):
        return _placed(given, zone)
    if isinstance(given, str) and len(given) <= _LONGEST:
        return _from_text(given.strip(), zone)
    is_number = isinstance(given, int | float) and not isinstance(given, bool)
    return _from_epoch(given, zone) if is_number and isinstance(given, int | float) else None


def _from_text(text: str, zone: tzinfo) -> datetime | None:
    try:
        return _from_epoch(float(text), zone)
    except ValueError:
        pass
    try:
        return _placed(datetime.fromisoformat(text), zone)
    except ValueError:
        return None


def _placed(moment: datetime, zone: tzinfo) -> datetime | None:
    """Return a time with a zone; None if no fact can have it, before the year 1 or after 9999.

    Programs write UTC because they do not know where the user was: it is read in `zone`.
    """
    moment = moment if moment.utcoffset() is not None else moment.replace(tzinfo=zone)
    try:
        in_utc = moment.astimezone(UTC)
        return in_utc.astimezone(zone) if moment.tzinfo is UTC else moment
    except OverflowError:
        return None


def _from_epoch(number: float, zone: tzinfo) -> datetime | None:
    try:
        if not isfinite(number) or number <= 0:
            return None
        if number >= _MICROSECONDS:
            number /= 1_000_000
        elif number >= _MILLISECONDS:
            number /= 1_000
        return datetime.fromtimestamp(number, UTC).astimezone(zone)
    except (OverflowError, OSError, ValueError):
        return None
