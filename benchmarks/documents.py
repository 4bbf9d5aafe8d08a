"""The cost of an edit of a document, compared with an edit that reads the place's whole history.

    python -m benchmarks.documents [DSN of PostgreSQL]

A document of 100 KB with 50 earlier versions is edited in both ways, alternately. "flush" is a save
of a few bytes to another place, which does not read any history.
"""

import statistics
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from tempfile import TemporaryDirectory

import anyio

from factmem import (
    AgentMemory,
    Concept,
    LocalFileMemoryProvider,
    MemoryScope,
    MemorySubject,
    SingleFact,
)
from factmem.ledger.entries import Entry, stored
from factmem.ledger.ledger import Ledger
from factmem.providers.postgres import PostgresMemoryProvider
from factmem.providers.store import FactStore

USER = MemorySubject("user", "The user", 1)
NOTES = MemoryScope.Feature("notes")
OTHER = MemoryScope.Feature("other")
SIZE, VERSIONS, ROUNDS = 100_000, 50, 15
DOCUMENT = Concept("/a.md", "A document")


async def _timed(call: Callable[[], Awaitable[object]]) -> float:
    begin = time.perf_counter()
    await call()
    return (time.perf_counter() - begin) * 1000


async def _compare(name: str, store: FactStore) -> None:
    notes = AgentMemory(store, subjects=[USER]).documents(NOTES)
    for number in range(VERSIONS):
        await notes.write("/a.md", f"{number}" + "x" * SIZE)

    def refolded(entries: Sequence[Entry], now: str) -> list[Entry]:
        (item,) = Ledger(entries).items("/a.md", now).values()
        return [{"at": now, "facts": [stored(SingleFact(DOCUMENT, f"{item.value}z"))]}]

    async def flush() -> None:
        await store.save(SingleFact(DOCUMENT, f"{time.perf_counter()}"), USER, OTHER)

    edits, folds, flushes = [], [], []
    for _ in range(ROUNDS):
        edits.append(await _timed(lambda: notes.edit("/a.md", lambda text: text + "y")))
        folds.append(await _timed(lambda: store.amend(refolded, USER, NOTES)))
        flushes.append(await _timed(flush))
    edit, fold, waited = (statistics.median(each) for each in (edits, folds, flushes))
    share = (edit - waited) / (fold - waited)
    print(f"{name}: edit {edit:.1f} ms, refolding {fold:.1f} ms, flush {waited:.1f} ms")
    print(f"{name}: without the flush an edit takes {share:.2f} of the time of refolding")


async def main(dsn: str | None) -> None:
    """Print the medians."""
    with TemporaryDirectory() as folder:
        async with LocalFileMemoryProvider(folder) as store:
            await _compare("files", store)
    if dsn is not None:
        async with PostgresMemoryProvider(dsn, store=f"bench-{time.time_ns()}") as database:
            await _compare("PostgreSQL", database)


if __name__ == "__main__":
    anyio.run(main, sys.argv[1] if sys.argv[1:] else None)
