"""A web service on a database that cannot work: one error and one line of the log name cause and remedy."""

import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

import anyio
import psycopg
import pytest

from factmem.encryption.aes256gcm import Aes256GCMEncryptor
from factmem.encryption.key import Key
from factmem.providers.postgres import PostgresMemoryProvider
from tests.deployment import what_an_operator_sees
from tests.postgres.cluster import Cluster, free_port

Store = PostgresMemoryProvider


@dataclass(frozen=True)
class Server:
    """A server, and the name of a new store and of a new database on it."""

    cluster: Cluster
    name: str

    @property
    def dsn(self) -> str:
        """The database with the tables."""
        return self.cluster.dsn()

    def run(self, *statements: str) -> None:
        """Run statements as an administrator."""
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement)  # type: ignore[call-overload,unused-ignore]

    def opened(self, dsn: str = "", **options: object) -> Store:
        """Return a store that gives up soon."""
        given = {"store": self.name, "timeout": 2.0, **options}
        return PostgresMemoryProvider(dsn or self.dsn, **given)  # type: ignore[arg-type]

    def made(self, key: Key | None = None) -> None:
        """Create the store."""

        async def main() -> None:
            async with self.opened(encryption=key and Aes256GCMEncryptor(key)) as store:
                await store.create()

        anyio.run(main)


Fault = Callable[[Server], "AbstractContextManager[Store]"]


@contextmanager
def database_away(server: Server) -> Iterator[Store]:
    yield server.opened(f"host=127.0.0.1 port={free_port()} user=postgres dbname=postgres")


@contextmanager
def wrong_database(server: Server) -> Iterator[Store]:
    yield server.opened(server.cluster.dsn(database="nowhere"))


@contextmanager
def wrong_user(server: Server) -> Iterator[Store]:
    yield server.opened(server.dsn.replace("user=postgres", "user=nobody"))


@contextmanager
def wrong_store(server: Server) -> Iterator[Store]:
    server.made()
    yield server.opened(store=f"{server.name}-wrong", must_exist=True)


@contextmanager
def tables_missing(server: Server) -> Iterator[Store]:
    server.run(f'CREATE DATABASE "{server.name}"')
    yield server.opened(server.cluster.dsn(database=server.name), must_exist=True)


@contextmanager
def tables_that_the_role_may_not_create(server: Server) -> Iterator[Store]:
    server.run(f'CREATE DATABASE "{server.name}"', f'CREATE ROLE "{server.name}" LOGIN')
    dsn = server.cluster.dsn(database=server.name)
    yield server.opened(dsn.replace("user=postgres", f"user={server.name}"))


@contextmanager
def role_without_rights(server: Server) -> Iterator[Store]:
    server.made()
    server.run(f'CREATE ROLE "{server.name}" LOGIN')
    yield server.opened(server.dsn.replace("user=postgres", f"user={server.name}"))


@contextmanager
def missing_role(server: Server) -> Iterator[Store]:
    server.made()
    yield server.opened(role="nobody")


@contextmanager
def read_only_server(server: Server) -> Iterator[Store]:
    server.made()
    yield server.opened(f"{server.dsn} options='-c default_transaction_read_only=on'")


@contextmanager
def no_key(server: Server) -> Iterator[Store]:
    server.made(Key.generate())
    yield server.opened()


@contextmanager
def wrong_key(server: Server) -> Iterator[Store]:
    server.made(Key.generate())
    yield server.opened(encryption=Aes256GCMEncryptor(Key.generate()))


@contextmanager
def later_version(server: Server) -> Iterator[Store]:
    server.run(f'CREATE DATABASE "{server.name}"')
    dsn = server.cluster.dsn(database=server.name)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA factmem")
        connection.execute("CREATE TABLE factmem.format (version int)")
        connection.execute("INSERT INTO factmem.format VALUES (99)")
    yield server.opened(dsn)


@contextmanager
def too_many_connections(server: Server) -> Iterator[Store]:
    server.made()
    server.run(f'CREATE ROLE "{server.name}" LOGIN SUPERUSER CONNECTION LIMIT 0')
    server.run(f'ALTER ROLE "{server.name}" NOSUPERUSER')
    yield server.opened(server.dsn.replace("user=postgres", f"user={server.name}"))


@contextmanager
def hanging_transaction(server: Server) -> Iterator[Store]:
    server.made()
    with psycopg.connect(server.dsn) as connection:
        connection.execute("LOCK TABLE factmem.places")
        yield server.opened(lock_timeout=0.1)


FAULTS: dict[Fault, str] = {
    database_away: r"Connection refused.* Remedy: check that the server runs at this host and port",
    wrong_database: r'database "nowhere" does not exist.* Remedy: correct dbname',
    wrong_user: r'role "nobody" does not exist.* Remedy: correct dbname and user',
    wrong_store: r"no store '.*-wrong' in the database 'postgres' at '.*', .*: .*correct the name",
    tables_missing: r"There is no store .*: .* create its tables with migrate\(\)",
    tables_that_the_role_may_not_create: r"denied for database .* by migrate\(\) as the owner",
    role_without_rights: r"denied for schema factmem.* Remedy: give the role its rights",
    missing_role: r"Remedy: create the role, or correct role=",
    read_only_server: r"session is read-only.* Remedy: .*connect to the primary",
    no_key: r"The store is encrypted: open it with its key",
    wrong_key: r"opens with this key: pass the key that the store was created with",
    later_version: r"tables in the database have version 99, .*: update factmem",
    too_many_connections: r"too many connections .* Remedy: .*lower max_connections",
    hanging_transaction: r"busy .*lock timeout.* look for a transaction that hangs",
}
"""Each fault, and the parts of its message: what, where, and what to do."""


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_a_fault_is_named_with_its_remedy(
    fault: Fault, cluster: Cluster, store: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The health check and the saves agree, and no line has a traceback."""
    with fault(Server(cluster, store)) as provider:
        seen = what_an_operator_sees(provider, caplog)
        provider._server.connections.close()

    assert re.search(FAULTS[fault], seen), seen
