"""The thread that commits: its start, its end, and failures to start it."""

import gc
import os
import threading
import weakref
from collections.abc import Sequence

import anyio
import pytest

from factmem._concurrency import Workers
from factmem.errors import StorageError
from factmem.providers import _group_commit
from factmem.providers._group_commit import LARGEST_BATCH, GroupCommit, Pending


class Batches:
    """Records the committed batches and their threads."""

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self.threads: list[threading.Thread] = []

    def __call__(self, batch: Sequence[Pending[int]]) -> None:
        self.sizes.append(len(batch))
        self.threads.append(threading.current_thread())
        for pending in batch:
            if pending.work < 0:
                pending.error = ValueError("refused")


@pytest.fixture
def batches() -> Batches:
    return Batches()


@pytest.fixture
def commits(batches: Batches) -> GroupCommit[int]:
    return GroupCommit(batches, Workers())


async def test_ready_tasks_share_a_batch(commits: GroupCommit[int], batches: Batches) -> None:
    async with anyio.create_task_group() as tasks:
        for work in range(600):
            tasks.start_soon(commits.submit, work)
    assert sum(batches.sizes) == 600
    assert len(batches.sizes) < 20
    assert max(batches.sizes) <= LARGEST_BATCH
    await commits.close()


async def test_a_batch_waits_for_tasks_that_will_queue(batches: Batches) -> None:
    """The thread is done with a batch while the loop runs the first of the tasks that are ready.

    A batch of that one would leave the others to a write of their own, and so on for ever.
    """
    is_let_go, is_begun = threading.Event(), threading.Event()

    def commit(batch: Sequence[Pending[int]]) -> None:
        batches(batch)
        if len(batches.sizes) == 1:
            is_let_go.wait(60)
        else:
            is_begun.set()

    commits = GroupCommit(commit, Workers())
    gone_on: list[bool] = []

    async def hold_the_loop() -> None:
        is_let_go.set()
        gone_on.append(is_begun.wait(0.05))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(commits.submit, 1)
        tasks.start_soon(commits.submit, 2)
        with anyio.fail_after(60):
            while not batches.sizes:
                await anyio.lowlevel.checkpoint()
        tasks.start_soon(commits.submit, 3)
        tasks.start_soon(hold_the_loop)
        tasks.start_soon(commits.submit, 4)
    assert gone_on == [False]
    assert batches.sizes == [2, 2]
    await commits.close()


async def test_closing_stops_the_thread(commits: GroupCommit[int], batches: Batches) -> None:
    await commits.submit(1)
    await commits.close()
    batches.threads[0].join(60)
    assert not batches.threads[0].is_alive()


async def test_closing_waits_for_the_batch_under_way(batches: Batches) -> None:
    """The store closes its files next, and a batch that is written then would fail."""
    is_begun, is_released = threading.Event(), threading.Event()

    def commit(batch: Sequence[Pending[int]]) -> None:
        is_begun.set()
        is_released.wait(60)
        batches(batch)

    commits = GroupCommit(commit, Workers())
    committed: list[int] = []

    async def close() -> None:
        await commits.close()
        committed.append(sum(batches.sizes))
        is_released.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(commits.submit, 1)
        with anyio.fail_after(60):
            while not is_begun.is_set():
                await anyio.lowlevel.checkpoint()
        tasks.start_soon(close)
        await anyio.to_thread.run_sync(is_released.wait, 0.05)
        is_released.set()
    assert committed == [1]


async def test_an_idle_thread_stops_and_the_next_save_starts_another(
    commits: GroupCommit[int], batches: Batches, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_group_commit, "_IDLE", 0.01)
    await commits.submit(1)
    await anyio.to_thread.run_sync(batches.threads[0].join, 60)
    assert not batches.threads[0].is_alive()
    await commits.submit(2)
    assert batches.sizes == [1, 1]
    await commits.close()


async def test_an_error_while_idle_blocks_no_save(
    batches: Batches, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For example, a file replaces the store's deleted folder."""

    def rest(is_wanted: object) -> None:
        raise ValueError("no folder")

    monkeypatch.setattr(_group_commit, "_IDLE", 0.01)
    commits = GroupCommit(batches, Workers(), rest)
    await commits.submit(1)
    await anyio.to_thread.run_sync(batches.threads[0].join, 60)
    with anyio.fail_after(60):
        await commits.submit(2)
    assert batches.sizes == [1, 1]
    await commits.close()


async def test_an_idle_thread_holds_no_reference(batches: Batches) -> None:
    commits = GroupCommit(batches, Workers())
    await commits.submit(1)
    dropped = weakref.ref(commits)
    del commits
    with anyio.fail_after(60):
        while (
            dropped() is not None
        ):  # the thread drops its reference a moment after it has resumed this task
            gc.collect()
            await anyio.lowlevel.checkpoint()
    assert batches.threads[0].is_alive()


async def test_a_save_raises_in_a_process_that_c_code_forked(
    commits: GroupCommit[int], batches: Batches, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its thread was left behind, and nobody told it to start another one."""
    await commits.submit(1)
    with monkeypatch.context() as patched:
        patched.setattr(os, "getpid", lambda: -1)
        with anyio.fail_after(60), pytest.raises(StorageError, match=r"forked by C code.*os\.fork"):
            await commits.submit(2)
    await commits.submit(3)
    assert batches.sizes == [1, 1]
    await commits.close()
