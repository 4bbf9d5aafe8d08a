"""A web service on a broken database: an error and a line of the log name the remedy."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import anyio
import psycopg
import pytest

from factmem import Aes256GCMEncryptor, Key
from factmem.providers.postgres import PostgresMemoryProvider
from tests.deployment import what_an_operator_sees
from tests.postgres.cluster import Cluster, free_port


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

    def as_user(self, name: str = "", dsn: str = "") -> str:
        """Return a connection string of a user."""
        return (dsn or self.dsn).replace("user=postgres", f"user={name or self.name}")

    def new_database(self) -> str:
        """Create a database, and return its connection string."""
        self.run(f'CREATE DATABASE "{self.name}"')
        return self.cluster.dsn(database=self.name)

    def new_role(self, *more: str) -> str:
        """Create a role, and return the connection string with it."""
        self.run(f'CREATE ROLE "{self.name}" LOGIN', *more)
        return self.as_user()

    def of_later_version(self) -> str:
        """Return the connection string of a database with the tables of a later version."""
        dsn = self.new_database()
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute("CREATE SCHEMA factmem")
            connection.execute("CREATE TABLE factmem.format (version int)")
            connection.execute("INSERT INTO factmem.format VALUES (99)")
        return dsn

    def opened(self, dsn: str = "", **options: object) -> PostgresMemoryProvider:
        """Return a store that gives up soon."""
        given = {"store": self.name, "timeout": 2.0, **options}
        return PostgresMemoryProvider(dsn or self.dsn, **given)  # type: ignore[arg-type]


class Fault(NamedTuple):
    """How a store is opened wrongly, and its message: what, where, and what to do."""

    says: str
    dsn: Callable[[Server], str] = lambda it: it.dsn
    options: Mapping[str, object] = {}
    key: Key | None = None
    """The key of the store."""


WRONG = Aes256GCMEncryptor(Key.generate())
LIMITED = 'ALTER ROLE "{0}" SUPERUSER CONNECTION LIMIT 0', 'ALTER ROLE "{0}" NOSUPERUSER'

FAULTS: dict[str, Fault] = {
    "a database that is away": Fault(
        r"Connection refused.* Remedy: check that the server runs at this host and port",
        lambda _: f"host=127.0.0.1 port={free_port()} user=postgres dbname=postgres",
    ),
    "a wrong database": Fault(
        r'database "nowhere" does not exist.* Remedy: correct dbname',
        lambda it: it.cluster.dsn(database="nowhere"),
    ),
    "a wrong user": Fault(
        r'role "nobody" does not exist.* Remedy: correct dbname and user',
        lambda it: it.as_user("nobody"),
    ),
    "a wrong store": Fault(
        r"no store 'no such' in the database 'postgres' at '.*', .*: .*correct the name",
        options={"store": "no such", "must_exist": True},
    ),
    "no tables": Fault(
        r"There is no store .*: .* create its tables with migrate\(\)",
        Server.new_database,
        {"must_exist": True},
    ),
    "tables that the role may not create": Fault(
        r"denied for database .* by migrate\(\) as the owner",
        lambda it: it.as_user(dsn=it.new_database()) if it.new_role() else "",
    ),
    "a role without rights": Fault(
        r"denied for schema factmem.* Remedy: give the role its rights", Server.new_role
    ),
    "no such role": Fault(r"Remedy: create the role, or correct role=", options={"role": "nobody"}),
    "a server that is read-only": Fault(
        r"session is read-only.* Remedy: .*connect to the primary",
        lambda it: f"{it.dsn} options='-c default_transaction_read_only=on'",
    ),
    "no key": Fault(r"The store is encrypted: open it with its key", key=Key.generate()),
    "a wrong key": Fault(
        r"opens with this key: pass the key that the store was created with",
        options={"encryption": WRONG},
        key=Key.generate(),
    ),
    "the key of a plain store": Fault(
        r"not encrypted, and a key was given: .* Open it without a key",
        options={"encryption": WRONG},
    ),
    "a later version": Fault(
        r"tables in the database have version 99, .*: update factmem", Server.of_later_version
    ),
    "too many connections": Fault(
        r"too many connections .* Remedy: .*lower max_connections",
        lambda it: it.new_role(*(each.format(it.name) for each in LIMITED)),
    ),
    "a transaction that hangs": Fault(
        r"busy .*lock timeout.* look for a transaction that hangs", options={"lock_timeout": 0.1}
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_named_with_its_remedy(
    name: str, cluster: Cluster, store: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The health check and the saves agree, and no line has a traceback."""
    fault, server = FAULTS[name], Server(cluster, store)

    async def make() -> None:
        encryption = fault.key and Aes256GCMEncryptor(fault.key)
        async with server.opened(encryption=encryption) as made:
            await made.create()

    anyio.run(make)
    provider = server.opened(fault.dsn(server), **fault.options)
    with psycopg.connect(server.dsn) as connection:
        if name == "a transaction that hangs":
            connection.execute("LOCK TABLE factmem.places")
        seen = what_an_operator_sees(provider, caplog)
    provider._server.connections.close()

    assert re.search(fault.says, seen), seen
