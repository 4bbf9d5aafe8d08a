"""A store in local files: one journal per place, durable when a save returns."""

import os
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

from factmem._arguments import expect_function, expect_methods, kind_of
from factmem.concurrency.per_loop import Workers
from factmem.models.clock import TimeProvider, system_clock
from factmem.models.places import MemoryScope, MemorySubject
from factmem.providers._arguments import check_span
from factmem.providers._clock import StoreClock
from factmem.providers._ledger_store import LedgerStore
from factmem.providers._local_backend import LocalBackend
from factmem.providers.limits import PlaceLimit
from factmem.storage.base import KeySlots, SalvagedJournal, Storage, WatchedJournals
from factmem.storage.encryption.aes256gcm import Encryption, encryption_of
from factmem.storage.encryption.key import Key
from factmem.storage.simple import SimpleStorage

__all__ = ["LocalFileMemoryProvider", "ProviderKeys"]


class ProviderKeys:
    """The keys that open an encrypted store; a key may be a base64 string."""

    def __init__(self, slots: KeySlots, workers: Workers) -> None:
        self._slots = slots
        self._workers = workers

    async def ids(self) -> list[str]:
        """Return the ids of the key slots; an id reveals nothing about its key."""
        return await self._workers.run(self._slots.ids)

    async def add(self, key: Key | str | Encryption) -> None:
        """Add a key that opens the store."""
        encryption = encryption_of(key)
        await self._workers.run(lambda: self._slots.add(encryption))

    async def remove(self, key: Key | str | Encryption) -> None:
        """Remove a key, so that it no longer opens the store.

        With that key and an old copy of `factmem.json` the existing files can still be read;
        `rotate` prevents that.

        Raises:
            WrongKeyError: The key does not open the store.
            ValueError: It is the only key.
        """
        encryption = encryption_of(key)
        await self._workers.run(lambda: self._slots.remove(encryption))

    async def rotate(
        self,
        key: Key | str | Encryption,
        *,
        rewrite: bool = True,
        progress: Callable[[int, int], None] | None = None,
    ) -> None:
        """Give the store a new key and new data keys, and rewrite every journal with them.

        All other keys stop working at once. This provider continues with the new key; other processes
        need it as well. Store the new key safely before the call, and keep the old one until the call
        returns. After a crash or an error call it again. With `rewrite=False` only the wrapping of the
        data keys changes, at once: right for a changed passphrase, wrong for a leaked key. `progress`
        is called in a worker thread after each journal, with the number done and the total.
        """
        encryption = encryption_of(key)
        _check_progress(progress)
        await self._workers.run(
            lambda: self._slots.rotate(encryption, rewrite=rewrite, progress=progress)
        )


class LocalFileMemoryProvider(LedgerStore):
    """A `FactStore` in a folder of local files.

    When a save returns, its facts survive kill -9 and a power cut. Concurrent saves share one durable
    write. Any number of tasks, threads with their own event loops, and processes may use one folder
    at once, through one instance or many; each sees the saves of all others. After a fork, parent and
    child may both continue.

    Nothing touches the disk before the first call, and nothing is created before the first save.
    Reading takes no lock. A warm `load` uses no thread: it only checks, in a few microseconds,
    whether the file has changed since it was read. Up to 1,024 places are kept in memory.

    The first save starts a thread that commits; it ends after ten idle seconds. The Linux kernel syncs
    the files of a batch for many places at the same time. On other systems, or if a sandbox refuses
    that, up to eleven more threads do. The lock file and the folders stay open between calls. `aclose`
    ends the threads and closes the files.

    A save that raises is not acknowledged; it is stored completely or not at all. If it is
    cancelled before its write begins, nothing is stored; if later, the save completes and the
    cancelled task waits for it. A task cancelled by asyncio itself (`Task.cancel`, `wait_for`) does
    not wait, and either outcome is possible.

    The first `load` of a large place that is not in memory searches its file for that concept. A place
    of more than 8 MB gets a summary, a file beside its journal with the current state. A process that
    has read the place writes it on closing the store, after ten seconds without a save, or in
    `compact`. With it a cold `load` takes milliseconds whatever the size. Damage of the journal before
    the end of its summary is detected by operations that read all of it, such as `verify`.

    A purging `forget` rewrites the journal's file and removes the copies that `salvage` kept. `erase`
    in an encrypted store first overwrites the random bytes from which the file's key is derived, so
    that blocks left on the disk cannot be decrypted. `places` opens only the files of the requested
    places if these are few. `list_places` opens files that were never listed before, and stores their
    names beside the journals. The function passed to `amend` runs in a worker thread, under the store's
    lock.

    Args:
        root: The folder. The first save creates it, readable by its owner only.
        storage: The form of the files: `SimpleStorage()`, the default, or `EncryptedStorage(...)`.
        clock: Returns the time as an aware datetime; the clock of this machine by default.
        keep_history: The time for which replaced and forgotten values stay readable by `history` and
            `as_of`. None, the default, keeps them for ever. Otherwise a journal is compacted when more
            than half of it is older history.
        limit: The most that one place may have; a save beyond it raises `PlaceFullError`.

    Raises:
        TypeError: An argument has the wrong type, such as a key instead of a storage.
        ValueError: `root` is not a path, or `keep_history` is negative.
        StorageError: (from every method) The operating system refused, or the store is damaged.
        StoreBusyError: (from writing methods) The lock was held beyond the storage's deadline.
        DecryptionError: (from every method) The key is missing or wrong, or files do not verify.
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        *,
        storage: Storage | None = None,
        clock: TimeProvider = system_clock,
        keep_history: timedelta | None = None,
        limit: PlaceLimit | None = None,
    ) -> None:
        if keep_history is not None:
            check_span(keep_history)
        self._root = _folder_of(root)
        journals = _storage_of(storage).open(self._root)
        self._folder = LocalBackend(journals, StoreClock(clock), keep_history)
        super().__init__(self._folder, limit)

    def __repr__(self) -> str:
        return f"LocalFileMemoryProvider({str(self._root)!r})"

    async def compact(
        self,
        subject: MemorySubject,
        scope: MemoryScope,
        *,
        keep_history: timedelta = timedelta(0),
    ) -> int:
        """Rewrite a place's journal without older history, and return how many bytes it freed.

        Current values do not change; `history` and `as_of` reach back as far as `keep_history`.
        """
        check_span(keep_history)
        identity = self._enter(subject, scope)
        places = self._folder.blocking
        return await self._folder.work(lambda: places.compact(identity, keep_history))

    async def salvage(self, subject: MemorySubject, scope: MemoryScope) -> SalvagedJournal:
        """Continue with the readable records of a damaged place, and keep a copy of its file.

        Raises:
            ValueError: The place has no file.
        """
        identity = self._enter(subject, scope)
        return await self._folder.work(lambda: self._folder.blocking.salvage(identity))

    async def anchor(self, *, progress: Callable[[int, int], None] | None = None) -> str:
        """Return an anchor: a string with the end of every place, to be stored elsewhere.

        A folder cannot reveal that all of it was put back to an older copy; `verify` detects this with
        an anchor. Reads every file. An anchor never expires. `progress` is called in a worker thread
        after each place, with the number done and the total.
        """
        self._check_open()
        _check_progress(progress)
        return await self._folder.work(lambda: self._folder.journals.anchor(progress))

    def take_torn_writes(self) -> int:
        """Return the number of unfinished writes found since the last call.

        A crash leaves them; they were never acknowledged. Events of a memory report them as
        `torn_writes`.
        """
        journals = self._folder.journals
        return journals.take_torn() if isinstance(journals, WatchedJournals) else 0

    async def verify(
        self, anchor: str | None = None, *, progress: Callable[[int, int], None] | None = None
    ) -> list[str]:
        """Raise unless every place is readable and has come at least as far as the anchor says.

        Reads all of every file. Without an anchor, an older copy that is whole is not detected.
        `progress` is called as `anchor` calls it.

        Returns:
            The paths of journals that end in a write that was never acknowledged; the next save
            sets its bytes aside. And of end marks that cannot be read, which may be deleted.

        Raises:
            TamperedError: The store, or a place, is gone or was put back to an older copy.
            CorruptJournalError: A journal is damaged; or the same, in a store that is not encrypted.
            ValueError: The string is no anchor.
        """
        self._check_open()
        _check_progress(progress)
        return await self._folder.work(lambda: self._folder.journals.verify(anchor, progress))

    @property
    def keys(self) -> ProviderKeys:
        """The keys of an encrypted store.

        Raises:
            ValueError: The store is not encrypted.
        """
        self._check_open()
        slots = self._folder.journals.keys
        if slots is None:
            raise ValueError(
                "An unencrypted store has no keys: create it with "
                "storage=EncryptedStorage(Aes256GCMEncryptor(key))"
            )
        return ProviderKeys(slots, self._folder.workers)


def _check_progress(progress: Callable[[int, int], None] | None) -> None:
    if progress is not None:
        expect_function(progress, "progress", "progress=lambda done, total: print(done, total)")


def _folder_of(root: str | os.PathLike[str]) -> Path:
    """Return the folder that `root` names, without looking at the disk."""
    try:
        path = os.fspath(root)
    except TypeError:
        path = None
    if not isinstance(path, str):
        raise TypeError(
            f"root must be a path, not {kind_of(root)}: LocalFileMemoryProvider('memory')"
        )
    if not path:
        raise ValueError("root must not be empty: pass a folder, or '.' for the current one")
    try:
        is_possible = b"\0" not in os.fsencode(path)
    except UnicodeEncodeError:
        is_possible = False
    if not is_possible:
        raise ValueError("root must not have a character that no path can have, such as NUL")
    return Path(path)


def _storage_of(storage: Storage | None) -> Storage:
    """Return `storage`, or `SimpleStorage()` for None only: a key is not a storage."""
    if storage is None:
        return SimpleStorage()
    return expect_methods(
        storage,
        ["open"],
        "storage",
        "SimpleStorage() writes plain files, EncryptedStorage(Aes256GCMEncryptor(key)) "
        "encrypts them",
    )
