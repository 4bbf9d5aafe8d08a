"""Encrypted stores: what the server sees, keys and their rotation, and rows that were changed."""

from collections.abc import Callable

import anyio
import psycopg
import pytest

from factmem.encryption import Aes256GCMEncryptor
from factmem.errors import (
    CorruptJournalError,
    DecryptionError,
    KeyRequiredError,
    TamperedError,
    WrongKeyError,
)
from factmem.models.places import MemorySubject
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


def _place(store: str) -> str:
    return f"(SELECT place FROM factmem.places JOIN factmem.stores USING (store) WHERE name = '{store}')"


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
        topics = "SELECT FROM factmem.topics JOIN factmem.stores USING (store) WHERE name = %s"
        assert connection.execute(topics, [store]).fetchall() == []


async def test_a_store_opens_with_its_key_only(
    sealed: Callable[..., PostgresMemoryProvider], new_store: NewStore
) -> None:
    """And a store in the clear not with one."""
    await _saved(sealed())

    with pytest.raises(KeyRequiredError):
        await new_store().load_all(USER, AGENT)
    with pytest.raises(WrongKeyError):
        await sealed(OTHER).load_all(USER, AGENT)

    clear = new_store(store="clear")
    await clear.save(languages("a"), USER, AGENT)
    with pytest.raises(TamperedError):
        await new_store(store="clear", encryption=Aes256GCMEncryptor(KEY)).load_all(USER, AGENT)
    with pytest.raises(ValueError, match="no keys"):
        _ = clear.keys


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


async def test_a_rotation_that_was_cut_short_is_finished_by_another(
    sealed: Callable[..., PostgresMemoryProvider], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By calling it again, also from a process that has the old key only."""
    provider = sealed()
    await _saved(provider)
    with monkeypatch.context() as patched:
        patched.setattr("factmem.providers._sql.keys.StoreKeys._outdated", lambda _: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            await provider.keys.rotate(OTHER)

    await sealed().keys.rotate(OTHER)

    assert len(await sealed(OTHER).load(LANGUAGES, USER, AGENT)) == 3


CHANGES = {
    "a bit of a line": "UPDATE factmem.entries SET line = set_byte(line, 20, get_byte(line, 20) # 1) "
    "WHERE place = {p} AND number = 2",
    "lines swapped": "UPDATE factmem.entries SET number = CASE number WHEN 2 THEN -3 ELSE -2 END "
    "WHERE place = {p} AND number IN (2, 3); "
    "UPDATE factmem.entries SET number = -number WHERE place = {p} AND number < 0",
    "the time of a line": "UPDATE factmem.entries SET at = at + 1 WHERE place = {p} AND number = 2",
    "a line removed": "DELETE FROM factmem.entries WHERE place = {p} AND number = 2",
    "the first line removed": "DELETE FROM factmem.entries WHERE place = {p} AND number = 1",
    "the last line removed": "DELETE FROM factmem.entries WHERE place = {p} AND number = 3",
    "the last line removed from the count too": "DELETE FROM factmem.entries "
    "WHERE place = {p} AND number = 3; UPDATE factmem.places SET last = 2 WHERE place = {p}",
    "all lines removed": "DELETE FROM factmem.entries WHERE place = {p}",
    "the tail": "UPDATE factmem.places SET tail = set_byte(tail, 3, get_byte(tail, 3) # 1) "
    "WHERE place = {p}",
    "the data key": "UPDATE factmem.places SET data_key = set_byte(data_key, 30, "
    "get_byte(data_key, 30) # 1) WHERE place = {p}",
    "no data key": "UPDATE factmem.places SET data_key = NULL WHERE place = {p}",
    "the names": "UPDATE factmem.places SET names = set_byte(names, 30, get_byte(names, 30) # 1) "
    "WHERE place = {p}",
    "a line doubled": "INSERT INTO factmem.entries SELECT place, 4, at, mark, store, line "
    "FROM factmem.entries WHERE place = {p} AND number = 3; "
    "UPDATE factmem.places SET last = 4 WHERE place = {p}",
}


@pytest.mark.parametrize("change", CHANGES)
async def test_changed_rows_do_not_verify(
    sealed: Callable[..., PostgresMemoryProvider], dsn: str, store: str, change: str
) -> None:
    """Whoever can write to the tables cannot change what is read from them."""
    await _saved(sealed())
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(CHANGES[change].format(p=_place(store)))

    with pytest.raises(TamperedError):
        await sealed().load(LANGUAGES, USER, AGENT)


async def test_a_place_put_under_another_name_does_not_verify(
    sealed: Callable[..., PostgresMemoryProvider], dsn: str, store: str
) -> None:
    """Neither its row nor its lines."""
    provider = sealed()
    await provider.save(languages("of alice"), PERSON.of("alice"), AGENT)
    await provider.save(languages("of bob"), PERSON.of("bob"), AGENT)
    with psycopg.connect(dsn, autocommit=True) as connection:
        found = connection.execute(
            "SELECT place FROM factmem.places JOIN factmem.stores USING (store) WHERE name = %s",
            [store],
        ).fetchall()
        one, two = (row[0] for row in found)
        for table in ("places", "entries"):
            for old, new in ((one, bytes(16)), (two, one), (bytes(16), two)):
                connection.execute(
                    f"UPDATE factmem.{table} SET place = %s WHERE place = %s", [new, old]
                )

    for name in ("alice", "bob"):
        with pytest.raises(TamperedError):
            await sealed().load(LANGUAGES, PERSON.of(name), AGENT)


async def test_a_place_that_was_changed_is_neither_saved_to_nor_counted(
    sealed: Callable[..., PostgresMemoryProvider], dsn: str, store: str
) -> None:
    """It can be erased."""
    await _saved(sealed())
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(CHANGES["the tail"].format(p=_place(store)))

    with pytest.raises(DecryptionError):
        await sealed().save(languages("more"), USER, AGENT)

    assert (await sealed().erase(USER, AGENT)).count is None
    await sealed().save(languages("again"), USER, AGENT)


@pytest.mark.parametrize("kind", ["plain", "sealed"])
async def test_an_anchor_detects_an_older_copy(
    new_store: NewStore, dsn: str, store: str, kind: str
) -> None:
    """Nothing in the database reveals it."""
    options = {} if kind == "plain" else {"encryption": Aes256GCMEncryptor(KEY)}
    provider = new_store(**options)
    await provider.verify(await provider.anchor())
    await _saved(provider)
    older = await provider.anchor()
    with psycopg.connect(dsn, autocommit=True) as connection:
        copies = (
            f"CREATE TABLE copy_{kind}_p AS SELECT * FROM factmem.places WHERE place = {_place(store)};"
            f"CREATE TABLE copy_{kind}_e AS SELECT * FROM factmem.entries WHERE place = {_place(store)}"
        )
        connection.execute(copies)
        await provider.save(languages("fourth"), USER, AGENT)
        anchor = await provider.anchor()
        await provider.verify(older)
        await provider.verify(anchor)

        connection.execute(
            f"DELETE FROM factmem.entries WHERE place = {_place(store)};"
            f"DELETE FROM factmem.places WHERE place = {_place(store)};"
            f"INSERT INTO factmem.places SELECT * FROM copy_{kind}_p;"
            f"INSERT INTO factmem.entries SELECT * FROM copy_{kind}_e;"
            f"DROP TABLE copy_{kind}_p, copy_{kind}_e"
        )

    assert len(await new_store(**options).load(LANGUAGES, USER, AGENT)) == 3
    await new_store(**options).verify(older)
    with pytest.raises((TamperedError, CorruptJournalError), match="had come to 4"):
        await new_store(**options).verify(anchor)
