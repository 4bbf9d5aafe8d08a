"""PostgresPlaces: the places of a store in PostgreSQL, with the part that differs from other databases.

`StoredPlaces` has the operations; here are connections, time and freshness. Each new connection
gets the settings that the policies of row level security read, and a role if there is one. A view
is presented without a query only within `max_staleness`. Unless the application has a clock, each
new connection sets that of the store to the server's, so that hosts with different clocks agree.

PostgresBackend: the backend of a store in PostgreSQL, in which concurrent reads share a query.
"""

import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import TypeVar

from typing_extensions import override

from factmem.encryption.aes256gcm import Encryption
from factmem.ledger.entries import Entry
from factmem.models.places import Identity
from factmem.providers._backend import Present, ServerClock, StoreClock
from factmem.providers._group_commit import GroupCommit
from factmem.providers._postgres import schema
from factmem.providers._postgres.connections import Connections
from factmem.providers._postgres.item_tables import erase_items, take_out
from factmem.providers._postgres.session import PostgresSession
from factmem.providers._sql.places import View
from factmem.providers._sql.session import Session as CoreSession
from factmem.providers._sql.store import SqlBackend
from factmem.providers._sql.stored_places import StoredPlaces
from factmem.providers._sql.stores import Opening

R = TypeVar("R")

_WARM_PLACES = 10_000
"""The places that are kept in memory."""

_IDLE = "30s"
"""How long a process that hangs inside a transaction keeps a place locked."""

_TIME = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint"


class PostgresTables:
    """The tables of a database; see `Tables`.

    Args:
        role: The role that each connection takes.
    """

    has_checksums = False
    """The server has its own."""
    has_one_store = False
    version = schema.VERSION

    def __init__(self, role: str | None) -> None:
        self.role = role

    def where(self, session: CoreSession) -> str:
        """See `Tables.where`."""
        return _own(session).server

    def are_there(self, session: CoreSession) -> bool:
        """See `Tables.are_there`."""
        version = schema.found_version(_own(session))
        schema.check_version(version)
        if version:
            schema.check_objects(_own(session))
        return version > 0

    def make(self, session: CoreSession) -> None:
        """See `Tables.make`; as the role that logged in."""
        own = _own(session)
        if self.role is not None:
            own.configure({"role": "none"})
        schema.migrate(own, self.role)
        if self.role is not None:
            own.configure({"role": self.role})


def _own(session: CoreSession) -> PostgresSession:
    assert isinstance(session, PostgresSession)  # noqa: S101 - the only session of this dialect
    return session


class PostgresPlaces(StoredPlaces):
    """The places of one store. Every method blocks, but `warm`; all are thread-safe.

    Args:
        connections: Creates the pool of connections, given a function that prepares each.
        store: The name of the store.
        encryption: What wraps the key ring; None for a plain store.
        clock: The clock of the store.
        server_clock: A clock that follows the server's; None if the application has its own.
        role: The role that each connection takes.
        max_staleness: How long cached facts may be returned without asking the database.
        lock_seconds: The longest wait for another write to the same place.
        keep_history: How long older history is kept; None keeps it forever.
        must_exist: Whether a missing store is an error.
    """

    def __init__(
        self,
        connections: Callable[[Callable[[PostgresSession], None]], Connections],
        store: str,
        encryption: Encryption | None,
        clock: StoreClock,
        *,
        server_clock: ServerClock | None,
        role: str | None,
        max_staleness: timedelta,
        lock_seconds: float,
        keep_history: timedelta | None,
        must_exist: bool,
    ) -> None:
        self._connections = connections
        self.connections = connections(self._prepare)
        self.tables = PostgresTables(role)
        self._server_clock = server_clock
        self._stale = max_staleness.total_seconds()
        self._lock_seconds = lock_seconds
        opening = Opening(store, encryption, self.tables, must_exist=must_exist)
        super().__init__(opening, clock, warm_places=_WARM_PLACES, keep_history=keep_history)

    def start_afresh(self) -> None:
        """See `PlaceReads.start_afresh`."""
        self.connections.start_afresh()
        super().start_afresh()

    def _prepare(self, session: PostgresSession) -> None:
        """Configure a new connection, so that it sees this store and no other."""
        self._prepare_owner(session)
        if self.tables.role is not None:
            session.configure({"role": self.tables.role})

    def _prepare_owner(self, session: PostgresSession) -> None:
        """Configure a new connection that takes no role."""
        known = self.opening.known
        settings = {
            "factmem.name": self.opening.name,
            "factmem.store": "-1" if known is None else str(known.number),
            "lock_timeout": str(int(self._lock_seconds * 1000)),
            "idle_in_transaction_session_timeout": _IDLE,
        }
        session.configure(settings)
        # Purges and erasures remove the rows of searches in their own transaction.
        session.removal = _remove_items
        if self._server_clock is not None:
            (row,) = session.rows(_TIME)
            self._server_clock.set(row[0])

    def migrate(self) -> None:
        """Create the tables, or bring them to the latest version."""
        self.as_owner(lambda session, _: schema.migrate(session, self.tables.role))

    def as_owner(self, work: Callable[[PostgresSession, int], R]) -> R:
        """Do work as the role that logged in: it need not be allowed to take the other one."""
        connections = self._connections(self._prepare_owner)
        try:
            return connections.run(work)
        finally:
            connections.close()

    def _run(self, work: Callable[[CoreSession, int], R]) -> R:
        return self.connections.run(work, is_read=True)

    def _write(self, work: Callable[[CoreSession, int], R]) -> R:
        return self.connections.run(work)

    def ask(self, work: Callable[[PostgresSession, int], R]) -> R:
        """Do work that needs a session of PostgreSQL; see `run`."""
        return self.run(lambda session, attempt: work(_own(session), attempt))

    def is_fresh(self, view: View) -> bool:
        """Whether a view may be presented without asking the database."""
        return view.is_warm and time.monotonic() - view.checked < self._stale

    def warm(self, identity: Identity, present: Present[R | None]) -> R | None:
        """See `StoredPlaces.warm`."""
        view = self._views.known(identity) if self._stale else None
        if view is None or not self.is_fresh(view) or not view.lock.acquire(blocking=False):
            return None
        try:
            return present(view.ledger, self.now(view.ledger))
        finally:
            view.lock.release()

    def rest(self, is_wanted: Callable[[], bool]) -> None:
        """See `StoredPlaces.rest`: nothing waits."""

    def close(self) -> None:
        """See `StoredPlaces.close`."""
        self.connections.close()


def _remove_items(session: PostgresSession, place: bytes, removed: Sequence[Entry] | None) -> None:
    """Remove what searches keep of removed entries."""
    if removed is None:
        erase_items(session, place)
    else:
        take_out(session, place, removed)


_FEW = 1000
"""Values of the largest place that is presented on the event loop, which takes 4 ms at most."""


class PostgresBackend(SqlBackend):
    """Runs the operations of `PostgresPlaces` for asynchronous callers."""

    def __init__(self, places: PostgresPlaces, clock: StoreClock) -> None:
        self._places = places
        super().__init__(places, clock)

    def _start(self) -> None:
        super()._start()
        # A read is answered by a query that began after it, so that reads are linearizable.
        self._reads = GroupCommit(self._places.refresh, self.workers)

    @override
    async def present(
        self,
        identity: Identity,
        present: Present[R],
        *,
        until: str | None = None,
        keyword: str | None = None,
    ) -> R:
        view = self._places.known(identity)
        if until is not None or view is None or not view.is_warm or len(view) > _FEW:
            # A first read may take long, so it does not delay the reads that share a query.
            return await super().present(identity, present, until=until, keyword=keyword)
        await self._reads.submit(identity)
        if self._places.known(identity) is not view or not view.lock.acquire(blocking=False):
            return await super().present(identity, present)
        try:
            return present(view.ledger, self._places.now(view.ledger))
        finally:
            view.lock.release()

    @override
    async def close(self) -> None:
        await self._reads.close()
        await super().close()
