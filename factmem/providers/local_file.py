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
    """The keys that open an encrypted store; a key may be given as its base64 text."""

    def __init__(self, slots: KeySlots, workers: Workers) -> None:
        self._slots = slots
        self._workers = workers

    async def ids(self) -> list[str]:
        """Return the ids of the key slots; an id reveals nothing about its key."""
        return await self._workers.run(self._slots.ids)

    async def add(self, key: Key | str | Encryption) -> None:
        """Let another key open the store."""
        encryption = encryption_of(key)
        await self._workers.run(lambda: self._slots.add(encryption))

    async def remove(self, key: Key | str | Encryption) -> None:
        """Close the store to a key.

        Whoever has that key and an old copy of `factmem.json` can still read the files as they
        are; `rotate` shuts them out.

        Raises:
            WrongKeyError: It does not open the store.
            ValueError: It is the only one.
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

        All other keys stop at once; this provider goes on with the new one, others need it too.
        Keep the new key safe before you call, and the old one until the call returns; after a
        crash or an error call it again. With `rewrite=False` only the wrapping of the data keys
        changes, at once: right for a changed passphrase, not for a key that leaked. `progress` is
        called in a worker thread after each journal, with how many are done and how many there are.
        """
        encryption = encryption_of(key)
        _check_progress(progress)
        await self._workers.run(
            lambda: self._slots.rotate(encryption, rewrite=rewrite, progress=progress)
        )


class LocalFileMemoryProvider(LedgerStore):
    """A `FactStore` in a folder of local files.

    When a save returns, its facts survive kill -9 and a power cut. Concurrent saves share one
    durable write. Any number of tasks, threads with their own event loops, and processes may use
    one folder at once, through one instance or many; each sees the saves of all others. After a
    fork, parent and child may both continue.

    Nothing touches the disk before the first call, and nothing is created before the first save.
    Reading takes no lock. A warm `load` uses no thread: it only checks, in a few microseconds,
    whether the file has changed since it was read. Up to 1,024 places are kept in memory.

    The first save starts a thread that commits; it ends after ten idle seconds. The files of a batch
    for many places are synced by the Linux kernel at the same time; elsewhere, and where a sandbox
    refuses that, by up to eleven threads that the batch starts. The lock file and the folders stay
    open between calls. `aclose` ends the threads and closes the files.

    A save that raises is not acknowledged; it is stored completely or not at all. If it is
    cancelled before its write begins, nothing is stored; if later, the save completes and the
    cancelled task waits for it. A task cancelled by asyncio itself (`Task.cancel`, `wait_for`) does
    not wait, and either outcome is possible.

    The first `load` of a large place that is not in memory searches its file for that concept. A
    place of more than 8 MB gets a summary: a file beside its journal with what is current, written
    by a process that has read the place, when it closes the store, after ten seconds without a
    save, or in `compact`. With it a cold `load` takes milliseconds whatever the size. Damage of the
    journal before the end of its summary is noticed by what reads all of it, such as `verify`.

    A purging `forget` rewrites the journal's file and removes the copies that `salvage` kept.
    `erase` in an encrypted store first overwrites the random bytes that the file's key is derived
    from, so that a copy of its blocks on the disk cannot be read with the key. `places` opens only
    the files of the places that are asked for, where these are few. `list_places` opens the files
    that were never listed before, and keeps their names beside the journals. The function that `amend` takes
    runs in a worker thread, with the store's lock held.

    Args:
        root: The folder. The first save creates it, readable by its owner only.
        storage: How files are kept: `SimpleStorage()`, the default, or `EncryptedStorage(...)`.
        clock: Returns the time, as an aware datetime; this machine's by default.
        keep_history: How long replaced and forgotten values stay readable by `history` and
            `as_of`. None, the default, keeps them for ever; otherwise a journal is compacted when
            more than half of it is older history.

        limit: The most that one place may hold; a save beyond it raises `PlaceFullError`.

    Raises:
        TypeError: An argument has the wrong type, such as a key instead of a storage.
        ValueError: `root` is not a path, or `keep_history` is negative.
        StorageError: (from every method) The disk refused, or the store is damaged.
        StoreBusyError: (from writing methods) The lock was held past the storage's deadline.
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
        """Go on with what can be read of a damaged place, and keep a copy of its file.

        Raises:
            ValueError: There is no file of that place.
        """
        identity = self._enter(subject, scope)
        return await self._folder.work(lambda: self._folder.blocking.salvage(identity))

    async def anchor(self, *, progress: Callable[[int, int], None] | None = None) -> str:
        """Return how far every place has come, as a string to be kept elsewhere.

        A folder cannot reveal that all of it was put back to an older copy; `verify` detects it by
        an anchor. Reads every file; an anchor stays good for ever. `progress` is called in a worker
        thread after each place, with how many are done and how many there are.
        """
        self._check_open()
        _check_progress(progress)
        return await self._folder.work(lambda: self._folder.journals.anchor(progress))

    def take_torn_writes(self) -> int:
        """Return how many unfinished writes were found since this was last called.

        A crash leaves them; they were acknowledged to no caller. Events of a memory report them as
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
                "A store in the clear has no keys: create it with "
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
        raise ValueError("root must not be empty: name a folder, or '.' for the current one")
    try:
        is_possible = b"\0" not in os.fsencode(path)
    except UnicodeEncodeError:
        is_possible = False
    if not is_possible:
        raise ValueError("root has a character that no path can have, such as NUL: leave it out")
    return Path(path)


def _storage_of(storage: Storage | None) -> Storage:
    """Return `storage`, or files in the clear for None and nothing else: a key is no storage."""
    if storage is None:
        return SimpleStorage()
    return expect_methods(
        storage,
        ["open"],
        "storage",
        "SimpleStorage() keeps files in the clear, EncryptedStorage(Aes256GCMEncryptor(key)) "
        "encrypts them",
    )
