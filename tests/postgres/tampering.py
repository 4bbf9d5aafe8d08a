"""Random changes to the rows of an encrypted store: each is noticed, or changes nothing that is read.

    python -m tests.postgres.tampering --cases 1000

Prints how many changes of each kind were noticed by reads alone, and by an anchor besides; exits
with 1 if one changed what is read and was not noticed.
"""

import argparse
import sys
import tempfile
import uuid
from pathlib import Path
from random import Random
from typing import Any

import anyio
import psycopg

from factmem.encryption import Aes256GCMEncryptor
from factmem.errors import FactmemError
from factmem.models.places import Identity, MemorySubject
from factmem.providers.postgres import PostgresMemoryProvider
from factmem.testing._facts import AGENT, LANGUAGES, languages, theme
from tests.postgres.cluster import Cluster
from tests.storms.changed_rows import (
    TABLES,
    Outcome,
    Tables,
    changes,
    copied,
    print_counts,
    unnoticed,
)

PERSON = MemorySubject("person", "", 1, per_entity=True)
KINDS = changes(
    without={"store", "name", "id", "mode", "place", "mark", "recorded_at", "purged", "erasures"}
)


def _read_rows(connection: psycopg.Connection, store: int) -> Tables:
    found: Tables = {}
    for table in TABLES:
        cursor = connection.execute(f"SELECT * FROM factmem.{table} WHERE store = %s", [store])
        names = [column.name for column in cursor.description or ()]
        found[table] = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
    return found


def _write_rows(connection: psycopg.Connection, store: int, tables: Tables) -> None:
    with connection.transaction():
        for table in TABLES:
            connection.execute(f"DELETE FROM factmem.{table} WHERE store = %s", [store])
            for row in tables[table]:
                marks = ",".join(["%s"] * len(row))
                connection.execute(
                    f"INSERT INTO factmem.{table} ({','.join(row)}) OVERRIDING SYSTEM VALUE "
                    f"VALUES ({marks})",
                    list(row.values()),
                )


class Trial:
    """An encrypted store with places, some of them purged or erased, and copies of its past."""

    def __init__(self, dsn: str, connection: psycopg.Connection) -> None:
        self._dsn = dsn
        self._connection = connection
        self._name = uuid.uuid4().hex
        self._key = Aes256GCMEncryptor.generate_key()
        self._older: list[Tables] = []

    def _opened(self) -> PostgresMemoryProvider:
        encryption = Aes256GCMEncryptor(self._key)
        return PostgresMemoryProvider(self._dsn, store=self._name, encryption=encryption)

    async def prepare(self) -> None:
        """Fill the store."""
        people = [PERSON.of(f"p{number}") for number in range(5)]
        async with self._opened() as store:
            for turn in range(3):
                for person in people:
                    await store.save(languages(f"v{turn}"), person, AGENT)
                    await store.save(theme(f"theme {turn}"), person, AGENT)
                self._keep()
            await store.forget(people[0], AGENT, concept=LANGUAGES, value="v1", purge=True)
            await store.erase(people[1], AGENT)
            self._keep()
            await store.erase(people[2], AGENT)
            await store.save(languages("again"), people[2], AGENT)
            self._truth = await self._read(store)
            self._anchor = await store.anchor()
        self._now = _read_rows(self._connection, self._number)

    def _keep(self) -> None:
        row = self._connection.execute(
            "SELECT store FROM factmem.stores WHERE name = %s", [self._name]
        ).fetchone()
        assert row is not None
        self._number: int = row[0]
        self._older.append(_read_rows(self._connection, self._number))

    async def _read(self, store: PostgresMemoryProvider) -> dict[Identity, object]:
        places = await store.places()
        held = {p.place.identity: await store.entries(p.subject, p.scope) for p in places}
        for number in range(5):
            person = PERSON.of(f"p{number}")
            assert len(await store.places(subjects=[person])) == (number != 1)
        return dict(held)

    async def change(self, random: Random) -> Outcome | None:
        """Change rows, and look; None where the change left all as it was."""
        kind = random.choice(list(KINDS))
        changed = copied(self._now)
        KINDS[kind](random, changed, self._older)
        if all(_same(changed[table], self._now[table]) for table in TABLES):
            return None
        try:
            _write_rows(self._connection, self._number, changed)
        except psycopg.Error:
            return None  # the tables themselves refuse it: two rows of one key
        try:
            return await self._judged(kind)
        finally:
            _write_rows(self._connection, self._number, self._now)

    async def _judged(self, kind: str) -> Outcome:
        is_harmless, is_alone, is_noticed = True, False, False
        async with self._opened() as store:
            try:
                is_harmless = await self._read(store) == self._truth
            except (FactmemError, AssertionError) as exc:
                is_alone = isinstance(exc, FactmemError)
                is_harmless = False
        async with self._opened() as store:
            try:
                await store.verify(self._anchor)
            except FactmemError:
                is_noticed = True
        return Outcome(kind, is_alone, is_alone or is_noticed, is_harmless)


def _same(one: list[dict[str, Any]], two: list[dict[str, Any]]) -> bool:
    def order(row: dict[str, Any]) -> str:
        return str(row)

    return sorted(one, key=order) == sorted(two, key=order)


async def run(dsn: str, cases: int, seed: int) -> list[Outcome]:
    """Change a store in many ways, one after the other."""
    random, outcomes = Random(seed), list[Outcome]()
    with psycopg.connect(dsn, autocommit=True) as connection:
        trial = Trial(dsn, connection)
        await trial.prepare()
        while len(outcomes) < cases:
            outcome = await trial.change(random)
            if outcome is not None:
                outcomes.append(outcome)
    return outcomes


def main() -> int:
    """Run as many cases as the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as folder,
        Cluster(Path(folder) / "data", fsync="off") as server,
    ):
        outcomes = anyio.run(run, server.dsn(), given.cases, given.seed)
    print_counts(KINDS, outcomes)
    print(f"{len(unnoticed(outcomes))} unnoticed of {len(outcomes)}")
    return 1 if unnoticed(outcomes) else 0


if __name__ == "__main__":
    sys.exit(main())
