"""A write whose answer is lost is done once; a place says so in its entries."""

import time
from collections.abc import Awaitable, Iterator

import anyio
import psycopg
import pytest

from factmem.encryption import Aes256GCMEncryptor
from factmem.errors import StorageError, StoreBusyError, UnknownOutcomeError
from factmem.ledger.entries import Amendment, stored, untimed
from factmem.models.places import identity_of
from factmem.providers._sql.places import parts_of
from factmem.providers._sql.session import Session
from factmem.providers._sql.writing import Batch, Save
from factmem.providers.postgres import PostgresMemoryProvider
from factmem.providers.results import ErasureReceipt
from factmem.testing._facts import AGENT, LANGUAGES, USER, languages, theme
from tests.postgres.cluster import Cluster
from tests.postgres.conftest import NewStore
from tests.postgres.proxy import Proxy

KEY = Aes256GCMEncryptor.generate_key()

KINDS = pytest.mark.parametrize(
    "encryption", [None, Aes256GCMEncryptor(KEY)], ids=["plain", "sealed"]
)


@pytest.fixture
def proxy(cluster: Cluster) -> Iterator[Proxy]:
    """Return a proxy in front of the server."""
    made = Proxy(cluster.port)
    yield made
    made.close()


@pytest.fixture
def through(cluster: Cluster, proxy: Proxy) -> str:
    """Return a connection string that leads through the proxy."""
    return cluster.dsn().replace(f"port={cluster.port}", f"port={proxy.port}")


async def _count(provider: PostgresMemoryProvider) -> int:
    return len(await provider.entries(USER, AGENT))


def _addition(value: str) -> Amendment:
    fact = stored(languages(value))
    return lambda _, at: [{"at": at, "facts": [fact]}]


@KINDS
async def test_whichever_answer_of_a_write_is_lost(
    new_store: NewStore, through: str, proxy: Proxy, encryption: Aes256GCMEncryptor | None
) -> None:
    """A write has up to a dozen answers, the last one of its commit: it is done once, and whole."""
    provider = new_store(dsn=through, encryption=encryption, max_connections=1)

    async def cut(passes: int, write: Awaitable[object]) -> object:
        for _ in range(12):  # until the proxy may cut the connection
            await provider.moment(USER, AGENT)
        proxy.passes = passes
        proxy.cut_next.set()
        done = await write
        proxy.cut_next.clear()
        return done

    for passes in range(12):
        await cut(passes, provider.save(languages("first"), USER, AGENT))
        await cut(passes, provider.save_many([languages("one", "two"), theme("x")], USER, AGENT))
        assert await _count(provider) == 2
        purge = provider.forget(USER, AGENT, concept=LANGUAGES, value="two", purge=True)
        assert await cut(passes, purge) == 1
        assert await cut(passes, provider.forget(USER, AGENT, concept=LANGUAGES)) == 2
        before = await _count(provider)
        assert await cut(passes, provider.amend(_addition("more"), USER, AGENT)) == 1
        assert await _count(provider) == before + 1
        assert await cut(passes, provider.compact(USER, AGENT)) is not None
        (fact,) = await provider.load(LANGUAGES, USER, AGENT)
        assert fact.values == ("more",)
        receipt = await cut(passes, provider.erase(USER, AGENT))
        assert isinstance(receipt, ErasureReceipt)
        assert receipt.count == 2
    assert proxy.cuts >= 24


@KINDS
async def test_a_save_that_comes_after_its_repetition_adds_nothing(
    new_store: NewStore, encryption: Aes256GCMEncryptor | None
) -> None:
    """It may have waited in the buffer of a network that is slow for one connection."""
    provider = new_store(encryption=encryption)
    await provider.save(languages("first"), USER, AGENT)
    places = provider._places
    save = Save(identity_of(USER, AGENT), parts_of(untimed([stored(languages("late"))])))

    def late(session: Session, _: int) -> tuple[int, int]:
        reader, writer = places.writing(session)
        batch = Batch([save], reader, 0)
        repeated = writer.append_checked(session, [save], 0, 18, earlier=[17]).saved
        return len(repeated), len(writer.append(session, batch, 17))

    assert places.run(late) == (1, 0)
    assert await _count(provider) == 2


async def test_a_commit_that_is_never_answered_has_an_unknown_outcome(
    new_store: NewStore, cluster: Cluster
) -> None:
    """The error is one of its own: the save may be stored, or not."""
    provider = new_store()
    await provider.save(languages("first"), USER, AGENT)
    provider._server.connections._seconds = 1.0
    cluster.pause()
    try:
        with anyio.fail_after(60), pytest.raises(UnknownOutcomeError):
            await provider.save(languages("second"), USER, AGENT)
        with anyio.fail_after(60), pytest.raises(StorageError) as caught:
            await provider.load(LANGUAGES, USER, AGENT)
        assert not isinstance(caught.value, UnknownOutcomeError)
    finally:
        cluster.resume()

    assert isinstance(UnknownOutcomeError(""), StorageError)
    assert not isinstance(UnknownOutcomeError(""), StoreBusyError)
    assert await _count(new_store()) in (1, 2)


async def test_a_commit_that_no_standby_confirms_is_not_acknowledged(
    new_store: NewStore, cluster: Cluster
) -> None:
    """PostgreSQL reports success with a warning when an operator cancels the wait."""
    provider = new_store()
    await provider.save(languages("first"), USER, AGENT)

    def cancel(connection: psycopg.Connection) -> None:
        cancelled = False
        while not cancelled:
            time.sleep(0.05)
            cancelled = bool(
                connection.execute(
                    "SELECT pg_cancel_backend(pid) FROM pg_stat_activity "
                    "WHERE wait_event = 'SyncRep'"
                ).fetchall()
            )

    async def save_on() -> None:
        while True:  # the server takes a moment to read its configuration
            await provider.save(languages("second"), USER, AGENT)

    with psycopg.connect(cluster.dsn(), autocommit=True) as connection:
        connection.execute("ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
        connection.execute("SELECT pg_reload_conf()")
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(anyio.to_thread.run_sync, cancel, connection)
                with anyio.fail_after(60), pytest.raises(UnknownOutcomeError, match="standby"):
                    await save_on()
        finally:
            connection.execute("ALTER SYSTEM RESET synchronous_standby_names")
            connection.execute("SELECT pg_reload_conf()")
