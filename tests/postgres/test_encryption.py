"""Encrypted stores: what the server sees, rotations, changed rows, and keys that are destroyed."""

from collections.abc import Callable, Iterator
from pathlib import Path

import anyio
import orjson
import psycopg
import pytest

from factmem import Aes256GCMEncryptor, MemorySubject
from factmem.encryption import KeyFile, RenewableEncryption
from factmem.errors import DecryptionError, StorageError, TamperedError, WrongKeyError
from factmem.providers._sql.keys import StoreKeys
from factmem.providers.postgres import PostgresMemoryProvider
from factmem.testing._facts import AGENT, LANGUAGES, THEME, USER, languages, theme
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


ALICE, BOB = PERSON.of("alice"), PERSON.of("bob")


TABLES = ("stores", "places", "entries")


Copy = dict[str, list[tuple[object, ...]]]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return the path of a key file."""
    return tmp_path / "factmem.keys"


@pytest.fixture
def opened(new_store: NewStore, path: Path) -> Callable[[], PostgresMemoryProvider]:
    """Return a function that opens the test's store with the key file."""
    return lambda: new_store(encryption=KeyFile(path))


class Database:
    """The rows of one store, as a backup or a log of the server has them."""

    def __init__(self, connection: psycopg.Connection, store: str) -> None:
        self._connection = connection
        (self.number,) = connection.execute(
            "SELECT store FROM factmem.stores WHERE name = %s", [store]
        ).fetchone() or (0,)

    def copy(self) -> Copy:
        return {
            table: self._connection.execute(
                f"SELECT * FROM factmem.{table} WHERE store = %s", [self.number]
            ).fetchall()
            for table in TABLES
        }

    def restore(self, copy: Copy) -> None:
        for table in reversed(TABLES):
            self._connection.execute(f"DELETE FROM factmem.{table} WHERE store = %s", [self.number])
        for table, rows in copy.items():
            for row in rows:
                self._connection.execute(
                    f"INSERT INTO factmem.{table} OVERRIDING SYSTEM VALUE "
                    f"VALUES ({','.join(['%s'] * len(row))})",
                    row,
                )


@pytest.fixture
def connection(dsn: str) -> Iterator[psycopg.Connection]:
    """Return a connection of the administrator's."""
    with psycopg.connect(dsn, autocommit=True) as made:
        yield made


def _keys(path: Path) -> list[str]:
    """The keys of the one store that is open in a file."""
    keys: list[list[str]] = list(orjson.loads(path.read_bytes())["keys"].values())
    return keys[0]


async def test_what_was_erased_opens_in_no_copy(
    opened: Callable[[], PostgresMemoryProvider],
    connection: psycopg.Connection,
    store: str,
    path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Neither in a backup from before, nor in the log of what `shred` itself did."""
    provider = opened()
    await provider.save(theme("dark"), ALICE, AGENT)
    await provider.save(theme("light"), BOB, AGENT)
    database = Database(connection, store)
    before = database.copy()
    receipt = await provider.erase(ALICE, AGENT)
    assert receipt.copies_remain
    assert receipt.is_shreddable
    during: list[Copy] = []
    rewrap = StoreKeys._rewrap

    def watched(*arguments: object) -> None:
        rewrap(*arguments)  # type: ignore[arg-type]
        during.append(database.copy())

    monkeypatch.setattr(StoreKeys, "_rewrap", watched)
    done = await provider.shred()

    assert (done.began_at > receipt.erased_at, done.places) == (True, 1)
    after = database.copy()
    assert during
    for copy in (before, *during):
        database.restore(copy)
        with pytest.raises(WrongKeyError):
            await opened().load(THEME, ALICE, AGENT)
        slots = orjson.loads(str(copy["stores"][0][4]))
        with pytest.raises(WrongKeyError):
            KeyFile(path).unwrap(slots, str(copy["stores"][0][2]))
    database.restore(after)
    assert [fact.value for fact in await opened().load(THEME, BOB, AGENT)] == ["light"]
    assert len(_keys(path)) == 1


async def test_old_rows_do_not_open_under_the_new_key(
    opened: Callable[[], PostgresMemoryProvider], connection: psycopg.Connection, store: str
) -> None:
    """Rows of an erased place put back beside the store's new row, a purged line beside others."""
    provider = opened()
    for value in ("secret", "known"):
        await provider.save(languages(value), ALICE, AGENT)
    await provider.save(theme("light"), BOB, AGENT)
    database = Database(connection, store)
    before = database.copy()
    await provider.forget(ALICE, AGENT, concept=LANGUAGES, value="secret", purge=True)
    purged = database.copy()
    keys = {row[0]: row[11] for row in before["places"]}
    assert sum(keys[row[0]] != row[11] for row in purged["places"]) == 1
    await provider.erase(BOB, AGENT)

    await provider.shred()

    after = database.copy()
    database.restore({**before, "stores": after["stores"]})
    for person in (ALICE, BOB):
        with pytest.raises(TamperedError, match="does not have"):
            await opened().load_all(person, AGENT)
    database.restore(after)
    (fact,) = await opened().load(LANGUAGES, ALICE, AGENT)
    assert fact.values == ("known",)


async def test_others_go_on_while_keys_are_destroyed(
    opened: Callable[[], PostgresMemoryProvider], path: Path
) -> None:
    """Two hosts save, and two shred at once; no save is lost and every place opens."""
    hosts = [opened(), opened()]
    for number in range(20):
        await hosts[0].save(languages("first"), PERSON.of(f"p{number}"), AGENT)
    await hosts[1].places()

    async def save(host: PostgresMemoryProvider, name: str) -> None:
        for number in range(40):
            await host.save(languages(name), PERSON.of(f"p{number}"), AGENT)

    async with anyio.create_task_group() as group:
        for number, host in enumerate(hosts):
            group.start_soon(save, host, f"host {number}")
            group.start_soon(opened().shred)

    fresh = opened()
    for number in range(40):
        found = await fresh.load(LANGUAGES, PERSON.of(f"p{number}"), AGENT)
        assert {v for fact in found for v in fact.values} >= {"host 0", "host 1"}
    assert len(_keys(path)) == 1


async def test_keys_that_cannot_be_destroyed_are_refused(
    new_store: NewStore, opened: Callable[[], PostgresMemoryProvider]
) -> None:
    """The error names a kind that can, or the other keys."""
    key = Aes256GCMEncryptor.generate_key()
    fixed = new_store(store="fixed", encryption=Aes256GCMEncryptor(key))
    await fixed.save(theme("dark"), USER, AGENT)
    with pytest.raises(ValueError, match="KeyFile"):
        await fixed.shred()

    provider = opened()
    await provider.save(theme("dark"), USER, AGENT)
    await provider.keys.add(key)
    with pytest.raises(ValueError, match="remove"):
        await provider.shred()
    await provider.keys.remove(key)
    await provider.shred()


def test_a_key_file_overwrites_what_it_destroys(path: Path) -> None:
    """It is for its owner only; a copy of the old file's name is overwritten too."""
    keys = KeyFile(path)
    assert isinstance(keys, RenewableEncryption)
    store, other = "00" * 16, "11" * 16
    first, foreign = keys.wrap(b"ring", store), keys.wrap(b"other", other)
    assert path.stat().st_mode & 0o777 == 0o600
    with path.open("rb") as held:
        keys.renew(store)
        assert not held.read().strip(b"\0")
    second = keys.wrap(b"ring", store)
    assert keys.unwrap([first], store).ring == keys.unwrap([second], store).ring == b"ring"

    keys.destroy_unused([second], store)

    with pytest.raises(WrongKeyError):
        keys.unwrap([first], store)
    assert keys.unwrap([foreign], other).ring == b"other"
    with pytest.raises(WrongKeyError):
        keys.destroy_unused([first], store)
    assert keys.unwrap([second], store).ring == b"ring"
    with pytest.raises(WrongKeyError, match="another file"):
        keys.unwrap([first], "22" * 16)
    assert {each.name for each in path.parent.iterdir()} == {path.name, f"{path.name}.lock"}


def test_a_key_file_survives_a_kill_between_its_steps(path: Path) -> None:
    """The name of the old file may still stand beside it, as the same file or as another."""
    keys = KeyFile(path)
    slot = keys.wrap(b"ring", "00" * 16)
    beside = path.with_name(f"{path.name}.old")
    beside.hardlink_to(path)
    keys.renew("00" * 16)
    assert keys.unwrap([slot], "00" * 16).ring == b"ring"
    beside.write_bytes(b"an older file")
    path.with_name(f"{path.name}.new").write_bytes(b"half")
    keys.renew("00" * 16)
    assert keys.unwrap([slot], "00" * 16).ring == b"ring"
    assert not beside.exists()
    path.write_bytes(b"[]")
    with pytest.raises(StorageError, match="is not a key file"):
        keys.unwrap([slot], "00" * 16)
    with pytest.raises(TypeError, match="KeyFile"):
        KeyFile(5)  # type: ignore[arg-type]
