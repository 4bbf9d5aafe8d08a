"""Prepared statements that the server drops, and poolers that have none."""

import anyio
import pytest

from factmem.encryption import Aes256GCMEncryptor
from factmem.providers._sql.session import Session
from factmem.providers.postgres import PostgresMemoryProvider
from factmem.testing._facts import AGENT, LANGUAGES, THEME, USER, languages, theme
from tests.postgres.conftest import NewStore
from tests.postgres.pooler import Pooler

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
