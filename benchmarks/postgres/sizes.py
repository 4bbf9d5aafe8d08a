"""The times of a cold load, a save, a listing and a change, with many places and with a large one.

python -m benchmarks.postgres.sizes --places 100000 --facts 100000

Prints the median of each in milliseconds. The first part compares with a nearly empty database,
measured alternately.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import anyio
import psycopg

from factmem.ledger.entries import Entry, encoded_entry, stored
from factmem.models.facts import Concept, FactType, MultipleFacts, SingleFact
from factmem.models.places import MemoryScope, MemorySubject, identity_of
from factmem.providers._sql.writing import made_number
from factmem.providers.postgres import PostgresMemoryProvider
from tests.postgres.cluster import Cluster

USER = MemorySubject("user", "", 1, per_entity=True)
APP = MemoryScope.Product("bench")
FACTS = 20
KEYWORDS = 1000
CONCEPTS = [Concept(f"concept-{n}", f"What is known of {n}") for n in range(FACTS)]


async def timed(work: Callable[[], Awaitable[object]]) -> float:
    """Return the time of a call in milliseconds."""
    begin = time.perf_counter()
    await work()
    return 1000 * (time.perf_counter() - begin)


def fill(store: PostgresMemoryProvider, dsn: str, places: int) -> None:
    """Copy places of 20 entries each into the tables, in the form that saves write."""
    reader, _ = store._places.run(lambda session, _: store._places.writing(session))
    facts = [stored(SingleFact(each, "a short sentence")) for each in CONCEPTS]
    bodies = [encoded_entry({"facts": [fact]}) for fact in facts]
    size, now = sum(map(len, bodies)), int(time.time() * 1e6)
    users = (identity_of(USER.of(f"user-{number}"), APP) for number in range(places))
    identities = {reader.key(identity): identity for identity in users}
    store_number = reader.store.number
    with psycopg.connect(dsn) as connection, connection.cursor() as cursor:
        columns = "place, store, made, last, recorded_at, bytes, mark, scope, subject, names"
        with cursor.copy(f"COPY factmem.places ({columns}) FROM STDIN") as copy:
            for key, identity in identities.items():
                row = reader.new_row(identity)
                given = (key, store_number, made_number(0), FACTS, now, size, 0)
                copy.write_row((*given, row.scope, row.subject, row.names))
        columns = "place, number, at, mark, store, line"
        with cursor.copy(f"COPY factmem.entries ({columns}) FROM STDIN") as copy:
            for key in identities:
                for each, body in enumerate(bodies, 1):
                    copy.write_row((key, each, now, 0, store_number, body))
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE")


async def many(full: str, empty: str, places: int) -> None:
    """Compare a database of many places with one of a few."""
    loads: dict[str, list[float]] = {full: [], empty: []}
    saves: dict[str, list[float]] = {full: [], empty: []}
    async with PostgresMemoryProvider(full) as one, PostgresMemoryProvider(empty) as two:
        stores = {full: one, empty: two}
        for dsn, store in stores.items():
            await store.save(
                SingleFact(CONCEPTS[0], "first"), USER.of("first"), MemoryScope.Agent("a")
            )
            fill(store, dsn, places if dsn == full else 300)
        for number in range(300):
            user = USER.of(f"user-{number if number % 2 else number * places // 300}")
            for dsn, store in stores.items():
                subject = user if dsn == full else USER.of(f"user-{number}")
                loads[dsn].append(await timed(partial(store.load_all, subject, APP)))
                fact = SingleFact(CONCEPTS[0], f"value {number}")
                save = partial(store.save, fact, subject, APP)
                saves[dsn].append(await timed(save))
        listing = await timed(one.list_places)
    cold, mine = statistics.median(loads[full]), statistics.median(saves[full])
    other = statistics.median(saves[empty])
    print(f"{places:,} places of {FACTS} facts: cold load {cold:.2f} ms, save {mine:.2f} ms")
    print(f"  save in a small database {other:.2f} ms: {mine / other:.2f} times as long")
    print(f"  list of all places {listing / 1000:.2f} s", flush=True)


def _concept(number: int) -> Concept[str, MultipleFacts[str]]:
    return Concept(f"keyword-{number}", "Things of a kind", FactType.MULTIPLE)


async def large(dsn: str, facts: int) -> None:
    """Measure one place with many facts of 1,000 keywords."""
    where = USER.of("everything"), APP

    def made(begin: int, _: object, at: str) -> list[Entry]:
        return [
            {
                "at": at,
                "facts": [stored(MultipleFacts(_concept(n % KEYWORDS), [f"the thing {n} " * 6]))],
            }
            for n in range(begin, begin + 10_000)
        ]

    async with PostgresMemoryProvider(dsn) as store:
        for begin in range(0, facts, 10_000):
            await store.amend(partial(made, begin), *where)
    loads, folds = list[float](), list[float]()
    for number in range(7):
        async with PostgresMemoryProvider(dsn) as store:
            await store.load(_concept(0), USER.of("nothing"), APP)  # opens a connection
            loads.append(await timed(partial(store.load, _concept(number), *where)))
            folds.append(await timed(partial(store.version, *where)))
    print(f"{facts:,} facts in one place, least and median of {len(loads)}:")
    for name, found in (("load(concept), cold", loads), ("load of all, cold", folds)):
        print(f"  {name:20} {min(found):8.1f} {statistics.median(found):8.1f} ms")
    async with PostgresMemoryProvider(dsn) as store:
        await store.version(*where)
        fact = MultipleFacts(_concept(3), ["new"])
        entry = stored(MultipleFacts(_concept(9), ["amended"]))
        works: dict[str, Callable[[], Awaitable[object]]] = {
            "save, warm": lambda: store.save(fact, *where),
            "load, warm": lambda: store.load(_concept(8), *where),
            "forget, warm": lambda: store.forget(*where, concept=_concept(5)),
            "load after it": lambda: store.load(_concept(5), *where),
            "amend": lambda: store.amend(lambda _, at: [{"at": at, "facts": [entry]}], *where),
            "load after that": lambda: store.load(_concept(9), *where),
            "purge": lambda: store.forget(*where, concept=_concept(6), purge=True),
            "load after a purge": lambda: store.load(_concept(7), *where),
            "amend by what holds": lambda: store.amend_current(
                lambda _, at: {"at": at, "facts": [entry]}, *where
            ),
        }
        for name, work in works.items():
            print(f"  {name:20} {await timed(work):8.1f} ms", flush=True)


def main() -> None:
    """Run the benchmark with the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--places", type=int, default=100_000)
    parser.add_argument("--facts", type=int, default=100_000)
    given = parser.parse_args()
    options = {"fsync": "off", "shared_buffers": "256MB"}
    with tempfile.TemporaryDirectory() as name, Cluster(Path(name) / "data", **options) as server:
        with psycopg.connect(server.dsn(), autocommit=True) as connection:
            connection.execute("CREATE DATABASE small")
        if given.places:
            anyio.run(many, server.dsn(), server.dsn(database="small"), given.places)
        if given.facts:
            anyio.run(large, server.dsn(database="small"), given.facts)


if __name__ == "__main__":
    main()
