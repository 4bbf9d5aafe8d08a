"""Saves and loads are prepared statements with binary parameters, and know when that cannot be."""

import struct
from collections.abc import Sequence
from uuid import UUID

import anyio
import psycopg
import pytest

from factmem.errors import StorageError, UnknownOutcomeError
from factmem.providers._postgres import binary
from factmem.providers._postgres.driver import Session
from factmem.providers.postgres import PostgresMemoryProvider
from factmem.encryption import Aes256GCMEncryptor
from factmem.testing.facts import AGENT, LANGUAGES, THEME, USER, languages, theme
from tests.postgres.cluster import Cluster
from tests.postgres.conftest import NewStore
from tests.postgres.pooler import Pooler

NUMBERS = (0, -1, 2**40, -(2**62))
KEYS = ("00" * 16, "0123456789abcdef" * 2)
BYTES = (b"", b"\0", b'a"\\{},', None, b"\xff" * 300)


@pytest.mark.parametrize("count", [0, 1, 2, 4])
def test_arrays_are_read_by_the_server_as_they_were_meant(dsn: str, count: int) -> None:
    """Empty ones, NULLs, and bytes that would have to be quoted in text."""

    def read(given: bytes, kind: str) -> Sequence[object]:
        result = connection.pgconn.exec_params(
            f"SELECT $1::{kind}[]".encode(), [given], param_formats=[1], result_format=1
        )
        transformer = psycopg.adapt.Transformer(connection)
        transformer.set_pgresult(result, format=psycopg.pq.Format.BINARY)
        (row,) = transformer.load_rows(0, 1, tuple)
        found: Sequence[object] = row[0]
        return found

    with psycopg.connect(dsn) as connection:
        assert read(binary.integers(NUMBERS[:count]), "bigint") == list(NUMBERS[:count])
        assert read(binary.keys(KEYS[:count]), "uuid") == [UUID(key) for key in KEYS[:count]]
        assert read(binary.byte_strings(BYTES[:count]), "bytea") == list(BYTES[:count])
    assert binary.key(KEYS[1]) == UUID(KEYS[1]).bytes
    assert binary.integer(-5) == struct.pack(">q", -5)


def _prepared(provider: PostgresMemoryProvider) -> set[str]:
    """Return what the idle connection of a provider has prepared, by the server's own list."""
    rows = provider._places.connections.run(
        lambda session, _: session.rows("SELECT name FROM pg_prepared_statements")
    )
    return {name for (name,) in rows if name.startswith("factmem ")}


def _drop_statements(provider: PostgresMemoryProvider) -> None:
    """Have the server drop all prepared statements, without psycopg noticing."""

    def drop(session: Session, _: int) -> None:
        session._connection.pgconn.exec_(b"DEALLOCATE ALL")

    provider._places.connections.run(drop)


async def test_saves_and_loads_are_prepared_once(new_store: NewStore) -> None:
    """From the first one on, whatever else the connection runs in between."""
    provider = new_store(max_connections=1)
    await provider.save(theme("dark"), USER, AGENT)
    await provider.load(THEME, USER, AGENT)

    assert _prepared(provider) == {"factmem append one", "factmem read one"}


async def test_a_statement_that_the_server_dropped_is_prepared_again(new_store: NewStore) -> None:
    """As psycopg has it drop all of them after a ROLLBACK, and an administrator may."""
    provider = new_store(max_connections=1)
    await provider.save(theme("dark"), USER, AGENT)
    await provider.load(THEME, USER, AGENT)
    for value in ("light", "blue"):
        _drop_statements(provider)

        await provider.save(theme(value), USER, AGENT)
        _drop_statements(provider)
        assert [fact.value for fact in await provider.load(THEME, USER, AGENT)] == [value]

    assert len(await provider.entries(USER, AGENT)) == 3


async def test_what_was_prepared_after_a_drop_is_not_prepared_twice(new_store: NewStore) -> None:
    """Which statements the server still has is known for each of them, not for all at once."""
    provider = new_store(max_connections=1)
    await provider.save(theme("dark"), USER, AGENT)
    _drop_statements(provider)
    await provider.load(THEME, USER, AGENT)

    await provider.save(theme("light"), USER, AGENT)

    assert [fact.value for fact in await provider.load(THEME, USER, AGENT)] == ["light"]


async def test_statements_that_psycopg_prepared_may_be_dropped_too(new_store: NewStore) -> None:
    """It does not prepare them again on the same connection, so another one is used."""
    provider = new_store(max_connections=1, timeout=10)
    for _ in range(6):
        await provider.save(theme("dark"), USER, AGENT)
        assert len(await provider.places()) == 1
    _drop_statements(provider)

    assert len(await provider.places()) == 1


async def test_an_encrypted_save_survives_the_drop_of_its_statements(new_store: NewStore) -> None:
    """It has several statements in a transaction, which is repeated."""
    key = Aes256GCMEncryptor.generate_key()
    provider = new_store(max_connections=1, encryption=Aes256GCMEncryptor(key))
    await provider.save(languages("one"), USER, AGENT)
    _drop_statements(provider)

    await provider.save(languages("two"), USER, AGENT)

    assert len(await provider.load(LANGUAGES, USER, AGENT)) == 2
    assert len(await provider.entries(USER, AGENT)) == 2


async def test_nothing_is_prepared_behind_a_pooler(store: str, pooler: Pooler) -> None:
    """The next statement may run on another connection of the server."""
    async with PostgresMemoryProvider(pooler.dsn(), store=store, max_connections=8) as provider:
        async with anyio.create_task_group() as group:
            for number in range(40):
                group.start_soon(provider.save, languages(f"v{number}"), USER, AGENT)
        found = await provider.load(LANGUAGES, USER, AGENT)

        assert len(found) == 40
        assert _prepared(provider) == set()


async def test_a_read_without_an_answer_has_no_unknown_outcome(
    new_store: NewStore, cluster: Cluster
) -> None:
    """Nothing was written, and a caller that handles unknown writes need not look for them."""
    provider = new_store(timeout=1.0)
    await provider.save(theme("dark"), USER, AGENT)
    await provider.load(THEME, USER, AGENT)
    cluster.pause()
    try:
        with anyio.fail_after(10), pytest.raises(StorageError) as caught:
            await provider.load(THEME, USER, AGENT)
    finally:
        cluster.resume()

    assert not isinstance(caught.value, UnknownOutcomeError)
