"""The store in local files passes the contract of durable stores, plain and encrypted."""

import random
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

import tests.processes  # noqa: F401 - its server has imported what the other processes need
from factmem.encryption.aes256gcm import Aes256GCMEncryptor
from factmem.models.when import TimeProvider, system_clock
from factmem.providers.local_file import LocalFileMemoryProvider
from factmem.providers.storages import EncryptedStorage, SimpleStorage
from tests.contracts.durable import Damage, DurableStoreContract, StoreFolder

WHOLE_PLACE = ("places", "entries", "topics")
"""The tables that have the rows of a place."""

BY_SQL = (
    "DELETE FROM places WHERE place = :a",
    "DELETE FROM entries WHERE place = :a",
    "DELETE FROM entries WHERE place = :a AND number = 1",
    "DELETE FROM entries WHERE place = :a AND number = (SELECT max(number) FROM entries WHERE place = :a)",
    "UPDATE entries SET number = 1000 - number WHERE place = :a",
    "UPDATE entries SET number = number + 1000 WHERE place = :a AND number = 2",
    "UPDATE entries SET at = at + 1 WHERE place = :a AND number = 2",
    "UPDATE entries SET line = (SELECT line FROM entries ORDER BY place, number LIMIT 1)",
    "UPDATE entries SET line = (SELECT max(line) FROM entries WHERE place = :b) WHERE place = :a",
    "UPDATE entries SET line = CAST(replace(CAST(line AS TEXT), 'java', 'lisp') AS BLOB)",
    "UPDATE entries SET line = CAST(substr(line, 1, length(line) - 1) AS BLOB) WHERE place = :a",
    "INSERT INTO entries SELECT place, number + 100, at, line FROM entries WHERE place = :a",
    "INSERT INTO entries SELECT :a, number + 100, at, line FROM entries WHERE place = :b",
    "UPDATE places SET names = (SELECT names FROM places WHERE place = :b) WHERE place = :a",
    "UPDATE places SET last = last - 1 WHERE place = :a",
    "UPDATE places SET last = last + 1 WHERE place = :a",
    "UPDATE places SET last = 0, bytes = 0 WHERE place = :a",
    "UPDATE places SET snapshot = snapshot + 1, made = made + 1 WHERE place = :a",
    "UPDATE places SET tail = NULL, data_key = NULL WHERE place = :a",
    "UPDATE places SET tail = (SELECT tail FROM places WHERE place = :b) WHERE place = :a",
    "UPDATE places SET data_key = (SELECT data_key FROM places WHERE place = :b) WHERE place = :a",
)
"""Changes of the place `a`, which has the rows of a place `b` beside it."""


class LocalStores(DurableStoreContract):
    """Opens local stores, and damages them."""

    flips = 15
    """The bytes of the database that are changed, one at a time."""

    def open_store(
        self, folder: Path, keys: Sequence[str], clock: TimeProvider = system_clock
    ) -> LocalFileMemoryProvider:
        storage = EncryptedStorage(Aes256GCMEncryptor(*keys)) if keys else SimpleStorage()
        return LocalFileMemoryProvider(folder, storage=storage, clock=clock)

    def tampered(self, home: StoreFolder, older: StoreFolder) -> Iterator[Damage]:
        """Damage the database by bytes and by SQL; put back a place, as a whole and in part."""
        content = home.files()["facts.db"]
        dice = random.Random(len(content))
        for at in sorted(dice.randrange(len(content)) for _ in range(self.flips)):
            yield Damage(f"a bit at {at}", partial(_flip, at, 1 << dice.randrange(8)))
        for size in (0, 100, 4096, len(content) // 2, len(content) - 4096):
            yield Damage(f"cut at {size}", partial(_cut, size))
        yield Damage(
            "another id", partial(_run, ["UPDATE stores SET id = lower(hex(zeroblob(16)))"])
        )
        yield Damage("no row of the store", partial(_run, ["DELETE FROM stores"]))
        for statement in BY_SQL:
            yield Damage(statement, partial(_run, [statement]))
        gone = [f"DELETE FROM {table} WHERE place = :a" for table in WHOLE_PLACE]
        yield Damage("a whole place deleted", partial(_run, gone), by_anchor_only=True)
        for tables in (("places",), ("entries",), WHOLE_PLACE):
            name, is_whole = f"{', '.join(tables)} put back", tables == WHOLE_PLACE
            yield Damage(name, partial(_put_back, older.path, tables), by_anchor_only=is_whole)

    @pytest.mark.storm
    @pytest.mark.parametrize("anyio_backend", ["asyncio"])
    async def test_damage_anywhere_is_never_read(
        self, home: StoreFolder, tmp_path: Path, thorough: bool
    ) -> None:
        self.flips = 300 if thorough else 80
        await self.test_damage_is_never_read(home, tmp_path)


def _flip(at: int, mask: int, folder: Path) -> None:
    content = bytearray((folder / "facts.db").read_bytes())
    content[at] ^= mask
    (folder / "facts.db").write_bytes(content)


def _cut(size: int, folder: Path) -> None:
    (folder / "facts.db").write_bytes((folder / "facts.db").read_bytes()[:size])


def _run(statements: Sequence[str], folder: Path) -> None:
    with closing(sqlite3.connect(folder / "facts.db")) as db, db:
        (first,), (second,) = db.execute("SELECT place FROM places ORDER BY place LIMIT 2")
        for statement in statements:
            db.execute(statement, {"a": first, "b": second})


def _put_back(older: Path, tables: Sequence[str], folder: Path) -> None:
    with closing(sqlite3.connect(folder / "facts.db")) as db:
        db.execute("ATTACH ? AS older", (str(older / "facts.db"),))
        with db:
            ((place,),) = db.execute("SELECT min(place) FROM places")
            for table in tables:
                db.execute(f"DELETE FROM {table} WHERE place = ?", (place,))
                db.execute(
                    f"INSERT INTO {table} SELECT * FROM older.{table} WHERE place = ?", (place,)
                )


class TestPlain(LocalStores):
    pass


class TestEncrypted(LocalStores):
    is_encrypted = True
