"""A store's lock in another process: calls wait until their deadline."""

import fcntl
import os
import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from time import monotonic

import anyio
import pytest

from factmem import LocalFileMemoryProvider, SimpleStorage
from factmem._concurrency import FileLock
from factmem.errors import CorruptJournalError, StoreBusyError
from factmem.providers._sqlite import database
from factmem.providers._sqlite.gaps import begin_snapshot
from factmem.testing._facts import AGENT, THEME, languages, theme
from tests.doors import watched
from tests.processes import Process, Tell
from tests.providers.local_stores import ALICE, current


def holding(tell: Tell, wait: Callable[[], None], root: str) -> None:
    """Hold a store's lock until the parent releases it."""
    fd = os.open(f"{root}/lock", os.O_RDWR)
    fcntl.flock(fd, fcntl.LOCK_EX)
    wait()
    os.close(fd)


@pytest.mark.parametrize("seconds", [0, 0.05])
async def test_a_lock_held_too_long(root: Path, seconds: float) -> None:
    """A write raises after the time limit, at once if it is 0, and writes nothing; reads work."""
    store = LocalFileMemoryProvider(root, storage=SimpleStorage(busy_timeout=seconds))
    await store.save(theme("dark"), ALICE, AGENT)
    holder = Process(holding, str(root))
    try:
        assert holder.lines() == ["ready"]
        for call in (
            lambda: store.save(theme("light"), ALICE, AGENT),
            lambda: store.forget(ALICE, AGENT, concept=THEME),
            lambda: store.erase(ALICE, AGENT),
        ):
            begin = monotonic()
            with pytest.raises(StoreBusyError, match=rf"for {seconds:g} s.*busy_timeout"):
                await call()
            assert seconds <= monotonic() - begin < 60
        assert await current(LocalFileMemoryProvider(root)) == ["dark"]
    finally:
        holder.kill()
        holder.end()
    await store.save(theme("light"), ALICE, AGENT)
    assert await current(store) == ["light"]


async def test_a_lock_that_is_released_in_time(root: Path) -> None:
    """The save waits and is stored; other tasks of its loop continue."""
    store = LocalFileMemoryProvider(root, storage=SimpleStorage(busy_timeout=30))
    await store.save(theme("dark"), ALICE, AGENT)
    holder = Process(holding, str(root))
    try:
        assert holder.lines() == ["ready"]
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(store.save, theme("light"), ALICE, AGENT)
            assert await current(store) == ["dark"]
            holder.go()
    finally:
        assert holder.end() == 0
    assert await current(store) == ["light"]


async def test_a_thread_that_blocks_the_store_too_long(root: Path) -> None:
    """A disk hangs in another thread of this process."""
    hangs, hangs_now, goes_on = threading.Event(), threading.Event(), threading.Event()

    def look(sql: str) -> None:
        if sql == "COMMIT" and hangs.is_set():
            hangs.clear()
            hangs_now.set()
            goes_on.wait(60)

    storage = SimpleStorage(busy_timeout=0.05)
    one, two = (LocalFileMemoryProvider(root, storage=storage) for _ in range(2))
    with watched(look):
        await one.save(theme("dark"), ALICE, AGENT)
    hangs.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(one.save, languages("java"), ALICE, AGENT)
        await anyio.to_thread.run_sync(hangs_now.wait)
        with pytest.raises(StoreBusyError, match=r"thread held .*0\.05 s"):
            await one.forget(ALICE, AGENT, concept=THEME)
        with pytest.raises(StoreBusyError, match=r"0\.05 s"):
            await two.save(languages("c"), ALICE, AGENT)
        assert await current(two) == ["dark"]
        goes_on.set()

    assert await current(two) == ["dark", "java"]


async def test_errors_do_not_accumulate_threads_and_descriptors(root: Path) -> None:
    """Another process holds the lock: the next wait reuses the one before."""
    busy = LocalFileMemoryProvider(root, storage=SimpleStorage(busy_timeout=0.02))
    await busy.save(theme("dark"), ALICE, AGENT)
    holder = Process(holding, str(root))
    assert holder.lines() == ["ready"]
    threads, descriptors = threading.active_count(), len(os.listdir("/dev/fd"))
    try:
        for _ in range(8):
            with pytest.raises(StoreBusyError, match="busy_timeout"):
                await busy.save(theme("light"), ALICE, AGENT)
        assert threading.active_count() <= threads + 2
        assert len(os.listdir("/dev/fd")) <= descriptors + 2
    finally:
        holder.go()
        holder.end()
    with anyio.fail_after(60):
        while not await _is_saved(busy):
            pass


async def _is_saved(store: LocalFileMemoryProvider) -> bool:
    try:
        await store.save(theme("dark"), ALICE, AGENT)
    except StoreBusyError:  # timed-out calls still pass the lock on, one after the other
        return False
    return True


def emptying(tell: Tell, wait: Callable[[], None], root: str) -> None:
    """Write the log to the database and empty it when the parent permits it."""
    with closing(sqlite3.connect(f"{root}/facts.db")) as db:
        wait()
        tell(str(db.execute("PRAGMA wal_checkpoint(truncate)").fetchone()))


async def test_locks_that_are_dropped_as_a_read_begins(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Closing any descriptor of a file drops SQLite's locks, and the log may then be overwritten.

    The read has begun, but the guard's lock does not keep the log yet.
    """
    store = LocalFileMemoryProvider(root)
    await store.save(theme("dark"), ALICE, AGENT)
    other = Process(emptying, str(root))
    assert other.lines() == ["ready"]
    answers: list[str] = []

    def begin(db: sqlite3.Connection) -> None:
        begin_snapshot(db)
        if not answers:
            for file in root.iterdir():
                file.read_bytes()
            other.go()
            answers.extend(other.lines())

    monkeypatch.setattr(database, "begin_snapshot", begin)
    assert await current(LocalFileMemoryProvider(root)) == ["dark"]
    assert answers == ["(0, 0, 0)"]
    assert other.end() == 0


async def test_a_log_that_ends_early(root: Path) -> None:
    """It is damage: looked at again on new connections, and reported if it stays."""
    async with LocalFileMemoryProvider(root) as store:
        await store.save(theme("light" * 5000), ALICE, AGENT)
        os.truncate(root / "facts.db-wal", 4096)
        with pytest.raises(CorruptJournalError, match="is damaged"):
            await LocalFileMemoryProvider(root).load_all(ALICE, AGENT)


@pytest.mark.storm
async def test_an_anchor_of_a_plain_store_needs_no_lock(root: Path) -> None:
    """So a store that is read-only, or busy, can be anchored and backed up."""
    async with LocalFileMemoryProvider(root) as store:
        await store.save(theme("dark"), ALICE, AGENT)

    with FileLock(str(root / "lock"), 0.0).held():
        async with LocalFileMemoryProvider(root, storage=SimpleStorage(busy_timeout=0.0)) as store:
            assert await store.anchor() == await store.backup(root.with_name("copy"))
