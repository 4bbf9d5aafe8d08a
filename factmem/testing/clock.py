"""A clock that stands still until a test moves it."""

from datetime import UTC, datetime, timedelta

from factmem.models.clock import utc

__all__ = ["START", "SettableClock"]


START = datetime(2001, 2, 3, 4, 5, 6, tzinfo=UTC)
"""What a new clock shows: a time long ago, so that a store that asks another clock is found out."""


class SettableClock:
    """A `TimeProvider` that shows what it was set to. Tests only: it has no lock.

    Args:
        now: What it shows at first, as an aware datetime.
    """

    def __init__(self, now: datetime = START) -> None:
        self.now: datetime = utc(now, "time to set a clock to")
        """What it shows; set it to any aware datetime, an earlier one too."""

    def __call__(self) -> datetime:
        """Tell the time that is shown."""
        return self.now

    def advance(self, span: timedelta = timedelta(seconds=1)) -> datetime:
        """Move it by a span, back with a negative one, and return what it shows then."""
        self.now += span
        return self.now
