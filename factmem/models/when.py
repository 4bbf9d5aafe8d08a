"""When: a year, a month, a day or a moment, in the precision and time zone it was given in.

Clocks, also of stores, aware UTC times, and stamps: times as the strings that entries store.
"""

import re
from calendar import monthrange
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta, tzinfo
from functools import lru_cache
from threading import Lock
from typing import TypeAlias

import orjson

from factmem._arguments import expect, expect_function
from factmem.errors import InputValueError
from factmem.models._values import with_article

__all__ = ["StoreClock", "TimeProvider", "When", "system_clock"]

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)


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
        raise InputValueError(
            f"{with_article(what)} is naive: give it a time zone, as in datetime.now(UTC)"
        )
    try:
        return when.astimezone(UTC)
    except OverflowError:
        raise InputValueError(
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


def micros(text: str) -> int:
    """Return a stamp as microseconds since 1970."""
    return (moment(text) - EPOCH) // MICROSECOND


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


_PERIOD = re.compile(r"(\d{4})(?:-(\d\d)(?:-(\d\d))?)?", re.ASCII)
_EXAMPLE = (
    "'2026', '2026-05', '2026-05-03', '2026-05-03[Asia/Seoul]', '2026-05-03T10:00+09:00' "
    "or an aware datetime"
)
_FIRST, _LAST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class When:
    """A year, a month, a day or a moment: `When("2026-05")`, `When("2026-05-03[Asia/Seoul]")`.

    The text is ISO 8601, followed by the name of a time zone in brackets as in RFC 9557. A year,
    month or day without a zone is one of UTC; a moment needs an offset or a zone. `since` and
    `until` of facts also accept a `date`, an aware `datetime` and the text alone.

    Raises:
        ValueError: The text is no such time, or its zone is unknown.
    """

    text: str
    begin: datetime = field(init=False, repr=False, compare=False)
    """Its first moment, in UTC."""
    end: datetime = field(init=False, repr=False, compare=False)
    """The first moment after it, in UTC. Of a moment the moment itself."""

    def __post_init__(self) -> None:
        begin, end = _bounds(expect(self.text, str, "When", "When('2026-05')"))
        object.__setattr__(self, "begin", begin)
        object.__setattr__(self, "end", end)

    def __str__(self) -> str:
        return self.text

    def day_in(self, zone: tzinfo) -> str:
        """Return the year, month or day; of a moment its day in a time zone."""
        plain = self.text.partition("[")[0]
        is_moment = _PERIOD.fullmatch(plain) is None
        return day_in(self.begin, zone) if is_moment else plain

    @classmethod
    def of(cls, given: "WhenLike", name: str) -> "When":
        """Return what an argument means; errors have its name.

        Raises:
            ValueError: It is a naive datetime, or a string that is no time.
            TypeError: It is of another type.
        """
        if isinstance(given, When):
            return given
        if isinstance(given, str):
            try:
                return cls(given)
            except ValueError as exc:
                raise InputValueError(f"{name}: {exc}") from None
        expect(given, (date, datetime), name, f"{name}='2026-05-03'")
        if not isinstance(given, datetime):
            return cls(given.isoformat())
        if given.utcoffset() is None:
            raise InputValueError(f"{name} is naive: give it a time zone, or pass a date")
        zone = getattr(given.tzinfo, "key", None)
        return cls(given.isoformat() if zone in {None, "UTC"} else f"{given.isoformat()}[{zone}]")


def between(begin: datetime, end: datetime) -> When:
    """Return the time between two moments.

    What held in it are all values that held at any of it.
    """
    span = object.__new__(When)
    for name, value in (("text", f"{stamp(begin)}/{stamp(end)}"), ("begin", begin), ("end", end)):
        object.__setattr__(span, name, value)
    return span


EVER = between(datetime(1000, 1, 1, tzinfo=UTC), datetime(9999, 1, 1, tzinfo=UTC))
"""The time in which every value that ever held did so."""

WhenLike: TypeAlias = When | date | str
"""What `since` and `until` accept: a `When`, its text, a date or an aware datetime."""


def _bounds(text: str) -> tuple[datetime, datetime]:
    plain, bracket, zone = text.partition("[")
    place = _zone(zone) if bracket else None
    try:
        if (found := _PERIOD.fullmatch(plain)) is None:
            moment = datetime.fromisoformat(plain)
            if moment.tzinfo is None:
                if place is None:
                    raise ValueError
                moment = moment.replace(tzinfo=place)
            return moment.astimezone(UTC), moment.astimezone(UTC)
        year, month, day = (None if each is None else int(each) for each in found.groups())
        first = date(year or 0, month or 1, day or 1)
        last = first.replace(month=month or 12)
        last = last.replace(day=day or monthrange(last.year, last.month)[1])
        return _midnight(first, place), _midnight(last, place, days=1)
    except (ValueError, OverflowError):
        raise InputValueError(f"A time must be {_EXAMPLE}") from None


def _midnight(day: date, place: tzinfo | None, *, days: int = 0) -> datetime:
    try:
        day += timedelta(days=days)
        return datetime(day.year, day.month, day.day, tzinfo=place or UTC).astimezone(UTC)
    except OverflowError:  # 9999-12-31 often stands for "never"
        return _FIRST if day.year == 1 else _LAST


def _zone(bracketed: str) -> tzinfo:
    try:
        return zone_named(bracketed.removesuffix("]") if bracketed.endswith("]") else "")
    except ValueError:  # the name may come from a user's message
        raise InputValueError(
            "The time zone is unknown: '2026-05-03[Asia/Seoul]' has one"
        ) from None


@lru_cache(maxsize=64)
def zone_named(name: str) -> tzinfo:
    """Return the time zone with a name of the IANA database."""
    from zoneinfo import ZoneInfo  # few facts name a zone

    try:
        return ZoneInfo(name)
    except (KeyError, OSError, ValueError):
        message = f"There is no time zone {name!r}: use a name such as 'Asia/Seoul'"
        raise InputValueError(message) from None


@lru_cache(maxsize=4096)
def when_of(text: str) -> When:
    """Return the time of a stored text."""
    return When(text)


@lru_cache(maxsize=4096)
def begin_of(text: str) -> str:
    """Return the first moment of a stored text, as a stamp."""
    return stamp(when_of(text).begin)


@lru_cache(maxsize=4096)
def end_of(text: str) -> str:
    """Return the first moment after a stored text, as a stamp."""
    return stamp(when_of(text).end)


class StoreClock:
    """A clock that never goes back, even if the underlying clock does. Thread-safe.

    An expired value stays expired: a reading is at least the previous one, and at least the time of
    the place's last entry. Entries are recorded with the underlying clock's time, so a clock that
    was wrong while it was only read has no lasting effect.
    """

    def __init__(self, clock: TimeProvider = system_clock) -> None:
        self._clock = expect_function(clock, "clock", "clock=lambda: datetime.now(UTC)")
        self._lock = Lock()
        self._latest = ""

    def now(self, recorded_at: str = "") -> str:
        """Return the time for reading a place whose last entry was recorded at `recorded_at`."""
        read = self.recording()
        with self._lock:
            self._latest = max(read, self._latest)
            return max(self._latest, recorded_at)

    def recording(self, recorded_at: str = "") -> str:
        """Return the time for recording an entry, no earlier than `recorded_at`."""
        return max(stamp(utc(self._clock(), "time of the clock")), recorded_at)

    def micros(self) -> int:
        """Return the time for recording an entry, in microseconds since 1970."""
        return (utc(self._clock(), "time of the clock") - EPOCH) // MICROSECOND

    def start_in_child(self) -> None:
        """Create a new lock in a forked child. The parent's may be held by a thread not copied."""
        self._lock = Lock()


class ServerClock:
    """This host's clock, shifted to the time of the database server, so that all hosts agree."""

    def __init__(self) -> None:
        self._offset = timedelta(0)

    def __call__(self) -> datetime:
        return datetime.now(UTC) + self._offset

    def set(self, microseconds: int) -> None:
        server = EPOCH + timedelta(microseconds=microseconds)
        self._offset = server - datetime.now(UTC)
