"""The times of files and folders: what they tell about changes."""

import os
import time
from typing import TypeAlias

_SETTLED = 1_000_000_000
"""Nanoseconds after which a change gives a file a new time, where the file system keeps all digits of a
time. Linux counts in ticks of up to ten milliseconds, and a virtual machine may miss many of them."""

_SETTLED_COARSELY = 3_000_000_000
"""The same for file systems that keep fewer digits. FAT has the coarsest clock, two seconds."""

_COARSE = 1_000_000
"""Nanoseconds. A time that is a multiple may be that of a coarse clock."""

Times: TypeAlias = tuple[int, int, int, int, int]
"""Device, inode number, size, and the times of the last changes of the content and of the inode."""


def times_of(found: os.stat_result) -> Times:
    """Return what changes with the content of a file, or with the names in a folder.

    No program can set the time of the inode's last change, so equal values of a settled file mean equal
    content.
    """
    identity = (found.st_dev, found.st_ino)
    return (*identity, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def is_settled(found: os.stat_result) -> bool:
    """Return whether the next change of a file or folder gives it another time.

    One that was changed just now may change again within one tick of its clock.
    """
    changed = found.st_ctime_ns
    wait = _SETTLED if changed % _COARSE else _SETTLED_COARSELY
    return 0 <= changed < time.time_ns() - wait


def vouching_time(size: int) -> int:
    """Return the nanoseconds of a second that vouch for a file of this size.

    They are whole microseconds, which every file system keeps that keeps more than seconds. By
    chance the clock gives a file the same ones once in a million writes.
    """
    return (size * 7_919 + 271_828) % 1_000_000 * 1_000


def has_vouching_time(found: os.stat_result) -> bool:
    """Return whether the time of a file vouches for all of its content."""
    return found.st_mtime_ns % 1_000_000_000 == vouching_time(found.st_size)
