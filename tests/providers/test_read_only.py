"""Durable stores in a read-only folder."""

import os
import shutil
import stat
import tempfile
from pathlib import Path

import anyio
import pytest

from factmem.errors import StorageError
from factmem.testing._facts import AGENT, LANGUAGES, theme
from tests.processes import OtherProcess, apart
from tests.providers.home import ALICE, BOB, StoreFolder, save, values

NOBODY = 65534
"""A user without rights: permissions do not bind root."""

on_posix = pytest.mark.skipif(os.name != "posix", reason="needs POSIX limits and permissions")


def _expect(found: object, wanted: object) -> None:
    """Compare in another process, where assertions are not rewritten."""
    if found != wanted:
        raise AssertionError(f"{str(found)[:500]} instead of {str(wanted)[:500]}")


@on_posix
@pytest.mark.parametrize("state", ["closed", "open", "left"])
def test_a_read_only_folder(home: StoreFolder, anyio_backend: str, state: str) -> None:
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
