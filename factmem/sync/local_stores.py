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
        """Copy the store into a new folder while others use it; return an anchor of the copy."""
        return self._portal.call(self._wrapped.backup, folder)

    def restore(
        self,
        backup: str | Path,
        *,
        anchor: str | None = None,
        erased: Iterable[ErasureReceipt] = (),
    ) -> int:
        """Replace the store by a backup, without the places that were erased since."""
        return self._portal.call(self._wrapped.restore, backup, anchor=anchor, erased=erased)

    def salvage(self, folder: str | Path) -> SalvagedStore:
        """Save what can be read of a damaged store into a store in a new folder."""
        return self._portal.call(self._wrapped.salvage, folder)
