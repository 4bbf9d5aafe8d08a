"""A store in a folder: one SQLite database, durable when a save returns.

The class puts the layers together: `SqliteDatabase` has the connections and the locks,
`StoredPlaces` the operations, threads and shared commits, `SqlStore` the public methods. It adds
what concerns a whole folder: `backup`, `restore` and `salvage` fill a draft beside the target, and
publish it in one step, so that a crash leaves the old state.
"""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path

from anyio import CancelScope

from factmem._arguments import is_folder_name, kind_of
from factmem.encryption.key_file import KeyFile
from factmem.errors import InputError, InputValueError
from factmem.ledger.entries import Entry
from factmem.models._display import Displayed
from factmem.models.places import DEFINITIONS, Identity, Place
from factmem.models.when import StoreClock, TimeProvider, system_clock
from factmem.providers._backend import Change
from factmem.providers._sql.anchors import check_erased
from factmem.providers._sql.search import StoredSearch
from factmem.providers._sql.store import SqlStore
from factmem.providers._sql.stored_places import StoredPlaces
from factmem.providers._sql.stores import Opening
from factmem.providers._sqlite.copies import Draft, Restoration, backup, check_new, readable
from factmem.providers._sqlite.database import SqliteDatabase
from factmem.providers._sqlite.files import DatabaseFiles
from factmem.providers.conversations import conversation_of
from factmem.providers.results import ErasureReceipt, PlaceLimit, check_span
from factmem.providers.storages import EncryptedStorage, SimpleStorage, Storage

__all__ = ["LocalFileMemoryProvider"]


@dataclass(frozen=True, slots=True)
class SalvagedStore(Displayed):
    """The result of `salvage`."""

    places: int
    """The places and conversations that were saved."""
    lost: int
    """The places and conversations whose names cannot be read."""
    missing: int
    """The lines that cannot be read; each is a save or a part of one."""


class LocalFileMemoryProvider(SqlStore):
    """A `FactStore` in a folder of local files.

    When a save returns, its facts survive kill -9 and a power cut. Concurrent saves share one
    durable write. Any number of tasks, threads with their own event loops, and processes may use
    one folder at once, through one instance or many; each sees the saves of all others. After a
    fork, parent and child may both continue.

    Nothing touches the disk before the first call, and nothing is created before the first save or
    erasure, which is counted. The folder has a database, `facts.db`, its log beside it while the
    store is open, and a lock file. Reading takes no lock. A warm `load` uses no thread: it only
    checks, in a few microseconds, whether the place has changed since it was read. Up to 1,024
    places are kept in memory.

    The first save starts a thread that commits; it ends after ten idle seconds. The files stay open
    between calls. `aclose` ends the thread and closes them.

    A save that raises is not acknowledged; it is stored completely or not at all. If it is
    cancelled before its write begins, nothing is stored; if later, the save completes and the
    cancelled task waits for it. A task cancelled by asyncio itself (`Task.cancel`, `wait_for`) does
    not wait, and either outcome is possible.

    Erased and purged values are overwritten with zeros in all files before the call returns, unless
    another process is reading: then the receipt says `copies_remain`, and it is done when that
    process has finished. In an encrypted store the key of an erased place is destroyed with it. The
    function passed to `amend` runs in a worker thread, under the store's lock.

    Args:
        root: The folder, from the current one if it is relative. The first save creates it, for
            its owner only unless `storage` has a `mode`.
        storage: How it is stored: `SimpleStorage()`, the default, or `EncryptedStorage(...)`.
        clock: Returns the time as an aware datetime; the clock of this machine by default.
        keep_history: The time for which replaced and forgotten values stay readable by `history`
            and `as_of`. None, the default, keeps them forever. Otherwise a place is compacted when
            more than half of it is older history.
        limit: The most that one place may have; a save beyond it raises `PlaceFullError`.
        must_exist: Raise `StorageError` if there is no store in the folder, instead of reading it
            as empty and creating it at the first save. `create` creates one.

    Raises:
        TypeError: An argument has the wrong type, such as a key instead of a storage.
        ValueError: `root` is not a path, `keep_history` is negative, or the storage's `KeyFile` is
            in the folder.
        StorageError: (from every method) The operating system refused, or the store is damaged.
        StoreBusyError: (from writing methods) The lock was held beyond the storage's deadline.
        DecryptionError: (from every method) The key is missing or wrong, or rows do not verify.
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        *,
        storage: Storage | None = None,
        clock: TimeProvider = system_clock,
        keep_history: timedelta | None = None,
        limit: PlaceLimit | None = None,
        must_exist: bool = False,
    ) -> None:
        if keep_history is not None:
            check_span(keep_history)
        self._root = _folder_of(root)
        chosen = _storage_of(storage)
        timeout, allowed = chosen.busy_timeout, chosen.allow_network_folder
        files = DatabaseFiles(self._root, timeout, allow_network=allowed, mode=chosen.mode)
        database = SqliteDatabase(files, timeout)
        encryption = chosen.encryption if isinstance(chosen, EncryptedStorage) else None
        if isinstance(encryption, KeyFile) and _is_inside(encryption.path, self._root):
            raise ValueError(
                "The key file is in the folder of the store, so that each copy of the folder has "
                "its keys too: use a file elsewhere"
            )
        name = chosen.name if isinstance(chosen, EncryptedStorage) else "default"
        opening = Opening("default", encryption, database, must_exist=must_exist, sealed_as=name)
        places = StoredPlaces(opening, StoreClock(clock), keep_history)
        search = StoredSearch(places)
        super().__init__(places, limit, search, must_exist=must_exist)
        self._files, self._chosen, self._clock = database, chosen, clock

    def __repr__(self) -> str:
        return f"LocalFileMemoryProvider({str(self._root)!r})"

    async def backup(self, folder: str | Path) -> str:
        """Copy the store into a new folder while others use it; return an anchor of the copy.

        The copy is complete and durable when this returns; before that the folder does not exist.
        The copy of an encrypted store opens with the same keys. It keeps what is erased later.

        Raises:
            ValueError: The folder exists, or nothing was saved in the store yet.
            StorageError: The copy could not be written.
        """
        self._check_open()
        target = _folder_of(folder)
        return await self._places.work(lambda: backup(self._places, target))

    async def restore(
        self,
        backup: str | Path,
        *,
        anchor: str | None = None,
        erased: Iterable[ErasureReceipt] = (),
    ) -> int:
        """Replace the store by a backup, without the places that were erased since.

        The erasures that this store knows are replayed, and those of receipts that were kept
        elsewhere. After an error or a crash the store is as it was. Take a new anchor afterwards.

        Args:
            backup: A folder that `backup` created. It is not changed.
            anchor: The anchor of the backup, to verify it.
            erased: Receipts of erasures since the backup, for a store that is lost.

        Returns:
            The number of places that were left out.

        Raises:
            ValueError: There is no backup in the folder, or the store is another one.
            StoreBusyError: Another process or instance has the store open. Nothing was changed.
            TamperedError: The backup is older than its anchor, or was changed.
            StorageError: The backup, or this store, is damaged. Nothing was changed.
        """
        self._check_open()
        receipts, source = list(erased), _folder_of(backup)
        work, database = self._places.work, self._files
        # Without a backup, `verify` would report that the anchor is one of another store.
        if not await work(DatabaseFiles(source, 0.0, allow_network=True).exists):
            raise ValueError(f"There is no backup in {str(source)!r}")
        async with LocalFileMemoryProvider(source, storage=self._chosen) as given:
            await given.verify(anchor)
        restoration = await work(lambda: Restoration(source, database))
        try:
            count = await work(restoration.fill)
            folder, storage = restoration.folder, self._chosen
            async with LocalFileMemoryProvider(folder, storage=storage, clock=self._clock) as copy:
                await work(partial(copy._places.read_store, check_erased, None))
                # Before `publish`, so that no reader sees a place that was erased.
                count += await copy.replay_erasures(receipts)
            await work(restoration.publish)
        finally:
            with CancelScope(shield=True):
                await work(restoration.close)
        return count

    async def salvage(self, folder: str | Path) -> SalvagedStore:
        """Save what can be read of a damaged store into a store in a new folder.

        Every line of a place is read by itself, so a damaged one does not hide the others. This
        store is not changed, and the folder appears when the copy is complete.

        Raises:
            ValueError: The folder exists.
            StorageError: Not even the row of the store can be read.
        """
        self._check_open()
        target = _folder_of(folder)
        check_new(target)
        found = await self._places.work(lambda: list(readable(self._places, self._files)))
        work, storage, saved = self._places.work, self._chosen, 0
        lost = sum(each.identity is None for each in found)
        draft = await work(lambda: Draft(target))
        try:
            async with LocalFileMemoryProvider(
                draft.folder, storage=storage, clock=self._clock
            ) as copy:
                await copy.create()
                for each in found:
                    if each.identity is not None and each.entries:
                        try:
                            await copy._add(each.identity, each.entries)
                            saved += 1
                        except InputError:  # a name or a time that no store takes
                            lost += 1
            await work(lambda: draft.publish(target, storage.mode))
        finally:
            with CancelScope(shield=True):
                await work(draft.close)
        return SalvagedStore(saved, lost, sum(each.missing for each in found))

    async def _add(self, identity: Identity, entries: list[Entry]) -> None:
        """Add the entries of a place or of a conversation that this store does not have."""
        if identity != DEFINITIONS and conversation_of(identity) is None:
            place = Place.of_identity(identity)
            await self.replay(entries, place.subject, place.scope)
        else:

            def given(*_: object) -> Change:
                return Change(entries=entries)

            await self._places.extend(identity, given)


def _folder_of(root: str | os.PathLike[str]) -> Path:
    try:
        path = os.fspath(root)
    except TypeError:
        path = None
    if not isinstance(path, str):
        raise TypeError(
            f"root must be a path, not {kind_of(root)}: LocalFileMemoryProvider('memory')"
        )
    if not is_folder_name(path):
        raise InputValueError(
            "root must be a folder, and this names a database: use PostgresMemoryProvider(url), or "
            "begin the name of a folder with ./"
        )
    if not path:
        raise ValueError("root must not be empty: pass a folder, or '.' for the current one")
    try:
        is_possible = b"\0" not in os.fsencode(path)
    except UnicodeEncodeError:
        is_possible = False
    if not is_possible:
        raise ValueError("root must not have a character that no path can have, such as NUL")
    try:
        return Path(path).expanduser().absolute()
    except RuntimeError:
        raise InputValueError("root begins with ~, and this user has no home folder") from None


def _storage_of(storage: Storage | None) -> Storage:
    """Return `storage`, or `SimpleStorage()` for None only: a key is not a storage."""
    if storage is None:
        return SimpleStorage()
    if not isinstance(storage, SimpleStorage | EncryptedStorage):
        raise TypeError(
            f"storage must be a storage, not {kind_of(storage)}: SimpleStorage() for a plain "
            "store, EncryptedStorage(Aes256GCMEncryptor(key)) for an encrypted one"
        )
    return storage


def _is_inside(path: Path, folder: Path) -> bool:
    return Path(os.path.abspath(path)).is_relative_to(os.path.abspath(folder))
