"""A move from files to PostgreSQL and back, with history: its rate and memory use.

python -m benchmarks.postgres.moves --facts 200000 --users 10000
"""

import argparse
import resource
import tempfile
import time
from pathlib import Path

import anyio

from factmem.models.facts import Concept, SingleFact
from factmem.models.places import MemoryScope, MemorySubject
from factmem.providers.local_file import LocalFileMemoryProvider
from factmem.providers.postgres import PostgresMemoryProvider
from factmem.transfer.bundle import export_facts, import_facts
from tests.postgres.cluster import Cluster

USER = MemorySubject("user", "", 1, per_entity=True)
APP = MemoryScope.Product("bench")


class Meter:
    """Prints the rate and the memory of a step, at each quarter of its progress."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._begin = time.perf_counter()
        self._done = 0

    def __call__(self, places: int, all_places: int) -> None:
        done = 4 * places // all_places
        if done > self._done:
            self._done = done
            rate = places / (time.perf_counter() - self._begin)
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            print(
                f"{self._name:16} {25 * done:3} %, {places:9,} places, {rate:8,.0f}/s, "
                f"at most {peak:,.0f} MB",
                flush=True,
            )


async def fill(store: LocalFileMemoryProvider, facts: int, users: int) -> None:
    """Save facts. A tenth of them replace others, to create history."""
    concepts = [Concept(f"concept-{n}", f"What is known of {n}") for n in range(facts // users)]

    async def one(number: int) -> None:
        values = [SingleFact(each, f"what user {number} said of it") for each in concepts]
        await store.save_many(values[: len(values) * 9 // 10], USER.of(f"user-{number}"), APP)
        for fact in values[len(values) * 9 // 10 :]:
            again = SingleFact(concepts[0], fact.value)
            await store.save(again, USER.of(f"user-{number}"), APP)

    for begin in range(0, users, 200):
        async with anyio.create_task_group() as group:
            for number in range(begin, min(begin + 200, users)):
                group.start_soon(one, number)


async def move(folder: Path, dsn: str, facts: int, users: int) -> None:
    """Fill a store in files, move it to the database, and from there to another store in files."""
    there, back = folder / "there.jsonl", folder / "back.jsonl"
    async with LocalFileMemoryProvider(folder / "from") as source:
        await fill(source, facts, users)
        await export_facts(source, there, progress=Meter("files to bundle"))
    async with PostgresMemoryProvider(dsn) as database:
        await import_facts(there, database, progress=Meter("into PostgreSQL"))
        await export_facts(database, back, progress=Meter("out of it"))
    async with LocalFileMemoryProvider(folder / "to") as target:
        report = await import_facts(back, target, progress=Meter("into files"))
    one, two = there.read_bytes().split(b"\n", 1)[1], back.read_bytes().split(b"\n", 1)[1]
    same = one.rsplit(b"\n", 2)[0] == two.rsplit(b"\n", 2)[0]
    print(f"{report.entries:,} entries; the bundles are {'the same' if same else 'DIFFERENT'}")


def main() -> None:
    """Run the benchmark with the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--facts", type=int, default=200_000)
    parser.add_argument("--users", type=int, default=10_000)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, Cluster(Path(name) / "data", fsync="off") as server:
        anyio.run(move, Path(name), server.dsn(), given.facts, given.users)


if __name__ == "__main__":
    main()
