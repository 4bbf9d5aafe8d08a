"""No call that may block runs on an event loop: SQLite, locks and files are used in worker threads.

General guards do not see what SQLite does, so these tests look at each statement of each
connection. There is one exception, the freshness check of a warm load, some microseconds each time:
it looks at the file and asks for `data_version`, and for the end of the place if that has changed.
"""

import linecache
import os
import sys
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from datetime import timedelta
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from factmem import EncryptedStorage, Key, LocalFileMemoryProvider
from factmem import _concurrency as file_lock
from factmem.providers.storages import Storage
from factmem.testing._facts import AGENT, LANGUAGES, THEME, languages, theme
from factmem.testing.clock import START
from tests.doors import watched
from tests.providers.local_stores import ALICE, BOB, KEY, current

ALLOWED = {"PRAGMA data_version", "SELECT made, snapshot, last FROM places WHERE place = ?"}


class Guard:
    """Refuses calls from the thread that made it, except the freshness check."""

    def __init__(self) -> None:
        self._loop = threading.get_ident()
        self.on_loop: Counter[str] = Counter()
        self.in_threads: Counter[str] = Counter()

    def __call__(self, call: str) -> None:
        if threading.get_ident() != self._loop:
            self.in_threads[call] += 1
            return
        try:
            anyio.lowlevel.current_token()
        except RuntimeError:  # no event loop is running: it is pytest's own call
            return
        self.on_loop[call] += 1
        if call not in ALLOWED:
            raise AssertionError(f"{call} was called on an event loop")


@pytest.fixture
def guard(monkeypatch: pytest.MonkeyPatch) -> Iterator[Guard]:
    """Watch every statement, every lock, and the calls that open, sync and look for files."""
    guard = Guard()

    def watch(module: object, name: str) -> None:
        call = getattr(module, name)

        def noted(*args: object, **options: object) -> object:
            if sys._getframe(1).f_code.co_filename != linecache.__file__:  # a traceback's lines
                guard(name)
            return call(*args, **options)

        monkeypatch.setattr(module, name, noted)

    for name in ("open", "fsync", "stat", "link", "mkdir", "unlink"):
        watch(os, name)
    watch(file_lock, "try_lock")
    with watched(guard):
        yield guard


Call = Callable[[LocalFileMemoryProvider], Awaitable[object]]

CHANGES: list[Call] = [
    lambda store: store.save(theme("light"), ALICE, AGENT),
    lambda store: store.save_many([theme("dark"), languages("java", "c")], ALICE, AGENT),
    lambda store: store.save(languages("rust"), BOB, AGENT),
    lambda store: store.forget(ALICE, AGENT, concept=LANGUAGES, value="c"),
    lambda store: store.forget(ALICE, AGENT, concept=THEME, value="light", purge=True),
    lambda store: store.compact(ALICE, AGENT),
    lambda store: store.erase(BOB, AGENT),
]

LOOKS: list[Call] = [
    current,
    lambda store: current(store, BOB),
    lambda store: store.load(THEME, ALICE, AGENT, as_of=START),
    lambda store: store.load_all(ALICE, AGENT),
    lambda store: store.load_all(ALICE, AGENT, as_of=START),
    lambda store: store.load_by_description("theme", ALICE, AGENT),
    lambda store: store.history(THEME, ALICE, AGENT),
    lambda store: store.entries(ALICE, AGENT),
    lambda store: store.places(),
    lambda store: store.anchor(),
]


async def test_nothing_blocks_the_event_loop(root: Path, storage: Storage, guard: Guard) -> None:
    """It covers every operation of a store, warm and cold, alone and beside another store."""
    mine = LocalFileMemoryProvider(root, storage=storage)
    other = LocalFileMemoryProvider(root, storage=storage, keep_history=timedelta(0))

    for change in (*CHANGES, *CHANGES):
        for store in (mine, other):
            await change(store)
            for look in LOOKS:
                await look(mine)
                await look(other)
    await mine.verify(await other.anchor())
    await other.replay(await mine.entries(ALICE, AGENT), BOB, AGENT)
    for number in range(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(other.save, theme(f"theme {number}"), BOB, AGENT)  # many places
            for each in range(120):  # enough for a compaction
                tasks.start_soon(other.save, theme(f"theme {number} {each}"), ALICE, AGENT)
                tasks.start_soon(mine.load, THEME, ALICE, AGENT)
    if isinstance(storage, EncryptedStorage):
        second = Key.generate()
        await mine.keys.add(second)
        await mine.keys.ids()
        await mine.keys.remove(second)
        await mine.keys.rotate(KEY)
    await mine.aclose()
    await other.aclose()

    assert set(guard.on_loop) <= ALLOWED
    assert {"BEGIN IMMEDIATE", "COMMIT", "open", "try_lock", "link"} <= set(guard.in_threads)


async def test_a_warm_load_uses_no_thread(root: Path, storage: Storage, guard: Guard) -> None:
    """It asks SQLite whether anything has changed, whether or not the place has facts."""
    store = LocalFileMemoryProvider(root, storage=storage)
    await store.save(theme("dark"), ALICE, AGENT)
    for _ in range(2):
        await current(store)
        await current(store, BOB)
    guard.on_loop.clear()
    guard.in_threads.clear()

    for _ in range(10):
        await store.load(THEME, ALICE, AGENT)
        await store.load_all(ALICE, AGENT)
        await store.load(THEME, BOB, AGENT)

    assert guard.on_loop == {"PRAGMA data_version": 30}
    assert not guard.in_threads


async def test_a_save_elsewhere_costs_one_question(
    root: Path, storage: Storage, guard: Guard
) -> None:
    """Another process saves to another place: the end of this one is looked up, once."""
    store = LocalFileMemoryProvider(root, storage=storage)
    other = LocalFileMemoryProvider(root, storage=storage)
    await store.save(theme("dark"), ALICE, AGENT)
    for _ in range(2):
        await current(store)
    await other.save(theme("light"), BOB, AGENT)
    guard.on_loop.clear()
    guard.in_threads.clear()

    for _ in range(10):
        await store.load(THEME, ALICE, AGENT)

    question, end = sorted(ALLOWED)
    assert guard.on_loop == {question: 10, end: 1}
    assert not guard.in_threads


async def test_a_load_after_an_own_save_uses_no_thread(
    root: Path, storage: Storage, guard: Guard
) -> None:
    """The appended entry is applied, also after reading saves of another process."""
    store = LocalFileMemoryProvider(root, storage=storage)
    other = LocalFileMemoryProvider(root, storage=storage)
    await store.save(theme("dark"), ALICE, AGENT)
    await current(store)
    hops = Counter[str]()

    for number in range(10):
        if number % 3 == 2:
            await other.save(theme(f"of another {number}"), ALICE, AGENT)
            await current(store)
        await store.save(theme(f"theme {number}"), ALICE, AGENT)
        guard.in_threads.clear()
        assert await current(store) == [f"theme {number}"]
        hops += guard.in_threads

    assert not hops


async def test_a_call_on_the_event_loop_is_noticed(root: Path, guard: Guard) -> None:
    """The guard works: direct use of the blocking layer fails."""
    store = LocalFileMemoryProvider(root)
    await store.save(theme("dark"), ALICE, AGENT)

    with pytest.raises(AssertionError, match="was called on an event loop"):
        store._places.run(lambda session, _: None)
