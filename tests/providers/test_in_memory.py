"""The in-memory store: the whole contract, and threads."""

import gc
import sqlite3
import threading
import weakref
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import anyio
import pytest

from factmem.models.when import TimeProvider
from factmem.providers.in_memory import InMemoryProvider
from factmem.providers.local_file import LocalFileMemoryProvider
from factmem.testing._facts import AGENT, LANGUAGES, USER, languages, theme
from tests.contracts.stores import WholeStoreContract

THREADS = 8
TASKS = 16


class TestInMemoryProvider(WholeStoreContract):
    def make_provider(self, clock: TimeProvider) -> InMemoryProvider:
        return InMemoryProvider(clock=clock)

    async def test_a_naive_clock_raises(self) -> None:
        """It raises before any entry is stamped."""
        store = InMemoryProvider(clock=lambda: datetime(2024, 1, 1))  # noqa: DTZ001

        with pytest.raises(ValueError, match="time of the clock is naive"):
            await store.save(theme("dark"), USER, AGENT)

        assert await store.entries(USER, AGENT) == []


@pytest.mark.parametrize("backends", [["asyncio"], ["trio"], ["asyncio", "trio"]], ids=str)
def test_threads_share_a_store(backends: Sequence[str]) -> None:
    """Each has its own loop, of either kind: every save is stored, every reader can read."""
    store = InMemoryProvider()
    errors: list[BaseException] = []

    async def save(thread: int, task: int) -> None:
        fact = languages(f"{thread}-{task}-a", f"{thread}-{task}-b")
        await store.save(fact, USER, AGENT)
        assert fact in await store.load(LANGUAGES, USER, AGENT)

    async def work(thread: int) -> None:
        async with anyio.create_task_group() as tasks:
            for task in range(TASKS):
                tasks.start_soon(save, thread, task)

    def run(thread: int) -> None:
        try:
            anyio.run(work, thread, backend=backends[thread % len(backends)])
        except BaseException as exc:  # an exception in a thread would be lost
            errors.append(exc)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    async def count() -> int:
        return len(await store.load(LANGUAGES, USER, AGENT))

    assert errors == []
    assert anyio.run(count) == THREADS * TASKS


@pytest.mark.parametrize("kind", ["memory", "files"])
async def test_a_store_that_was_dropped_is_closed(kind: str, tmp_path: Path) -> None:
    """Nobody needs to close it, also not one that refers to itself."""
    store: Any = InMemoryProvider() if kind == "memory" else LocalFileMemoryProvider(tmp_path)
    await store.save(theme("dark"), USER, AGENT)
    database = store._backend.database
    held = vars(database if kind == "memory" else database._db).values()
    opened = [each for each in held if isinstance(each, sqlite3.Connection)]
    store.itself, dropped = store, weakref.ref(database)

    del store, database, held
    with anyio.fail_after(60):
        while dropped() is not None:  # the thread that saved may still hold it
            gc.collect()
            await anyio.sleep(0.001)

    assert opened
    for connection in opened:
        with pytest.raises(sqlite3.ProgrammingError, match="closed"):
            connection.execute("SELECT 1")
