"""Threads with own loops, saving workers, forks beside threads: nothing is lost or hangs.

Each test runs in a process of its own, which is killed when it takes too long.
"""

import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import anyio
import pytest

from factmem.encryption.key import Key
from factmem.errors import StorageError
from factmem.providers.in_memory import InMemoryProvider
from factmem.providers.local_file import LocalFileMemoryProvider
from factmem.testing._facts import AGENT, LANGUAGES, languages
from tests.processes import apart
from tests.providers.local_stores import ALICE, BOB, KEY
from tests.world import KINDS, LocalStore, storage_of

THREADS, TASKS, SAVES = 8, 16, 4
DEADLINE = 60.0

both_kinds = pytest.mark.parametrize("key", [None, KEY], ids=["plain", "encrypted"])


def text(key: Key | None) -> str | None:
    return None if key is None else key.to_base64()


def opened(root: str, key: str | None) -> LocalFileMemoryProvider:
    return LocalFileMemoryProvider(root, storage=storage_of(*filter(None, [key])))


async def values(store: LocalStore) -> list[str]:
    """Return the saved values about Alice and Bob."""
    found = [fact for who in (ALICE, BOB) for fact in await store.load(LANGUAGES, who, AGENT)]
    return [value for fact in found for value in fact.values]


async def save(store: LocalStore, value: str) -> None:
    """Save a value in one of two places, and check that it can be read."""
    fact, subject = languages(value), (ALICE, BOB)[sum(value.encode()) % 2]
    await store.save(fact, subject, AGENT)
    if fact not in await store.load(LANGUAGES, subject, AGENT):
        raise AssertionError(f"{value} was saved and cannot be read")


def in_eight_threads(backends: Sequence[str], root: str, key: str | None) -> None:
    store: LocalStore = opened(root, key) if root else InMemoryProvider()
    errors: list[BaseException] = []

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
    for one in (store, opened(root, key) if root else store):
        found = anyio.run(values, one, backend=backends[0])
        assert len(found) == len(wanted)
        assert set(found) == wanted


@pytest.mark.parametrize(
    "kind", ["memory", *(pytest.param(kind, marks=pytest.mark.storm) for kind in KINDS[1:])]
)
@pytest.mark.parametrize("backends", [["asyncio"], ["trio"], ["asyncio", "trio"]])
def test_eight_threads_with_their_own_loops(root: Path, kind: str, backends: list[str]) -> None:
    """They share one store and its writes."""
    folder, key = "" if kind == "memory" else str(root), KEY if kind == "encrypted" else None
    apart(in_eight_threads, backends, folder, text(key), deadline=DEADLINE)


def without_a_thread(backend: str, root: str) -> None:
    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    store, start = opened(root, None), threading.Thread.start

    async def main() -> None:
        threading.Thread.start = refuse  # type: ignore[method-assign]
        for call in (
            lambda: store.save(languages("java"), ALICE, AGENT),
            lambda: store.load_all(ALICE, AGENT),
            store.places,
            lambda: store.erase(ALICE, AGENT),
            store.verify,
        ):
            with pytest.raises(StorageError, match=r"No thread could be started.*ulimit"):
                await call()
        threading.Thread.start = start  # type: ignore[method-assign]
        await save(store, "java")
        assert await values(store) == ["java"]

    anyio.run(main, backend=backend)


def test_calls_without_a_thread_raise_a_storage_error(anyio_backend: str, root: Path) -> None:
    """The system's limit is reached; the next call works when there is a thread again."""
    apart(without_a_thread, anyio_backend, str(root), deadline=DEADLINE)


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


def while_threads_close(root: str, key: str | None) -> None:
    """Other threads open and close stores on the same folder all the time."""
    is_over, errors = threading.Event(), list[BaseException]()

    def open_and_close() -> None:
        async def once() -> None:
            async with opened(root, key) as store:
                await values(store)

        try:
            while not is_over.is_set():
                anyio.run(once)
        except BaseException as exc:
            errors.append(exc)

    async def main() -> None:
        store = opened(root, key)
        for number in range(60):
            await save(store, f"v{number}")
        assert len(await values(store)) == 60

    threads = [threading.Thread(target=open_and_close) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        anyio.run(main)
    finally:
        is_over.set()
        for thread in threads:
            thread.join()
    if errors:
        raise errors[0]
    assert len(anyio.run(values, opened(root, key))) == 60


@both_kinds
def test_stores_that_are_opened_and_closed_beside(root: Path, key: Key | None) -> None:
    """A close takes no lock or log away from the others of the process."""
    apart(while_threads_close, str(root), text(key), deadline=DEADLINE)


LOCKED = """
import ctypes, os, sqlite3, sys, anyio, _sqlite3
library = ctypes.PyDLL(_sqlite3.__file__)
library.sqlite3_mutex_alloc.restype = ctypes.c_void_p
library.sqlite3_mutex_enter.argtypes = library.sqlite3_mutex_leave.argtypes = [ctypes.c_void_p]
mutexes = [library.sqlite3_mutex_alloc(number) for number in (3, 5, 11)]  # as other threads may
os.register_at_fork(
    before=lambda: [library.sqlite3_mutex_enter(each) for each in mutexes],
    after_in_parent=lambda: [library.sqlite3_mutex_leave(each) for each in mutexes],
)
from factmem.providers.local_file import LocalFileMemoryProvider
from factmem.testing._facts import AGENT, THEME, USER, theme
store = LocalFileMemoryProvider(sys.argv[1])
anyio.run(store.save, theme("dark"), USER, AGENT)
child = os.fork()
if child == 0:
    anyio.run(store.save, theme("dim"), USER, AGENT)
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
anyio.run(store.save, theme("light"), USER, AGENT)
saved = [each.fact.value for each in anyio.run(store.history, THEME, USER, AGENT)]
assert saved == ["dark", "dim", "light"], saved
"""


FORKING = """
import os, sys, threading, time, anyio
from factmem.providers.local_file import LocalFileMemoryProvider
from factmem.testing._facts import AGENT, USER, theme
root, shared, failed = sys.argv[1], LocalFileMemoryProvider(sys.argv[1] + "/shared"), []
def fork(number):
    for turn in range(12):
        own = LocalFileMemoryProvider(f"{root}/{number}-{turn % 3}")
        anyio.run(own.save, theme("dark"), USER, AGENT)
        child = os.fork()
        if child == 0:
            anyio.run(shared.save, theme("dim"), USER, AGENT)
            os._exit(0)
        anyio.run(own.aclose)
        if os.waitpid(child, 0)[1]:
            failed.append(child)
sys.unraisablehook = lambda unraisable: failed.append(unraisable.exc_value)
threads = [threading.Thread(target=fork, args=[number]) for number in range(3)]
for each in threads:
    each.start()
while any(each.is_alive() for each in threads):
    anyio.run(shared.save, theme("light"), USER, AGENT)
sys.exit(len(failed))
"""


CALLBACK = """
import os, sys, anyio
from factmem.errors import FactmemError
from factmem.providers.local_file import LocalFileMemoryProvider
from factmem.testing._facts import AGENT, USER, theme
async def main():
    async with LocalFileMemoryProvider(sys.argv[1]) as store:
        await store.save(theme("dark"), USER, AGENT)
        def report(done, total):
            if os.fork() == 0:
                os._exit(0)
            os.wait()
        try:
            await store.verify(progress=report)
        except FactmemError:
            pass
        await store.save(theme("dim"), USER, AGENT)
        await store.verify()
anyio.run(main)
"""


BESIDE = """
import os, sys, threading, anyio
from factmem.models.places import MemorySubject
from factmem.providers.local_file import LocalFileMemoryProvider
from factmem.testing._facts import AGENT, theme
person = MemorySubject("person", "A person", 1, per_entity=True)
numbers, done = [], threading.Event()
def fork():
    if os.fork() == 0:
        os._exit(0)
    os.wait()
    done.set()
thread = threading.Thread(target=fork)
def report(number, total):
    numbers.append(number)
    if len(numbers) == 1:
        thread.start()
    done.wait(0.01)
async def main():
    async with LocalFileMemoryProvider(sys.argv[1]) as store:
        for number in range(200):
            await store.save(theme("dark"), person.of(str(number)), AGENT)
        await store.verify(progress=report)
anyio.run(main)
assert numbers.count(1) == 2, numbers.count(1)
"""


LEFT = """
import asyncio, sys, threading
from factmem.providers.local_file import LocalFileMemoryProvider
from factmem.testing._facts import AGENT, USER, theme

begun, over = threading.Event(), threading.Event()
store = LocalFileMemoryProvider(sys.argv[1])
commit = store._places._commits._commit
store._places._commits._commit = lambda batch: (begun.set(), over.wait(), commit(batch))
loop = asyncio.new_event_loop()
loop.slow_callback_duration = 60  # of a busy machine
saving = store.save(theme("dark"), USER, AGENT)
task = loop.create_task(saving)
loop.run_until_complete(asyncio.to_thread(lambda: None))
loop.run_until_complete(asyncio.to_thread(begun.wait))
loop.close()
task._log_destroy_pending = False
saving.close()
del saving, task, loop
over.set()
"""


STRICT = ["-X", "dev", "-W", "error"]


FORKS = ["-W", "ignore::DeprecationWarning"]
"""Python 3.12 warns of every fork beside threads, which is what this is about."""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="Windows has no fork")
@pytest.mark.parametrize(
    ("options", "program"),
    [
        *((FORKS, program) for program in (LOCKED, CALLBACK, BESIDE)),
        pytest.param(FORKS, FORKING, marks=pytest.mark.storm),
        pytest.param(STRICT, LEFT, marks=pytest.mark.storm),
    ],
    ids=["locked", "callback", "beside", "threads", "left"],
)
def test_no_program_hangs_or_warns(tmp_path: Path, options: list[str], program: str) -> None:
    """Neither a parent nor a child, which would hold the lock of the store meanwhile."""
    command = [sys.executable, *options, "-c", program, str(tmp_path / "store")]

    done = subprocess.run(command, timeout=50, capture_output=True, text=True, check=False)

    assert (done.returncode, done.stderr) == (0, "")
