"""Encrypted stores: what the server sees, keys and their rotation, and rows that were changed."""

from collections.abc import Callable

import anyio
import psycopg
import pytest

from factmem import Aes256GCMEncryptor, MemorySubject
from factmem.errors import DecryptionError, WrongKeyError
from factmem.providers.postgres import PostgresMemoryProvider
from factmem.testing._facts import AGENT, LANGUAGES, USER, languages
from tests.postgres.conftest import NewStore

KEY = Aes256GCMEncryptor.generate_key()
OTHER = Aes256GCMEncryptor.generate_key()
PERSON = MemorySubject("person", "", 1, per_entity=True)


@pytest.fixture
def sealed(new_store: NewStore) -> Callable[..., PostgresMemoryProvider]:
    """Return a function that opens the test's store with a key."""
    return lambda key=KEY: new_store(encryption=Aes256GCMEncryptor(key))


async def _saved(provider: PostgresMemoryProvider) -> None:
    for value in ("first", "second", "third"):
        await provider.save(languages(value), USER, AGENT)


async def test_the_server_sees_no_name_and_no_value(
    sealed: Callable[..., PostgresMemoryProvider], dsn: str, store: str
) -> None:
    """Not in any column of any table."""
    provider = sealed()
    await provider.save(languages("swordfish"), PERSON.of("marlene"), AGENT)
    assert await provider.write_index(
        PERSON.of("marlene"),
        AGENT,
        b"swordfish",
        version=await provider.version(PERSON.of("marlene"), AGENT),
    )

    with psycopg.connect(dsn) as connection:
        for table in ("places", "entries", "indexes"):
            rows = connection.execute(
                f"SELECT t::text FROM factmem.{table} t JOIN factmem.stores s USING (store) "
                "WHERE s.name = %s",
                [store],
            ).fetchall()
            assert rows
            for secret in ("swordfish", "marlene", "languages"):
                assert secret.encode().hex() not in str(rows)
                assert secret not in str(rows)


async def test_rotation_shuts_out_the_old_key_while_others_write(
    sealed: Callable[..., PostgresMemoryProvider],
) -> None:
    """Every place gets a new data key, also those made meanwhile."""
    provider, both = sealed(), None
    for number in range(30):
        await provider.save(languages("before"), PERSON.of(f"p{number}"), AGENT)
    await provider.keys.add(OTHER)
    both = sealed(OTHER)
    await both.load(LANGUAGES, PERSON.of("p0"), AGENT)

    async def save() -> None:
        for number in range(60):
            await both.save(languages("during"), PERSON.of(f"p{number}"), AGENT)

    async with anyio.create_task_group() as group:
        group.start_soon(save)
        await provider.keys.rotate(OTHER)

    fresh = sealed(OTHER)
    assert len(await fresh.places()) == 60
    for number in range(60):
        found = await fresh.load(LANGUAGES, PERSON.of(f"p{number}"), AGENT)
        assert {v for fact in found for v in fact.values} >= {"during"}
    assert len(await provider.load(LANGUAGES, PERSON.of("p0"), AGENT)) == 2
    with pytest.raises(WrongKeyError):
        await sealed().load(LANGUAGES, USER, AGENT)


async def test_a_place_that_was_changed_is_neither_saved_to_nor_counted(
    sealed: Callable[..., PostgresMemoryProvider], dsn: str, store: str
) -> None:
    """It can be erased."""
    await _saved(sealed())
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(
            "UPDATE factmem.places SET tail = set_byte(tail, 3, get_byte(tail, 3) # 1) "
            "WHERE store = (SELECT store FROM factmem.stores WHERE name = %s)",
            [store],
        )

    with pytest.raises(DecryptionError):
        await sealed().save(languages("more"), USER, AGENT)

    assert (await sealed().erase(USER, AGENT)).count is None
    await sealed().save(languages("again"), USER, AGENT)
