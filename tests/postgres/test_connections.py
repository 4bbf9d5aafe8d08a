"""Connection strings with several hosts, statements that the server drops, and poolers."""

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import psycopg
import pytest

from factmem.encryption import Aes256GCMEncryptor
from factmem.errors import StorageError
from factmem.providers._postgres import connections
from factmem.providers._postgres.connections import connect
from factmem.providers._sql.session import Session
from factmem.providers.postgres import PostgresMemoryProvider
from factmem.testing._facts import AGENT, LANGUAGES, THEME, USER, languages, theme
from tests.postgres.cluster import Cluster, free_port
from tests.postgres.conftest import NewStore
from tests.postgres.pooler import Pooler


@pytest.fixture
def silent() -> Iterator[int]:
    """Return a port that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listener:
        yield listener.getsockname()[1]


@pytest.fixture(scope="module")
def standby(cluster: Cluster, folder: Path) -> Iterator[Cluster]:
    """Start a standby of the server, which accepts reads only."""
    other = cluster.standby(folder / "hosts-standby", name="hosts")
    try:
        yield other
    finally:
        other.stop()


def _hosts(*ports: int) -> str:
    hosts = ",".join("127.0.0.1" for _ in ports)
    return f"host={hosts} port={','.join(map(str, ports))} user=postgres dbname=postgres"


async def _is_used(provider: PostgresMemoryProvider) -> None:
    await provider.save(theme("dark"), USER, AGENT)
    assert [fact.value for fact in await provider.load(THEME, USER, AGENT)] == ["dark"]


async def test_a_dead_host_is_passed_over(new_store: NewStore, cluster: Cluster) -> None:
    """Nothing listens there: the next one is asked."""
    await _is_used(new_store(dsn=_hosts(free_port(), cluster.port), timeout=60))


@pytest.mark.parametrize("silent_hosts", [1, 2])
async def test_a_silent_host_takes_its_share_of_the_deadline(
    new_store: NewStore, cluster: Cluster, silent: int, silent_hosts: int
) -> None:
    """It accepts the connection and never answers; the call still succeeds before its deadline."""
    dsn = _hosts(*[silent] * silent_hosts, cluster.port)

    await new_store(dsn=dsn, timeout=9).save(theme("dark"), USER, AGENT)


async def test_silent_hosts_alone_end_with_the_deadline(new_store: NewStore, silent: int) -> None:
    """Also where the deadline is shorter than the two seconds that libpq gives a host."""
    provider = new_store(dsn=_hosts(*[silent] * 40), timeout=1.5)

    with anyio.fail_after(60), pytest.raises(StorageError, match="nothing was written"):
        await provider.save(theme("dark"), USER, AGENT)


async def test_an_attempt_that_the_deadline_cuts_off_hides_no_reason(
    new_store: NewStore, silent: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A host refuses the first attempt, and does not answer the second one in time."""
    provider, ports = new_store(timeout=1.0), iter([free_port()])

    def attempt(_: str, seconds: float) -> Any:
        return connect(_hosts(next(ports, silent)), seconds)

    monkeypatch.setattr(connections, "connect", attempt)
    with pytest.raises(StorageError, match=r"Connection refused.*: check that the server runs"):
        await provider.save(theme("dark"), USER, AGENT)


async def test_a_standby_is_passed_over(
    new_store: NewStore, cluster: Cluster, standby: Cluster
) -> None:
    """It answers, and accepts no writes."""
    await _is_used(new_store(dsn=standby.dsn(cluster), timeout=60))


async def test_read_write_may_be_written_out(
    new_store: NewStore, cluster: Cluster, standby: Cluster
) -> None:
    """As in connection strings made for other programs."""
    dsn = f"{standby.dsn(cluster)} target_session_attrs=read-write"

    await _is_used(new_store(dsn=dsn, timeout=60))


@pytest.mark.parametrize(
    ("wanted", "is_standby"),
    [("standby", True), ("prefer-standby", True), ("any", False), ("primary", False)],
)
async def test_other_kinds_of_hosts_may_be_wanted(
    new_store: NewStore, cluster: Cluster, standby: Cluster, wanted: str, is_standby: bool
) -> None:
    """A process that only reads may use a standby."""
    provider = new_store(dsn=f"{cluster.dsn(standby)} target_session_attrs={wanted}", timeout=60)

    found = provider._server.connections.run(
        lambda session, _: session.rows("SELECT pg_is_in_recovery()")
    )

    assert found == [(is_standby,)]


async def test_standbys_alone_are_an_error(new_store: NewStore, standby: Cluster) -> None:
    """A save needs a host that accepts writes, and says so before long."""
    with anyio.fail_after(60), pytest.raises(StorageError, match="nothing was written"):
        await new_store(dsn=standby.dsn(), timeout=1.5).save(theme("dark"), USER, AGENT)


async def test_hosts_of_the_environment_count(
    new_store: NewStore, cluster: Cluster, silent: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """libpq takes what a connection string lacks from there."""
    monkeypatch.setenv("PGHOST", "127.0.0.1,127.0.0.1")
    monkeypatch.setenv("PGPORT", f"{silent},{cluster.port}")

    await new_store(dsn="user=postgres dbname=postgres", timeout=9).save(theme("v"), USER, AGENT)


async def test_names_of_hosts_are_resolved(new_store: NewStore, cluster: Cluster) -> None:
    """Each address of a name is tried; the server listens on one of them."""
    dsn = f"host=localhost port={cluster.port} user=postgres dbname=postgres"

    await _is_used(new_store(dsn=dsn, timeout=60))


@pytest.mark.parametrize(
    "dsn",
    [
        "host=a.invalid,b.invalid user=postgres dbname=postgres",
        "host=127.0.0.1,127.0.0.1 port=1,2,3 user=postgres dbname=postgres",
    ],
)
async def test_hosts_that_cannot_be_meant_are_errors(new_store: NewStore, dsn: str) -> None:
    """Unknown names, and more ports than hosts."""
    with anyio.fail_after(60), pytest.raises(StorageError, match="nothing was written"):
        await new_store(dsn=dsn, timeout=1.5).save(theme("dark"), USER, AGENT)


async def test_a_database_that_is_not_there_is_no_reason_to_wait(
    new_store: NewStore, cluster: Cluster
) -> None:
    """No repetition makes it; the error comes at once, from whichever host."""
    dsn = f"{_hosts(cluster.port, cluster.port)}".replace("dbname=postgres", "dbname=absent")

    with anyio.fail_after(60), pytest.raises(StorageError):
        await new_store(dsn=dsn, timeout=600).save(theme("dark"), USER, AGENT)


def test_the_connections_of_hosts_are_psycopgs(cluster: Cluster) -> None:
    """With the options that a connection string gives itself."""
    from factmem.providers._postgres.connections import connect

    with connect(f"{cluster.dsn()} application_name=mine connect_timeout=3", 20) as connection:
        assert isinstance(connection, psycopg.Connection)
        assert connection.execute("SHOW application_name").fetchone() == ("mine",)
        assert connection.autocommit


SAVES = 6
"""psycopg prepares a statement that a connection has run five times."""


def _prepared(provider: PostgresMemoryProvider) -> int:
    """Return how many statements the idle connection of a provider has prepared."""
    ((count,),) = provider._server.connections.run(
        lambda session, _: session.rows("SELECT count(*) FROM pg_prepared_statements")
    )
    return int(count)


def _drop_statements(provider: PostgresMemoryProvider) -> None:
    """Have the server drop all prepared statements, without psycopg noticing."""

    def drop(session: Session, _: int) -> None:
        session._connection.pgconn.exec_(b"DEALLOCATE ALL")  # type: ignore[attr-defined]

    provider._server.connections.run(drop)


@pytest.mark.parametrize("kind", ["plain", "sealed"])
async def test_statements_that_the_server_dropped_are_prepared_again(
    new_store: NewStore, kind: str
) -> None:
    """An administrator may drop them. The save, a transaction where sealed, is stored once."""
    key = Aes256GCMEncryptor.generate_key()
    encryption = Aes256GCMEncryptor(key) if kind == "sealed" else None
    provider = new_store(max_connections=1, timeout=10, encryption=encryption)
    for number in range(SAVES):
        await provider.save(theme(f"v{number}"), USER, AGENT)
        await provider.load(THEME, USER, AGENT)
        assert len(await provider.places()) == 1
    assert _prepared(provider) > 0

    _drop_statements(provider)
    await provider.save(theme("light"), USER, AGENT)
    _drop_statements(provider)
    assert [fact.value for fact in await provider.load(THEME, USER, AGENT)] == ["light"]
    _drop_statements(provider)
    assert len(await provider.places()) == 1

    assert len(await provider.entries(USER, AGENT)) == SAVES + 1


async def test_nothing_is_prepared_behind_a_pooler(store: str, pooler: Pooler) -> None:
    """The next statement may run on another connection of the server."""
    async with PostgresMemoryProvider(pooler.dsn(), store=store, max_connections=8) as provider:
        for _ in range(SAVES):
            await provider.save(theme("dark"), USER, AGENT)
        async with anyio.create_task_group() as group:
            for number in range(40):
                group.start_soon(provider.save, languages(f"v{number}"), USER, AGENT)
        found = await provider.load(LANGUAGES, USER, AGENT)

        assert len(found) == 40
        assert _prepared(provider) == 0
