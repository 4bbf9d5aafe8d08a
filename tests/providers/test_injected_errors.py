"""Errors of the system at every call: each public call raises a FactmemError or succeeds."""

import errno
import os
import shutil
import sqlite3
import traceback
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random
from typing import Any

import anyio
import pytest

from factmem.encryption.aes256gcm import Aes256GCMEncryptor
from factmem.encryption.key_file import KeyFile
from factmem.errors import FactmemError
from factmem.models.places import Place
from factmem.providers.conversations import NewTurn
from factmem.providers.local_file import LocalFileMemoryProvider
from factmem.providers.storages import EncryptedStorage, SimpleStorage, Storage
from factmem.testing._facts import AGENT, LANGUAGES, THEME, languages, theme
from tests.providers.local_stores import ALICE, BOB, KEY, current

fcntl: Any = pytest.importorskip("fcntl")

Store = LocalFileMemoryProvider
Call = Callable[[Store, Path], Awaitable[Any]]

CALLS: dict[str, Call] = {
    "load": lambda store, _: store.load(THEME, ALICE, AGENT),
    "places": lambda store, _: store.places(),
    "list_places": lambda store, _: store.list_places(),
    "entries": lambda store, _: store.entries(ALICE, AGENT),
    "save": lambda store, _: store.save(theme("light"), ALICE, AGENT),
    "save elsewhere": lambda store, _: store.save(theme("light"), BOB, AGENT),
    "forget": lambda store, _: store.forget(ALICE, AGENT, concept=LANGUAGES),
    "purge": lambda store, _: store.forget(ALICE, AGENT, concept=LANGUAGES, purge=True),
    "erase": lambda store, _: store.erase(ALICE, AGENT),
    "compact": lambda store, _: store.compact(ALICE, AGENT),
    "anchor": lambda store, _: store.anchor(),
    "verify": lambda store, _: store.verify(),
    "ping": lambda store, _: store.ping(),
    "create": lambda store, _: store.create(),
    "backup": lambda store, folder: store.backup(folder / "backup"),
    "restore": lambda store, folder: store.restore(folder / "old"),
    "salvage": lambda store, folder: store.salvage(folder / "salvaged"),
    "conversation": lambda store, _: store.conversations.append(
        [NewTurn({"id": "m", "message": {"role": "user", "content": "Hello"}}, "m")],
        "chat",
        Place(AGENT, ALICE),
    ),
    "aclose": lambda store, _: store.aclose(),
    "rotate": lambda store, _: store.keys.rotate(KEY),
    "shred": lambda store, _: store.shred(),
}
ONLY_SEALED = {"rotate", "shred"}

CODES = [
    errno.EIO,
    errno.ENOSPC,
    errno.EACCES,
    errno.EMFILE,
    errno.ENOMEM,
    errno.EROFS,
    errno.ESTALE,
]
FUNCTIONS = [
    *("open", "lstat", "stat", "fstat", "scandir", "listdir"),
    *("mkdir", "rmdir", "link", "unlink", "rename", "replace", "chmod", "fsync"),
]


class Faults:
    """Makes calls of the operating system fail, once or from then on."""

    def __init__(self, patch: pytest.MonkeyPatch, root: Path) -> None:
        self._root, self._random = str(root), Random(1)
        self.calls = 0
        self.first = self.last = -1
        self._connections = list[sqlite3.Connection]()
        for name in FUNCTIONS:
            patch.setattr(os, name, self._failing(getattr(os, name)))
        patch.setattr(fcntl, "flock", self._failing(fcntl.flock))
        patch.setattr(sqlite3, "connect", self._failing(sqlite3.connect))

    def _failing(self, work: Callable[..., Any]) -> Callable[..., Any]:
        def called(*given: Any, **named: Any) -> Any:
            is_here = isinstance(given[0], int) or self._root in str(given[0])
            if is_here and self.first >= 0:
                self.calls += 1
                if self.first < self.calls <= self.last:
                    raise self._error(work is _connect, str(given[0]))
            result = work(*given, **named)
            if work is _connect and named.get("check_same_thread") is False:
                self._connections.append(result)
            return result

        return called

    def _error(self, is_database: bool, path: str) -> Exception:
        if is_database:
            error = sqlite3.OperationalError("unable to open database file")
            error.sqlite_errorcode = sqlite3.SQLITE_CANTOPEN
            error.sqlite_errorname = "SQLITE_CANTOPEN"
            return error
        code = self._random.choice(CODES)
        return OSError(code, os.strerror(code), path)

    def fail(self, skip: int, times: int) -> None:
        """Fail `times` calls after `skip` others."""
        self.calls, self.first, self.last = 0, skip, skip + times

    def heal(self) -> None:
        """Fail no more."""
        self.first = self.last = -1

    def check_closed(self) -> None:
        """Fail if a connection is open: Python 3.13 would warn when it collects it."""
        for connection in self._connections:
            with pytest.raises(sqlite3.ProgrammingError, match="closed"):
                connection.execute("SELECT 1")
        self._connections.clear()


_connect = sqlite3.connect


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize(
    ("kind", "times"),
    [
        pytest.param("sealed", 1, id="sealed-once"),
        pytest.param("plain", 1, id="plain-once", marks=pytest.mark.storm),
        pytest.param("plain", 10**6, id="plain-always", marks=pytest.mark.storm),
        pytest.param("sealed", 10**6, id="sealed-always", marks=pytest.mark.storm),
    ],
)
@pytest.mark.parametrize("name", CALLS)
async def test_an_error_at_every_call_of_the_system(
    tmp_path: Path, name: str, kind: str, times: int, stride: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is a FactmemError, and what was acknowledged stays."""
    if kind == "plain" and name in ONLY_SEALED:
        pytest.skip("A plain store has no keys")

    def storage(folder: Path) -> Storage:
        if kind == "plain":
            return SimpleStorage(busy_timeout=0.2)
        key = KeyFile(folder / "keys") if name == "shred" else Aes256GCMEncryptor(KEY)
        return EncryptedStorage(key, busy_timeout=0.2)

    start = tmp_path / "start"
    async with Store(start / "store", storage=storage(start)) as store:
        await store.save(theme("dark"), ALICE, AGENT)
        await store.backup(start / "old")
        await store.save(languages("java"), ALICE, AGENT)
    faults = Faults(monkeypatch, tmp_path)
    skip, failed, wrong = 0, True, list[str]()
    while failed:
        folder = tmp_path / str(skip)
        shutil.copytree(start, folder)
        store = Store(folder / "store", storage=storage(folder))
        if skip % 2:
            assert await current(store) == ["dark", "java"]
        faults.fail(skip, times)
        try:
            await CALLS[name](store, folder)
        except Exception as exc:
            if not isinstance(exc, FactmemError):
                last = traceback.extract_tb(exc.__traceback__)[-1]
                wrong.append(f"{skip}: {exc!r} in {last.name}, line {last.lineno}")
        failed = faults.calls > skip
        faults.heal()
        with anyio.CancelScope(shield=True):
            await store.aclose()
        async with Store(folder / "store", storage=storage(folder)) as again:
            found = await current(again)
            assert found in (["dark", "java"], ["light", "java"], ["dark"], []), (skip, found)
            await again.save(languages("after"), ALICE, AGENT)
            assert await current(again) == [*found, "after"]
        faults.check_closed()
        shutil.rmtree(folder)
        skip += stride

    assert not wrong, "\n".join(wrong)
