"""Stores in local files without await.

Written by tests/sync/generate.py: change the async class.
"""

from collections.abc import Iterable
from pathlib import Path

from factmem.providers.local_file import LocalFileMemoryProvider, SalvagedStore
from factmem.providers.results import ErasureReceipt
from factmem.sync._sql_stores import SqlStoreSync

__all__ = ["LocalStoreSync"]


class LocalStoreSync(SqlStoreSync[LocalFileMemoryProvider]):
    """A `LocalFileMemoryProvider` for code that does not use `await`.

        with LocalStoreSync(LocalFileMemoryProvider("facts")) as store:
            store.save(fact, subject, scope)

    Each method is that of `LocalFileMemoryProvider` with its name, which says more.
    """

    def backup(self, folder: str | Path) -> str:
        """Copy the store into a new folder while others use it, and return an anchor of the copy.

        Raises:
            ValueError: The folder exists, or nothing was saved in the store yet.
            StorageError: The copy could not be written.
        """
        return self._portal.call(self._wrapped.backup, folder)

    def restore(
        self,
        backup: str | Path,
        *,
        anchor: str | None = None,
        erased: Iterable[ErasureReceipt] = (),
    ) -> int:
        """Replace the store by a backup, without the places that were erased since.

        Raises:
            ValueError: There is no backup in the folder, or the store is another one.
            StoreBusyError: Another process or instance has the store open. Nothing was changed.
            TamperedError: The backup is older than its anchor, or was changed.
            StorageError: The backup, or this store, is damaged. Nothing was changed.
        """
        return self._portal.call(self._wrapped.restore, backup, anchor=anchor, erased=erased)

    def salvage(self, folder: str | Path) -> SalvagedStore:
        """Save what can be read of a damaged store into a store in a new folder.

        Raises:
            ValueError: The folder exists.
            StorageError: Not even the row of the store can be read.
        """
        return self._portal.call(self._wrapped.salvage, folder)
