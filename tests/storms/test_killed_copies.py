"""Operations over a whole local store, killed at every statement and system call, and repeated."""

# ruff: noqa: ASYNC240 - the tests arrange the disk themselves

import os
import shutil
from base64 import b64encode
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from factmem import Aes256GCMEncryptor, EncryptedStorage, Key, LocalFileMemoryProvider
from factmem.encryption.key_file import KeyFile
from factmem.testing._facts import AGENT, LANGUAGES, languages, theme
from tests.doors import watched
from tests.processes import Process, Tell
from tests.providers.local_stores import ALICE, BOB, current, is_sound

Store = LocalFileMemoryProvider

# Fixed: the process that is killed has them too.
KEY, NEW_KEY = (Key.from_base64(b64encode(bytes([each]) * 32).decode()) for each in (1, 2))

OPERATIONS: dict[str, tuple[Callable[[Store, Path], Awaitable[Any]], list[str]]] = {
    "backup": (lambda store, folder: store.backup(folder / "new"), ["java", "rust"]),
    "restore": (lambda store, folder: store.restore(folder / "old"), ["java"]),
    "salvage": (lambda store, folder: store.salvage(folder / "new"), ["java", "rust"]),
    "rotate": (lambda store, _: store.keys.rotate(NEW_KEY), ["java", "rust"]),
    "shred": (lambda store, _: store.shred(), ["java", "rust"]),
    "erase": (lambda store, _: store.erase(ALICE, AGENT), []),
    "purge": (
        lambda store, _: store.forget(ALICE, AGENT, concept=LANGUAGES, value="java", purge=True),
        ["rust"],
    ),
    "compact": (lambda store, _: store.compact(ALICE, AGENT), ["java", "rust"]),
}
"""Each operation, and what Alice has after it. Bob, erased after the backup, never returns."""

FUNCTIONS = ("open", "mkdir", "link", "unlink", "rename", "replace", "chmod", "fsync", "rmdir")


def opened(folder: Path, name: str, *, is_new: bool = False) -> Store:
    """Return the store; after a rotation either key may be the one of it."""
    if name == "shred":
        return Store(folder / "store", storage=EncryptedStorage(KeyFile(folder / "keys")))
    keys = [NEW_KEY, KEY] if is_new else [KEY, NEW_KEY]
    return Store(folder / "store", storage=EncryptedStorage(Aes256GCMEncryptor(*keys)))


def die_at(tell: Tell, wait: Callable[[], None], name: str, folder: Path, last: int) -> None:
    """Do an operation, and end the process at a moment; tell how many there were if it does not."""
    wait()
    moments = 0

    def look(_: object = None) -> None:
        nonlocal moments
        moments += 1
        if moments == last:
            os._exit(9)

    def stopping(work: Callable[..., Any]) -> Callable[..., Any]:
        def stopped(*given: Any, **named: Any) -> Any:
            look()
            return work(*given, **named)

        return stopped

    async def main() -> None:
        async with opened(folder, name) as store:
            for each in FUNCTIONS:
                setattr(os, each, stopping(getattr(os, each)))
            await OPERATIONS[name][0](store, folder)

    with watched(look):
        anyio.run(main)
    tell(f"moments {moments}")


async def repeated(name: str, folder: Path) -> list[str]:
    """Do an operation again, and return what Alice has after it, in the copy where there is one."""
    copy = folder / "new"
    async with opened(folder, name, is_new=True) as store:
        if not (name in {"backup", "salvage"} and copy.exists()):  # it was complete
            await OPERATIONS[name][0](store, folder)
        await store.verify()
        found = await current(store, ALICE)
        assert await current(store, BOB) == []
    assert is_sound(folder / "store")
    if name in {"backup", "salvage"}:
        storage = EncryptedStorage(Aes256GCMEncryptor(KEY, NEW_KEY))
        async with Store(copy, storage=storage) as copied:
            await copied.verify()
            assert await current(copied, ALICE) == found
            assert await current(copied, BOB) == []
    assert not [each for each in folder.iterdir() if each.name.startswith(".")]  # no draft is left
    return found


async def filled(start: Path, name: str) -> None:
    """Create a store, and a backup from before an erasure."""
    async with opened(start, name) as store:
        await store.save(languages("java"), ALICE, AGENT)
        await store.save(theme("dark"), BOB, AGENT)
        await store.backup(start / "old")
        await store.save(languages("rust"), ALICE, AGENT)
        await store.erase(BOB, AGENT)


@pytest.mark.storm
@pytest.mark.parametrize("name", OPERATIONS)
def test_a_killed_operation_is_finished_by_repeating_it(
    tmp_path: Path, name: str, thorough: bool
) -> None:
    """No draft, no half copy and no half rotation is left."""
    start, last, killed = tmp_path / "start", 1, 0
    anyio.run(filled, start, name)
    while True:
        folder = tmp_path / str(last)
        shutil.copytree(start, folder)
        process = Process(die_at, name, folder, last)
        process.lines()
        process.go()
        said = process.lines()
        code = process.end()
        if code == 0:
            assert said, name
            break
        assert code == 9, said
        killed += 1
        assert anyio.run(repeated, name, folder) == OPERATIONS[name][1], f"killed at {last}"
        shutil.rmtree(folder)
        last += 1 if thorough else 5

    assert killed > 2
