"""Network file systems, detected by Linux's mount table."""

# ruff: noqa: ASYNC240 - the tests look at the disk themselves

from pathlib import Path

import pytest

from factmem.errors import StorageError
from factmem.providers._sqlite import files
from factmem.providers._sqlite.files import network_mount
from factmem.providers.local_file import LocalFileMemoryProvider
from factmem.providers.storages import EncryptedStorage, SimpleStorage, Storage
from factmem.testing._facts import AGENT, theme
from tests.providers.local_stores import ALICE, current
from tests.tables import table

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
