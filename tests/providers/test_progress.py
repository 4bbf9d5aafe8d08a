"""Progress of long operations: the number of finished places."""

import threading
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import anyio
import pytest

from factmem import Key, LocalFileMemoryProvider, export_facts
from factmem.testing._facts import AGENT, PERSON, theme
from tests.providers.local_stores import sealed

Report = Callable[[int, int], None]


async def filled(root: Path) -> LocalFileMemoryProvider:
    store = LocalFileMemoryProvider(root, storage=sealed())
    for name in ("alice", "bob", "carol"):
        await store.save(theme("dark"), PERSON.of(name), AGENT)
    return store


async def anchor(store: LocalFileMemoryProvider, progress: Report) -> None:
    await store.anchor(progress=progress)


async def verify(store: LocalFileMemoryProvider, progress: Report) -> None:
    before = await store.anchor()
    await store.save(theme("light"), PERSON.of("dora"), AGENT)
    await store.erase(PERSON.of("dora"), AGENT)
    await store.verify(before, progress=progress)


async def rotate(store: LocalFileMemoryProvider, progress: Report) -> None:
    await store.keys.rotate(Key.generate(), progress=progress)


async def export(store: LocalFileMemoryProvider, progress: Report) -> None:
    await export_facts(store, Path(store._root) / "bundle.jsonl", progress=progress)


@pytest.mark.parametrize("work", [anchor, verify, rotate, export])
async def test_each_place_is_reported(
    root: Path, work: Callable[[LocalFileMemoryProvider, Report], Awaitable[None]]
) -> None:
    """The callback also gets the total."""
    seen: list[tuple[int, int]] = []

    await work(await filled(root), lambda done, total: seen.append((done, total)))

    assert seen == [(1, 3), (2, 3), (3, 3)]


async def test_a_callback_can_stop_a_rotation(root: Path) -> None:
    """Its exception is raised, and the next call completes the rotation."""
    store, new = await filled(root), Key.generate()

    def stop(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        await store.keys.rotate(new, progress=stop)
    await store.keys.rotate(new)

    assert len(await store.keys.ids()) == 1
    assert len(await store.places()) == 3


@pytest.mark.parametrize("work", [anchor, verify, rotate, export])
async def test_progress_must_be_a_function(
    root: Path, work: Callable[[LocalFileMemoryProvider, Report], Awaitable[None]]
) -> None:
    """A list cannot be called."""
    with pytest.raises(TypeError, match="progress must be"):
        await work(await filled(root), [])  # type: ignore[arg-type]


@pytest.mark.parametrize("operation", ["verify", "anchor"])
async def test_a_load_does_not_wait_for_a_long_read(tmp_path: Path, operation: str) -> None:
    """It has a connection of its own, as a backup and a list of places have."""
    started, loaded = threading.Event(), threading.Event()
    was_loaded: list[bool] = []

    def report(done: int, total: int) -> None:
        started.set()
        was_loaded.append(loaded.wait(60))

    async with await filled(tmp_path / "store") as store, anyio.create_task_group() as tasks:
        tasks.start_soon(partial(getattr(store, operation), progress=report))
        await anyio.to_thread.run_sync(started.wait, 60)
        await store.entries(PERSON.of("bob"), AGENT)
        loaded.set()

    assert was_loaded == [True] * 3
