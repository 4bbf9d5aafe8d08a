"""PostgresDatabase: the connections to a server, time, and freshness.

Each new connection gets the settings that the policies of row level security read, and the role if
one is configured. A cached place is read without a query only within `max_staleness`. Unless the
application has a clock, each new connection sets the store's clock to the server's, so that hosts
with different clocks agree.
"""

import time
from collections.abc import Callable
from datetime import timedelta
from typing import TypeVar

from factmem.models.when import ServerClock
from factmem.providers._postgres import schema
from factmem.providers._postgres.connections import Connections
from factmem.providers._postgres.session import PostgresSession
from factmem.providers._sql.session import Database, View
from factmem.providers._sql.session import Session as CoreSession

R = TypeVar("R")

_IDLE = "30s"
"""How long a process that hangs inside a transaction keeps a place locked."""

_TIME = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint"


class PostgresDatabase(Database):
    """The connections to a server. Thread-safe.

    Args:
        connections: Creates the pool of connections, given a function that prepares each.
        name: The name of the store, which the policies of row level security read.
        server_clock: A clock that follows the server's; None if the application has its own.
        role: The role that each connection takes.
        max_staleness: How long cached facts may be returned without asking the database.
        lock_seconds: The longest wait for another write to the same place.
    """

    has_checksums = False
    """PostgreSQL checks its pages itself."""
    has_one_store = False
    version = schema.VERSION
    shares_reads = True

    def __init__(
        self,
        connections: Callable[[Callable[[PostgresSession], None]], Connections],
        name: str,
        *,
        server_clock: ServerClock | None,
        role: str | None,
        max_staleness: timedelta,
        lock_seconds: float,
    ) -> None:
        self._connections = connections
        self.connections = connections(self._prepare)
        self.role = role
        self._name = name
        self._number = -1
        """The number of the store, once it is known."""
        self._server_clock = server_clock
        self._stale = max_staleness.total_seconds()
        self._lock_seconds = lock_seconds

    def start_afresh(self) -> None:
        self.connections.start_afresh()

    def close(self) -> None:
        self.connections.close()

    def finish_erasure(self) -> bool:
        return True

    # Tables

    def where(self, session: CoreSession) -> str:
        return own(session).server

    def are_there(self, session: CoreSession) -> bool:
        version = schema.found_version(own(session))
        schema.check_version(version)
        if version:
            schema.check_objects(own(session))
        return version > 0

    def make(self, session: CoreSession) -> None:
        server = own(session)
        if self.role is not None:
            server.configure({"role": "none"})
        schema.migrate(server, self.role)
        if self.role is not None:
            server.configure({"role": self.role})

    def migrate(self) -> None:
        self.as_owner(lambda session, _: schema.migrate(session, self.role))

    # Connections

    def _prepare(self, session: PostgresSession) -> None:
        """Configure a new connection, so that it sees this store and no other."""
        self._prepare_owner(session)
        if self.role is not None:
            session.configure({"role": self.role})

    def _prepare_owner(self, session: PostgresSession) -> None:
        settings = {
            "factmem.name": self._name,
            "factmem.store": str(self._number),
            "lock_timeout": str(int(self._lock_seconds * 1000)),
            "idle_in_transaction_session_timeout": _IDLE,
        }
        session.configure(settings)
        if self._server_clock is not None:
            (row,) = session.rows(_TIME)
            self._server_clock.set(row[0])

    def as_owner(self, work: Callable[[PostgresSession, int], R]) -> R:
        """Do work as the role that logged in, which may lack the right to take the other role."""
        connections = self._connections(self._prepare_owner)
        try:
            return connections.run(work)
        finally:
            connections.close()

    # Work

    def read(self, work: Callable[[CoreSession, int], R]) -> R:
        return self.connections.run(self._noted(work), is_read=True)

    apart = read

    def write(self, work: Callable[[CoreSession, int], R]) -> R:
        return self.connections.run(self._noted(work))

    forget = write_soon = write

    def _noted(self, work: Callable[[CoreSession, int], R]) -> Callable[[PostgresSession, int], R]:
        """Remember the number of the store, for the settings of later connections."""

        def noted(session: PostgresSession, attempt: int) -> R:
            done = work(session, attempt)
            self._number = session.store
            return done

        return noted

    def is_current(self, view: View, key: Callable[[], bytes | None]) -> bool:
        """See `Database.is_current`: within `max_staleness`."""
        return time.monotonic() - view.checked < self._stale


def own(session: CoreSession) -> PostgresSession:
    assert isinstance(session, PostgresSession)  # noqa: S101 - the only session of this dialect
    return session


def asking(work: Callable[[PostgresSession, int], R]) -> Callable[[CoreSession, int], R]:
    """Return work that needs a session of PostgreSQL as work of `StoredPlaces.run`."""
    return lambda session, attempt: work(own(session), attempt)
