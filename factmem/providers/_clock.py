"""The clocks of stores: a monotonic clock, and the clock of a database server."""

from datetime import UTC, datetime, timedelta
from threading import Lock

from factmem._arguments import expect_function
from factmem.models.clock import TimeProvider, stamp, system_clock, utc


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
        """Return the time for reading a place whose last entry was recorded at `recorded_at`.

        Raises:
            ValueError: The clock returned a naive datetime.
        """
        read = self.recording()
        with self._lock:
            self._latest = max(read, self._latest)
            return max(self._latest, recorded_at)

    def recording(self, recorded_at: str = "") -> str:
        """Return the time for recording an entry, no earlier than `recorded_at`.

        Raises:
            ValueError: The clock returned a naive datetime.
        """
        return max(stamp(utc(self._clock(), "time of the clock")), recorded_at)

    def start_in_child(self) -> None:
        """Create a new lock in a forked child. The parent's may be held by a thread not copied."""
        self._lock = Lock()


class ServerClock:
    """The clock of the database server, so that hosts whose clocks differ agree.

    It is this host's clock, shifted by the difference that the newest connection found.
    """

    def __init__(self) -> None:
        self._offset = timedelta(0)

    def __call__(self) -> datetime:
        return datetime.now(UTC) + self._offset

    def set(self, microseconds: int) -> None:
        """Set the clock to the server's time, in microseconds since 1970."""
        server = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=microseconds)
        self._offset = server - datetime.now(UTC)
