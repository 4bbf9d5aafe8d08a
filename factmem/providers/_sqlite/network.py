"""Detection of network file systems, whose locks and appends are unreliable."""

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
        # of FUSE: the kernel adds the prefix "fuse."
        *("sshfs", "curlftpfs", "rclone", "gvfsd-fuse", "davfs2", "ceph-fuse", "mfs", "moosefs"),
        *("lizardfs", "seaweedfs", "juicefs", "s3fs", "goofys", "mountpoint-s3", "gcsfuse"),
        *("blobfuse", "blobfuse2", "vmhgfs-fuse"),
    }
)
"""Their names in Linux. Another machine, or several, can write to these file systems."""

_ESCAPE = re.compile(r"\\([0-7]{3})")


def network_file_system(path: str) -> str | None:
    """Return the name of the network file system that holds `path`; None for a local one.

    Works on Linux only. Elsewhere `/proc/self/mounts` is missing, and every folder counts as local.
    """
    try:
        with open("/proc/self/mounts", encoding="utf-8", errors="surrogateescape") as mounts:
            return network_mount(os.path.realpath(path), mounts)
    except OSError:
        return None


def network_mount(path: str, mounts: Iterable[str]) -> str | None:
    """Return the network file system of a real path, given the lines of a mount table."""
    best, kind = "", ""
    for line in mounts:
        _, escaped, name, *_ = line.split(" ")
        point = _ESCAPE.sub(lambda octal: chr(int(octal[1], 8)), escaped)
        is_inside = path == point or path.startswith(point.rstrip("/") + "/")
        if is_inside and len(point) >= len(best):  # at one mount point the later mount is on top
            best, kind = point, name
    return kind if kind.removeprefix("fuse.") in _NETWORK else None
