"""SqlStore: the public methods that stores in databases have beside those of a `FactStore`."""

from collections.abc import Callable
from datetime import timedelta

from typing_extensions import override

from factmem._arguments import expect_function
from factmem.concurrency.per_loop import Workers
from factmem.encryption.aes256gcm import Encryption, encryption_of
from factmem.encryption.key import Key
from factmem.ledger.entries import moment
from factmem.models.places import MemoryScope, MemorySubject
from factmem.providers._arguments import check_span
from factmem.providers._ledger_store import LedgerStore
from factmem.providers._sql.anchors import Anchors
from factmem.providers._sql.backend import SqlBackend
from factmem.providers._sql.keys import StoreKeys
from factmem.providers.limits import PlaceLimit
from factmem.providers.shredding import ShreddingStore, ShredReceipt

__all__ = ["ProviderKeys", "SqlStore"]


class ProviderKeys:
    """The keys that open an encrypted store; a key may be a base64 string."""

    _slots: StoreKeys
    _workers: Workers

    async def ids(self) -> list[str]:
        """Return the ids of the key slots; an id reveals nothing about its key."""
        return await self._workers.run(self._slots.ids)

    async def add(self, key: Key | str | Encryption) -> None:
        """Add a key that opens the store."""
        encryption = encryption_of(key)
        await self._workers.run(lambda: self._slots.add(encryption))

    async def remove(self, key: Key | str | Encryption) -> None:
        """Remove a key, so that it no longer opens the store.

        With that key and an old copy of the store the present rows can still be read; `rotate`
        prevents that.

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
        """Give the store a new key and new data keys, and rewrite every place with them.

        All other keys stop working at once. This provider continues with the new key; other processes
        need it as well. Store the new key safely before the call, and keep the old one until the call
        returns. After a crash or an error call it again. With `rewrite=False` only the wrapping of the
        data keys changes, at once: right for a changed passphrase, wrong for a leaked key. `progress`
        is called in a worker thread after each place, with the number done and the total.
        """
        encryption = encryption_of(key)
        check_progress(progress)
        await self._workers.run(
            lambda: self._slots.rotate(encryption, rewrite=rewrite, progress=progress)
        )


class _OpenKeys(ProviderKeys):
    """Keeps private classes out of the public constructor."""

    def __init__(self, slots: StoreKeys, workers: Workers) -> None:
        self._slots, self._workers = slots, workers


class SqlStore(LedgerStore, ShreddingStore):
    """A `FactStore` in a database: compaction, anchors, keys and shredding."""

    def __init__(self, backend: SqlBackend, limit: PlaceLimit | None) -> None:
        self._database = backend
        super().__init__(backend, limit)

    async def compact(
        self,
        subject: MemorySubject,
        scope: MemoryScope,
        *,
        keep_history: timedelta = timedelta(0),
    ) -> int:
        """Rewrite a place without older history, and return the number of freed bytes of entries.

        Current values do not change; `history` and `as_of` reach back as far as `keep_history`.
        """
        check_span(keep_history)
        identity = self._enter(subject, scope)
        places = self._database.blocking
        return await self._database.work(lambda: places.compact(identity, keep_history))

    async def anchor(self, *, progress: Callable[[int, int], None] | None = None) -> str:
        """Return an anchor: a string with the end of every place, to be stored elsewhere.

        A store cannot reveal that all of it was put back to an older copy; `verify` detects this with
        an anchor. Places are listed without reading their entries. An anchor never expires. `progress`
        is called in a worker thread after each place, with the number done and the total.
        """
        self._check_open()
        check_progress(progress)
        anchors = Anchors(self._database.blocking)
        return await self._database.work(lambda: anchors.taken(progress))

    async def verify(
        self, anchor: str | None = None, *, progress: Callable[[int, int], None] | None = None
    ) -> None:
        """Raise unless every place is readable and has come at least as far as the anchor says.

        Reads every entry of every place. Without an anchor, an older copy that is whole is not
        detected. `progress` is called as `anchor` calls it.

        Raises:
            TamperedError: The store, or a place, is gone, was changed, or was put back to an older
                copy.
            CorruptJournalError: The same, in a store that is not encrypted.
            ValueError: The string is no anchor.
        """
        self._check_open()
        check_progress(progress)
        anchors = Anchors(self._database.blocking)
        await self._database.work(lambda: anchors.verify(anchor, progress))

    @override
    async def shred(self) -> ShredReceipt:
        """Destroy the keys of all facts that were erased or purged before now.

        The store must be opened with a `RenewableEncryption`, such as `KeyFile(path)`, whose keys
        are stored elsewhere. The data keys of all places are wrapped under a new key, and the old key
        is destroyed. Then nothing can decrypt erased places in older copies of the store: in logs, on
        standbys, in backups. Existing facts are not rewritten, and other processes can use the store
        meanwhile. Erasures are final when it returns; after a crash call it again.

        Raises:
            ValueError: The keys cannot be destroyed, or the store has other keys besides.
        """
        self._check_open()
        done = await self._database.work(StoreKeys(self._database.blocking).shred)
        return ShredReceipt(moment(done.began_at), done.places)

    @property
    def keys(self) -> ProviderKeys:
        """The keys of an encrypted store.

        Raises:
            ValueError: The store was opened without encryption.
        """
        self._check_open()
        places = self._database.blocking
        if places.opening.encryption is None:
            raise ValueError(
                "An unencrypted store has no keys: create it with "
                "storage=EncryptedStorage(Aes256GCMEncryptor(key)) or encryption="
            )
        return _OpenKeys(StoreKeys(places), self._database.workers)


def check_progress(progress: Callable[[int, int], None] | None) -> None:
    """Raise TypeError unless a progress callback can be called."""
    if progress is not None:
        expect_function(progress, "progress", "progress=lambda done, total: print(done, total)")
