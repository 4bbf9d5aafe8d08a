"""SettableClock: a clock that moves only when a test moves it."""

from datetime import UTC, datetime, timedelta

from factmem.models.when import utc

__all__ = ["SettableClock"]

START = datetime(2001, 2, 3, 4, 5, 6, tzinfo=UTC)
"""The initial time of a clock: long ago, so that a test notices the use of another clock."""


class SettableClock:
    """A `TimeProvider` that returns the time it was set to. For tests only: it has no lock.

    Args:
        now: The initial time, an aware datetime.
    """

    def __init__(self, now: datetime = START) -> None:
        self.now: datetime = utc(now, "time to set a clock to")
        """The current time; set it to any aware datetime, an earlier one too."""

    def __call__(self) -> datetime:
        """Return the time."""
        return self.now

    def advance(self, span: timedelta = timedelta(seconds=1)) -> datetime:
        """Advance the time by a span, which may be negative, and return it."""
        self.now += span
        return self.now
