"""The unallocated bytes of the pages of a database, where SQLite leaves copies.

When SQLite rebuilds a page of a B-tree, it packs the cells at the end of the page and keeps what
was in the gap before them, also with `secure_delete`: copies of rows that are still there. When
such a row is deleted later, its copy stays.

The gap is not part of the database: no statement reads it, and no checksum covers it. So it may be
overwritten in the file without SQLite. `clear` does so after each erasure, purge and compaction, by
these rules. `tests/providers/test_gaps.py` breaks each of them, and must detect that.

1. The caller holds the lock of the store, and a connection of its own SQLite's lock for writing:
   no page is written meanwhile.
2. The log is empty and stays so, as the writer's connection reads it. A page in the log would
   replace the cleared one later, with its gap.
3. A commit of that connection follows, after which all others drop their cached pages. Otherwise
   the next change of a page would write the cached one, with its gap.
4. Only bytes of gaps are written, and only in pages that are certainly of a B-tree. So a partial
   write does no harm, and readers may see either state.
5. The zeros are on disk before the commit records that nothing remains.
6. On POSIX systems no descriptor is opened but that of the guard: `close` of another one would drop
   SQLite's locks.
7. After any failure copies remain: the caller reports it, and the next removal clears all pages.
8. A later removal clears only the pages in the log, if this log began with the last clearing and
   so contains each page that was written since.

Larger pages, `auto_vacuum`, zeros before a deletion, or `VACUUM` after finding a value are no
alternatives: the copies are older than the deletion, and fragmented.
"""

import os
import sqlite3
from collections.abc import Collection, Iterator
from contextlib import closing
from typing import BinaryIO

from factmem.errors import StorageError
from factmem.providers._sqlite.files import DatabaseFiles, Guard

_LEAVES, _INTERIOR = (10, 13), (2, 5)
_LOCKED = 0x40000000
"""The offset of SQLite's locks. Their page is never used, and Windows refuses to read it."""

_MOST_PAGES = 1 << 25
"""Up to this many pages, any page that is no B-tree begins with a page number whose first byte is
0."""

_BLOCK = 1 << 20
"""Bytes that are read together."""

_HEADER, _FRAME = 32, 24
"""The bytes of the header of a log, and of each page in it."""

Changed = tuple[int, set[int] | None]
"""The version of a database, and the pages that may have gaps; None for all."""


class Gaps:
    """Clears the gaps of a folder's database. The caller holds the lock of the store."""

    def __init__(self, files: DatabaseFiles) -> None:
        self._files = files
        self._log = f"{files.path}-wal"
        self._known: bytes | None = None
        """The log that has each page that was written since all gaps were cleared."""

    def changed(self, db: sqlite3.Connection) -> Changed:
        ((version,),) = db.execute("PRAGMA data_version")
        state = log_state(self._log)
        is_known = state is not None and state == self._known
        return version, logged(self._log) if is_known else None

    def clear(
        self,
        db: sqlite3.Connection,
        changed: Changed,
        guard: Guard | None,
        inode: tuple[int, int] | None,
    ) -> bool:
        """Clear gaps, and record that nothing remains; return False if another program has written.

        Uses its own connection, whose commit makes all others drop their cached pages. `changed`
        are the pages from before the log was emptied. After an error gaps may remain, and the
        writer's connection may be in a transaction.
        """
        self._known = None
        with closing(self._files.connect("rw")) as own:
            ((patience,),) = db.execute("PRAGMA busy_timeout")
            own.execute(f"PRAGMA busy_timeout = {patience}")
            own.execute("BEGIN IMMEDIATE")
            begin_snapshot(db)  # of an empty log: no other program restarts it until `COMMIT`
            version, pages = changed
            if self._files.has_log() or self._files.identity() != inode:
                return False
            if db.execute("PRAGMA data_version").fetchone() != (version,):
                pages = None
            with self._open(guard) as file:
                clear_gaps(file, pages)
            # In the log again, and without any value.
            own.execute("UPDATE stores SET remains = 0")
            own.execute("COMMIT")
            known = log_state(self._log)
            db.execute("COMMIT")
        self._known = known
        return True

    def _open(self, guard: Guard | None) -> BinaryIO:
        """Open the database without SQLite: on POSIX systems by the descriptor of the guard."""
        if guard is not None:
            return open(guard.descriptor, "r+b", buffering=0, closefd=False)
        if os.name != "nt":
            raise StorageError("Closing another descriptor would drop SQLite's locks")
        return open(self._files.path, "r+b", buffering=0)


def begin_snapshot(db: sqlite3.Connection) -> None:
    """Begin a read transaction at the newest commit, after ending an earlier one."""
    if db.in_transaction:
        db.execute("COMMIT")
    db.execute("BEGIN")
    db.execute("SELECT 1 FROM stores").fetchone()  # the snapshot begins with the first read


def clear_gaps(file: BinaryIO, numbers: Collection[int] | None = None) -> int:
    """Overwrite the gaps in pages of a database, or in all of it, with zeros; return how many.

    It is durable; see the rules above. `ValueError` if the file is too large for this.
    """
    head = _read(file, 0, 100)
    if head[:16] != b"SQLite format 3\0":
        return 0
    size = int.from_bytes(head[16:18], "big")
    size = 65536 if size == 1 else size
    count = file.seek(0, os.SEEK_END) // size
    if count >= _MOST_PAGES:
        raise ValueError("the database has too many pages")
    skipped = _skipped(size, size - head[20], bool(any(head[52:56])), count)
    zeros = bytes(size)
    cleared = 0
    for first, block in _blocks(file, size, count, numbers):
        for at in range(0, len(block), size):
            number = first + at // size
            header = at + 100 if number == 1 else at
            kind = block[header]
            if kind in _LEAVES:
                start = header + 8
            elif kind in _INTERIOR:
                start = header + 12
            else:
                continue
            start += 2 * (block[header + 3] << 8 | block[header + 4])
            end = at + (block[header + 5] << 8 | block[header + 6] or 65536)
            if (
                start < end <= at + size
                and block[start:end] != zeros[: end - start]
                and number not in skipped
            ):
                file.seek((first - 1) * size + start)
                if file.write(zeros[: end - start]) != end - start:
                    raise OSError("a write was not complete")
                cleared += 1
    if cleared:
        os.fsync(file.fileno())
        _full_sync(file.fileno())
    return cleared


def _skipped(size: int, usable: int, has_maps: bool, count: int) -> set[int]:
    """Return the numbers of pages that may look like one of a B-tree and are none."""
    locked = _LOCKED // size + 1
    maps = range(2, count + 1, usable // 5 + 1) if has_maps else ()
    return {locked, *(each + (each == locked) for each in maps)}


def _blocks(
    file: BinaryIO, size: int, count: int, numbers: Collection[int] | None
) -> Iterator[tuple[int, bytes]]:
    """Yield pages, in blocks, each with the number of its first page."""
    if numbers is not None:
        for number in sorted(numbers):
            if number <= count and (number - 1) * size != _LOCKED:
                yield number, _read(file, (number - 1) * size, size)
        return
    number, many, locked = 1, _BLOCK // size, _LOCKED // size + 1
    while number <= count:
        some = min(many, count + 1 - number)
        if number == locked:
            number += 1
            continue
        if number < locked < number + some:
            some = locked - number
        yield number, _read(file, (number - 1) * size, some * size)
        number += some


def _read(file: BinaryIO, at: int, size: int) -> bytes:
    file.seek(at)
    return file.read(size)


def _full_sync(fd: int) -> None:
    """Flush a file to the disk, also on macOS, where `fsync` does not."""
    try:
        from fcntl import F_FULLFSYNC, fcntl  # type: ignore[attr-defined,unused-ignore]
    except ImportError:
        return
    fcntl(fd, F_FULLFSYNC)


def log_state(path: str) -> bytes | None:
    """Return what identifies a log until it is restarted; None without one.

    SQLite has no locks on the log itself, so it may be opened and closed.
    """
    try:
        with open(path, "rb", buffering=0) as file:
            return file.read(_HEADER)[16:24] or None
    except FileNotFoundError:
        return None


def logged(path: str) -> set[int]:
    """Return the numbers of the pages in a log."""
    found: set[int] = set()
    with open(path, "rb", buffering=0) as file:
        head = file.read(_HEADER)
        step = _FRAME + int.from_bytes(head[8:12], "big")
        at = _HEADER
        while len(frame := _read(file, at, _FRAME)) == _FRAME:
            if frame[8:16] != head[16:24]:
                break
            found.add(int.from_bytes(frame[:4], "big"))
            at += step
    return found
