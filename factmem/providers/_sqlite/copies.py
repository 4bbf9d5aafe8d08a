"""Copies of a database: `backup`, `Restoration`, and `readable`, which yields what is readable.

Copying the files of an open database in another way may miss its log.
"""

import os
import re
import shutil
import sqlite3
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from glob import escape
from pathlib import Path
from secrets import token_hex
from typing import NamedTuple

from factmem._concurrency import ORDINARY, refusal, sync_folder, try_lock
from factmem.errors import CorruptJournalError, FactmemError, StorageError, StoreBusyError
from factmem.ledger.entries import Entry
from factmem.models.places import Identity
from factmem.providers._sql.anchors import Anchors, check_erased
from factmem.providers._sql.conversations import body_of
from factmem.providers._sql.places import PlaceReader, counted, entries_of
from factmem.providers._sql.sealing import NO_TAG
from factmem.providers._sql.session import Row, Session
from factmem.providers._sql.stored_places import StoredPlaces
from factmem.providers._sqlite.database import SqliteDatabase
from factmem.providers._sqlite.files import NAME, DatabaseFiles, closed_on_error
from factmem.providers._sqlite.gaps import clear_gaps
from factmem.providers._sqlite.session import SqliteSession
from factmem.providers.conversations import conversation_of


def backup(places: StoredPlaces, target: Path) -> str:
    """Copy the database into a new folder, and return an anchor of the copied state.

    Writers are not held up. The folder appears when the copy is complete and durable.

    Raises:
        ValueError: The folder exists, or nothing was saved in the store yet.
        StorageError: The copy could not be written.
    """
    anchors = Anchors(places)
    # A write, so it comes before the snapshot.
    taken = anchors.counted()
    with ExitStack() as stack:
        draft: Draft | None = None

        def read(session: Session, _: int) -> str:
            nonlocal draft
            assert isinstance(session, SqliteSession)  # noqa: S101 - the only session of a folder
            if session.db is None:
                raise ValueError("There is nothing to copy: nothing was saved in the store yet")
            reader = places.reading(session)
            if reader is not None:
                session.check_rows()
                check_erased(session, reader)
            anchor = anchors.listed(session, taken)
            if draft is None:
                check_new(target)
                draft = stack.enter_context(closing(Draft(target)))
            _copy(session.db, draft.folder, session.give_way)
            return anchor

        anchor = places.run_apart(read)
        assert draft is not None  # noqa: S101 - something was read
        _finish(draft.folder)
        draft.publish(target)
    return anchor


_PAGES = 1024
"""Pages that are copied together: 4 MB."""


def _copy(
    source: sqlite3.Connection, folder: Path, give_way: Callable[[], None] | None = None
) -> None:
    """Copy a database into a folder, in place of an unfinished copy. `_finish` follows.

    `give_way` is called after each step, if others use the database. A save would wait for the
    flush of all that was copied, so each step is flushed, and followed by as long a pause.
    """
    copy = folder / NAME
    with _writing(folder):
        copy.unlink(missing_ok=True)
        # Created before SQLite would, which takes the permissions of the umask.
        fd = os.open(copy, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        with (
            open(fd, "rb", buffering=0),  # closed last: that drops SQLite's locks
            closing(sqlite3.connect(copy, isolation_level=None)) as db,
        ):
            db.execute("PRAGMA synchronous = full")
            begin = time.monotonic()

            def progress(_: int, left: int, __: int) -> None:
                nonlocal begin
                if give_way is not None:
                    os.fsync(fd)
                    time.sleep(time.monotonic() - begin if left else 0)
                    give_way()
                    begin = time.monotonic()

            source.backup(db, pages=_PAGES, progress=progress)


def _finish(folder: Path, erasures: int = 0, erased: Sequence[Row] = ()) -> int:
    """Remove the places that a newer state of the store has erased; return how many.

    That state has counted `erasures`, and has the rows `erased`.
    """
    copy = folder / NAME
    with _writing(folder):
        with closing(sqlite3.connect(copy, isolation_level=None)) as db:
            db.execute("PRAGMA synchronous = full")
            # What was erased since must not stay in free pages of the copy.
            db.execute("PRAGMA secure_delete = on")
            db.execute("BEGIN")
            db.executemany("INSERT OR REPLACE INTO erased VALUES (?, ?, ?, ?)", erased)
            ((count,),) = db.execute(f"SELECT count(DISTINCT owner) {_ERASED} AND {_OWNED}")
            for table in ("entries", "indexes", "learning", "places"):
                db.execute(f"DELETE FROM {table} WHERE place IN (SELECT place {_ERASED})")
            db.execute("UPDATE stores SET remains = 0, erasures = max(erasures, ?)", [erasures])
            db.execute("COMMIT")
        with open(copy, "r+b", buffering=0) as file:  # no connection is open
            clear_gaps(file)
        sync_folder(folder)
    left_out: int = count
    return left_out


_ERASED = "FROM places WHERE (place, made) IN (SELECT substr(place, 1, 16), made FROM erased)"
_OWNED = "owner IN (SELECT substr(place, 1, 16) FROM erased)"
"""Not conversations that were removed from places that are kept."""


class Draft:
    """A temporary folder next to a target, removed by the next one if this process is killed."""

    def __init__(self, target: Path) -> None:
        self.folder = target.parent / f".{target.name}-{token_hex(8)}.tmp"
        with _writing(target):
            target.parent.mkdir(parents=True, exist_ok=True)
            left = re.compile(rf"\.{re.escape(target.name)}-[0-9a-f]{{16}}\.tmp")
            for other in target.parent.glob(f".{escape(target.name)}-*.tmp"):
                if left.fullmatch(other.name) and not other.is_symlink():
                    with suppress(OSError):  # it is no draft, or its process is alive
                        os.close(_locked(other))
                        _remove(other)
                    with suppress(OSError):  # killed before it had its file, or removed in part
                        other.rmdir()
            self.folder.mkdir(mode=0o700)
            self._lock = _locked(self.folder, os.O_CREAT | os.O_EXCL)

    def publish(self, target: Path, mode: int = 0o700) -> None:
        with _writing(target):
            self.folder.chmod(mode)
            self.folder.rename(target)  # an empty folder in its place is replaced
            (
                target / _ALIVE
            ).unlink()  # not before: without it nobody knows a draft of a killed one
            sync_folder(target.parent)

    def close(self) -> None:
        """Remove the folder, unless it was renamed."""
        with suppress(OSError):  # it is closed all the same
            os.close(self._lock)
        with suppress(OSError):
            _remove(self.folder)


def _remove(draft: Path) -> None:
    """Remove a draft, and last the file by which a killed removal is found and finished."""
    for each in draft.iterdir():
        if each.name != _ALIVE:
            shutil.rmtree(each) if each.is_dir() and not each.is_symlink() else each.unlink()
    (draft / _ALIVE).unlink(missing_ok=True)
    draft.rmdir()


def _locked(folder: Path, flags: int = 0) -> int:
    """Return a descriptor with a lock on a draft, until it is closed; raise if it is alive."""
    fd = os.open(folder / _ALIVE, os.O_RDWR | ORDINARY | flags, 0o600)
    try:
        try_lock(fd)
    except BaseException:
        os.close(fd)
        raise
    return fd


_ALIVE = "draft"


class Restoration:
    """A backup that is about to replace the database of a folder. Every method blocks."""

    def __init__(self, backup: Path, database: SqliteDatabase) -> None:
        self._backup = backup
        self._database = database
        self._draft = Draft(database.root)
        self.folder = self._draft.folder

    def fill(self) -> int:
        """Copy the backup without the places erased since; return how many are left out."""
        source, of_backup = self._opened()
        with closing(source):
            with self._unused():
                self._known = self._of_store()
            store, erasures, erased = self._known
            if store not in (None, of_backup):
                raise ValueError(
                    f"{str(self._database.root)!r} has another store than the backup: use another "
                    f"folder"
                )
            _copy(source, self.folder)
            return _finish(self.folder, erasures, erased)

    def _opened(self) -> tuple[sqlite3.Connection, str]:
        """Return a connection to the backup, and the id of its store."""
        files = DatabaseFiles(self._backup, 0.0, allow_network=True)
        try:
            if (opened := files.open()) is None:
                raise ValueError(f"There is no backup in {str(self._backup)!r}")
            with closed_on_error(opened[0]) as db:
                for store, _ in db.execute(_STORE):
                    return db, store
                raise CorruptJournalError(
                    f"The backup in {str(self._backup)!r} has no row of its store: use another one"
                )
        except sqlite3.Error as exc:
            raise files.error_of(exc) from exc

    def publish(self) -> None:
        """Put the copy, which must be closed, in the place of the database, in one step.

        If others have used the database meanwhile, nothing is changed: `StoreBusyError`.
        """
        root = self._database.root
        with _writing(root), self._unused():
            if self._of_store() != self._known:
                raise StoreBusyError("The store was used meanwhile: nothing was changed, try again")
            (self.folder / NAME).chmod(self._database.files.file_mode)
            (self.folder / NAME).replace(root / NAME)
            sync_folder(root)

    @contextmanager
    def _unused(self) -> Generator[None]:
        try:
            with self._database.unused():
                yield
        except (sqlite3.Error, CorruptJournalError) as exc:
            raise StorageError(
                f"The erasures since the backup cannot be read from {str(self._database.root)!r}, "
                f"which is damaged: move the folder, and pass the receipts of erasures by erased="
            ) from exc

    def _of_store(self) -> tuple[str | None, int, list[Row]]:
        """Return the id of the present store, how many erasures it had, and which it knows."""
        found = self._database.files.open()
        if found is None:
            return None, 0, []
        with closing(found[0]) as db:
            store, erasures = db.execute(_STORE).fetchone() or (None, 0)
            return store, erasures, db.execute("SELECT * FROM erased").fetchall()

    def close(self) -> None:
        self._draft.close()


_STORE = "SELECT id, erasures FROM stores"


@contextmanager
def _writing(target: Path) -> Generator[None]:
    try:
        yield
    except OSError as exc:
        raise StorageError(f"{str(target)!r} cannot be written: {refusal(exc)}") from exc
    except sqlite3.Error as exc:
        name = getattr(exc, "sqlite_errorname", type(exc).__name__)
        raise StorageError(f"The copy could not be written ({name})") from exc


def check_new(target: Path) -> None:
    """Raise `ValueError` if a folder exists and is not empty."""
    with _writing(target):
        is_used = target.is_symlink() or (
            target.exists() and (not target.is_dir() or any(target.iterdir()))
        )
    if is_used:
        raise ValueError(f"{str(target)!r} exists: pass a new folder")


_FORWARD = "SELECT place FROM places ORDER BY place"
_BACKWARD = "SELECT place FROM places ORDER BY place DESC"


class ReadablePlace(NamedTuple):
    identity: Identity | None
    """None if its row cannot be read."""
    entries: list[Entry]
    missing: int
    """The number of lines that cannot be read."""


def readable(places: StoredPlaces, database: SqliteDatabase) -> Iterator[ReadablePlace]:
    """Yield every place of a damaged database, with the lines that verify by themselves."""
    with database.snapshot() as session:
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
    from factmem.ledger._entry_check import check_entry  # slow import

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
        return ReadablePlace(None, [], last if type(last) is int else 0)
    rows, is_complete = _rows(db, key)
    entries: list[Entry] = []
    tag = NO_TAG
    for number, (at, line) in sorted(rows.items()):
        with suppress(FactmemError):
            (entry,) = entries_of([sealer.open(number, at, tag, line)], [at])
            check_entry(entry)
            if conversation_of(identity) is not None:
                body_of(entry)
            entries.append(entry)
        tag = sealer.tag(line)
    # A purge and a compaction leave gaps in the numbers.
    expected = len(rows) if is_complete and snapshot else max(last, len(rows))
    return ReadablePlace(identity, counted(entries), expected - len(entries))


def _rows(db: sqlite3.Connection, key: bytes) -> tuple[dict[int, tuple[int, bytes]], bool]:
    """Return the lines of a place by their numbers, and whether no damaged page was in the way."""
    found: dict[int, tuple[int, bytes]] = {}
    for order in ("number", "number DESC"):
        with suppress(sqlite3.DatabaseError):
            lines = db.execute(
                f"SELECT number, at, line FROM entries WHERE place = ? ORDER BY {order}", (key,)
            )
            for number, at, line in lines:
                if [type(each) for each in (number, at, line)] == [int, int, bytes]:
                    found[number] = (at, line)
            return found, True
    return found, False
