"""Two tenants in one PostgreSQL database, with two hosts, separate keys and a final erasure.

DATABASE_URL="host=127.0.0.1 dbname=app user=app" python examples/postgres_tenants.py
"""

from importlib.util import find_spec

if find_spec("psycopg") is None:
    raise SystemExit("This example needs more: pip install 'factmem[postgres]'")


import os
from pathlib import Path
from secrets import token_hex
from tempfile import TemporaryDirectory

import anyio

from factmem import Concept, MemoryScope, MemorySubject, SingleFact
from factmem.encryption import KeyFile
from factmem.providers import PostgresMemoryProvider

CITY = Concept("city", "Where the user lives")
USER = MemorySubject("user", "The person the agent talks to", 1, per_entity=True)
APP = MemoryScope.Product("my-app")


def open_store(dsn: str, tenant: str, folder: Path) -> PostgresMemoryProvider:
    """Return the store of a tenant. Each host opens it like this."""
    keys = KeyFile(folder / f"{tenant}.keys")  # outside the database and its backups
    return PostgresMemoryProvider(dsn, store=f"example-{tenant}", encryption=keys)


async def main(dsn: str, folder: Path) -> None:
    """Save on one host, load on another, and erase."""
    run = token_hex(4)  # a new store, because the keys of an earlier run no longer exist
    async with (
        open_store(dsn, f"north-{run}", folder) as one_host,
        open_store(dsn, f"north-{run}", folder) as another_host,
        open_store(dsn, f"south-{run}", folder) as south,
    ):
        await one_host.migrate()  # in a deployment step, as a role that may create tables
        await one_host.save(SingleFact(CITY, "Busan"), USER.of("alice"), APP)
        for fact in await another_host.load(CITY, USER.of("alice"), APP):
            print(f"another host reads: {fact.value}")
        print(f"another tenant reads: {await south.load(CITY, USER.of('alice'), APP)}")

        anchor = await one_host.anchor()  # keep it outside the database
        await another_host.verify(anchor)
        for place in await one_host.list_places(limit=100):
            print(f"place: {place}")

        receipt = await one_host.erase(USER.of("alice"), APP)
        print(f"erased {receipt.count}; copies remain: {receipt.copies_remain}")
        await another_host.shred()  # nightly; now erased facts are unreadable in logs and backups
        print("final")


if __name__ == "__main__":
    if "DATABASE_URL" in os.environ:
        with TemporaryDirectory() as name:
            anyio.run(main, os.environ["DATABASE_URL"], Path(name))
    else:
        print("No server: set DATABASE_URL to a libpq connection string to run this example")
