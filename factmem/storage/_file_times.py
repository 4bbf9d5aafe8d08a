"""The times of files and folders: what they tell about changes."""

import os
import time
from typing import TypeAlias

_SETTLED = 3_000_000_000
"""Nanoseconds after which a change always gives a file a new time. FAT has the coarsest clock, two
seconds; Linux itself counts in milliseconds."""

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
    return 0 <= found.st_ctime_ns < time.time_ns() - _SETTLED


def vouching_time(size: int) -> int:
    """Return the nanoseconds of a second that vouch for a file of this size.

    They are whole microseconds, which every file system keeps that keeps more than seconds. By
    chance the clock gives a file the same ones once in a million writes.
    """
    return (size * 7_919 + 271_828) % 1_000_000 * 1_000


def has_vouching_time(found: os.stat_result) -> bool:
    """Return whether the time of a file vouches for all of its content."""
    return found.st_mtime_ns % 1_000_000_000 == vouching_time(found.st_size)
