"""Many threads with loops of their own, worker threads that save, and forks: no save is lost and no call hangs.

Each test runs in a process of its own, which is killed when it takes too long.
"""

import os
import select
import signal
import threading
import traceback
import warnings
from collections.abc import Sequence
from pathlib import Path

import anyio
import pytest
from factmem.storage._files import LocalFiles

from factmem.encryption.key import Key
from factmem.providers.local_file import LocalFileMemoryProvider
from factmem.testing.facts import (
    AGENT,
    LANGUAGES,
    languages,
)
from tests.doors import DoorStorage
from tests.processes import apart
from tests.providers.local_stores import ALICE, BOB, KEY

THREADS, TASKS, SAVES = 8, 16, 4
DEADLINE = 60.0

both_kinds = pytest.mark.parametrize("key", [None, KEY], ids=["plain", "encrypted"])


def text(key: Key | None) -> str | None:
    return None if key is None else key.to_base64()


def opened(root: str, key: str | None) -> LocalFileMemoryProvider:
    return LocalFileMemoryProvider(root, storage=DoorStorage(LocalFiles, key))


async def values(store: LocalFileMemoryProvider) -> list[str]:
    """Return the saved values about Alice and Bob."""
    found = [fact for who in (ALICE, BOB) for fact in await store.load(LANGUAGES, who, AGENT)]
    return [value for fact in found for value in fact.values]


async def save(store: LocalFileMemoryProvider, value: str) -> None:
    """Save a value in one of two places, and check that it can be read."""
    fact, subject = languages(value), (ALICE, BOB)[sum(value.encode()) % 2]
    await store.save(fact, subject, AGENT)
    if fact not in await store.load(LANGUAGES, subject, AGENT):
        raise AssertionError(f"{value} was saved and cannot be read")


def in_eight_threads(backends: Sequence[str], root: str, key: str | None) -> None:
    store, errors = opened(root, key), list[BaseException]()

    async def task(name: str) -> None:
        for number in range(SAVES):
            await save(store, f"{name}.{number}")

    async def loop(thread: int) -> None:
        async with anyio.create_task_group() as tasks:
            for number in range(TASKS):
                tasks.start_soon(task, f"{thread}.{number}")

    def run(thread: int) -> None:
        try:
            anyio.run(loop, thread, backend=backends[thread % len(backends)])
        except BaseException as exc:
            errors.append(exc)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    wanted = {
        f"{thread}.{number}.{each}"
        for thread in range(THREADS)
        for number in range(TASKS)
        for each in range(SAVES)
    }
    for one in (store, opened(root, key)):
        found = anyio.run(values, one, backend=backends[0])
        assert len(found) == len(wanted)
        assert set(found) == wanted


@both_kinds
@pytest.mark.parametrize("backends", [["asyncio"], ["trio"], ["asyncio", "trio"]])
def test_eight_threads_with_their_own_loops(
    root: Path, key: Key | None, backends: list[str]
) -> None:
    """They share one store and its writes."""
    apart(in_eight_threads, backends, str(root), text(key), deadline=DEADLINE)


def from_worker_threads(backend: str, root: str) -> None:
    store = opened(root, None)

    def work(number: int) -> None:
        for each in range(3):
            anyio.from_thread.run(save, store, f"{number}.{each}")

    async def main() -> None:
        limiter = anyio.to_thread.current_default_thread_limiter()
        count = int(limiter.total_tokens)
        assert count == 40
        async with anyio.create_task_group() as tasks:
            for number in range(count):
                tasks.start_soon(anyio.to_thread.run_sync, work, number)
        assert len(await values(store)) == count * 3
        assert limiter.borrowed_tokens == 0

    anyio.run(main, backend=backend)


def test_forty_worker_threads_that_save(anyio_backend: str, root: Path) -> None:
    """They occupy all threads of the loop; the store needs none of these."""
    apart(from_worker_threads, anyio_backend, str(root), deadline=DEADLINE)


# Forks.

CHILDREN = 4


def forked(store: LocalFileMemoryProvider, backend: str, name: str) -> tuple[int, int]:
    """Save in a child process; return its id and a pipe that is readable after its end."""
    read, write = os.pipe()
    with warnings.catch_warnings():
        # Python 3.12 and newer warn about exactly this: a fork beside threads.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child:
        os.close(write)
        return child, read
    code = 1
    try:
        anyio.run(save_ten, store, name, backend=backend)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


async def save_ten(store: LocalFileMemoryProvider, name: str) -> None:
    for number in range(10):
        await save(store, f"{name}.{number}")


def ended(child: int, read: int) -> None:
    """Wait for a child to exit with 0."""
    ready, _, _ = select.select([read], [], [], DEADLINE / 2)
    if not ready:
        os.kill(child, signal.SIGKILL)
    os.close(read)
    _, status = os.waitpid(child, 0)
    if not ready:
        raise TimeoutError("A forked child hung")
    assert os.waitstatus_to_exitcode(status) == 0


def forking(backend: str, root: str, key: str | None, is_busy: bool, is_inherited: bool) -> None:
    store, stop, acknowledged = opened(root, key), threading.Event(), list[str]()
    anyio.run(save, store, "before", backend=backend)

    async def keep_saving(name: str) -> None:
        number = 0
        while not stop.is_set():
            await save(store, f"{name}.{number}")
            acknowledged.append(f"{name}.{number}")
            number += 1

    backends = ("asyncio", "trio", "asyncio") if is_busy else ()
    threads = [
        threading.Thread(
            target=anyio.run, args=(keep_saving, f"t{number}"), kwargs={"backend": each}
        )
        for number, each in enumerate(backends)
    ]
    for thread in threads:
        thread.start()
    children: list[tuple[int, int]] = []
    for number in range(CHILDREN):
        one = store if is_inherited else opened(root, key)
        children.append(forked(one, backend, f"child{number}"))
        anyio.run(save, store, f"parent{number}", backend=backend)
    for child in children:
        ended(*child)
    stop.set()
    for thread in threads:
        thread.join()
    anyio.run(save, store, "after", backend=backend)

    wanted = {"before", "after", *(f"parent{number}" for number in range(CHILDREN)), *acknowledged}
    wanted |= {f"child{number}.{each}" for number in range(CHILDREN) for each in range(10)}
    assert len(acknowledged) >= len(threads)
    for each in (store, opened(root, key)):
        found = anyio.run(values, each, backend=backend)
        assert set(found) == wanted
        assert len(found) == len(wanted)


@both_kinds
@pytest.mark.parametrize("is_busy", [False, True], ids=["idle", "committing"])
@pytest.mark.parametrize("is_inherited", [False, True], ids=["fresh", "inherited"])
def test_forks(
    anyio_backend: str, root: Path, key: Key | None, is_busy: bool, is_inherited: bool
) -> None:
    """Child and parent use the same store or another one, whatever was running."""
    apart(forking, anyio_backend, str(root), text(key), is_busy, is_inherited, deadline=DEADLINE)
