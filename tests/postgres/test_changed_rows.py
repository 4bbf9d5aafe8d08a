"""Rows of a plain store that another program changed raise factmem's error, without values.

The errors of parsers are `ValueError`s, as those of wrong arguments, and quote what they parse.
"""

import uuid
from collections.abc import Awaitable, Callable

import psycopg
import pytest

from factmem.encryption import Aes256GCMEncryptor
from factmem.errors import CorruptJournalError
from factmem.providers.postgres import PostgresMemoryProvider
from factmem.testing._facts import AGENT, LANGUAGES, USER, languages
from tests.postgres.cluster import Cluster
from tests.postgres.conftest import NewStore
from tests.storms.changed_rows import TABLES, Tables, Trial, changes, run, unnoticed

Read = Callable[[PostgresMemoryProvider], Awaitable[object]]


READS: dict[str, Read] = {
    "load": lambda store: store.load(LANGUAGES, USER, AGENT),
    "load all": lambda store: store.load_all(USER, AGENT),
    "history": lambda store: store.history(LANGUAGES, USER, AGENT),
    "entries": lambda store: store.entries(USER, AGENT),
    "places": lambda store: store.places(),
    "verify": lambda store: store.verify(),
    "purge": lambda store: store.forget(USER, AGENT, concept=LANGUAGES, value="v1", purge=True),
}


LINES = {
    "no JSON": b"secret, and no JSON",
    "cut off": b'{"facts":[{"keyword":"secret',
    "no text": b"\x00\xffsecret",
    "no object": b'"secret"',
    "two": b'{"facts":["secret"]},{}',
    "none": b"",
    "wide": b'{"wide":true,"facts":secret',
}


def _change(dsn: str, store: str, statement: str, *given: object) -> None:
    of_store = f"{statement} AND store = (SELECT store FROM factmem.stores WHERE name = %s)"
    with psycopg.connect(dsn) as connection:
        assert connection.execute(of_store.encode(), [*given, store]).rowcount == 1


async def _fails(read: Read, store: PostgresMemoryProvider) -> None:
    for _ in range(2):
        with pytest.raises(
            CorruptJournalError, match=r"of a place (cannot be read|are missing)"
        ) as caught:
            await read(store)
        assert "secret" not in str(caught.value)


@pytest.mark.parametrize("line", LINES.values(), ids=LINES)
@pytest.mark.parametrize("read", READS.values(), ids=READS)
async def test_a_line(new_store: NewStore, dsn: str, store: str, read: Read, line: bytes) -> None:
    one = new_store()
    for number in range(3):
        await one.save(languages(f"v{number}"), USER, AGENT)
    _change(dsn, store, "UPDATE factmem.entries SET line = %s WHERE number = 2", line)
    await _fails(read, new_store())


@pytest.mark.parametrize("at", [-(1 << 62), 1 << 62])
@pytest.mark.parametrize("line", [b"{}", b'{"wide":true,"facts":[]}'], ids=["narrow", "wide"])
async def test_a_time(new_store: NewStore, dsn: str, store: str, at: int, line: bytes) -> None:
    await new_store().save(languages("v0"), USER, AGENT)
    _change(
        dsn, store, "UPDATE factmem.entries SET (line, at) = (%s, %s) WHERE number = 1", line, at
    )
    await _fails(READS["load all"], new_store())


@pytest.mark.parametrize("number", [1, 2, 3])
@pytest.mark.parametrize("read", READS.values(), ids=READS)
async def test_a_removed_row(
    new_store: NewStore, dsn: str, store: str, read: Read, number: int
) -> None:
    """The row of the place says how many bytes its lines have."""
    one = new_store()
    for value in ("v0", "v1", "v2"):
        await one.save(languages(value), USER, AGENT)
    _change(dsn, store, "DELETE FROM factmem.entries WHERE number = %s", number)
    await _fails(read, new_store())


async def test_a_follower_notices_a_removed_row(new_store: NewStore, dsn: str, store: str) -> None:
    """It reads the new rows of a place that it has read before."""
    one, follower = new_store(), new_store()
    await one.save(languages("v0"), USER, AGENT)
    await follower.load(LANGUAGES, USER, AGENT)
    await one.save_many([languages("v1")], USER, AGENT)
    await one.save_many([languages("v2")], USER, AGENT)
    _change(dsn, store, "DELETE FROM factmem.entries WHERE number = 2")
    await _fails(READS["load"], follower)


async def test_a_place_of_which_a_row_was_removed_can_be_erased(
    new_store: NewStore, dsn: str, store: str
) -> None:
    """Its facts are not counted."""
    one = new_store()
    for value in ("v0", "v1"):
        await one.save(languages(value), USER, AGENT)
    _change(dsn, store, "DELETE FROM factmem.entries WHERE number = 2")

    assert (await new_store().erase(USER, AGENT)).count is None
    assert await new_store().places() == []


@pytest.mark.parametrize("names", [b"secret", b'["secret"]', b"7"])
async def test_names(new_store: NewStore, dsn: str, store: str, names: bytes) -> None:
    await new_store().save(languages("v0"), USER, AGENT)
    _change(dsn, store, "UPDATE factmem.places SET names = %s WHERE true", names)
    for name in ("load", "load all", "entries", "places"):
        await _fails(READS[name], new_store())


KINDS = changes(
    without={"store", "name", "id", "mode", "place", "mark", "recorded_at", "purged", "erasures"}
)


class Rows(Trial):
    """An encrypted store on a server."""

    refusals = (psycopg.Error,)

    def __init__(self, dsn: str, connection: psycopg.Connection) -> None:
        super().__init__(KINDS, is_encrypted=True)
        self._dsn, self._connection, self._name = dsn, connection, uuid.uuid4().hex
        self._key = Aes256GCMEncryptor.generate_key()

    def opened(self) -> PostgresMemoryProvider:
        encryption = Aes256GCMEncryptor(self._key)
        return PostgresMemoryProvider(self._dsn, store=self._name, encryption=encryption)

    def tables(self) -> Tables:
        query = "SELECT store FROM factmem.stores WHERE name = %s"
        ((self._number,),) = self._connection.execute(query, [self._name]).fetchall()
        found: Tables = {}
        for table in TABLES:
            mine = f"SELECT * FROM factmem.{table} WHERE store = %s"
            cursor = self._connection.execute(mine, [self._number])
            names = [column.name for column in cursor.description or ()]
            found[table] = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
        return found

    def write(self, tables: Tables) -> None:
        with self._connection.transaction():
            for table in TABLES:
                mine = f"DELETE FROM factmem.{table} WHERE store = %s"
                self._connection.execute(mine, [self._number])
                for row in tables[table]:
                    marks = ",".join(["%s"] * len(row))
                    self._connection.execute(
                        f"INSERT INTO factmem.{table} ({','.join(row)}) OVERRIDING SYSTEM VALUE "
                        f"VALUES ({marks})",
                        list(row.values()),
                    )


async def test_no_change_goes_unnoticed(cluster: Cluster) -> None:
    """With an anchor from outside the database."""
    with psycopg.connect(cluster.dsn(), autocommit=True) as connection:
        outcomes = await run(Rows(cluster.dsn(), connection), KINDS, cases=50, seed=7)

    assert unnoticed(outcomes) == []
    assert sum(each.is_noticed for each in outcomes) > 25
