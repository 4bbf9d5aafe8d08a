"""Row level security between the stores of a database, and connection poolers."""

import psycopg
import pytest

from factmem.errors import StorageError
from factmem.testing._facts import AGENT, THEME, USER, theme
from tests.postgres.cluster import Cluster
from tests.postgres.conftest import Login, NewStore
from tests.postgres.pooler import Pooler

TABLES = ("stores", "places", "entries", "indexes")
SEARCHES = ("searches", "sources", "items", "terms", "spaces", "vectors")


async def _two_tenants(new_store: NewStore, login: Login, store: str) -> None:
    for name in ("mine", "theirs"):
        provider = new_store(dsn=login.dsn, store=f"{store}-{name}")
        await provider.save(theme(name), USER, AGENT)
        version = await provider.version(USER, AGENT)
        assert await provider.write_index(USER, AGENT, b"index", version=version)


async def test_a_role_sees_the_rows_of_its_store_only(
    new_store: NewStore, login: Login, store: str
) -> None:
    """Also with SQL that has no WHERE."""
    await _two_tenants(new_store, login, store)

    with psycopg.connect(login.dsn, autocommit=True) as connection:
        name = f"{store}-mine"
        connection.execute("SELECT set_config('factmem.name', %s, false)", [name])
        rows = connection.execute("SELECT store, name FROM factmem.stores").fetchall()
        assert [row[1] for row in rows] == [name]
        connection.execute("SELECT set_config('factmem.store', %s, false)", [str(rows[0][0])])
        for table in TABLES:
            found = connection.execute(f"SELECT store FROM factmem.{table}").fetchall()
            assert {row[0] for row in found} == {rows[0][0]}
        assert connection.execute("DELETE FROM factmem.entries").rowcount == 1

    assert await new_store(dsn=login.dsn, store=f"{store}-theirs").load(THEME, USER, AGENT)


async def test_a_connection_without_a_store_sees_an_error(
    new_store: NewStore, login: Login, store: str
) -> None:
    """An unset parameter never means all stores."""
    await _two_tenants(new_store, login, store)

    with psycopg.connect(login.dsn, autocommit=True) as connection:
        for table in (*TABLES, *SEARCHES):
            with pytest.raises(psycopg.errors.UndefinedObject):
                connection.execute(f"SELECT FROM factmem.{table}")


async def test_a_row_of_another_store_cannot_be_written(
    new_store: NewStore, login: Login, store: str
) -> None:
    """The policies check new rows too."""
    await _two_tenants(new_store, login, store)

    with psycopg.connect(login.dsn, autocommit=True) as connection:
        connection.execute("SET factmem.store = '1000000'")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute("INSERT INTO factmem.entries VALUES ('\\x00', 1, 0, 0, 1, '')")


async def test_the_owner_takes_a_role(new_store: NewStore, login: Login) -> None:
    """One login serves all tenants, and each connection is held to its store."""
    provider = new_store(role=login.role)

    await provider.save(theme("dark"), USER, AGENT)

    def user(session: object, _: int) -> str:
        return str(session.rows("SELECT current_user::text")[0][0])  # type: ignore[attr-defined]

    assert provider._places.run(user) == login.role
    assert len(await provider.load(THEME, USER, AGENT)) == 1


async def test_an_owner_that_may_not_take_the_role_migrates_for_it(
    new_store: NewStore, login: Login, cluster: Cluster, store: str
) -> None:
    """Only a connection that takes the role needs the grant, and its error names it."""
    with psycopg.connect(cluster.dsn(), autocommit=True) as connection:
        connection.execute(f'CREATE ROLE "{store}" LOGIN')
        connection.execute(f'CREATE DATABASE "{store}" OWNER "{store}"')
    dsn = cluster.dsn(database=store).replace("user=postgres", f"user={store}")
    owner = new_store(dsn=dsn, role=login.role)

    await owner.migrate()

    with pytest.raises(StorageError, match=r"42501: permission denied to set role .*GRANT role"):
        await owner.save(theme("dark"), USER, AGENT)
    app = new_store(dsn=login.dsn.replace("dbname=postgres", f"dbname={store}"))
    await app.save(theme("dark"), USER, AGENT)


async def test_a_transaction_pooler_is_detected(new_store: NewStore, pooler: Pooler) -> None:
    """No prepared statements, and settings in each transaction."""
    provider = new_store(dsn=pooler.dsn(), lock_timeout=0.2)
    await provider.save(theme("dark"), USER, AGENT)

    (session,) = provider._server.connections._idle
    assert session.is_shared
    assert session.rows("SHOW lock_timeout") == [("200ms",)]
    assert session.rows("SHOW idle_in_transaction_session_timeout") == [("30s",)]
    direct = new_store()
    await direct.load_all(USER, AGENT)
    assert not direct._server.connections._idle[0].is_shared


@pytest.mark.parametrize("autocommit", [True, False])
async def test_an_application_brings_its_own_pool(
    new_store: NewStore, dsn: str, autocommit: bool
) -> None:
    """Its connections go back as they came."""

    class Pool:
        def __init__(self) -> None:
            self.connection = psycopg.connect(dsn, autocommit=autocommit)
            self.is_out = False

        def getconn(self, timeout: float | None = None) -> psycopg.Connection:
            assert not self.is_out
            self.is_out = True
            return self.connection

        def putconn(self, conn: psycopg.Connection) -> None:
            assert conn is self.connection
            self.is_out = False

    pool = Pool()
    provider = new_store(dsn=pool, max_connections=1)

    await provider.save(theme("dark"), USER, AGENT)
    assert len(await provider.load(THEME, USER, AGENT)) == 1
    await provider.aclose()

    assert not pool.connection.closed
    assert not pool.is_out
    assert "wait" not in vars(pool.connection)
    assert pool.connection.autocommit == autocommit
    assert pool.connection.prepare_threshold == 5
    assert len(await new_store().load(THEME, USER, AGENT)) == 1
    shown = pool.connection.execute("SELECT current_setting('factmem.store', true)").fetchone()
    assert shown in ((None,), ("",))
    pool.connection.close()
