"""Errors of the disk: each raises a clear error, loses nothing, and can be overcome."""

import os
import shutil
import sqlite3
import tempfile
from collections.abc import Awaitable, Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio
import pytest

from factmem import LocalFileMemoryProvider, MultipleFacts, SingleFact, StorageError
from factmem.errors import CorruptJournalError
from factmem.providers._sqlite import database
from factmem.providers._sqlite.database import SqliteDatabase
from factmem.providers._sqlite.files import DatabaseFiles, DiskFullError
from factmem.providers._sqlite.session import SqliteSession
from factmem.providers.storages import Storage
from factmem.testing._facts import AGENT, LANGUAGES, THEME, languages, theme
from tests.doors import FailingDoor, watched
from tests.processes import apart
from tests.providers.local_stores import ALICE, BOB, CAROL, current, is_sound

NOBODY = 65534
"""A numeric user id other than root's."""


Call = Callable[[LocalFileMemoryProvider], Awaitable[object]]


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


LOAD_BOB: Call = lambda store: store.load(LANGUAGES, BOB, AGENT)


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


def without_permission(backend: str) -> None:
    async def main() -> None:
        store = LocalFileMemoryProvider(root)
        await store.save(theme("dark"), ALICE, AGENT)
        await store.aclose()
        for closed in (root / "facts.db", root):
            mode = closed.stat().st_mode
            closed.chmod(0)
            for call in (*ON_ALICE, LOAD_BOB):
                with pytest.raises(StorageError):
                    await call(LocalFileMemoryProvider(root))
            closed.chmod(mode)
            assert await current(LocalFileMemoryProvider(root)) == ["dark"]
        (root / "lock").chmod(0)
        store = LocalFileMemoryProvider(root)
        with pytest.raises(StorageError, match="Permission denied"):
            await store.save(theme("light"), ALICE, AGENT)
        assert await current(store) == ["dark"]
        (root / "lock").chmod(0o600)
        await store.save(theme("light"), ALICE, AGENT)
        assert await current(LocalFileMemoryProvider(root)) == ["light"]

    with as_nobody() as folder:
        root = folder / "store"
        anyio.run(main, backend=backend)


def test_files_that_cannot_be_opened(anyio_backend: str) -> None:
    """Unreadable is never empty: each call fails, also for places without facts."""
    apart(without_permission, anyio_backend)


# Errors injected into SQLite's statements

CODES = {"failing": sqlite3.SQLITE_IOERR, "full": sqlite3.SQLITE_FULL}


faults = pytest.mark.parametrize(
    ("disk", "times"),
    [
        ("failing", 1),
        ("full", 10**6),
        pytest.param("failing", 10**6, marks=pytest.mark.storm),
        pytest.param("full", 1, marks=pytest.mark.storm),
    ],
)
"""Which error statements fail with, and how many of them."""


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@faults
@pytest.mark.parametrize("act", AFTER)
async def test_an_error_at_every_statement(
    root: Path, storage: Storage, act: str, disk: str, times: int, stride: int
) -> None:
    """One or all later ones fail: acknowledged saves stay, others are complete or absent."""
    call, wanted = AFTER[act]
    good, fault = 0, FailingDoor(CODES[disk])
    while not good or fault.failed:
        folder = root / str(good)
        store, fault = LocalFileMemoryProvider(folder, storage=storage), FailingDoor(CODES[disk])
        error: StorageError | None = None
        with watched(fault):
            await store.save_many([theme("light"), languages("java")], ALICE, AGENT)
            await store.save(theme("dark"), ALICE, AGENT)
            fault.fail(times, skip=good)
            good += stride
            try:
                await call(store)
            except StorageError as exc:
                error = exc
            fault.heal()
        if error is not None:
            assert isinstance(error.__cause__, sqlite3.Error)
            assert str(folder) in str(error)

        found = await current(LocalFileMemoryProvider(folder, storage=storage))
        assert found == wanted if error is None else found in (["dark", "java"], wanted)
        assert await current(store) == found
        await store.save(languages("after"), ALICE, AGENT)
        for one in (store, LocalFileMemoryProvider(folder, storage=storage)):
            assert await current(one) == [*found, "after"]
        await store.aclose()
        assert is_sound(folder)
    assert good > 4


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@faults
async def test_an_error_while_a_store_is_created(
    root: Path, storage: Storage, disk: str, times: int, stride: int
) -> None:
    """The same save works afterwards."""
    good, fault = 0, FailingDoor(CODES[disk])
    while not good or fault.failed:
        fault = FailingDoor(CODES[disk])
        fault.fail(times, skip=good)
        store = LocalFileMemoryProvider(root / str(good), storage=storage)
        with watched(fault):
            try:
                await store.save(theme("dark"), ALICE, AGENT)
                fault.heal()
            except StorageError:
                fault.heal()
                assert await current(store) in ([], ["dark"])
                await store.save(theme("dark"), ALICE, AGENT)
        assert await current(store) == ["dark"]
        assert await current(LocalFileMemoryProvider(root / str(good), storage=storage)) == ["dark"]
        await store.aclose()
        assert is_sound(root / str(good))
        good += stride
    assert good > 10


async def test_each_of_many_saves_gets_its_own_error(root: Path) -> None:
    """They share a write, but each has its own exception and traceback."""
    fault, store = FailingDoor(), LocalFileMemoryProvider(root)
    errors: list[StorageError] = []

    async def save(value: str) -> None:
        try:
            await store.save(languages(value), ALICE, AGENT)
        except StorageError as exc:
            errors.append(exc)

    with watched(fault):
        async with (
            anyio.create_task_group() as tasks
        ):  # after a batch of two, saves wait for others
            for value in ("java", "c"):
                tasks.start_soon(store.save, languages(value), ALICE, AGENT)
        fault.fail(1, part="COMMIT")
        async with anyio.create_task_group() as tasks:
            for number in range(10):
                tasks.start_soon(save, f"v{number}")

    assert len(errors) == 10
    assert len({id(error) for error in errors}) == 10
    assert sorted(await current(store)) == ["c", "java"]  # trio starts tasks in random order


@pytest.mark.parametrize("what", ["load", "save"])
async def test_an_error_that_says_damaged_has_a_second_look(
    root: Path, storage: Storage, what: str
) -> None:
    """What a failing disk made of a page in memory is not on the disk: the call works again."""
    store, fault = (
        LocalFileMemoryProvider(root, storage=storage),
        FailingDoor(sqlite3.SQLITE_CORRUPT),
    )
    acts: dict[str, Call] = {
        "load": lambda store: store.places(),
        "save": lambda store: store.save(theme("light"), ALICE, AGENT),
    }
    with watched(fault):
        await store.save(theme("dark"), ALICE, AGENT)
        await store.places()
        fault.fail(1, part="places")
        await acts[what](store)
        assert fault.failed == 1
        assert await current(store) == (["dark"] if what == "load" else ["light"])


async def test_real_damage_is_called_so(root: Path, storage: Storage) -> None:
    """A new connection finds it too."""
    async with LocalFileMemoryProvider(root, storage=storage) as store:
        await store.save_many([languages(*"abcdefgh"), theme("dark" * 3000)], ALICE, AGENT)
    content = bytearray((root / "facts.db").read_bytes())
    content[4096 * 2 :] = b"\xff" * len(content[4096 * 2 :])
    (root / "facts.db").write_bytes(content)
    before = (root / "facts.db").read_bytes()

    for call in ON_ALICE:
        with pytest.raises(CorruptJournalError, match=r"is damaged .*factmem salvage"):
            await call(LocalFileMemoryProvider(root, storage=storage))

    assert (root / "facts.db").read_bytes() == before


ROOM = 1 << 20
"""What the reserve keeps free."""


@pytest.fixture
def full(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Return the folders whose disk is full; a write needs the room of their reserve."""
    folders: list[Path] = []
    writing = SqliteDatabase.writing

    @contextmanager
    def refused(self: SqliteDatabase) -> Generator[SqliteSession]:
        with writing(self) as session:
            reserve = self.root / "reserve"
            if self.root in folders and reserve.exists() and reserve.stat().st_size == ROOM:
                raise DiskFullError("The disk is full")
            yield session

    monkeypatch.setattr(database.SqliteDatabase, "writing", refused)
    return folders


async def test_facts_can_be_erased_on_a_full_disk(
    root: Path, storage: Storage, full: list[Path]
) -> None:
    """A user who asks to be erased does not wait for an administrator."""
    async with LocalFileMemoryProvider(root, storage=storage) as store:
        await store.save(SingleFact(THEME, "dark"), ALICE, AGENT)
        await store.save(MultipleFacts(LANGUAGES, ["Kotlin", "Rust"]), BOB, AGENT)
        for value in ("dark", "light"):
            await store.save(SingleFact(THEME, value), CAROL, AGENT)
        full.append(root)

        with pytest.raises(StorageError, match="full"):
            await store.save(SingleFact(THEME, "light"), ALICE, AGENT)
        receipt = await store.erase(ALICE, AGENT)
        forgotten = await store.forget(BOB, AGENT, concept=LANGUAGES, value="Rust", purge=True)
        assert await store.compact(CAROL, AGENT) > 0

        assert (receipt.count, receipt.copies_remain, forgotten) == (1, False, 1)
        assert await current(store, ALICE) == []
        assert await current(store, BOB) == ["Kotlin"]
        assert (root / "reserve").stat().st_size == ROOM
        full.clear()
        await store.save(SingleFact(THEME, "light"), ALICE, AGENT)
        assert await current(store, ALICE) == ["light"]


async def test_a_new_process_erases_on_a_full_disk(
    root: Path, storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite cannot even read a database if its log's index has no room."""
    async with LocalFileMemoryProvider(root, storage=storage) as store:
        await store.save(SingleFact(THEME, "dark"), ALICE, AGENT)
        await store.save(SingleFact(THEME, "light"), BOB, AGENT)
    opened = DatabaseFiles._open

    def refused(self: DatabaseFiles) -> object:
        if (root / "reserve").stat().st_size == ROOM:
            exc = sqlite3.OperationalError("disk I/O error")
            exc.sqlite_errorcode = sqlite3.SQLITE_IOERR_SHMSIZE
            raise exc
        return opened(self)

    monkeypatch.setattr(DatabaseFiles, "_open", refused)
    async with LocalFileMemoryProvider(root, storage=storage) as store:
        assert await current(store, BOB) == ["light"]
        assert ROOM // 2 < (root / "reserve").stat().st_size < ROOM
        assert (await store.erase(ALICE, AGENT)).count == 1

    assert (root / "reserve").stat().st_size == ROOM, "it is filled again when there is room"


async def test_a_full_disk_fails_a_ping(root: Path, storage: Storage, full: list[Path]) -> None:
    """A health check is not green while every save fails."""
    async with LocalFileMemoryProvider(root, storage=storage) as store:
        await store.save(SingleFact(THEME, "dark"), ALICE, AGENT)
        full.append(root)

        with pytest.raises(StorageError, match="full"):
            await store.ping()

        full.clear()
        assert (await store.ping()).version == 1
