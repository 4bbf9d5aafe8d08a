"""Descriptors of the lock file and folders between two calls: never stale, and released."""

import os
import shutil
import threading
import time
from pathlib import Path

import anyio
import pytest

from factmem.errors import StoreBusyError
from factmem.models.facts import SingleFact
from factmem.providers.local_file import LocalFileMemoryProvider
from factmem.storage._files import LocalFiles
from factmem.storage._lock import StoreLock
from factmem.testing.facts import (
    AGENT,
    PERSON,
    THEME,
)

ALICE = PERSON.of("alice")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "store"


@pytest.fixture
def lock(tmp_path: Path) -> StoreLock:
    return StoreLock(str(tmp_path / "lock"))


def descriptors() -> set[str]:
    """Return the files and folders of a test that this process has open."""
    found = set()
    for fd in os.listdir("/dev/fd"):
        try:
            found.add(os.readlink(f"/dev/fd/{fd}"))
        except OSError:  # the descriptor of this very listing
            continue
    return found


def of(root: Path) -> set[str]:
    return {path for path in descriptors() if path.startswith(str(root))}


needs_links = pytest.mark.skipif(
    not Path("/proc/self/fd").exists(), reason="only Linux says what a descriptor stands for"
)


async def save(store: LocalFileMemoryProvider, value: str) -> None:
    await store.save(SingleFact(THEME, value), ALICE, AGENT)


async def current(root: Path) -> list[str]:
    async with LocalFileMemoryProvider(root) as other:
        return [fact.value for fact in await other.load(THEME, ALICE, AGENT)]


@needs_links
async def test_only_the_lock_and_the_folder_stay_open_and_closing_releases_them(root: Path) -> None:
    store = LocalFileMemoryProvider(root)
    await save(store, "dark")
    await store.load_all(ALICE, AGENT)
    assert of(root) == {str(root / "lock"), str(root / "journals")}
    await store.aclose()
    assert of(root) == set()


@needs_links
async def test_a_cancelled_close_releases_them_too(root: Path) -> None:
    store = LocalFileMemoryProvider(root)
    await save(store, "dark")
    with anyio.CancelScope() as scope:
        scope.cancel()
        await store.aclose()
    assert of(root) == set()


@pytest.mark.parametrize("gone", ["lock", "journals", "."])
async def test_a_removed_store_is_created_again(root: Path, gone: str) -> None:
    """Another program removes it under an open provider: the next save creates a new one."""
    async with LocalFileMemoryProvider(root) as store:
        await save(store, "dark")
        path = root / gone
        path.unlink() if path.is_file() else shutil.rmtree(path)
        await save(store, "light")
        assert await current(root) == ["light"]


async def test_a_replaced_folder_is_used(root: Path) -> None:
    async with LocalFileMemoryProvider(root) as store:
        await save(store, "dark")
        (root / "journals").rename(root / "moved")
        shutil.copytree(root / "moved", root / "journals")
        await save(store, "light")
        assert await current(root) == ["light"]


def test_a_lock_on_a_replaced_file_excludes_no_process_and_is_released(
    lock: StoreLock, tmp_path: Path
) -> None:
    with lock.held(0):
        pass
    (tmp_path / "lock").unlink()
    with lock.held(0), pytest.raises(StoreBusyError), StoreLock(str(tmp_path / "lock")).held(0):
        pass


@needs_links
def test_closing_during_a_locked_call_waits_for_its_end(lock: StoreLock, tmp_path: Path) -> None:
    other = StoreLock(str(tmp_path / "lock"))
    with lock.held(0):
        lock.close()
        with pytest.raises(StoreBusyError), other.held(0):
            pass
    with other.held(5):
        pass
    other.close()
    deadline = time.monotonic() + 5
    while of(tmp_path) and time.monotonic() < deadline:
        time.sleep(0.001)  # the thread that waited in vain closes its file when it is free
    assert of(tmp_path) == set()


def test_one_lock_excludes_the_threads_that_share_it(lock: StoreLock) -> None:
    inside, most, mutex = 0, 0, threading.Lock()

    def take() -> None:
        nonlocal inside, most
        for _ in range(5):
            with lock.held(30):
                with mutex:
                    inside += 1
                    most = max(most, inside)
                with mutex:
                    inside -= 1

    threads = [threading.Thread(target=take) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 1


class CountedFiles(LocalFiles):
    def __init__(self, folder: str) -> None:
        super().__init__(folder)
        self.reads = 0

    def content(self, name: str) -> bytes | None:
        self.reads += 1
        return super().content(name)


def test_a_settled_file_is_read_once_and_again_after_a_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, name, text = CountedFiles(str(tmp_path)), "factmem.json", b'{"a": 1}'
    (tmp_path / name).write_bytes(text)
    for _ in range(3):
        assert files.has_content(name, text)
    assert (
        files.reads == 3
    )  # it changed a moment ago, and may change again within a tick of the clock

    now = time.time_ns()
    monkeypatch.setattr(time, "time_ns", lambda: now + 10**10)
    for _ in range(3):
        assert files.has_content(name, text)
    assert files.reads == 4

    (tmp_path / "new").write_bytes(b'{"a": 2}')
    (tmp_path / "new").rename(tmp_path / name)
    assert not files.has_content(name, text)
    (tmp_path / name).unlink()
    assert not files.has_content(name, text)
