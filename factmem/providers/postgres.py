"""`PostgresMemoryProvider`, a store in a PostgreSQL database for any number of hosts.

The class puts the layers together: `Connections` has the pool and the deadlines, `PostgresDatabase`
the settings of each connection, `StoredPlaces` the operations, threads, shared commits and shared
reads, `SqlStore` the public methods. It adds the search of large places in the database. If one
place of a recall is large, all of them are searched there; those of an encrypted store never are.
"""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from typing_extensions import override

from factmem._arguments import expect, expect_methods, expect_within, kind_of
from factmem.encryption.aes256gcm import Encryption
from factmem.models.facts import AnyFact
from factmem.models.places import Place
from factmem.models.when import ServerClock, StoreClock, TimeProvider
from factmem.providers._postgres.connections import Connections
from factmem.providers._postgres.database import PostgresDatabase
from factmem.providers._postgres.driver import Pool, checked_dsn, is_pool
from factmem.providers._postgres.vector_spaces import VectorSpaces
from factmem.providers._sql.places import FACT_BYTES
from factmem.providers._sql.search import StoredSearch
from factmem.providers._sql.store import SqlStore
from factmem.providers._sql.stored_places import StoredPlaces
from factmem.providers._sql.stores import Opening
from factmem.providers.results import PlaceLimit, TextVectors, check_span

__all__ = ["PostgresMemoryProvider"]

_EXAMPLE = 'PostgresMemoryProvider("host=db dbname=app user=app")'


class PostgresMemoryProvider(SqlStore):
    """A `FactStore` in tables of a PostgreSQL database, for any number of hosts.

    When a save returns, its transaction is committed, as durably as the server's
    `synchronous_commit` says: on the primary's disk by default, and on a standby's disk with
    `synchronous_standby_names`. A failover to an asynchronous standby loses the saves that it has
    not received. Concurrent saves in one process share a transaction. Every call sees all saves
    that were completed before it began, on any host. After a fork, parent and child can both use
    the store.

    Nothing is created in the database before the first write or `migrate()`. If a connection
    breaks during a save, the save is repeated on another connection and stored exactly once. If the
    outcome of a commit is still unknown at the deadline, `UnknownOutcomeError` is raised.

    `erase` removes a place from all reads at once. Its bytes stay in the table's files until a
    VACUUM FULL, and in the write-ahead log, standbys and backups for as long as these are kept. The
    function passed to `amend` runs in a worker thread inside a transaction, and again if the
    transaction is repeated.

    Args:
        dsn_or_pool: A libpq connection string, or a pool of psycopg connections (`getconn` and
            `putconn`) that the application owns. If there are several hosts, the one that accepts
            writes is used, and each gets a share of `timeout`. A pooler such as PgBouncer in
            transaction mode is detected.
        store: The name of the store. Each store in a database has its own places and keys.
        encryption: Encrypts names and values; the server sees neither.
        max_staleness: How long cached facts may be returned without asking the database. A process
            always sees its own saves.
        role: A role that each connection takes, for row level security.
        keep_history: How long replaced and forgotten values stay readable by `history` and `as_of`.
            None, the default, keeps them forever. Otherwise a place is compacted when more than
            half of it is older history.
        clock: Returns the time, as an aware datetime; the database server's by default.
        must_exist: Raise `StorageError` if the database does not have the store, instead of reading
            it as empty and creating it at the first save. `create` creates it.
        timeout: The longest time of a call in seconds, with repetitions and waits.
        lock_timeout: The longest wait in seconds for another write to the same place.
        max_connections: The largest number of open connections; a pool has its own limit.
        limit: The largest size of a place; a save beyond it raises `PlaceFullError`.
        search_from: Places with at least this many facts are searched in the database, smaller ones
            in this process. None searches all in this process, as encrypted stores always do.

    Raises:
        TypeError: An argument is of the wrong kind, such as a key in the place of an encryption.
        ValueError: The connection string cannot be parsed, or a number is out of range.
        MissingExtraError: The package `psycopg` is not installed.
        StorageError: (from every method) The server refused or was not reached.
        UnknownOutcomeError: (from writing methods) A commit was not answered in time.
        StoreBusyError: (from every method) No lock or no connection was free in time.
        DecryptionError: (from every method) The key is missing or wrong, or rows do not verify.
    """

    def __init__(
        self,
        dsn_or_pool: str | Pool,
        *,
        limit: PlaceLimit | None = None,
        store: str = "default",
        encryption: Encryption | None = None,
        max_staleness: timedelta = timedelta(0),
        role: str | None = None,
        keep_history: timedelta | None = None,
        clock: TimeProvider | None = None,
        must_exist: bool = False,
        timeout: float = 30.0,
        lock_timeout: float = 5.0,
        max_connections: int = 4,
        search_from: int | None = 5_000,
    ) -> None:
        source = _checked_source(dsn_or_pool)
        if keep_history is not None:
            check_span(keep_history)
        if encryption is not None:
            expect_methods(
                encryption, ("wrap", "unwrap"), "encryption", "encryption=Aes256GCMEncryptor(key)"
            )
        _check_name(store, "store")
        if role is not None:
            _check_name(role, "role")
        expect(max_staleness, timedelta, "max_staleness", "max_staleness=timedelta(seconds=1)")
        numbers = {"timeout": timeout, "lock_timeout": lock_timeout}
        numbers |= {
            "max_connections": max_connections,
            "search_from": 1 if search_from is None else search_from,
        }
        for name, number in numbers.items():
            expect_within(number, float, name, f"{name}=8", above=0, most=10**9)
        server_clock = ServerClock() if clock is None else None
        store_clock = StoreClock(clock or server_clock)  # type: ignore[arg-type]
        self._server = PostgresDatabase(
            lambda prepare: Connections(
                source, most=max_connections, seconds=timeout, prepare=prepare
            ),
            store,
            server_clock=server_clock,
            role=role,
            max_staleness=max_staleness,
            lock_seconds=lock_timeout,
        )
        server: Any = self._server  # pyright reads aliased generic methods as other ones
        opening = Opening(store, encryption, server, must_exist=must_exist)
        places = StoredPlaces(opening, store_clock, keep_history)
        self._vectors = VectorSpaces(places, self._server, search_from or 0)
        search = None
        if search_from is not None:
            search = StoredSearch(places, self._vectors, large=search_from * FACT_BYTES)
        super().__init__(places, limit, search, must_exist=must_exist)
        self._name = store

    def __repr__(self) -> str:
        return f"PostgresMemoryProvider(..., store={self._name!r})"

    async def migrate(self) -> None:
        """Create the tables, or migrate them to the version of this release.

        The first write does it too. Call it in a deployment step if the application's role may not
        create tables. With `role` it also grants that role the privileges that it needs.

        Raises:
            StorageError: The tables have a later version than this release knows.
        """
        self._check_open()
        await self._places.work(self._server.migrate)
        if self._search is not None:
            await self._places.work(self._vectors.index_all)

    @override
    async def facts_to_embed(
        self, place: Place, *, model: str, dimensions: int, limit: int
    ) -> Mapping[bytes, AnyFact]:
        self._check_open()
        identity, missing = place.identity, self._vectors.missing
        return await self._places.work(lambda: missing(identity, model, dimensions, limit))

    @override
    async def add_vectors(
        self, place: Place, vectors: TextVectors, *, model: str, dimensions: int
    ) -> None:
        self._check_open()
        identity, add = place.identity, self._vectors.add
        await self._places.work(lambda: add(identity, vectors, model, dimensions))


def _checked_source(given: str | Pool) -> str | Pool:
    if isinstance(given, str):
        return checked_dsn(given)
    if not is_pool(given):
        raise TypeError(
            f"dsn_or_pool must be a connection string or a pool, not {kind_of(given)}: {_EXAMPLE}"
        )
    return given


def _check_name(name: str, argument: str) -> None:
    expect(name, str, argument, f'{argument}="tenant-7"')
    if not name or "\0" in name or len(name.encode()) > 1000:
        raise ValueError(f'{argument} must have 1 to 1,000 bytes and no NUL: {argument}="tenant-7"')
