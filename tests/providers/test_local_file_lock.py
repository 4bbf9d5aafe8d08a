"""A store's lock that somebody else has: waited for, but not for ever."""

import fcntl
import os
import threading
from collections.abc import Callable
from pathlib import Path
from time import monotonic

import anyio
import pytest

from factmem.errors import StoreBusyError
from factmem.providers.local_file import LocalFileMemoryProvider
from factmem.storage.simple import SimpleStorage
from factmem.testing.facts import AGENT, THEME, languages, theme
from tests.doors import Door, DoorStorage
from tests.processes import Process, Tell
from tests.providers.local_stores import ALICE, current, disk


def holding(tell: Tell, wait: Callable[[], None], root: str) -> None:
    """Hold a store's lock until the parent says go."""
    fd = os.open(f"{root}/lock", os.O_RDWR)
    fcntl.flock(fd, fcntl.LOCK_EX)
    wait()
    os.close(fd)


async def test_a_lock_that_is_held_too_long(root: Path) -> None:
    """Writing ends in an error after the time that was set; reading goes on; nothing is written."""
    store = LocalFileMemoryProvider(root, storage=SimpleStorage(busy_timeout=0.2))
    await store.save(theme("dark"), ALICE, AGENT)
    before, holder = disk(root), Process(holding, str(root))
    try:
        assert holder.lines() == ["ready"]
        for call in (
            lambda: store.save(theme("light"), ALICE, AGENT),
            lambda: store.forget(ALICE, AGENT, concept=THEME),
            lambda: store.erase(ALICE, AGENT),
        ):
            begin = monotonic()
            with pytest.raises(StoreBusyError, match=r"0\.2 s.*busy_timeout"):
                await call()
            assert 0.2 <= monotonic() - begin < 5
        assert await current(LocalFileMemoryProvider(root)) == ["dark"]
        assert disk(root) == before
    finally:
        holder.kill()
        holder.end()
    await store.save(theme("light"), ALICE, AGENT)
    assert await current(store) == ["light"]


async def test_a_lock_that_is_let_go_in_time(root: Path) -> None:
    """The save waits and is kept; others of its loop go on meanwhile."""
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


async def test_a_thread_that_holds_the_store_too_long(root: Path) -> None:
    """The same, where a disk hangs under another thread of this process."""
    hangs, hangs_now, goes_on = threading.Event(), threading.Event(), threading.Event()

    def look(call: str, args: tuple[object, ...]) -> None:
        if call == "append" and hangs.is_set():
            hangs_now.set()
            goes_on.wait(30)

    storage = DoorStorage(lambda folder: Door(folder, look), busy_timeout=0.2)
    one, two = (LocalFileMemoryProvider(root, storage=storage) for _ in range(2))
    await one.save(theme("dark"), ALICE, AGENT)
    hangs.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(one.save, languages("java"), ALICE, AGENT)
        await anyio.to_thread.run_sync(hangs_now.wait)
        with pytest.raises(StoreBusyError, match=r"thread held .*0\.2 s"):
            await one.forget(ALICE, AGENT, concept=THEME)
        with pytest.raises(StoreBusyError, match=r"0\.2 s"):
            await two.save(languages("c"), ALICE, AGENT)
        assert await current(two) == ["dark"]
        goes_on.set()

    assert await current(two) == ["dark", "java"]
