"""A web service on a broken folder: an error and a line of the log name the remedy."""

import errno
import os
import re
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import ExitStack, closing

# ruff: noqa: ASYNC240 - the tests look at the disk themselves
from pathlib import Path
from typing import NamedTuple
from unittest.mock import Mock

import anyio
import pytest

from factmem.encryption.key import Key
from factmem.errors import StorageError
from factmem.providers._sqlite import files
from factmem.providers._sqlite.files import network_mount
from factmem.providers.local_file import LocalFileMemoryProvider
from factmem.providers.storages import EncryptedStorage, SimpleStorage, Storage
from factmem.testing._facts import AGENT, theme
from tests.deployment import what_an_operator_sees
from tests.doors import FailingDoor, watched
from tests.providers.local_stores import ALICE, current, run, sealed
from tests.tables import table

SEALED = sealed()

Arrange = Callable[[Path, pytest.MonkeyPatch, ExitStack], object]


class Fault(NamedTuple):
    """What happened to a store, how it is opened, and its message: what, where, and what to do."""

    says: str
    arrange: Arrange = lambda *_: None
    made_with: Storage | None = None
    storage: Storage | None = None
    must_exist: bool = False


def made(root: Path, storage: Storage | None = None) -> None:
    """Create a store with a fact, and close it."""

    async def main() -> None:
        async with LocalFileMemoryProvider(root, storage=storage) as store:
            await store.save(theme("dark"), ALICE, AGENT)

    anyio.run(main)


def refuse(patch: pytest.MonkeyPatch, name: str, code: int) -> None:
    """Make a function of the system fail for the files of stores."""
    work = getattr(os, name)

    def refused(path: object, *given: object, **named: object) -> object:
        if "store" in str(path):
            raise OSError(code, os.strerror(code), path)
        return work(path, *given, **named)

    patch.setattr(os, name, refused)


def refusing(name: str, code: int) -> Arrange:
    return lambda _, patch, __: refuse(patch, name, code)


def failing(code: int) -> Arrange:
    def arrange(_: Path, __: pytest.MonkeyPatch, stack: ExitStack) -> None:
        fault = FailingDoor(code)
        fault.fail(10**6, part="INSERT INTO places")
        stack.enter_context(watched(fault))

    return arrange


def unmount(root: Path, *_: object) -> None:
    shutil.rmtree(root)
    root.mkdir()


def mount_read_only(_: Path, patch: pytest.MonkeyPatch, __: ExitStack) -> None:
    patch.setattr(os, "access", lambda *_: False)
    refuse(patch, "open", errno.EROFS)


def put_the_database_of_another_program(root: Path, *_: object) -> None:
    (root / "facts.db").unlink()
    run(root, "CREATE TABLE notes (text TEXT)")


def write_and_hang(root: Path, _: pytest.MonkeyPatch, stack: ExitStack) -> None:
    db = sqlite3.connect(root / "facts.db", isolation_level=None, check_same_thread=False)
    stack.enter_context(closing(db)).execute("BEGIN IMMEDIATE")


def refuse_the_database(_: Path, patch: pytest.MonkeyPatch, __: ExitStack) -> None:
    error = sqlite3.OperationalError("unable to open database file")
    error.sqlite_errorcode, error.sqlite_errorname = sqlite3.SQLITE_CANTOPEN, "SQLITE_CANTOPEN"
    patch.setattr(sqlite3, "connect", Mock(side_effect=error))


MISSING = r"There is no store in '.*/store', .*: correct the folder, or create"
WRONG = sealed(Key.generate())

FAULTS: dict[str, Fault] = {
    "a wrong folder": Fault(
        MISSING, lambda root, *_: root.rename(root.with_name("other")), must_exist=True
    ),
    "a disk that is not mounted": Fault(MISSING, unmount, must_exist=True),
    "the folder of another user": Fault(
        r"'.*/facts.db' cannot be reached: Permission denied \(give .* the right",
        refusing("lstat", errno.EACCES),
    ),
    "a disk that is read-only": Fault(
        r"'.*/store' cannot be opened for writing: Read-only .* \(mount it writable",
        mount_read_only,
    ),
    "files of another user": Fault(
        r"'.*/store' cannot be opened for writing: .* \(give this user the right",
        refusing("open", errno.EACCES),
    ),
    "a database that SQLite cannot open": Fault(
        r"SQLITE_CANTOPEN\): '.*/facts.db': give this user the right", refuse_the_database
    ),
    "no file left": Fault(r"Too many open files \(raise the limit", refusing("open", errno.EMFILE)),
    "no key": Fault(
        r"The store is encrypted: open it with its key, storage=EncryptedStorage", made_with=SEALED
    ),
    "a wrong key": Fault(
        r"opens with this key: pass the key that the store was created with",
        made_with=SEALED,
        storage=WRONG,
    ),
    "the key of a plain store": Fault(
        r"not encrypted, and a key was given: .* Open it without a key", storage=SEALED
    ),
    "a damaged database": Fault(
        r"'.*/facts.db' is damaged .*: restore it from a backup, or .*salvage",
        lambda root, *_: (root / "facts.db").write_bytes(bytes(8192)),
    ),
    "a later version": Fault(
        r"'.*/facts.db' has tables of version 99, .*: update factmem",
        lambda root, *_: run(root, "PRAGMA user_version = 99"),
    ),
    "another program": Fault(
        r"'.*/facts.db' has the tables of another program: use a folder of its own",
        put_the_database_of_another_program,
    ),
    "an exchanged row": Fault(
        r"row of the store .* Restore it from a backup",
        lambda root, *_: run(root, "UPDATE stores SET id = ?", "0" * 32),
    ),
    "a process that hangs": Fault(
        r"held the database for 0.05 s: '.*/facts.db'.* try again, or allow more time",
        write_and_hang,
        storage=SimpleStorage(busy_timeout=0.05),
    ),
    "a network folder": Fault(
        r"'.*/store' is on a network file system \(nfs4\), .*: use a local folder",
        lambda _, patch, __: patch.setattr(files, "network_file_system", lambda _: "nfs4"),
    ),
    "a full disk": Fault(
        r"The disk is full .*'.*/facts.db'.*: free some room", failing(sqlite3.SQLITE_FULL)
    ),
    "a failing disk": Fault(
        r"The database failed \(SQLITE_IOERR\): '.*/facts.db': check the disk",
        failing(sqlite3.SQLITE_IOERR),
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_named_with_its_remedy(
    name: str, root: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The health check and the saves agree, and no line has a traceback."""
    fault = FAULTS[name]
    made(root, fault.made_with)
    with monkeypatch.context() as patch, ExitStack() as stack:
        fault.arrange(root, patch, stack)
        store = LocalFileMemoryProvider(root, storage=fault.storage, must_exist=fault.must_exist)
        seen = what_an_operator_sees(store, caplog)

    assert re.search(fault.says, seen), seen


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
