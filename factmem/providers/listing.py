"""ListingStore: a store that lists its places without reading them, some at a time."""

from collections.abc import Iterable
from typing import Protocol, runtime_checkable

from factmem.models.places import MemoryScope, MemorySubject, Place

__all__ = ["ListingStore"]


@runtime_checkable
class ListingStore(Protocol):
    """A `FactStore` with too many places to read all of them for a list; factmem's own are ones.

    `places` counts the facts of each place, and so reads it. This lists names alone.

        after = None
        while page := await store.list_places(after=after, limit=1000):
            ...
            after = page[-1]
    """

    async def list_places(
        self,
        *,
        subjects: Iterable[MemorySubject] | None = None,
        scopes: Iterable[MemoryScope] | None = None,
        after: Place | None = None,
        limit: int | None = None,
    ) -> list[Place]:
        """Return the places that hold anything, in an order that is the store's own.

        A place that exists during all of a listing by pages is in one page. One that comes or
        goes meanwhile may be in one or in none. Subjects have no description.

        Args:
            subjects: Only these.
            scopes: Only these.
            after: The last place of the page before. It need not be there any more.
            limit: The most places to return; None for all.

        Raises:
            UnboundSubjectError: A subject is per entity and names none.
            TypeError: An argument is of the wrong kind.
            ValueError: `limit` is less than 1.
            StorageError: The store refused.
        """
        ...
