"""The clock of the database server."""

from datetime import UTC, datetime, timedelta


class ServerClock:
    """The clock of the database server, so that hosts whose clocks differ agree.

    It is this host's clock, shifted by the difference that the newest connection found.
    """

    def __init__(self) -> None:
        self._offset = timedelta(0)

    def __call__(self) -> datetime:
        return datetime.now(UTC) + self._offset

    def set(self, microseconds: int) -> None:
        """Take over the server's time, in microseconds since 1970."""
        server = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=microseconds)
        self._offset = server - datetime.now(UTC)
