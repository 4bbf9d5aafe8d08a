"""What other programs, rights, keys and killed processes do to the files of a store."""

# ruff: noqa: ASYNC240 - the tests arrange the disk themselves
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import threading
from collections.abc import Awaitable, Callable
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pytest

from factmem import Key, LocalFileMemoryProvider
from factmem._concurrency import FileLock
from factmem.encryption import KeyFile
from factmem.encryption.aes256gcm import Aes256GCMEncryptor
from factmem.errors import StorageError, StoreBusyError, TamperedError, WrongKeyError
from factmem.providers._sql.sealing import UnknownGenerationError
from factmem.providers._sqlite import session as schema
from factmem.providers.storages import EncryptedStorage, SimpleStorage, Storage
from factmem.testing._facts import AGENT, LANGUAGES, PERSON, THEME, languages, theme
from tests.providers.local_stores import ALICE, BOB, KEY, current, disk, is_sound, run, sealed

KILLED = """
import os, sys, anyio
from factmem.providers.local_file import LocalFileMemoryProvider
from factmem.testing._facts import AGENT, PERSON, theme
async def main():
    store = LocalFileMemoryProvider(sys.argv[1])
    for number in range(int(sys.argv[2])):
        await store.save(theme(f"old {number}"), PERSON.of("alice"), AGENT)
    os._exit(0)
anyio.run(main)
"""


REFUSED = """
import os, sys, anyio
from factmem.errors import StorageError, StoreBusyError, TamperedError
from factmem.providers.local_file import LocalFileMemoryProvider
from factmem.testing._facts import AGENT, USER, theme
root = sys.argv[1]
async def main():
    async with LocalFileMemoryProvider(root) as store:
        await store.save(theme("dark"), USER, AGENT)
    os.chmod(f"{root}/facts.db", 0o400)
    if os.geteuid() == 0:  # who may write whatever its mode is
        for name in ("", *os.listdir(root)):
            os.chown(f"{root}/{name}", 65534, 65534)
        os.chmod(os.path.dirname(root), 0o777)
        os.setegid(65534)
        os.seteuid(65534)
    async with LocalFileMemoryProvider(root) as store:
        try:
            await store.save(theme("dim"), USER, AGENT)
        except StorageError:
            for name in os.listdir(root):
                os.chmod(f"{root}/{name}", 0o600)
            await store.save(theme("light"), USER, AGENT)
            print("saved")
anyio.run(main)
"""


def program(source: str, *arguments: object) -> str:
    command = [sys.executable, "-c", source, *map(str, arguments)]
    done = subprocess.run(command, timeout=50, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.parametrize("saves", [1, 30])
async def test_a_deleted_database_does_not_come_back(root: Path, saves: int) -> None:
    """The log of a killed process was left beside it."""
    program(KILLED, root, saves)
    assert (root / "facts.db-wal").stat().st_size
    (root / "facts.db").unlink()

    async with LocalFileMemoryProvider(root) as store:
        await store.save(theme("new"), BOB, AGENT)
        assert await current(store) == []
        assert await current(store, BOB) == ["new"]
        await store.verify()


async def test_a_deleted_database_is_restored_alone(root: Path) -> None:
    """The log of a killed process is not that of the backup."""
    async with LocalFileMemoryProvider(root) as store:
        await store.save(theme("kept"), BOB, AGENT)
        await store.backup(root.with_name("backup"))
    program(KILLED, root, 5)
    (root / "facts.db").unlink()

    async with LocalFileMemoryProvider(root) as store:
        await store.restore(root.with_name("backup"))
        assert await current(store) == []
        assert await current(store, BOB) == ["kept"]


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="rights of POSIX systems")
async def test_a_right_that_is_given_ends_the_refusal() -> None:
    """A provider that was refused once opens the files again."""
    folder = tempfile.mkdtemp()  # where another user may go
    try:
        assert program(REFUSED, f"{folder}/store") == "saved\n"
    finally:
        shutil.rmtree(folder)


async def test_a_removed_folder_is_made_again(root: Path, storage: Storage) -> None:
    """By the process that had made it, without an error of its own."""
    async with LocalFileMemoryProvider(root, storage=storage) as store:
        await store.save(theme("dark"), ALICE, AGENT)
        for turn in range(3):
            shutil.rmtree(root)
            assert await current(store) == []
            await store.save(theme(f"light {turn}"), ALICE, AGENT)
            assert await current(store) == [f"light {turn}"]
            await store.verify()


async def test_a_database_out_of_its_mode_does_not_wait_for_ever(root: Path) -> None:
    """One deadline for the call, whatever it waits for."""
    async with LocalFileMemoryProvider(root) as store:
        await store.save(theme("dark"), ALICE, AGENT)
    run(root, "PRAGMA journal_mode = delete")
    with closing(sqlite3.connect(root / "facts.db", isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM entries").fetchone()
        async with LocalFileMemoryProvider(root, storage=SimpleStorage(busy_timeout=0.3)) as store:
            begin = monotonic()
            with pytest.raises(StoreBusyError):
                await store.save(theme("dim"), ALICE, AGENT)
            assert 0.3 <= monotonic() - begin < 15
            reader.execute("COMMIT")
            await store.save(theme("light"), ALICE, AGENT)


async def test_a_wait_for_sqlite_ends_with_that_for_the_lock(root: Path) -> None:
    """Both are one call's patience."""
    storage = SimpleStorage(busy_timeout=0.6)
    async with LocalFileMemoryProvider(root, storage=storage) as store:
        await store.save(theme("dark"), ALICE, AGENT)
        lock, held = FileLock(str(root / "lock"), 1.0), threading.Event()

        def hold() -> None:
            with lock.held():
                held.set()
                sleep(0.4)

        thread = threading.Thread(target=hold)
        with closing(sqlite3.connect(root / "facts.db", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            thread.start()
            held.wait()
            begin = monotonic()
            with pytest.raises(StoreBusyError):
                await store.save(theme("dim"), ALICE, AGENT)
            assert monotonic() - begin < 0.95
        thread.join()
        await store.save(theme("light"), ALICE, AGENT)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere waiters have no order")
def test_waiters_for_a_lock_take_turns(tmp_path: Path) -> None:
    """A process that saves again and again does not starve the others."""
    turns: list[str] = []
    is_over = threading.Event()

    def take(name: str) -> None:
        lock = FileLock(str(tmp_path / "lock"), 50)
        while not is_over.is_set():
            with lock.held():
                turns.append(name)
                sleep(0.01)
                if len(turns) >= 120:
                    is_over.set()

    threads = [threading.Thread(target=take, args=[name]) for name in "abcdef"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    steady = turns[12:]
    for name in "abcdef":
        at = [number for number, each in enumerate(steady) if each == name]
        assert max(later - earlier for earlier, later in pairwise(at)) <= 3 * 6


async def test_databases_of_two_folders_are_not_exchanged(tmp_path: Path) -> None:
    """One key for all tenants must not let one of them read another one's facts."""
    roots = [tmp_path / name for name in "ab"]
    storage = sealed()
    for root in roots:
        async with LocalFileMemoryProvider(root, storage=storage) as store:
            await store.save(theme(root.name), ALICE, AGENT)
    one, other = (root / "facts.db" for root in roots)
    content = one.read_bytes()
    one.write_bytes(other.read_bytes())

    async with LocalFileMemoryProvider(roots[0], storage=storage) as store:
        with pytest.raises(TamperedError, match="another store"):
            await current(store)
        with pytest.raises(TamperedError, match="another store"):
            await store.save(theme("dim"), ALICE, AGENT)
    one.write_bytes(content)
    async with LocalFileMemoryProvider(roots[0], storage=storage) as store:
        assert await current(store) == ["a"]


async def test_a_name_is_part_of_what_is_sealed(tmp_path: Path) -> None:
    """So whole folders cannot be exchanged either."""
    encryption = Aes256GCMEncryptor(KEY)
    for name in "ab":
        storage = EncryptedStorage(encryption, name=name)
        async with LocalFileMemoryProvider(tmp_path / name, storage=storage) as store:
            await store.save(theme(name), ALICE, AGENT)

    for name, other in ("ab", "ba"):
        storage = EncryptedStorage(encryption, name=name)
        async with LocalFileMemoryProvider(tmp_path / other, storage=storage) as store:
            with pytest.raises(TamperedError, match="another store"):
                await current(store)
    with pytest.raises(ValueError, match="name must not be empty"):
        EncryptedStorage(encryption, name="")


async def test_a_provider_keeps_the_keys_that_it_was_opened_with(root: Path) -> None:
    """After its own rotation another process may rotate to one of them."""
    first, second, third = (Key.generate() for _ in range(3))
    async with (
        LocalFileMemoryProvider(root, storage=sealed(first, second)) as one,
        LocalFileMemoryProvider(root, storage=sealed(third, first, second)) as other,
    ):
        await one.save(theme("dark"), ALICE, AGENT)
        await one.keys.rotate(third)
        await other.keys.rotate(second)
        assert await current(one) == ["dark"]
        await one.save(theme("light"), ALICE, AGENT)
        assert await current(other) == ["light"]


async def test_many_rotations_meanwhile_are_no_tampering(root: Path) -> None:
    """Each look finds another generation of keys, until the rotations end."""
    keys = [Key.generate() for _ in range(8)]
    async with (
        LocalFileMemoryProvider(root, storage=sealed(*keys)) as one,
        LocalFileMemoryProvider(root, storage=sealed(*keys)) as other,
    ):
        await one.save(theme("dark"), ALICE, AGENT)
        assert await current(other) == ["dark"]
        places, left = other._places, keys[1:]
        read = places.database.write

        def rotating(work: Callable[..., object]) -> object:
            def late(session: object, attempt: int) -> object:
                places.opening.find(session)  # type: ignore[arg-type]
                if left:
                    one._places.opening.start_afresh()
                    one.keys._slots.rotate(Aes256GCMEncryptor(left.pop()))
                    raise UnknownGenerationError
                return work(session, attempt)

            return read(late)

        places.database.write = rotating  # type: ignore[method-assign, assignment]
        await other.save(theme("light"), BOB, AGENT)
        assert await current(one, BOB) == ["light"]


async def test_a_failed_read_is_not_damage(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite's check reports a read that the disk refused in the words for damage."""
    async with LocalFileMemoryProvider(root) as store:
        await store.save(theme("dark"), ALICE, AGENT)
        checks: list[object] = []
        check = schema.SqliteSession.check_integrity

        class Failing:
            def __init__(self, db: sqlite3.Connection) -> None:
                self._db = db

            def execute(self, query: str, *given: Any) -> object:
                if "integrity_check" in query:
                    return self._db.execute("SELECT 'unable to get the page. error code=10'")
                return self._db.execute(query, *given)

        def once(session: schema.SqliteSession) -> None:
            checks.append(session)
            if len(checks) == 1:
                session.db = Failing(session.connection)  # type: ignore[assignment]
            check(session)

        monkeypatch.setattr(schema.SqliteSession, "check_integrity", once)
        await store.verify()
        assert len(checks) == 2
    assert disk(root)


class WithoutLog(sqlite3.Connection):
    """A connection on a disk that fails when a log is begun: SQLite answers with the old mode."""

    def execute(self, sql: str, parameters: Any = (), /) -> sqlite3.Cursor:
        """Ask for the mode instead of changing it."""
        return super().execute(sql.replace("journal_mode = wal", "journal_mode"), parameters)


async def test_a_log_that_cannot_be_begun_is_an_error_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise each commit waited for the lock of its own process, and held that of the store."""
    connect = sqlite3.connect

    def failing(*args: Any, **options: Any) -> sqlite3.Connection:
        return connect(*args, **options, factory=WithoutLog)

    async with LocalFileMemoryProvider(tmp_path / "store") as store:
        with monkeypatch.context() as patch:
            patch.setattr(sqlite3, "connect", failing)
            with pytest.raises(StorageError, match="The log of the store could not be begun"):
                await store.save(theme("dark"), ALICE, AGENT)
        await store.save(theme("light"), ALICE, AGENT)
        assert await current(store, ALICE) == ["light"]


async def test_an_old_sqlite_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own error would be a syntax error, or a malformed schema."""
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 34, 1))
    async with LocalFileMemoryProvider(tmp_path) as store:
        with pytest.raises(StorageError, match=r"SQLite 3\.37 or newer"):
            await store.save(theme("dark"), PERSON.of("alice"), AGENT)


@pytest.mark.storm
def test_the_suites_without_fcntl(thorough: bool) -> None:
    """Conformance of the local store: a lock never sees whether a line is encrypted.

    The short form runs where calls meet or a file is emptied: there a lock is waited for.
    """
    met = "concurrent or cancelled or others or at_once or workers or purge or erase"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.without_fcntl", "-p", "no:xdist"]
    suite = Path(__file__).with_name("test_local_file.py")

    done = subprocess.run(
        [*command, str(suite), "-k", f"asyncio and TestPlain{'' if thorough else f' and ({met})'}"],
        check=False,
        capture_output=True,
        text=True,
    )

    assert done.returncode == 0, done.stdout[-3000:]


Call = Callable[[LocalFileMemoryProvider], Awaitable[Any]]


LOOKS: dict[str, Call] = {
    "load": lambda store: store.load(LANGUAGES, ALICE, AGENT),
    "load_all": lambda store: store.load_all(ALICE, AGENT),
    "entries": lambda store: store.entries(ALICE, AGENT),
    "places": lambda store: store.places(),
    "save": lambda store: store.save(theme("light"), BOB, AGENT),
    "nothing": lambda store: store.load_all(BOB, AGENT),
}
"""The first call after the change: each kind of connection may be the first to notice."""


async def opened(root: Path, storage: Storage, *earlier: str) -> LocalFileMemoryProvider:
    """Return a store whose connections are all open."""
    store = LocalFileMemoryProvider(root, storage=storage)
    await store.save(languages("java"), ALICE, AGENT)
    for _ in range(2):
        assert await current(store) == [*earlier, "java"]
    return store


def remove(root: Path) -> None:
    for path in root.glob("facts.db*"):
        path.unlink()


def put(copy: Path, root: Path) -> None:
    """Put a closed copy in the place of the database, as a restored backup."""
    remove(root)
    shutil.copy(copy / "facts.db", root)


@pytest.mark.parametrize("look", LOOKS)
async def test_a_deleted_database_is_empty(root: Path, storage: Storage, look: str) -> None:
    """Nothing is read from it or written to it any more, and the next save creates another one."""
    store = await opened(root, storage)
    remove(root)

    found = await LOOKS[look](store)

    assert not found
    assert await current(store) == []
    await store.save(languages("rust"), ALICE, AGENT)
    for each in (store, LocalFileMemoryProvider(root, storage=storage)):
        assert await current(each) == ["rust"]
    await store.aclose()
    assert is_sound(root)


@pytest.mark.parametrize("look", LOOKS)
async def test_a_restored_backup_is_read(
    root: Path, storage: Storage, tmp_path: Path, look: str
) -> None:
    """It is the store itself as it was; others may have saved to it before this process looks."""
    backup = tmp_path / "backup"
    async with LocalFileMemoryProvider(root, storage=storage) as store:
        await store.save(languages("c"), ALICE, AGENT)
    shutil.copytree(root, backup)
    store = await opened(root, storage, "c")
    put(backup, root)

    await LOOKS[look](store)

    other = LocalFileMemoryProvider(root, storage=storage)
    assert await current(store) == ["c"]
    await other.save(languages("rust"), ALICE, AGENT)
    for value in ("go", "zig"):
        assert await current(store) == await current(other)
        await other.save(languages(value), ALICE, AGENT)
        await store.save(languages(f"my {value}"), ALICE, AGENT)
    wanted = ["c", "rust", "go", "my go", "zig", "my zig"]
    for each in (store, other, LocalFileMemoryProvider(root, storage=storage)):
        assert await current(each) == wanted
        await each.aclose()
    assert is_sound(root)


@pytest.mark.parametrize("look", LOOKS)
async def test_another_store_is_read(root: Path, storage: Storage, look: str) -> None:
    """Of the same key, if its folder is told: the facts of the first store are nowhere in it."""
    async with LocalFileMemoryProvider(root.with_name("other"), storage=storage) as other:
        await other.save(theme("dark"), ALICE, AGENT)
    store = await opened(root, storage)
    (root / "reserve").unlink()
    put(root.with_name("other"), root)

    await LOOKS[look](store)

    assert await current(store) == ["dark"]
    await store.forget(ALICE, AGENT, concept=THEME, purge=True)
    await store.save(languages("rust"), ALICE, AGENT)
    assert await current(LocalFileMemoryProvider(root, storage=storage)) == ["rust"]


async def test_another_store_after_the_save_that_created_one(root: Path, storage: Storage) -> None:
    """A save into it with the number and the keys of the first would damage it, or be lost."""
    async with LocalFileMemoryProvider(root.with_name("other"), storage=storage) as other:
        await other.save(theme("dark"), ALICE, AGENT)
    store = LocalFileMemoryProvider(root, storage=storage)
    await store.save(languages("java"), ALICE, AGENT)
    (root / "reserve").unlink()
    put(root.with_name("other"), root)

    await store.save(languages("rust"), ALICE, AGENT)

    for each in (store, LocalFileMemoryProvider(root, storage=storage)):
        assert await current(each) == ["dark", "rust"]


async def test_a_folder_that_was_moved(root: Path, storage: Storage) -> None:
    """What the process saves next is in a new store at the old path, or refused."""
    store = await opened(root, storage)
    root.rename(root.with_name("moved"))

    await store.save(languages("rust"), ALICE, AGENT)

    assert await current(store) == ["rust"]
    moved = LocalFileMemoryProvider(root.with_name("moved"), storage=storage)
    assert await current(moved) == ["java"]


async def test_a_store_of_another_key(root: Path) -> None:
    """It is refused, and not read as if it were the first."""
    first, second = (sealed(Key.generate()) for _ in range(2))
    async with LocalFileMemoryProvider(root.with_name("other"), storage=second) as other:
        await other.save(theme("dark"), ALICE, AGENT)
    store = await opened(root, first)
    put(root.with_name("other"), root)

    for call in LOOKS.values():
        with pytest.raises(WrongKeyError):
            await call(store)


async def test_a_store_stays_where_it_was_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tool that changes the current folder would silently move the memory, and its keys."""
    monkeypatch.chdir(tmp_path)
    storage = EncryptedStorage(KeyFile("store.keys"))
    async with LocalFileMemoryProvider("store", storage=storage) as store:
        (tmp_path / "elsewhere").mkdir()
        monkeypatch.chdir("elsewhere")
        await store.save(theme("dark"), ALICE, AGENT)

    assert (tmp_path / "store" / "facts.db").exists()
    assert (tmp_path / "store.keys").exists()
    assert list((tmp_path / "elsewhere").iterdir()) == []
    monkeypatch.setenv("HOME", "/home/alice")
    assert KeyFile("~/store.keys").path == Path("/home/alice/store.keys")
