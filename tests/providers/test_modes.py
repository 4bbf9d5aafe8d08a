"""Permissions of the files of a store, for users who share it."""

import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from factmem import LocalFileMemoryProvider, SimpleStorage, StorageError
from factmem.providers.storages import Storage
from factmem.testing._facts import AGENT, languages
from tests.processes import apart
from tests.providers.local_stores import ALICE, BOB, current

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such permissions")

OTHER, GROUP = 65534, 65533
"""Numeric ids of a user who is not root, and of the group that shares the store."""


@pytest.mark.parametrize(("mode", "files"), [(0o700, 0o600), (0o750, 0o640), (0o770, 0o660)])
@pytest.mark.parametrize("mask", [0o000, 0o077])
async def test_every_file_has_the_mode(
    root: Path, tmp_path: Path, storage: Storage, mode: int, files: int, mask: int
) -> None:
    """For any umask, while the store is open and after, and after it was restored."""
    storage = replace(storage, mode=mode)
    before = os.umask(mask)
    try:
        async with LocalFileMemoryProvider(root, storage=storage) as store:
            await store.save(languages("java"), ALICE, AGENT)
            await store.backup(tmp_path / "backup")
            await store.erase(ALICE, AGENT)
            assert _modes(root) == {mode, files}
        async with LocalFileMemoryProvider(root, storage=storage) as store:
            await store.restore(tmp_path / "backup")
            await store.save(languages("rust"), BOB, AGENT)
            assert _modes(root) == {mode, files}
    finally:
        os.umask(before)

    assert _modes(root) == {mode, files}


async def test_a_store_that_exists_keeps_its_modes(root: Path) -> None:
    """An administrator may have changed them on purpose."""
    for storage in (SimpleStorage(), SimpleStorage(mode=0o750)):
        async with LocalFileMemoryProvider(root, storage=storage) as store:
            await store.save(languages("java"), ALICE, AGENT)

    assert _modes(root) == {0o700, 0o600}


@pytest.mark.parametrize("mode", [0, 0o600, 0o740, 0o1700, 0o7770, -1, 0o730])
def test_modes_that_no_store_can_have(mode: int) -> None:
    """A folder that its owner cannot use, or that others can change and not read."""
    with pytest.raises(ValueError, match="mode must be 0o700, 0o750"):
        SimpleStorage(mode=mode)


@pytest.fixture
def shared() -> Iterator[Path]:
    """Return a folder whose contents belong to a group."""
    if os.geteuid() != 0:
        pytest.skip("NOT TESTED: only root can be several users")
    folder = Path(tempfile.mkdtemp())
    os.chown(folder, 0, GROUP)
    folder.chmod(0o2755)
    yield folder
    shutil.rmtree(folder)


def as_a_member(root: Path, wanted: list[str], can_write: bool) -> None:
    async def main() -> None:
        async with LocalFileMemoryProvider(root) as store:
            assert await current(store) == wanted
            await store.verify()
            if can_write:
                await store.save(languages("ada"), BOB, AGENT)
            else:
                with pytest.raises(StorageError):
                    await store.save(languages("ada"), BOB, AGENT)

    root.absolute().as_uri()  # imports modules, and a member may not read root's Python
    _become_a_member()
    anyio.run(main)


async def test_a_member_of_the_group_reads_and_writes(shared: Path) -> None:
    """Before and after each save, and after the store was closed: nobody is locked out."""
    for name, mode in [("readable", 0o750), ("writable", 0o770)]:
        storage, values = SimpleStorage(mode=mode), list[str]()
        for value in ("java", "rust"):
            async with LocalFileMemoryProvider(shared / name, storage=storage) as store:
                await store.save(languages(value), ALICE, AGENT)
                values.append(value)
                apart(as_a_member, shared / name, values, mode == 0o770)
                assert await current(store) == values
            apart(as_a_member, shared / name, values, mode == 0o770)


def _become_a_member() -> None:
    Path.cwd().as_uri()  # imports modules, and a member may not be able to read root's Python
    os.setgroups([])
    os.setgid(GROUP)
    os.setuid(OTHER)


def _modes(root: Path) -> set[int]:
    return {stat.S_IMODE(path.stat().st_mode) for path in (root, *root.rglob("*"))}
