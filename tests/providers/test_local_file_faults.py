"""Errors of the disk: each raises a clear error, loses nothing, and can be overcome."""

import errno
import os
import resource
import shutil
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio
import pytest
from factmem.storage._files import LocalFiles

from factmem.encryption.key import Key
from factmem.errors import StorageError
from factmem.providers.local_file import LocalFileMemoryProvider
from factmem.testing.facts import (
    AGENT,
    LANGUAGES,
    THEME,
    languages,
    theme,
)
from tests.doors import CALLS, Door, DoorStorage, FailingDoor
from tests.processes import apart
from tests.providers.local_stores import ALICE, BOB, KEY, current, journal_of

NOBODY = 65534
"""A numeric user id other than root's."""

both_kinds = pytest.mark.parametrize("key", [None, KEY], ids=["plain", "encrypted"])

Call = Callable[[LocalFileMemoryProvider], Awaitable[object]]

# The first two need only the journal's file if the place is cached.
ON_ALICE: list[Call] = [
    lambda store: store.load(THEME, ALICE, AGENT),
    lambda store: store.load_all(ALICE, AGENT),
    lambda store: store.history(THEME, ALICE, AGENT),
    lambda store: store.entries(ALICE, AGENT),
    lambda store: store.save(theme("light"), ALICE, AGENT),
    lambda store: store.forget(ALICE, AGENT, concept=THEME),
    lambda store: store.erase(ALICE, AGENT),
    lambda store: store.compact(ALICE, AGENT),
    lambda store: store.places(),
    lambda store: store.anchor(),
]


# Real disk errors run in processes of their own, because they change permissions and limits.


@contextmanager
def as_nobody() -> Iterator[Path]:
    """Yield a folder, and continue as its owner, who is not root."""
    folder = Path(tempfile.mkdtemp())
    is_root = os.getuid() == 0
    try:
        # Load late imports now, because they may be out of reach afterwards.
        anyio.run(LocalFileMemoryProvider(folder / "warm").save, theme("dark"), ALICE, AGENT)
        if is_root:
            os.chown(folder, NOBODY, NOBODY)
            os.seteuid(NOBODY)
        yield folder
    finally:
        if is_root:
            os.seteuid(0)
        shutil.rmtree(folder)


def in_a_read_only_folder(backend: str) -> None:
    async def main() -> None:
        store = LocalFileMemoryProvider(root)
        await store.save(theme("dark"), ALICE, AGENT)
        for closed in (root / "journals", root):
            closed.chmod(0o500)
        elsewhere = LocalFileMemoryProvider(root / "below")
        for one, subject in ((store, BOB), (elsewhere, ALICE)):
            with pytest.raises(StorageError, match="Permission denied") as caught:
                await one.save(theme("light"), subject, AGENT)
            assert isinstance(caught.value.__cause__, PermissionError)
            assert str(root) in str(caught.value)
        for one in (store, LocalFileMemoryProvider(root)):
            assert await current(one) == ["dark"]
            assert await current(one, BOB) == []
        for closed in (root, root / "journals"):
            closed.chmod(0o700)
        await store.save(theme("light"), BOB, AGENT)
        assert await current(LocalFileMemoryProvider(root), BOB) == ["light"]

    with as_nobody() as folder:
        root = folder / "store"
        anyio.run(main, backend=backend)


def without_permission(backend: str) -> None:
    async def main() -> None:
        store = LocalFileMemoryProvider(root)
        await store.save(theme("dark"), ALICE, AGENT)
        assert await current(store) == ["dark"]
        assert await current(store, BOB) == []
        for closed in (journal_of(root), root / "journals", root / "factmem.json", root):
            mode = closed.stat().st_mode
            closed.chmod(0)
            for one in (store, LocalFileMemoryProvider(root)):
                is_warm = one is store and closed.name == "factmem.json"
                for call in ON_ALICE[2 if is_warm else 0 :]:
                    with pytest.raises(StorageError, match="Permission denied"):
                        await call(one)
                if not is_warm and "jsonl" not in closed.name:
                    with pytest.raises(StorageError, match="Permission denied"):
                        await one.load(LANGUAGES, BOB, AGENT)
            closed.chmod(mode)
            assert await current(store) == ["dark"]
        (root / "lock").chmod(0)  # a process that has it open needs no permission any more
        with pytest.raises(StorageError, match="Permission denied"):
            await LocalFileMemoryProvider(root).save(theme("light"), ALICE, AGENT)
        assert await current(store) == ["dark"]
        (root / "lock").chmod(0o600)
        await store.save(theme("light"), ALICE, AGENT)
        assert await current(LocalFileMemoryProvider(root)) == ["light"]

    with as_nobody() as folder:
        root = folder / "store"
        anyio.run(main, backend=backend)


def with_files_that_cannot_grow(backend: str, root: str, key: str | None) -> None:
    """Writes beyond the limit are partial, as on a full disk."""
    storage = DoorStorage(LocalFiles, key)

    async def main() -> None:
        store = LocalFileMemoryProvider(root, storage=storage)
        await store.save(languages("java"), ALICE, AGENT)
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        wanted = ["java"]
        for room in (0, 1, 100, 500, 2000):
            size = journal_of(Path(root)).stat().st_size
            resource.setrlimit(resource.RLIMIT_FSIZE, (size + room, hard))
            for _ in range(2):
                with pytest.raises(StorageError, match="File too large") as caught:
                    await store.save(languages("x" * 8000), ALICE, AGENT)
                assert isinstance(caught.value.__cause__, OSError)
                assert "xxx" not in str(caught.value)
                for one in (store, LocalFileMemoryProvider(root, storage=storage)):
                    assert await current(one) == wanted
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
            await store.save(languages(f"after {room}"), ALICE, AGENT)
            wanted.append(f"after {room}")
        for one in (store, LocalFileMemoryProvider(root, storage=storage)):
            assert await current(one) == wanted

    anyio.run(main, backend=backend)


def test_a_folder_that_is_read_only(anyio_backend: str) -> None:
    """Operations that need a new file fail and name it; existing files can be read."""
    apart(in_a_read_only_folder, anyio_backend)


def test_files_that_cannot_be_opened(anyio_backend: str) -> None:
    """Unreadable is never empty: each call fails, also for cached and empty places."""
    apart(without_permission, anyio_backend)


@both_kinds
def test_files_that_cannot_grow(anyio_backend: str, root: Path, key: Key | None) -> None:
    """A partial write is not a save, and later saves work."""
    text = None if key is None else key.to_base64()
    apart(with_files_that_cannot_grow, anyio_backend, str(root), text)


# Disk errors injected into the file calls


class SmallDisk(LocalFiles):
    """A folder with a limited size: the last write is partial, then none succeeds."""

    room = 1 << 62

    def append(self, fd: int, data: bytes) -> None:
        """See `Files.append`."""
        fits = data[: max(0, self.room)]
        self.room -= len(data)
        super().append(fd, fits)
        if len(fits) < len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@both_kinds
@pytest.mark.parametrize("room", [0, 1, 50, 300, 1000])
async def test_a_full_disk(root: Path, key: Key | None, room: int) -> None:
    """The save fails, earlier ones stay, and a save after freeing space works."""
    files = SmallDisk(str(root))
    store = LocalFileMemoryProvider(root, storage=DoorStorage(lambda _: files, key))
    await store.save(languages("java"), ALICE, AGENT)
    files.room = room

    for _ in range(2):
        for subject in (ALICE, BOB):
            with pytest.raises(StorageError, match="No space left on device"):
                await store.save(languages("x" * 8000), subject, AGENT)
    assert await current(store) == ["java"]
    files.room = 1 << 62
    await store.save(languages("rust"), ALICE, AGENT)

    for one in (store, LocalFileMemoryProvider(root, storage=DoorStorage(LocalFiles, key))):
        assert await current(one) == ["java", "rust"]
        assert await current(one, BOB) == []


def _opened(root: Path, key: Key | None, fault: FailingDoor) -> LocalFileMemoryProvider:
    storage = DoorStorage(lambda folder: Door(folder, fault, is_quick=True), key)
    return LocalFileMemoryProvider(root, storage=storage)


AFTER: dict[str, tuple[Call, list[str]]] = {
    "save": (lambda store: store.save(languages("rust"), ALICE, AGENT), ["dark", "java", "rust"]),
    "save_many": (
        lambda store: store.save_many([theme("light"), languages("c", "d")], ALICE, AGENT),
        ["light", "java", "c", "d"],
    ),
    "forget": (lambda store: store.forget(ALICE, AGENT, concept=THEME), ["java"]),
    "purge": (lambda store: store.forget(ALICE, AGENT, concept=THEME, purge=True), ["java"]),
    "compact": (lambda store: store.compact(ALICE, AGENT), ["dark", "java"]),
    "erase": (lambda store: store.erase(ALICE, AGENT), []),
}
"""Operations, and the current values after each."""

REFUSING = set(CALLS) - {"is_unchanged", "exists", "close"}
"""The calls that may fail; closing a file after reading cannot."""


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@both_kinds
@pytest.mark.parametrize("times", [1, 10**6])
@pytest.mark.parametrize("act", AFTER)
async def test_an_error_at_every_file_call(
    root: Path, key: Key | None, act: str, times: int, stride: int
) -> None:
    """One or all later calls fail: acknowledged saves stay, others are complete or absent."""
    call, wanted = AFTER[act]
    good, fault = 0, FailingDoor()
    while not good or fault.failed:
        folder = root / str(good)
        store = _opened(folder, key, fault := FailingDoor())
        await store.save_many([theme("light"), languages("java")], ALICE, AGENT)
        await store.save(theme("dark"), ALICE, AGENT)
        fault.fails, fault.skip, fault.times = REFUSING, good, times
        good += stride
        error: StorageError | None = None
        try:
            await call(store)
        except StorageError as exc:
            error = exc
        fault.times = 0
        if error is not None:
            assert isinstance(error.__cause__, OSError)
            assert "Input/output error" in str(error)

        found = await current(_opened(folder, key, fault))
        assert found == wanted if error is None else found in (["dark", "java"], wanted)
        assert await current(store) == found
        await store.save(languages("after"), ALICE, AGENT)
        assert await current(store) == [*found, "after"]
        assert await current(_opened(folder, key, fault)) == [*found, "after"]
    assert good > 4


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@both_kinds
@pytest.mark.parametrize("times", [1, 10**6])
async def test_an_error_while_a_store_is_created(root: Path, key: Key | None, times: int) -> None:
    """The same save works afterwards."""
    good, fault = 0, FailingDoor()
    while not good or fault.failed:
        fault = FailingDoor(REFUSING | {"exists"}, times=times, skip=good)
        store = _opened(root / str(good), key, fault)
        good += 1
        try:
            await store.save(theme("dark"), ALICE, AGENT)
            fault.times = 0
        except StorageError:
            fault.times = 0
            assert await current(store) in ([], ["dark"])
            await store.save(theme("dark"), ALICE, AGENT)
        assert await current(store) == ["dark"]
        assert await current(_opened(root / str(good - 1), key, FailingDoor())) == ["dark"]
    assert good > 10


async def test_each_of_many_saves_gets_its_own_error(root: Path) -> None:
    """They share a write, but each has its own exception and traceback."""
    fault = FailingDoor()
    store = LocalFileMemoryProvider(root, storage=DoorStorage(lambda path: Door(path, fault)))
    async with anyio.create_task_group() as tasks:  # after a batch of two, saves wait for others
        for value in ("java", "c"):
            tasks.start_soon(store.save, languages(value), ALICE, AGENT)
    fault.fails, fault.times = {"sync"}, 1
    errors: list[StorageError] = []

    async def save(value: str) -> None:
        try:
            await store.save(languages(value), ALICE, AGENT)
        except StorageError as exc:
            errors.append(exc)

    async with anyio.create_task_group() as tasks:
        for number in range(10):
            tasks.start_soon(save, f"v{number}")

    assert len(errors) == 10
    assert len({id(error) for error in errors}) == 10
    assert {str(error.__cause__) for error in errors} == {"[Errno 5] Input/output error"}


async def test_a_failing_place_affects_no_other(root: Path) -> None:
    """Saves for several places share a batch, and each place has its own result."""
    fault = FailingDoor()
    store = LocalFileMemoryProvider(root, storage=DoorStorage(lambda path: Door(path, fault)))
    for subject in (ALICE, BOB):
        await store.save(languages("java"), subject, AGENT)
    fault.fails, fault.times = {"append"}, 1
    failed: list[str] = []

    async def save(name: str) -> None:
        try:
            await store.save(languages("rust"), ALICE.of(name), AGENT)
        except StorageError:
            failed.append(name)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(save, "alice")
        tasks.start_soon(save, "bob")

    assert len(failed) == 1
    for name in ("alice", "bob"):
        found = await current(store, ALICE.of(name))
        assert found == (["java"] if name in failed else ["java", "rust"])
