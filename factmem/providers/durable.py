"""DurableStore: a `FactStore` whose facts outlive its processes."""

from abc import abstractmethod
from datetime import timedelta

from factmem.models.places import MemoryScope, MemorySubject
from factmem.providers.base import FactStore
from factmem.providers.provider_keys import ProviderKeys

__all__ = ["DurableStore"]


class DurableStore(FactStore):
    """A store with compaction and anchors, and keys if it is encrypted.

    The suites in `factmem.testing.durable` test it.
    """

    @abstractmethod
    async def compact(
        self, subject: MemorySubject, scope: MemoryScope, *, keep_history: timedelta = timedelta(0)
    ) -> int:
        """Remove older history of a place, and return how many bytes were freed."""

    @abstractmethod
    async def anchor(self) -> str:
        """Return a string from which `verify` detects that the store was rolled back."""

    @abstractmethod
    async def verify(self, anchor: str | None = None) -> None:
        """Raise unless every place is readable and has come at least as far as the anchor says."""

    @property
    @abstractmethod
    def keys(self) -> ProviderKeys:
        """The keys of an encrypted store."""
