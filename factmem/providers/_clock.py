"""The clock of a store: monotonic over one that may be set back."""

from threading import Lock

from factmem._arguments import expect_function
from factmem.ledger.entries import stamp
from factmem.models.clock import TimeProvider, system_clock, utc


class StoreClock:
    """A clock that does not go back, over one that may. Safe for threads.

    What has expired once stays expired: a reading is at least the one before it, and at least the
    time of the last entry of the place that it is for. What is recorded carries the clock's time at
    that moment, so that a clock which was wrong while it was only read spoils nothing for good.
    """

    def __init__(self, clock: TimeProvider = system_clock) -> None:
        self._clock = expect_function(clock, "clock", "clock=lambda: datetime.now(UTC)")
        self._lock = Lock()
        self._latest = ""

    def now(self, recorded_at: str = "") -> str:
        """Return the time to read a place by, whose last entry was recorded at `recorded_at`.

        Raises:
            ValueError: The clock returned a naive datetime.
        """
        read = self.recording()
        with self._lock:
            self._latest = max(read, self._latest)
            return max(self._latest, recorded_at)

    def recording(self, recorded_at: str = "") -> str:
        """Return the time to record something at, no earlier than `recorded_at`.

        Raises:
            ValueError: The clock returned a naive datetime.
        """
        return max(stamp(utc(self._clock(), "time of the clock")), recorded_at)

    def start_in_child(self) -> None:
        """Take a new lock in a forked child, as the parent's may be held by no thread here."""
        self._lock = Lock()
