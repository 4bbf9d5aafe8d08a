"""What time it is for a store: never earlier than it was."""

from datetime import UTC, datetime
from threading import Lock

from factmem.entries import stamp
from factmem.models import utc
from factmem.provider import TimeProvider

__all__ = ["StoreClock", "system_clock"]


def system_clock() -> datetime:
    """Tell the time of this machine."""
    return datetime.now(UTC)


class StoreClock:
    """A clock that does not go back, over one that may. Safe for threads.

    What has expired once stays expired: a reading is at least the one before it, and at least the
    time of the last entry of the place that it is for. What is recorded carries the time told at
    that moment, so that a clock which was wrong while it was only read spoils nothing for good.
    """

    def __init__(self, clock: TimeProvider = system_clock) -> None:
        if not callable(clock):
            raise TypeError(
                f"A clock is a function that tells the time, not {type(clock).__name__}: "
                f"clock=lambda: datetime.now(UTC)"
            )
        self._clock = clock
        self._lock = Lock()
        self._latest = ""

    def now(self, recorded_at: str = "") -> str:
        """Return the time to read a place by, whose last entry was recorded at `recorded_at`.

        Raises:
            ValueError: The clock gave a naive datetime.
        """
        told = self.told()
        with self._lock:
            self._latest = max(told, self._latest)
            return max(self._latest, recorded_at)

    def told(self, recorded_at: str = "") -> str:
        """Return the time to record something at, no earlier than `recorded_at`.

        Raises:
            ValueError: The clock gave a naive datetime.
        """
        return max(stamp(utc(self._clock(), "time told by the clock")), recorded_at)

    def start_in_child(self) -> None:
        """Take a new lock in a forked child, as the parent's may be held by no thread here."""
        self._lock = Lock()
