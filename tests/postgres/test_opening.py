"""Databases without the store, that cannot work, or whose store has another name; health checks.

One error and one line of the log of a web service name cause and remedy.
"""

import logging
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import anyio
import psycopg
import pytest

from factmem import Aes256GCMEncryptor, Key, StorageError
from factmem.errors import CorruptJournalError, TamperedError
from factmem.providers.postgres import PostgresMemoryProvider
from factmem.testing._facts import AGENT, THEME, USER, theme
from tests.deployment import what_an_operator_sees
from tests.postgres.cluster import Cluster, free_port
from tests.postgres.conftest import Login, NewStore

Call = Callable[[PostgresMemoryProvider], Awaitable[Any]]

CALLS: dict[str, Call] = {
    "load": lambda store: store.load(THEME, USER, AGENT),
    "places": lambda store: store.places(),
    "verify": lambda store: store.verify(),
    "ping": lambda store: store.ping(),
    "save": lambda store: store.save(theme("dark"), USER, AGENT),
    "erase": lambda store: store.erase(USER, AGENT),
    "open": lambda store: store.__aenter__(),
}


@pytest.mark.parametrize("call", CALLS)
async def test_a_missing_store_that_must_exist_is_an_error(new_store: NewStore, call: str) -> None:
    """A wrong name is not an empty memory, and no call creates a store of that name."""
    await new_store().create()
    wrong = new_store(store="wrong", must_exist=True)

    with pytest.raises(StorageError, match=r"There is no store 'wrong' in the database .*the name"):
        await CALLS[call](wrong)

    assert await new_store(must_exist=True).places() == []


async def test_a_database_without_tables_is_an_error(
    cluster: Cluster, store: str, new_store: NewStore
) -> None:
    """The message says how they are created."""
    with psycopg.connect(cluster.dsn(), autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{store}"')
    dsn = cluster.dsn(database=store)

    for call in CALLS.values():
        with pytest.raises(StorageError, match=r"create its tables with migrate\(\)"):
            await call(new_store(dsn=dsn, must_exist=True))

    await new_store(dsn=dsn, must_exist=True).create()
    assert (await new_store(dsn=dsn, must_exist=True).ping()).version == 1


ODD_OBJECTS = {
    "has a trigger": """
        CREATE FUNCTION factmem.swallow() RETURNS trigger LANGUAGE plpgsql
        AS 'BEGIN RETURN NULL; END';
        CREATE TRIGGER t BEFORE INSERT ON factmem.entries
        FOR EACH ROW EXECUTE FUNCTION factmem.swallow()
    """,
    "has a rule": "CREATE RULE r AS ON DELETE TO factmem.entries DO INSTEAD NOTHING",
    "has a policy": "CREATE POLICY p ON factmem.places AS RESTRICTIVE USING (made % 2 = 0)",
    "is no table": """
        ALTER TABLE factmem.entries RENAME TO others;
        CREATE VIEW factmem.entries AS SELECT * FROM factmem.others WHERE number % 2 = 0
    """,
}


@pytest.mark.parametrize("problem", ODD_OBJECTS)
async def test_an_object_that_is_not_ours_is_refused(
    cluster: Cluster, store: str, new_store: NewStore, problem: str
) -> None:
    """It would swallow acknowledged saves, or keep what is erased."""
    with psycopg.connect(cluster.dsn(), autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{store}"')
    dsn = cluster.dsn(database=store)
    await new_store(dsn=dsn).save(theme("dark"), USER, AGENT)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(ODD_OBJECTS[problem])

    for call in CALLS.values():
        with pytest.raises(CorruptJournalError, match=problem):
            await call(new_store(dsn=dsn, must_exist=True))


async def test_a_ping_writes_and_leaves_nothing(new_store: NewStore, login: Login) -> None:
    """Also with a role that has only what the application needs."""
    for options in ({}, {"dsn": login.dsn}, {"role": "app"}):
        store = new_store(**options)
        await store.save(theme("dark"), USER, AGENT)
        anchor = await store.anchor()

        assert (await store.ping()).version == 1

        assert len(await store.list_places()) == 1
        await store.verify(anchor)


async def test_a_role_that_may_not_write_fails_the_ping(
    new_store: NewStore, dsn: str, cluster: Cluster
) -> None:
    """A health check is not green while every save fails."""
    store = new_store()
    await store.create()
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("DROP ROLE IF EXISTS reader")
        connection.execute("CREATE ROLE reader LOGIN")
        connection.execute("GRANT USAGE ON SCHEMA factmem TO reader")
        connection.execute("GRANT SELECT ON ALL TABLES IN SCHEMA factmem TO reader")
    reader = new_store(dsn=dsn.replace("user=postgres", "user=reader"))

    assert await reader.load_all(USER, AGENT) == []
    with pytest.raises(StorageError, match="permission denied for table places"):
        await reader.ping()


async def test_one_line_tells_which_store_was_opened(
    new_store: NewStore, store: str, dsn: str, caplog: pytest.LogCaptureFixture
) -> None:
    """It names the server, and no password."""
    with caplog.at_level(logging.INFO, "factmem"):
        first = new_store(dsn=f"{dsn} password=secret")
        await first.load_all(USER, AGENT)
        await first.save(theme("dark"), USER, AGENT)
        await new_store().load_all(USER, AGENT)

    assert [line.split(" in the database ")[0] for line in caplog.messages] == [
        f"No store {store!r}",
        f"Opened the new plain store {store!r}",
        f"Opened the plain store {store!r}",
    ]
    assert caplog.messages[-1].endswith("(places: 1)")
    assert "secret" not in caplog.text


@pytest.mark.parametrize("is_application", [False, True], ids=["owner", "role"])
async def test_the_row_of_another_store_does_not_open(
    new_store: NewStore, login: Login, dsn: str, store: str, is_application: bool
) -> None:
    """Under the same key, tenant A would read what tenant B saved, and nothing would notice."""
    key = Aes256GCMEncryptor(Key.generate())
    names = [f"{store}-a", f"{store}-b"]
    for name in names:
        await new_store(store=name, encryption=key).save(theme(name), USER, AGENT)
    with psycopg.connect(dsn, autocommit=True) as connection:
        for old, new in [(names[0], "moved"), (names[1], names[0]), ("moved", names[1])]:
            connection.execute("UPDATE factmem.stores SET name = %s WHERE name = %s", [new, old])

    for name in names:
        options = {"dsn": login.dsn} if is_application else {}
        other = new_store(store=name, encryption=key, must_exist=True, **options)
        for call in CALLS.values():
            with pytest.raises(TamperedError, match="another store"):
                await call(other)


async def test_a_store_keeps_its_name_through_a_rotation(new_store: NewStore) -> None:
    """The name is in every version of the key ring."""
    keys = [Key.generate(), Key.generate()]
    async with new_store(encryption=Aes256GCMEncryptor(keys[0])) as store:
        await store.save(theme("dark"), USER, AGENT)
        await store.keys.rotate(keys[1])

    other = new_store(encryption=Aes256GCMEncryptor(keys[1]))
    assert await other.load(THEME, USER, AGENT) != []


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
