"""Which folders are on file systems whose locks and appends are not to be trusted."""

import os
import re
from collections.abc import Iterable

_NETWORK = frozenset(
    {
        *(
            "nfs",
            "nfs4",
            "cifs",
            "smb3",
            "smbfs",
            "9p",
            "afs",
            "auristorfs",
            "coda",
            "ncp",
            "ncpfs",
        ),
        *("ceph", "lustre", "glusterfs", "beegfs", "gpfs", "gfs", "gfs2", "ocfs2", "panfs"),
        *("orangefs", "pvfs2", "wekafs", "davfs"),
        # behind FUSE, where the kernel puts "fuse." before the name
        *("sshfs", "curlftpfs", "rclone", "gvfsd-fuse", "davfs2", "ceph-fuse", "mfs", "moosefs"),
        *("lizardfs", "seaweedfs", "juicefs", "s3fs", "goofys", "mountpoint-s3", "gcsfuse"),
        *("blobfuse", "blobfuse2", "vmhgfs-fuse"),
    }
)
"""By the names that Linux has for them. Several machines write there, or another one does."""

_ESCAPE = re.compile(r"\\([0-7]{3})")


def network_file_system(path: str) -> str | None:
    """Return the name of the network file system that holds `path`; None for a local one.

    Detected on Linux only: elsewhere `/proc/self/mounts` is missing, and every folder counts as local.
    """
    try:
        with open("/proc/self/mounts", encoding="utf-8", errors="surrogateescape") as mounts:
            return network_mount(os.path.realpath(path), mounts)
    except OSError:
        return None


def network_mount(path: str, mounts: Iterable[str]) -> str | None:
    """Return the network file system that holds a real path, by the lines of a mount table."""
    best, kind = "", ""
    for line in mounts:
        _, escaped, name, *_ = line.split(" ")
        point = _ESCAPE.sub(lambda octal: chr(int(octal[1], 8)), escaped)
        is_inside = path == point or path.startswith(point.rstrip("/") + "/")
        if is_inside and len(point) >= len(best):  # of two at one point the later one is on top
            best, kind = point, name
    return kind if kind.removeprefix("fuse.") in _NETWORK else None
