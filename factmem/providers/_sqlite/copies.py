"""Copies of a database: `backup` copies all of it, `readable` yields what salvage can still read.

Copying the files of an open database in another way may miss its log.
"""

import os
import shutil
import sqlite3
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from typing import NamedTuple

from factmem._concurrency.file_lock import sync_folder
from factmem.errors import FactmemError, StorageError
from factmem.ledger.entries import Entry
from factmem.models.places import Identity
from factmem.providers._sql.anchors import Anchors
from factmem.providers._sql.lines import counted, entries_of
from factmem.providers._sql.places import PlaceReader
from factmem.providers._sql.sealing import NO_TAG
from factmem.providers._sqlite.files import NAME
from factmem.providers._sqlite.places import SqlitePlaces
from factmem.providers._sqlite.session import SqliteSession


def backup(places: SqlitePlaces, target: Path) -> str:
    """Copy the database into a new folder, and return an anchor of the copied state.

    Writers are not held up. The folder appears when the copy is complete and durable.

    Raises:
        ValueError: The folder exists, or nothing was saved in the store yet.
        StorageError: The copy could not be written.
    """
    anchors = Anchors(places)
    taken = anchors.counted()
    with places.database.snapshot() as session:
        if session.db is None:
            raise ValueError("There is nothing to copy: nothing was saved in the store yet")
        anchor = anchors.listed(session, taken)
        with new_folder(target) as draft:
            copy = draft / NAME
            os.close(os.open(copy, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
            try:
                with closing(sqlite3.connect(copy, isolation_level=None)) as db:
                    db.execute("PRAGMA synchronous = full")
                    session.db.backup(db)
                    db.execute("UPDATE stores SET remains = 0")
            except sqlite3.Error as exc:
                name = getattr(exc, "sqlite_errorname", type(exc).__name__)
                raise StorageError(f"The copy could not be written ({name})") from exc
    return anchor


@contextmanager
def new_folder(target: Path) -> Generator[Path]:
    """Create a temporary folder next to `target`, and rename it to that when it is complete.

    Raises:
        ValueError: The folder exists and is not empty.
        StorageError: The operating system refused.
    """
    check_new(target)
    draft = target.parent / f".{target.name}-{token_hex(8)}.tmp"
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        draft.mkdir(mode=0o700)
        yield draft
        sync_folder(draft)
        draft.rename(target)  # an empty folder in its place is replaced
        sync_folder(target.parent)
    except OSError as exc:
        raise StorageError(f"{str(target)!r} cannot be written: {exc.strerror}") from exc
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def check_new(target: Path) -> None:
    """Raise `ValueError` if a folder exists and is not empty."""
    if target.is_symlink() or (target.exists() and (not target.is_dir() or any(target.iterdir()))):
        raise ValueError(f"{str(target)!r} exists: pass a new folder")


_FORWARD = "SELECT place FROM places ORDER BY place"
_BACKWARD = "SELECT place FROM places ORDER BY place DESC"


class ReadablePlace(NamedTuple):
    """What can still be read of a place."""

    identity: Identity | None
    """None if its row cannot be read."""
    entries: list[Entry]
    missing: int
    """The number of lines that cannot be read."""


def readable(places: SqlitePlaces) -> Iterator[ReadablePlace]:
    """Yield every place of a damaged database, with the lines that verify.

    A line proves by its checksum or its tag that it is genuine, also where its neighbours are damaged.
    """
    with places.database.snapshot() as session:
        reader = None if session.db is None else places.reading(session)
        if reader is None:
            return
        for key in sorted(_keys(session)):
            yield _read(session, reader, key)


def _keys(session: SqliteSession) -> set[bytes]:
    """Return the keys of the places, found from both ends of the table around a damaged page."""
    found: set[bytes] = set()
    for statement in (_FORWARD, _BACKWARD):
        with suppress(sqlite3.DatabaseError):
            for (key,) in session.connection.execute(statement):
                found.add(key)
    return found


def _read(session: SqliteSession, reader: PlaceReader, key: bytes) -> ReadablePlace:
    db = session.connection
    last = 0
    try:
        row = db.execute(
            "SELECT names, data_key, last, snapshot FROM places WHERE place = ?", (key,)
        )
        names, data_key, last, snapshot = row.fetchone()
        sealer = reader.sealer(key, data_key)
        identity = sealer.open_names(names)
        if reader.key(identity) != key:
            return ReadablePlace(None, [], last)
    except (sqlite3.DatabaseError, FactmemError, TypeError):
        return ReadablePlace(None, [], last)
    rows, is_complete = _rows(db, key)
    bodies: list[bytes] = []
    ats: list[int] = []
    tag = NO_TAG
    for number, (at, line) in sorted(rows.items()):
        with suppress(FactmemError):
            bodies.append(sealer.open(number, at, tag, line))
            ats.append(at)
        tag = sealer.tag(line)
    # A purge and a compaction leave gaps in the numbers.
    expected = len(rows) if is_complete and snapshot else max(last, len(rows))
    return ReadablePlace(identity, counted(entries_of(bodies, ats)), expected - len(bodies))


def _rows(db: sqlite3.Connection, key: bytes) -> tuple[dict[int, tuple[int, bytes]], bool]:
    """Return the lines of a place by their numbers, and whether no damaged page was in the way."""
    found: dict[int, tuple[int, bytes]] = {}
    for order in ("", " DESC"):
        with suppress(sqlite3.DatabaseError):
            lines = db.execute(
                f"SELECT number, at, line FROM entries WHERE place = ? ORDER BY number{order}",  # noqa: S608
                (key,),
            )
            for number, at, line in lines:
                found[number] = (at, line)
            return found, True
    return found, False
