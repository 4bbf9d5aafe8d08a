"""Stores in local files without await, and their keys.

Written by tests/sync/generate.py: change the async class.
"""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from factmem.encryption.aes256gcm import Encryption
from factmem.encryption.key import Key
from factmem.ledger.history import History
from factmem.models.facts import Concept
from factmem.models.places import MemoryScope, MemorySubject
from factmem.providers.local_file import LocalFileMemoryProvider, ProviderKeys
from factmem.storage.base import SalvagedJournal
from factmem.sync._wrapping import Wraps
from factmem.sync.indexed_stores import IndexedStoreSync

__all__ = ["KeysSync", "LocalStoreSync"]


class KeysSync(Wraps[ProviderKeys]):
    """The keys of an encrypted store for code that does not use `await`."""

    def ids(self) -> list[str]:
        """Return the ids of the key slots; an id reveals nothing about its key."""
        return self._portal.call(self._wrapped.ids)

    def add(self, key: Key | str | Encryption) -> None:
        """Add a key that opens the store."""
        return self._portal.call(self._wrapped.add, key)

    def remove(self, key: Key | str | Encryption) -> None:
        """Remove a key, so that it no longer opens the store.

        With that key and an old copy of `factmem.json` the existing files can still be read;
        `rotate` prevents that.

        Raises:
            WrongKeyError: The key does not open the store.
            ValueError: It is the only key.
        """
        return self._portal.call(self._wrapped.remove, key)

    def rotate(
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
        return self._portal.call(self._wrapped.rotate, key, rewrite=rewrite, progress=progress)


class LocalStoreSync(IndexedStoreSync[LocalFileMemoryProvider]):
    """A `LocalFileMemoryProvider` for code that does not use `await`.

    with LocalStoreSync(LocalFileMemoryProvider("facts")) as store:
        store.save(fact, subject, scope)
    """

    def compact(
        self, subject: MemorySubject, scope: MemoryScope, *, keep_history: timedelta = timedelta(0)
    ) -> int:
        """Rewrite a place's journal without older history, and return how many bytes it freed.

        Current values do not change; `history` and `as_of` reach back as far as `keep_history`.
        """
        return self._portal.call(self._wrapped.compact, subject, scope, keep_history=keep_history)

    def salvage(self, subject: MemorySubject, scope: MemoryScope) -> SalvagedJournal:
        """Continue with the readable records of a damaged place, and keep a copy of its file.

        Raises:
            ValueError: The place has no file.
        """
        return self._portal.call(self._wrapped.salvage, subject, scope)

    def anchor(self, *, progress: Callable[[int, int], None] | None = None) -> str:
        """Return an anchor: a string with the end of every place, to be stored elsewhere.

        A folder cannot reveal that all of it was put back to an older copy; `verify` detects this with
        an anchor. Reads every file. An anchor never expires. `progress` is called in a worker thread
        after each place, with the number done and the total.
        """
        return self._portal.call(self._wrapped.anchor, progress=progress)

    def take_torn_writes(self) -> int:
        """Return the number of unfinished writes found since the last call.

        A crash leaves them; they were never acknowledged. Events of a memory report them as
        `torn_writes`.
        """
        return self._wrapped.take_torn_writes()

    def verify(
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
        return self._portal.call(self._wrapped.verify, anchor, progress=progress)

    @property
    def keys(self) -> KeysSync:
        """The keys of an encrypted store.

        Raises:
            ValueError: The store is not encrypted.
        """
        return KeysSync(self._wrapped.keys, self._portal)

    def history(
        self, concept: Concept[Any, Any], subject: MemorySubject, scope: MemoryScope
    ) -> History:
        """Return every save, confirmation and forget of a concept, oldest first.

        Raises:
            StoredFactError: A value in the history does not fit the concept's `value_type`.
            StorageError: The store could not be read.
        """
        return self._portal.call(self._wrapped.history, concept, subject, scope)

    def version(self, subject: MemorySubject, scope: MemoryScope) -> str:
        """Return a string that changes whenever the result of `load_all` may have changed.

        Takes microseconds if nothing changed. Versions of different instances are not comparable.
        None means that the version is unknown.
        """
        return self._portal.call(self._wrapped.version, subject, scope)
