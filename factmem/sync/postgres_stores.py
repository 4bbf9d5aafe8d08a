"""Stores in PostgreSQL without await.

Written by tests/sync/generate.py: change the async class.
"""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from factmem.ledger.history import History
from factmem.models.facts import Concept
from factmem.models.places import MemoryScope, MemorySubject
from factmem.providers.postgres import PostgresMemoryProvider
from factmem.providers.results import StoreStatus
from factmem.sync.local_stores import KeysSync
from factmem.sync.stores import StoreSync

__all__ = ["PostgresStoreSync"]


class PostgresStoreSync(StoreSync[PostgresMemoryProvider]):
    """A `PostgresMemoryProvider` for code that does not use `await`.

        with PostgresStoreSync(PostgresMemoryProvider(dsn)) as store:
            store.save(fact, subject, scope)

    Each method is that of `PostgresMemoryProvider` with its name, which says more.
    """

    def migrate(self) -> None:
        """Create the tables, or migrate them to the version of this release.

        Raises:
            StorageError: The tables have a later version than this release knows.
        """
        return self._portal.call(self._wrapped.migrate)

    def create(self) -> None:
        """Create the store if it does not exist, also with `must_exist`."""
        return self._portal.call(self._wrapped.create)

    def ping(self) -> StoreStatus:
        """Raise unless the store can be reached, opened with this key, read and written.

        Raises:
            StorageError: The store failed, or does not exist and must.
            StoreBusyError: Other writes took too long.
            DecryptionError: The key is missing or wrong.
        """
        return self._portal.call(self._wrapped.ping)

    def compact(
        self, subject: MemorySubject, scope: MemoryScope, *, keep_history: timedelta = timedelta(0)
    ) -> int:
        """Rewrite a place without older history, and return the number of freed bytes of entries."""
        return self._portal.call(self._wrapped.compact, subject, scope, keep_history=keep_history)

    def anchor(self, *, progress: Callable[[int, int], None] | None = None) -> str:
        """Return an anchor: a string with the end of every place, to be stored elsewhere."""
        return self._portal.call(self._wrapped.anchor, progress=progress)

    def verify(
        self, anchor: str | None = None, *, progress: Callable[[int, int], None] | None = None
    ) -> None:
        """Raise unless every place is readable and has come at least as far as the anchor says.

        Raises:
            TamperedError: The store, or a place, is gone, was changed, or was put back to an older
                copy.
            CorruptJournalError: The same, in a store that is not encrypted.
            ValueError: The string is no anchor.
        """
        return self._portal.call(self._wrapped.verify, anchor, progress=progress)

    @property
    def keys(self) -> KeysSync:
        """The keys of an encrypted store.

        Raises:
            ValueError: The store was opened without encryption.
        """
        return KeysSync(self._wrapped.keys, self._portal)

    def history(
        self, concept: Concept[Any, Any], subject: MemorySubject, scope: MemoryScope
    ) -> History:
        """Return every save, confirmation and forget of a concept, oldest first.

        Raises:
            StorageError: The store could not be read.
        """
        return self._portal.call(self._wrapped.history, concept, subject, scope)

    def version(self, subject: MemorySubject, scope: MemoryScope) -> str:
        """Return a string that changes whenever the result of `load_all` may have changed."""
        return self._portal.call(self._wrapped.version, subject, scope)
