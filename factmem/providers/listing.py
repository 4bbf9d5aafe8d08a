"""ListingStore: a store that lists its places in pages, without reading them."""

from collections.abc import Iterable
from typing import Protocol, runtime_checkable

from factmem.models.places import MemoryScope, MemorySubject, Place

__all__ = ["ListingStore"]


@runtime_checkable
class ListingStore(Protocol):
    """A `FactStore` that lists its places without reading them. factmem's stores implement it.

    `FactStore.places` counts the facts of each place and so has to read it. This lists only names.

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
        """Return the places that are not empty, in the store's own order.

        A place that exists for the whole time of a listing is in exactly one page. A place that is
        created or erased meanwhile is in one page or in none. Subjects have no description.

        Args:
            subjects: Only places of these subjects; all by default.
            scopes: Only places in these scopes; all by default.
            after: The last place of the page before. It need not exist any more.
            limit: The maximum number of places to return; None for all.

        Raises:
            UnboundSubjectError: A subject is per entity and has no entity.
            TypeError: An argument is of the wrong type.
            ValueError: `limit` is less than 1.
            StorageError: The store failed.
        """
        ...
