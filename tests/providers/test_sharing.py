"""Processes that share a durable store: others, forked children, and copies of its folder."""

import os
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

import anyio
import anyio.to_thread
import pytest

from factmem.providers.local_file import LocalFileMemoryProvider
from factmem.testing._facts import AGENT, LANGUAGES
from tests.processes import OtherProcess, apart, fork, started
from tests.providers.home import ALICE, BOB, StoreFolder, save, values

can_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")

HANG = 60.0
"""Seconds after which a save that waits for a lock counts as hanging."""


async def test_processes_see_each_other(home: StoreFolder, anyio_backend: str) -> None:
    """Saves, forgettings, compactions and erasures, whichever of them made the store."""
    async with home.open() as store:
        assert await values(store) == []
        with OtherProcess(home, anyio_backend) as other:
            assert other.run(values) == []
            wanted: list[str] = []
            for number in range(5):
                other.run(save, f"theirs.{number}")
                wanted.append(f"theirs.{number}")
                assert await values(store) == wanted
                await save(store, f"ours.{number}")
                wanted.append(f"ours.{number}")
                assert other.run(values) == wanted
            await store.forget(ALICE, AGENT, concept=LANGUAGES, value=wanted.pop())
            assert other.run(values) == wanted
            other.run(_compact)
            assert await values(store) == wanted
            await store.erase(ALICE, AGENT)
            assert other.run(values) == []
            other.run(save, "again")
            assert await values(store) == ["again"]
            other.close()


@can_fork
def test_a_forked_child_holds_no_lock(home: StoreFolder) -> None:
    """The parent is killed while it saves; the child lives on, and others can save."""
    for number in range(5):
        with started(_fork_and_keep_saving, home) as parent:
            child = parent.result()
            time.sleep(0.01 * number)
            parent.kill()
            try:
                apart(_save_once, home, f"after {number}", deadline=HANG)
            finally:
                os.kill(child, signal.SIGKILL)


async def _compact(store: LocalFileMemoryProvider) -> None:
    await store.compact(ALICE, AGENT)


# Forks, in processes of their own.


def _fork_and_keep_saving(tell: Callable[[Any], None], home: StoreFolder) -> None:
    """Fork a child that does nothing, and save until killed, in both places."""
    store = home.open()

    async def keep_saving() -> None:
        for number in range(1_000_000):
            await save(store, f"{number}", (ALICE, BOB)[number % 2])
            started_saving.set()

    started_saving = threading.Event()
    threading.Thread(target=anyio.run, args=(keep_saving,), daemon=True).start()
    started_saving.wait()
    child = fork()
    if not child:
        time.sleep(HANG * 2)
        os._exit(0)
    tell(child)
    threading.Event().wait()


def _save_once(home: StoreFolder, value: str) -> None:
    async def main() -> None:
        async with home.open() as store:
            await save(store, value)
            if value not in await values(store):
                raise AssertionError(f"{value} was saved and cannot be read")

    anyio.run(main)
