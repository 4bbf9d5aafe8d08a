"""Processes that share a durable store: others, forked children, and copies of its folder."""

import os
import shutil
import signal
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

from factmem.providers._sql.store import SqlStore
from factmem.testing._facts import AGENT, LANGUAGES
from tests.contracts.folders import (
    ALICE,
    BOB,
    StoreFolder,
    StoreFolders,
    save,
    save_many_times,
    values,
)
from tests.contracts.processes import OtherProcess, apart, fork, started

can_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")

SAVES = 25
"""The saves of each process that saves beside others."""

HANG = 60.0
"""Seconds after which a save that waits for a lock counts as hanging."""


class Sharing(StoreFolders):
    """Every process sees the acknowledged saves of all others at its next call."""

    async def test_processes_see_each_other(self, home: StoreFolder, anyio_backend: str) -> None:
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

    async def test_a_copy_of_the_own_folder_harms_nothing(
        self, home: StoreFolder, tmp_path: Path, anyio_backend: str
    ) -> None:
        """A backup or a checksum by this process, and by another one, while both save."""
        async with home.open() as store:
            await save(store, "first")
            with OtherProcess(home, anyio_backend) as other, _copying(home, tmp_path / "ours"):
                assert other.run(values) == ["first"]
                other.begin(_save_and_copy, home, tmp_path / "theirs", SAVES)
                wanted = ["first", *await save_many_times(store, "ours", SAVES)]
                wanted += await anyio.to_thread.run_sync(other.result)
                other.close()
            # That was a close beside this store, which must not have taken its files away.
            await save(store, "last")
            with OtherProcess(home, anyio_backend) as other:
                other.run(save, "theirs.last")
                wanted += ["last", "theirs.last"]
                for found in (other.run(values), await values(store)):
                    assert sorted(found) == sorted(wanted)
                other.close()
        async with home.open() as store:
            assert sorted(await values(store)) == sorted(wanted)
            await store.verify()

    @can_fork
    def test_a_forked_child_holds_no_lock(self, home: StoreFolder) -> None:
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


async def _compact(store: SqlStore) -> None:
    await store.compact(ALICE, AGENT)


async def _save_and_copy(store: SqlStore, home: StoreFolder, copies: Path, count: int) -> list[str]:
    with _copying(home, copies):
        return await save_many_times(store, "theirs", count)


@contextmanager
def _copying(home: StoreFolder, copies: Path) -> Generator[None]:
    """Copy a folder again and again in a thread, and read all of its files."""
    is_over = threading.Event()

    def copy() -> None:
        while not is_over.is_set():
            shutil.rmtree(copies, ignore_errors=True)
            with suppress(shutil.Error):  # a file was removed meanwhile
                home.copy_to(copies)
            home.files()

    thread = threading.Thread(target=copy)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


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
