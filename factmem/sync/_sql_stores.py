"""What stores in local files and in PostgreSQL have in common, without await.

Written by tests/sync/generate.py: change the async class.
"""

from collections.abc import Callable
from datetime import timedelta

from typing_extensions import TypeVar

from factmem.encryption.aes256gcm import Encryption
from factmem.encryption.key import Key
from factmem.models.places import MemoryScope, MemorySubject
from factmem.providers._sql.store import SqlStore
from factmem.providers.results import StoreStatus
from factmem.providers.storages import ProviderKeys
from factmem.sync._wrapping import Wraps
from factmem.sync.stores import StoreSync

__all__ = ["SqlStoreSync"]
D = TypeVar("D", bound=SqlStore)


class KeysSync(Wraps[ProviderKeys]):
    """The keys of an encrypted store for code that does not use `await`.

    Each method is that of `ProviderKeys` with its name, which says more.
    """

    def ids(self) -> list[str]:
        """Return the ids of the key slots; an id reveals nothing about its key."""
        return self._portal.call(self._wrapped.ids)

    def add(self, key: Key | str | Encryption) -> None:
        """Add a key that opens the store."""
        return self._portal.call(self._wrapped.add, key)

    def remove(self, key: Key | str | Encryption) -> None:
        """Remove a key, so that it no longer opens the store."""
        return self._portal.call(self._wrapped.remove, key)

    def rotate(
        self,
        key: Key | str | Encryption,
        *,
        rewrite: bool = True,
        progress: Callable[[int, int], None] | None = None,
    ) -> None:
        """Give the store a new key and new data keys, and rewrite every place with them."""
        return self._portal.call(self._wrapped.rotate, key, rewrite=rewrite, progress=progress)


class SqlStoreSync(StoreSync[D]):
    """A store in a database for code that does not use `await`.

    Each method is that of `SqlStore` with its name, which says more.
    """

    def create(self) -> None:
        """Create the store if it does not exist, also with `must_exist`."""
        return self._portal.call(self._wrapped.create)

    def ping(self) -> StoreStatus:
        """Raise unless the store can be reached, opened with this key, read and written."""
        return self._portal.call(self._wrapped.ping)

    def compact(
        self, subject: MemorySubject, scope: MemoryScope, *, keep_history: timedelta = timedelta(0)
    ) -> int:
        """Rewrite a place without older history, and return the number of freed bytes."""
        return self._portal.call(self._wrapped.compact, subject, scope, keep_history=keep_history)

    def anchor(self, *, progress: Callable[[int, int], None] | None = None) -> str:
        """Return an anchor: a string with the end of every place, to be stored elsewhere."""
        return self._portal.call(self._wrapped.anchor, progress=progress)

    def verify(
        self, anchor: str | None = None, *, progress: Callable[[int, int], None] | None = None
    ) -> None:
        """Raise unless every place is readable and ends no earlier than in the anchor."""
        return self._portal.call(self._wrapped.verify, anchor, progress=progress)

    @property
    def keys(self) -> KeysSync:
        """The keys of an encrypted store."""
        return KeysSync(self._wrapped.keys, self._portal)
