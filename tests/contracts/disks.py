"""Durable stores on a full disk and in a read-only folder, and names that look like paths."""

import os
import shutil
import stat
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import anyio
import pytest

from factmem.errors import StorageError
from factmem.models.facts import SingleFact
from factmem.models.places import MemoryScope, MemorySubject
from factmem.providers._sql.store import SqlStore
from factmem.testing._facts import AGENT, LANGUAGES, PERSON, THEME, theme
from factmem.testing.providers import NAMES
from tests.contracts.folders import ALICE, BOB, StoreFolder, StoreFolders, save, values
from tests.contracts.processes import OtherProcess, apart

NOBODY = 65534
"""A user without rights: permissions do not bind root."""

ROOMS = (0, 1, 100, 500, 2000, 10_000, 40_000)
"""By how many bytes the largest file of a store may grow."""

MOST_SAVES = 1000
"""The saves of 8,000 bytes that find room in any store: a log may be emptied meanwhile."""

PATHS = ["../../bob", "../" * 8 + "bob", "/etc/passwd", "..", ".", "CON", "nul.txt", "김철수"]
"""Names of entities that mean something to a file system."""

on_posix = pytest.mark.skipif(os.name != "posix", reason="needs POSIX limits and permissions")


class FullDisks(StoreFolders):
    """A disk without room: a save raises, nothing is lost, and later saves work."""

    @on_posix
    def test_files_that_cannot_grow(self, home: StoreFolder, anyio_backend: str) -> None:
        """Reads return exactly what was acknowledged, in this instance and in a new one."""
        apart(_with_files_that_cannot_grow, home, anyio_backend)

    @on_posix
    def test_a_store_that_cannot_be_created(self, home: StoreFolder, anyio_backend: str) -> None:
        """The same save works when there is room."""
        apart(_without_room_for_a_store, home, anyio_backend)


def _with_files_that_cannot_grow(home: StoreFolder, backend: str) -> None:
    async def main() -> None:
        wanted = ["java"]
        async with home.open() as store:
            await save(store, "java")
            for room in ROOMS:
                with _limit(home, room):
                    added = await _save_until_full(store, str(room))
                    wanted += added
                    async with home.open() as other:
                        for each in (store, other):
                            _expect(await values(each), wanted)
                await save(store, f"after {room}")
                wanted.append(f"after {room}")
                _expect(await values(store), wanted)
            with _limit(home, None):
                # Files that may not change at all are no full disk: reading may fail too.
                _expect(await _save_until_full(store, "never"), [])
            _expect(await values(store), wanted)
        async with home.open() as store:
            _expect(await values(store), wanted)
            await store.verify()

    anyio.run(main, backend=backend)


async def _save_until_full(store: SqlStore, name: str) -> list[str]:
    """Save until two saves have failed, and return the others."""
    saved: list[str] = []
    failed = 0
    for number in range(MOST_SAVES):
        value = f"{name}.{number}." + "x" * 8000
        try:
            await save(store, value)
        except StorageError as exc:
            failed += 1
            if "xxx" in str(exc):
                raise AssertionError("The error shows the value") from None
            if failed == 2:
                return saved
        else:
            saved.append(value)
    raise AssertionError(f"{MOST_SAVES} saves found room in files that could not grow")


def _without_room_for_a_store(home: StoreFolder, backend: str) -> None:
    async def main() -> None:
        async with home.open() as store:
            with _limit(home, None):
                for _ in range(2):
                    with pytest.raises(StorageError):
                        await save(store, "java")
            await save(store, "java")
            _expect(await values(store), ["java"])
        async with home.open() as store:
            _expect(await values(store), ["java"])

    anyio.run(main, backend=backend)


@contextmanager
def _limit(home: StoreFolder, room: int | None) -> Generator[None]:
    """Let no file grow further than the largest one and some room; None: no byte is written.

    Python ignores SIGXFSZ, so that a write beyond the limit is cut short or fails.
    """
    import resource

    largest = max((len(content) for content in home.files().values()), default=0)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0 if room is None else largest + room, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def _expect(found: object, wanted: object) -> None:
    """Compare in another process, where assertions are not rewritten."""
    if found != wanted:
        raise AssertionError(f"{str(found)[:500]} instead of {str(wanted)[:500]}")


class ReadOnlyFolders(StoreFolders):
    """A store that may not write can be read, and says why it cannot save."""

    @on_posix
    @pytest.mark.parametrize("state", ["closed", "open", "left"])
    def test_a_read_only_folder(self, home: StoreFolder, anyio_backend: str, state: str) -> None:
        """After its writer closed it, while it has it open, and after it ended without closing."""
        # Not below the folder of the test, which other users may not enter.
        with tempfile.TemporaryDirectory(prefix="factmem-") as made:
            store = home.at(Path(made) / "store")
            warm = home.at(Path(made) / "warm")
            with OtherProcess(store, anyio_backend) as writer:
                for value in ("java", "rust"):
                    writer.run(save, value)
                writer.run(_save_theme)
                if state == "closed":
                    writer.close()
                elif state == "left":
                    writer.kill()
                _give_away(Path(made))
                before = store.files()
                try:
                    apart(_read_only, store, warm, anyio_backend)
                finally:
                    _make_writable(store.path)
                if state != "open":  # the writer is root perhaps, and may tidy up
                    assert store.files() == before


async def _save_theme(store: object) -> None:
    await store.save(theme("dark"), BOB, AGENT)  # type: ignore[attr-defined]


def _give_away(folder: Path) -> None:
    """Let the folder be owned by nobody if this is root, and close its store to writers."""
    if os.getuid() == 0:
        for path in (folder, *folder.rglob("*")):
            os.chown(path, NOBODY, NOBODY)
    for path in (folder / "store").rglob("*"):
        path.chmod(0o500 if path.is_dir() else 0o400)
    (folder / "store").chmod(0o500)


def _make_writable(folder: Path) -> None:
    for path in (folder, *folder.rglob("*")):
        path.chmod(stat.S_IMODE(path.stat().st_mode) | stat.S_IWUSR)


def _read_only(home: StoreFolder, warm: StoreFolder, backend: str) -> None:
    async def main() -> None:
        async with home.open() as store:
            for _ in range(2):
                _expect(await values(store), ["java", "rust"])
                _expect(len(await store.load_all(BOB, AGENT)), 1)
                _expect(len(await store.history(LANGUAGES, ALICE, AGENT)), 2)
                _expect(len(await store.places()), 2)
                with pytest.raises(StorageError, match=r"[Pp]ermission|read-only") as caught:
                    await save(store, "secret")
                if "secret" in str(caught.value) or str(home.path) not in str(caught.value):
                    raise AssertionError(f"The error is not clear: {caught.value}")
                with pytest.raises(StorageError):
                    await store.erase(ALICE, AGENT)

    async def imported() -> None:
        async with warm.open() as store:
            await save(store, "java")
            await values(store)

    if os.getuid() == 0:
        # Modules that are imported late may be out of reach of another user.
        anyio.run(imported, backend=backend)
        shutil.rmtree(warm.path)
        os.setgid(NOBODY)
        os.setuid(NOBODY)
    anyio.run(main, backend=backend)


class AnyNames(StoreFolders):
    """No name leaves the folder, and no two names share a place."""

    async def test_names_stay_in_the_folder(self, home: StoreFolder, tmp_path: Path) -> None:
        """Whatever they mean to a file system. Each is its own place, also when read again."""
        around = _outside(home.path, tmp_path)
        names = [*dict.fromkeys([*PATHS, *NAMES])]
        async with home.open() as store:
            for name in names:
                for subject, scope in _roles(name):
                    await store.save(SingleFact(THEME, f"of {name}"), subject, scope)
        async with home.open() as store:
            for name in names:
                for subject, scope in _roles(name):
                    (fact,) = await store.load(THEME, subject, scope)
                    assert fact.value == f"of {name}"
            entities = [info.subject.entity for info in await store.places(scopes=[AGENT])]
            assert sorted(each for each in entities if each is not None) == sorted(names)

        assert _outside(home.path, tmp_path) - around <= set(home.path.parents)

    async def test_an_erased_name_takes_no_other_with_it(self, home: StoreFolder) -> None:
        """Names that only look alike stay."""
        async with home.open() as store:
            for name in NAMES:
                await store.save(theme(name), PERSON.of(name), AGENT)
            for name in NAMES[::2]:
                await store.erase(PERSON.of(name), AGENT)
        async with home.open() as store:
            found = [info.subject.entity for info in await store.places()]
        assert sorted(str(each) for each in found) == sorted(NAMES[1::2])

    @on_posix
    async def test_only_the_owner_has_access(self, home: StoreFolder) -> None:
        """Folders are 0700 and files 0600, for any umask, while the store is open and after."""
        mask = os.umask(0)
        try:
            async with home.open() as store:
                await save(store, "java")
                await store.compact(ALICE, AGENT)
                _check_modes(home.path)
        finally:
            os.umask(mask)
        _check_modes(home.path)


def _outside(folder: Path, around: Path) -> set[Path]:
    paths = set(around.rglob("*"))
    return {path for path in paths if folder not in {path, *path.parents}}


def _roles(name: str) -> list[tuple[MemorySubject, MemoryScope]]:
    return [(PERSON.of(name), AGENT), (ALICE, MemoryScope.Product(name))]


def _check_modes(folder: Path) -> None:
    for path in (folder, *folder.rglob("*")):
        wanted = 0o700 if path.is_dir() else 0o600
        assert stat.S_IMODE(path.stat().st_mode) == wanted, path
