"""A web service on a folder that cannot work: one error and one line of the log name cause and remedy."""

import errno
import os
import re
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime, timedelta

# ruff: noqa: ASYNC240 - the tests look at the disk themselves
from pathlib import Path
from unittest.mock import Mock

import anyio
import pytest
from fastapi.testclient import TestClient

from examples.web_service import create_app
from factmem.encryption.aes256gcm import Aes256GCMEncryptor
from factmem.encryption.key import Key
from factmem.errors import StorageError
from factmem.providers._sqlite import files
from factmem.providers._sqlite.files import network_mount
from factmem.providers.local_file import LocalFileMemoryProvider
from factmem.providers.storages import EncryptedStorage, SimpleStorage, Storage
from factmem.testing import SettableClock
from factmem.testing._facts import AGENT, theme
from factmem.testing.chat import ScriptedChatModel
from tests.deployment import HEADERS, what_an_operator_sees
from tests.doors import FailingDoor, watched
from tests.providers.local_stores import ALICE, KEY, current, run
from tests.tables import table

Store = LocalFileMemoryProvider


Fault = Callable[[Path, pytest.MonkeyPatch], "AbstractContextManager[Store]"]


SEALED = EncryptedStorage(Aes256GCMEncryptor(KEY))


def made(root: Path, storage: EncryptedStorage | SimpleStorage | None = None) -> None:
    """Create a store with a fact, and close it."""

    async def main() -> None:
        async with LocalFileMemoryProvider(root, storage=storage) as store:
            await store.save(theme("dark"), ALICE, AGENT)

    anyio.run(main)


@contextmanager
def wrong_folder(root: Path, _: object) -> Iterator[Store]:
    made(root.with_name("other"))
    yield LocalFileMemoryProvider(root, must_exist=True)


@contextmanager
def unmounted_disk(root: Path, _: object) -> Iterator[Store]:
    made(root)
    shutil.rmtree(root)
    root.mkdir()
    yield LocalFileMemoryProvider(root, must_exist=True)


@contextmanager
def folder_of_another_user(root: Path, patch: pytest.MonkeyPatch) -> Iterator[Store]:
    made(root)
    refuse(patch, "lstat", errno.EACCES)
    yield LocalFileMemoryProvider(root)


@contextmanager
def read_only_files(root: Path, patch: pytest.MonkeyPatch) -> Iterator[Store]:
    made(root)
    patch.setattr(os, "access", lambda *_: False)
    refuse(patch, "open", errno.EROFS)
    yield LocalFileMemoryProvider(root)


@contextmanager
def files_of_another_user(root: Path, patch: pytest.MonkeyPatch) -> Iterator[Store]:
    made(root)
    refuse(patch, "open", errno.EACCES)
    yield LocalFileMemoryProvider(root)


@contextmanager
def no_key(root: Path, _: object) -> Iterator[Store]:
    made(root, SEALED)
    yield LocalFileMemoryProvider(root)


@contextmanager
def wrong_key(root: Path, _: object) -> Iterator[Store]:
    made(root, SEALED)
    yield LocalFileMemoryProvider(
        root, storage=EncryptedStorage(Aes256GCMEncryptor(Key.generate()))
    )


@contextmanager
def key_of_a_plain_store(root: Path, _: object) -> Iterator[Store]:
    made(root)
    yield LocalFileMemoryProvider(root, storage=SEALED)


@contextmanager
def damaged_database(root: Path, _: object) -> Iterator[Store]:
    made(root)
    with (root / "facts.db").open("r+b") as file:
        file.write(bytes(8192))
    yield LocalFileMemoryProvider(root)


@contextmanager
def later_version(root: Path, _: object) -> Iterator[Store]:
    made(root)
    run(root, "PRAGMA user_version = 99")
    yield LocalFileMemoryProvider(root)


@contextmanager
def another_program(root: Path, _: object) -> Iterator[Store]:
    root.mkdir(parents=True)
    run(root, "CREATE TABLE notes (text TEXT)")
    yield LocalFileMemoryProvider(root)


@contextmanager
def exchanged_row(root: Path, _: object) -> Iterator[Store]:
    made(root)
    run(root, "UPDATE stores SET id = ?", "0" * 32)
    yield LocalFileMemoryProvider(root)


@contextmanager
def hanging_process(root: Path, _: object) -> Iterator[Store]:
    made(root)
    db = sqlite3.connect(root / "facts.db", isolation_level=None, check_same_thread=False)
    db.execute("BEGIN IMMEDIATE")
    yield LocalFileMemoryProvider(root, storage=SimpleStorage(busy_timeout=0.05))
    db.close()


@contextmanager
def network_folder(root: Path, patch: pytest.MonkeyPatch) -> Iterator[Store]:
    made(root)
    patch.setattr("factmem.providers._sqlite.files.network_file_system", lambda _: "nfs4")
    yield LocalFileMemoryProvider(root)


@contextmanager
def _failing(root: Path, code: int) -> Iterator[Store]:
    made(root)
    fault = FailingDoor(code)
    with watched(fault):
        fault.fail(10**6, part="INSERT INTO places")
        yield LocalFileMemoryProvider(root)
        fault.heal()


def full_disk(root: Path, _: object) -> "AbstractContextManager[Store]":
    return _failing(root, sqlite3.SQLITE_FULL)


def failing_disk(root: Path, _: object) -> "AbstractContextManager[Store]":
    return _failing(root, sqlite3.SQLITE_IOERR)


@contextmanager
def unreadable_database(root: Path, patch: pytest.MonkeyPatch) -> Iterator[Store]:
    made(root)
    error = sqlite3.OperationalError("unable to open database file")
    error.sqlite_errorcode, error.sqlite_errorname = sqlite3.SQLITE_CANTOPEN, "SQLITE_CANTOPEN"
    patch.setattr(sqlite3, "connect", Mock(side_effect=error))
    yield LocalFileMemoryProvider(root)


@contextmanager
def no_file_left(root: Path, patch: pytest.MonkeyPatch) -> Iterator[Store]:
    made(root)
    refuse(patch, "open", errno.EMFILE)
    yield LocalFileMemoryProvider(root)


def refuse(patch: pytest.MonkeyPatch, name: str, code: int) -> None:
    """Make a function of the system fail for the files of stores."""
    work = getattr(os, name)

    def refused(path: object, *given: object, **named: object) -> object:
        if "store" in str(path):
            raise OSError(code, os.strerror(code), path)
        return work(path, *given, **named)

    patch.setattr(os, name, refused)


FAULTS: dict[Fault, str] = {
    wrong_folder: r"There is no store in '.*/store', .*: correct the folder, or create",
    unmounted_disk: r"There is no store in '.*/store', .*: correct the folder, or create",
    folder_of_another_user: r"'.*/facts.db' cannot be reached: Permission denied \(give .* the right",
    read_only_files: r"'.*/store' cannot be opened for writing: Read-only .* \(mount it writable",
    files_of_another_user: r"'.*/store' cannot be opened for writing: .* \(give this user the right",
    unreadable_database: r"SQLITE_CANTOPEN\): '.*/facts.db': give this user the right",
    no_file_left: r"Too many open files \(raise the limit",
    no_key: r"The store is encrypted: open it with its key, by storage=EncryptedStorage",
    wrong_key: r"opens with this key: pass the key that the store was created with",
    key_of_a_plain_store: r"not encrypted, and a key was given: .* Open it without a key",
    damaged_database: r"'.*/facts.db' is damaged .*: restore it from a backup, or .*salvage",
    later_version: r"'.*/facts.db' has tables of version 99, .*: update factmem",
    another_program: r"'.*/facts.db' has the tables of another program: use a folder of its own",
    exchanged_row: r"row of the store .* Restore it from a backup",
    hanging_process: r"held the database for 0.05 s: '.*/facts.db'.* try again, or allow more time",
    network_folder: r"'.*/store' is on a network file system \(nfs4\), .*: use a local folder",
    full_disk: r"The disk is full .*'.*/facts.db'.*: free some room",
    failing_disk: r"The database failed \(SQLITE_IOERR\): '.*/facts.db': check the disk",
}
"""Each fault, and the parts of its message: what, where, and what to do."""


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_a_fault_is_named_with_its_remedy(
    fault: Fault, root: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The health check and the saves agree, and no line has a traceback."""
    with monkeypatch.context() as patch, fault(root, patch) as store:
        seen = what_an_operator_sees(store, caplog)

    assert re.search(FAULTS[fault], seen), seen


def test_a_clock_that_was_put_back_is_no_fault(
    root: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The order of saves does not depend on the clock."""
    made(root)
    clock = SettableClock(datetime(2001, 1, 1, tzinfo=UTC))
    model = ScriptedChatModel()
    with TestClient(create_app(LocalFileMemoryProvider(root, clock=clock), model)) as client:
        for text in ("tea", "milk"):
            assert client.post("/notes", json={"text": text}, headers=HEADERS).status_code == 201
            clock.advance(timedelta(days=-1))
        assert client.get("/health").status_code == 200
        assert client.get("/notes", headers=HEADERS).json() == ["tea", "milk"]

    assert [each for each in caplog.records if each.levelname != "INFO"] == []


MOUNTS = r"""/dev/sda1 / ext4 rw,relatime 0 0
tmpfs /tmp tmpfs rw 0 0
systemd-1 /srv autofs rw 0 0
server:/export /srv nfs4 rw,vers=4.2 0 0
//server/share /mnt/my\040share cifs rw 0 0
//server/tab /mnt/a\011b\134c smb3 rw 0 0
/dev/sdb1 /srv/disk xfs rw 0 0
me@host: /home/me/far fuse.sshfs rw 0 0
overlay /home/me/far-away overlay rw 0 0
portal /run/user/1000/doc fuse.portal rw 0 0
""".splitlines(keepends=True)


@table(
    ("path", "kind"),
    [
        ("/", None),
        ("/var/store", None),
        ("/tmp/store", None),
        ("/srv", "nfs4"),
        ("/srv/store", "nfs4"),
        ("/srv/disk/store", None),
        ("/srvother/store", None),
        ("/mnt/my share/store", "cifs"),
        ("/mnt/a\tb\\c/store", "smb3"),
        ("/home/me/far/store", "fuse.sshfs"),
        ("/home/me/far-away/store", None),
        ("/run/user/1000/doc/store", None),
    ],
)
def test_the_innermost_mount_counts(path: str, kind: str | None) -> None:
    """Of two at one path the later one counts, whatever is escaped in its name."""
    assert network_mount(path, MOUNTS) == kind


@table(
    "kind", ["nfs", "cifs", "9p", "ceph", "lustre", "beegfs", "afs", "fuse.glusterfs", "fuse.s3fs"]
)
def test_network_file_systems_are_recognized(kind: str) -> None:
    assert network_mount("/far/store", [f"what /far {kind} rw 0 0\n"]) == kind


@table("kind", ["ext4", "xfs", "btrfs", "zfs", "tmpfs", "overlay", "fuseblk"])
def test_local_file_systems_are_accepted(kind: str) -> None:
    assert network_mount("/near/store", [f"what /near {kind} rw 0 0\n"]) is None


async def test_a_network_folder_is_refused(
    root: Path, storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is created there; the error says what to do, and an option allows it."""
    monkeypatch.setattr(files, "network_file_system", lambda _: "nfs4")

    with pytest.raises(StorageError, match=r"\(nfs4\).*allow_network_folder=True"):
        await LocalFileMemoryProvider(root, storage=storage).save(theme("dark"), ALICE, AGENT)

    assert not root.exists()
    allowed: Storage = SimpleStorage(allow_network_folder=True)
    if isinstance(storage, EncryptedStorage):
        allowed = EncryptedStorage(storage.encryption, allow_network_folder=True)
    store = LocalFileMemoryProvider(root, storage=allowed)
    await store.save(theme("dark"), ALICE, AGENT)
    assert await current(store) == ["dark"]


def test_without_a_mount_table_folders_count_as_local(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """macOS has no table of mounts in a file."""

    def missing(*_: object, **__: object) -> None:
        raise FileNotFoundError

    assert files.network_file_system(str(tmp_path)) is None
    monkeypatch.setattr(files, "open", missing, raising=False)

    assert files.network_file_system(str(tmp_path)) is None
