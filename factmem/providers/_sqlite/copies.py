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
from factmem.providers._sql.sealing import NO_TAG, UnknownGenerationError, unknown_key
from factmem.providers._sql.session import Row, Session
from factmem.providers._sql.stored_places import StoredPlaces
from factmem.providers._sqlite.database import SqliteDatabase
from factmem.providers._sqlite.files import NAME, DatabaseFiles, closed_on_error, is_full
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
    taken = anchors.count()
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
            anchor = anchors.read(session, taken)
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
"""The number of pages, 4 MB, that are copied in one step."""


def _copy(
    source: sqlite3.Connection, folder: Path, give_way: Callable[[], None] | None = None
) -> None:
    """Copy a database into a folder, over an unfinished copy; call `_finish` afterwards.

    `give_way` is called after each step, if others use the database. A save has to wait for the
    disk to write earlier data, so each step is flushed and followed by a pause as long as it.
    """
    copy = folder / NAME
    with _writing(folder):
        copy.unlink(missing_ok=True)
        # SQLite would create it with the permissions of the umask.
        fd = os.open(copy, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        with (
            open(fd, "rb", buffering=0),  # closed last, as closing it drops SQLite's locks
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
    """Remove the places that the store has erased since the copy was made; return how many.

    `erasures` is its count, and `erased` its rows, of erasures.
    """
    copy = folder / NAME
    with _writing(folder):
        with closing(sqlite3.connect(copy, isolation_level=None)) as db:
            db.execute("PRAGMA synchronous = full")
            # Free pages of the copy must not keep what was erased.
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
    return int(count)


_ERASED = "FROM places WHERE (place, made) IN (SELECT substr(place, 1, 16), made FROM erased)"
_OWNED = "owner IN (SELECT substr(place, 1, 16) FROM erased)"
"""Excludes conversations that were removed from a place that still exists."""


class Draft:
    """A temporary folder beside a target; if the process is killed, the next draft removes it."""

    def __init__(self, target: Path) -> None:
        self.folder = target.parent / f".{target.name}-{token_hex(8)}.tmp"
        with _writing(target):
            target.parent.mkdir(parents=True, exist_ok=True)
            left = re.compile(rf"\.{re.escape(target.name)}-[0-9a-f]{{16}}\.tmp")
            for other in target.parent.glob(f".{escape(target.name)}-*.tmp"):
                if left.fullmatch(other.name) and not other.is_symlink():
                    with suppress(OSError):  # no draft, or one of a running process
                        os.close(_locked(other))
                        _remove(other)
                    with suppress(OSError):  # one without its file, of a process that was killed
                        other.rmdir()
            self.folder.mkdir(mode=0o700)
            self._lock = _locked(self.folder, os.O_CREAT | os.O_EXCL)

    def publish(self, target: Path, mode: int = 0o700) -> None:
        with _writing(target):
            self.folder.chmod(mode)
            self.folder.rename(target)  # replaces an empty folder
            # Removed last: by this file another draft recognizes one of a killed process.
            (target / _ALIVE).unlink()
            sync_folder(target.parent)

    def close(self) -> None:
        """Remove the folder, unless it was renamed."""
        with suppress(OSError):  # the descriptor is closed even after an error
            os.close(self._lock)
        with suppress(OSError):
            _remove(self.folder)


def _remove(draft: Path) -> None:
    """Remove a draft; its file comes last, so that an interrupted removal can be continued."""
    for each in draft.iterdir():
        if each.name != _ALIVE:
            shutil.rmtree(each) if each.is_dir() and not each.is_symlink() else each.unlink()
    (draft / _ALIVE).unlink(missing_ok=True)
    draft.rmdir()


def _locked(folder: Path, flags: int = 0) -> int:
    """Lock a draft, and return the descriptor that holds the lock; raise if it is in use."""
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
        source, of_backup = self._open()
        with closing(source):
            with self._unused():
                self._known = self._store_state()
            store, erasures, erased = self._known
            if store not in (None, of_backup):
                raise ValueError(
                    f"{str(self._database.root)!r} has another store than the backup: use another "
                    f"folder"
                )
            _copy(source, self.folder)
            return _finish(self.folder, erasures, erased)

    def _open(self) -> tuple[sqlite3.Connection, str]:
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
        """Replace the database by the copy, which must be closed, in one step.

        Raises `StoreBusyError`, and changes nothing, if the store was used since `fill`.
        """
        root = self._database.root
        with _writing(root), self._unused():
            if self._store_state() != self._known:
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

    def _store_state(self) -> tuple[str | None, int, list[Row]]:
        """Return the id of the current store, its count of erasures, and its rows about them."""
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
        remedy = ": free some room" if is_full(exc) else ""
        raise StorageError(f"The copy could not be written ({name}){remedy}") from exc


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
    """Yield every place of a damaged database, with the lines that verify on their own."""
    with database.snapshot() as session:
        try:
            reader = None if session.db is None else places.reading(session)
        except UnknownGenerationError:
            raise unknown_key() from None
        if reader is None:
            return
        for key in sorted(_keys(session)):
            yield _read(session, reader, key)


def _keys(session: SqliteSession) -> set[bytes]:
    """Return the keys of places, read from both ends of the table, around a damaged page."""
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
    except (sqlite3.DatabaseError, FactmemError, UnknownGenerationError, TypeError):
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
    # Purges and compactions leave gaps in the numbers.
    expected = len(rows) if is_complete and snapshot else max(last, len(rows))
    return ReadablePlace(identity, counted(entries), expected - len(entries))


def _rows(db: sqlite3.Connection, key: bytes) -> tuple[dict[int, tuple[int, bytes]], bool]:
    """Return the readable lines of a place by number, and whether no page was damaged."""
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
