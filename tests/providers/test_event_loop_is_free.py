"""No call that may block runs on an event loop: every file call is in a worker thread.

All file calls go through `factmem.storage._files.LocalFiles`, which these tests stand in for: a
call from the thread of a running event loop fails. General guards do not see `os.open`, `pread`,
`fsync` and `flock`.

There is one exception, the freshness check of a warm load, about two microseconds each time:
`is_unchanged`, or `exists` where there was no file, called by `Journals.is_current`.
"""

import ast
import threading
from collections import Counter
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path

import anyio
import pytest
from factmem.storage._files import LocalFiles

import factmem
from factmem.encryption.key import Key
from factmem.providers.local_file import LocalFileMemoryProvider
from factmem.testing.clock import START
from factmem.testing.facts import (
    AGENT,
    LANGUAGES,
    THEME,
    languages,
    theme,
)
from tests.doors import CALLS, Door, DoorStorage
from tests.providers.local_stores import ALICE, BOB, KEY, current
from tests.syntax import tree_of

ALLOWED = {"is_unchanged", "exists"}


class Guard:
    """Refuses file calls from the thread that made it, except the freshness check."""

    def __init__(self) -> None:
        self._loop = threading.get_ident()
        self.on_loop: Counter[str] = Counter()
        self.in_threads: Counter[str] = Counter()

    def __call__(self, call: str, args: tuple[object, ...]) -> None:
        if threading.get_ident() != self._loop:
            self.in_threads[call] += 1
            return
        self.on_loop[call] += 1
        if call not in ALLOWED:
            raise AssertionError(f"LocalFiles.{call} was called on an event loop")


def opened(
    root: Path, guard: Guard, key: Key | None, *, keep: timedelta | None = None
) -> LocalFileMemoryProvider:
    storage = DoorStorage(lambda folder: Door(folder, guard), key)
    return LocalFileMemoryProvider(root, storage=storage, keep_history=keep)


Call = Callable[[LocalFileMemoryProvider], Awaitable[object]]

CHANGES: list[Call] = [
    lambda store: store.save(theme("light"), ALICE, AGENT),
    lambda store: store.save_many([theme("dark"), languages("java", "c")], ALICE, AGENT),
    lambda store: store.save(languages("rust"), BOB, AGENT),
    lambda store: store.forget(ALICE, AGENT, concept=LANGUAGES, value="c"),
    lambda store: store.forget(ALICE, AGENT, concept=THEME, value="light", purge=True),
    lambda store: store.compact(ALICE, AGENT),
    lambda store: store.salvage(ALICE, AGENT),
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


@pytest.mark.parametrize("key", [None, KEY], ids=["plain", "encrypted"])
async def test_no_file_call_runs_on_the_event_loop(root: Path, key: Key | None) -> None:
    """It covers every operation of a store, warm and cold, alone and beside another store."""
    guard = Guard()
    mine, other = opened(root, guard, key), opened(root, guard, key, keep=timedelta(0))

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
    if key is not None:
        second = Key.generate()
        await mine.keys.add(second)
        await mine.keys.ids()
        await mine.keys.remove(second)
        await mine.keys.rotate(key)
    await mine.aclose()
    await other.aclose()

    assert set(guard.on_loop) == ALLOWED
    # A large index alone is mapped, and a sealed file destroyed.
    rare = {"mapped"} | ({"destroy"} if key is None else set())
    assert set(CALLS) - set(guard.in_threads) == rare


async def test_a_warm_load_makes_one_file_call(root: Path) -> None:
    """It needs no thread, whether or not the place has facts."""
    guard = Guard()
    store = opened(root, guard, None)
    await store.save(theme("dark"), ALICE, AGENT)
    await current(store)
    await current(store, BOB)
    guard.on_loop.clear()
    guard.in_threads.clear()

    for _ in range(10):
        await store.load(THEME, ALICE, AGENT)
        await store.load_all(ALICE, AGENT)
        await store.load(THEME, BOB, AGENT)

    assert guard.on_loop == {"is_unchanged": 20, "exists": 10}
    assert not guard.in_threads


@pytest.mark.parametrize("key", [None, KEY], ids=["plain", "encrypted"])
async def test_a_load_after_an_own_save_uses_no_thread(root: Path, key: Key | None) -> None:
    """The appended entry is applied, also after reading saves of another process."""
    guard = Guard()
    store, other = opened(root, guard, key), opened(root, guard, key)
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


async def test_a_call_on_the_event_loop_is_noticed(root: Path) -> None:
    """The guard works: direct use of a storage fails."""
    guard = Guard()
    journals = DoorStorage(lambda folder: Door(folder, guard)).open(root)

    with pytest.raises(AssertionError, match="content was called on an event loop"):
        journals.read(("a",))
    with pytest.raises(AssertionError, match="was called on an event loop"), journals.exclusive():
        pass


HARMLESS = {
    "os.PathLike",
    "os.fsencode",
    "os.fspath",
    "os.getpid",
    "os.path",
    "os.register_at_fork",
    "os.stat_result",
    "os.strerror",
    "os.urandom",
}
"""Names of `os` that other modules may use, because they do not touch a disk."""


_SYNCS = ("_kernel_syncs.py", "_sync_threads.py")

BEHIND_THE_DOOR = ("_lock.py", "_network.py", "_open.py", *_SYNCS)
"""The modules with file calls; others may import names from them that touch no disk."""


@pytest.mark.parametrize("package", ["storage", "providers"])
def test_all_file_calls_are_in_one_module(package: str) -> None:
    """Otherwise the guard would miss them: no other module opens, reads or locks files."""
    folder = Path(factmem.__file__).parent / package
    behind = {folder / name for name in ("_files.py", *BEHIND_THE_DOOR)}
    for module in sorted(set(folder.glob("*.py")) - behind):
        names = {
            ast.unparse(node)
            for node in ast.walk(tree_of(module.read_text()))
            if isinstance(node, ast.Attribute | ast.Name)
        }
        used = {name for name in names if name.startswith(("os.", "fcntl", "shutil", "io."))}
        assert used <= HARMLESS, f"{module.name} calls {sorted(used - HARMLESS)}"
        assert not names & {"open", "mmap", "tempfile"}, f"{module.name} opens files"
        assert not names & {"open_ordinary", "StoreLock", "network_mount"}, (
            f"{module.name} uses private file calls"
        )
        paths = {
            name
            for name in names
            if name.endswith(
                (
                    ".read_text",
                    ".read_bytes",
                    ".mkdir",
                    ".write_text",
                    ".write_bytes",
                    ".unlink",
                    ".exists",
                    ".stat",
                    ".iterdir",
                )
            )
        }
        doors = {"files.exists", "self.files.exists", "self._files.exists"}
        assert paths <= {*doors, "self._journals.exists"}


def test_every_public_file_call_is_guarded() -> None:
    """The only exception is the method that joins two strings."""
    public = {name for name in dir(LocalFiles) if not name.startswith("_")}

    assert public == {*CALLS, "path", "sector"}
