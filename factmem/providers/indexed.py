"""Optional store protocols that let a second recall read only what changed since the first.

factmem's own providers implement them. Without them every recall reads whole places.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from factmem.models.facts import AnyFact, Concept
from factmem.models.places import MemoryScope, MemorySubject

__all__ = ["FollowedStore", "IndexedStore", "PlaceChanges"]


@runtime_checkable
class IndexedStore(Protocol):
    """An optional protocol of a store that keeps an index beside each place.

    An index is derived from the facts of a place and opaque to the store. It may be lost at any
    time. An encrypted store encrypts it. `erase` and a purging `forget` remove it.
    """

    async def version(self, subject: MemorySubject, scope: MemoryScope) -> str | None:
        """Return a string that changes whenever the result of `load_all` may have changed.

        Takes microseconds if nothing changed. Versions of different instances are not comparable.
        None means that the version is unknown.
        """
        ...

    async def read_index(self, subject: MemorySubject, scope: MemoryScope) -> bytes | None:
        """Return the index last written for a place; None if there is no complete one.

        Raises:
            StorageError: The store failed.
        """
        ...

    async def write_index(
        self, subject: MemorySubject, scope: MemoryScope, index: bytes, *, version: str
    ) -> bool:
        """Replace the index of a place, unless the place has changed.

        Concurrent readers, in other processes too, get the complete old or the complete new index.
        The write is not durable: a power failure may lose it.

        Args:
            subject: The subject of the place.
            scope: The scope of the place.
            index: The index.
            version: The result of `version` from before the indexed facts were read. If the place
                has another version now, nothing is written, so that a value purged meanwhile is not
                stored again.

        Returns:
            Whether it was written.

        Raises:
            StorageError: The store failed or was busy.
        """
        ...


@dataclass(frozen=True, slots=True)
class PlaceChanges:
    """The current facts of the keywords that have changed since a version."""

    version: str
    """The present version of the place, for the next call."""
    facts: Mapping[str, Sequence[AnyFact | str]]
    """The current facts of each changed keyword, in the order of `load_all`. A fact that is
    unchanged in every field may be represented by its id. A keyword without current facts has an
    empty sequence; absent keywords are unchanged."""


@runtime_checkable
class FollowedStore(Protocol):
    """An `IndexedStore` that reports changes, so that a recall after a save reads only them."""

    async def changes(
        self,
        subject: MemorySubject,
        scope: MemoryScope,
        *,
        since: str,
        concepts: Iterable[Concept[Any, Any]] = (),
    ) -> PlaceChanges | None:
        """Return the changes since a version; None if they are unknown.

        The changes, applied to the result of `load_all` at that version, must give its present
        result with the same concepts. Forgotten, expired and confirmed facts are changes too. After
        None the caller reads the whole place.

        Args:
            subject: The subject of the place.
            scope: The scope of the place.
            since: The result of `version` from before the place was read, or the version of the
                last changes.
            concepts: The concepts whose value types are known; the same at each call.

        Raises:
            StoredFactError: A changed value does not fit the type of a concept in `concepts`.
            StorageError: The store failed.
        """
        ...
