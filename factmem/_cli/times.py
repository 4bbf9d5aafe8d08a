"""Times and time spans: typed ones, such as 30d and 2026-03-01, and those in tables."""

from datetime import UTC, date, datetime, timedelta

from factmem._cli.exits import CommandError
from factmem.models.when import When

_UNITS = {"d": 86_400, "h": 3600, "m": 60, "s": 1}


def parse_age(text: str) -> timedelta:
    """Parse a time span such as 30d, 12h, 45m or 10s."""
    number, unit = text[:-1], text[-1:]
    if unit not in _UNITS or not number.isascii() or not number.isdigit() or len(number) > 9:
        raise CommandError("A time span must be a whole number followed by d, h, m or s: 30d")
    try:
        return timedelta(seconds=int(number) * _UNITS[unit])
    except OverflowError:
        raise CommandError("The time span is too long: use one such as 30d") from None


def parse_time(text: str | None, *, is_end: bool = False) -> datetime | None:
    """Parse a time, a day in UTC, or a time span before now; None for None.

    With `is_end` a day means its last moment, because its hours belong to it.
    """
    if text is None:
        return None
    try:
        when = datetime.fromisoformat(text.replace("W", "?"))  # a week is neither
        if is_end and _is_day(text):
            when += timedelta(days=1, microseconds=-1)
    except ValueError:
        try:
            return datetime.now(UTC) - parse_age(text)
        except (CommandError, OverflowError):
            raise CommandError(
                "A time must be a day, a time or a time span: 2026-03-01, 2026-03-01T09:30Z, 7d"
            ) from None
    return when if when.tzinfo else when.replace(tzinfo=UTC)


def _is_day(text: str) -> bool:
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True


def parse_when(text: str | None) -> When | None:
    """Parse a year, a month, a day, a moment, or a time span before now; None for None."""
    try:
        if text is not None and text[-1:] in _UNITS:
            return When.of(datetime.now(UTC) - parse_age(text), "time")
        return None if text is None else When(text)
    except (ValueError, OverflowError) as exc:
        raise CommandError(str(exc)) from None


def time_words(when: datetime | None) -> str:
    """Return a time in UTC; empty for None."""
    return "" if when is None else when.strftime("%Y-%m-%d %H:%MZ")


def ago(when: datetime | None) -> str:
    """Return a time relative to now if it is less than 30 days away, otherwise its day."""
    if when is None:
        return ""
    seconds = (datetime.now(UTC) - when).total_seconds()
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if size <= abs(seconds) < 30 * 86_400:
            count = f"{int(abs(seconds) // size)} {unit}"
            return f"{count} ago" if seconds > 0 else f"in {count}"
    return "now" if abs(seconds) < 60 else when.strftime("%Y-%m-%d")
