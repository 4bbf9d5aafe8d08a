"""Databases without the store, health checks, and store names, to which keys are bound."""

import logging
from collections.abc import Awaitable, Callable
from typing import Any

import psycopg
import pytest

from factmem import Aes256GCMEncryptor, Key, StorageError
from factmem.errors import CorruptJournalError, TamperedError
from factmem.providers.postgres import PostgresMemoryProvider
from factmem.testing._facts import AGENT, THEME, USER, theme
from tests.postgres.cluster import Cluster
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
