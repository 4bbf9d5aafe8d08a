"""Random changes to an encrypted store's rows: each is noticed, or changes no read.

    python -m tests.postgres.tampering --cases 1000

Prints how many changes of each kind were noticed by reads alone, and by an anchor besides; exits
with 1 if one changed what is read and was not noticed.
"""

import argparse
import sys
import tempfile
import uuid
from pathlib import Path

import anyio
import psycopg

from factmem.encryption import Aes256GCMEncryptor
from factmem.providers.postgres import PostgresMemoryProvider
from tests.postgres.cluster import Cluster
from tests.storms.changed_rows import (
    TABLES,
    Outcome,
    Tables,
    Trial,
    changes,
    print_counts,
    run,
    unnoticed,
)

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


async def tampered(dsn: str, cases: int, seed: int) -> list[Outcome]:
    """Change a store in many ways."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        return await run(Rows(dsn, connection), KINDS, cases=cases, seed=seed)


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
        outcomes = anyio.run(tampered, server.dsn(), given.cases, given.seed)
    print_counts(KINDS, outcomes)
    print(f"{len(unnoticed(outcomes))} unnoticed of {len(outcomes)}")
    return 1 if unnoticed(outcomes) else 0


if __name__ == "__main__":
    sys.exit(main())
