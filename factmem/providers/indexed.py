"""What a store may offer besides, so that a recall after the first one reads no whole place.

factmem's own providers do. A store without it is read anew for each recall, and works as well.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from factmem.models.facts import AnyFact, Concept
from factmem.models.places import MemoryScope, MemorySubject

__all__ = ["FollowedStore", "IndexedStore", "PlaceChanges"]


@runtime_checkable
class IndexedStore(Protocol):
    """What a store may offer besides, so that recall does not begin anew each time.

    An index is derived from the facts of a place, and opaque to the store: it can be lost at any
    time. A store that is encrypted encrypts it, `erase` and a purging `forget` remove it.
    """

    async def version(self, subject: MemorySubject, scope: MemoryScope) -> str | None:
        """Return a string that differs whenever `load_all` may give something else than before.

        In microseconds where nothing was changed. It means something to this instance only. None
        says that the store cannot tell.
        """
        ...

    async def read_index(
        self, subject: MemorySubject, scope: MemoryScope
    ) -> bytes | memoryview | None:
        """Return the index that was last written for a place; None without a whole one.

        A `memoryview` may be of a file that is mapped into memory, so that the operating system
        reads what is used of a large one, and lets go of it. It stays readable, whatever is written
        or removed later.

        Raises:
            StorageError: The store refused.
        """
        ...

    async def write_index(
        self, subject: MemorySubject, scope: MemoryScope, index: bytes, *, version: str
    ) -> bool:
        """Keep an index of a place, in place of the one before, unless the place has changed.

        Whoever reads while it is written, in another process too, gets one or the other whole. It
        is not made durable: a power cut may take it.

        Args:
            subject: The subject of the place.
            scope: Where its facts are visible.
            index: What to keep.
            version: What `version` gave before the facts were read that the index is made of.
                When it would give something else now, nothing is written: a value that was purged
                meanwhile must not come back.

        Returns:
            Whether it was written.

        Raises:
            StorageError: The store refused, or was busy.
        """
        ...


@dataclass(frozen=True, slots=True)
class PlaceChanges:
    """What is current in a place of the keywords that something has changed since a version."""

    version: str
    """The place's version now: what to ask from next time."""
    facts: Mapping[str, Sequence[AnyFact | str]]
    """By keyword, in the order of `load_all`. A fact that is as it was, in every field, may be given
    by its id alone. Nothing where nothing is current any more; other keywords are as they were."""


@runtime_checkable
class FollowedStore(Protocol):
    """What an `IndexedStore` may offer besides, so that a recall after a save reads no whole place."""

    async def changes(
        self,
        subject: MemorySubject,
        scope: MemoryScope,
        *,
        since: str,
        concepts: Iterable[Concept[Any, Any]] = (),
    ) -> PlaceChanges | None:
        """Return what has changed since a version; None where that is unknown.

        Putting it in the place of what `load_all` gave at that version must give what `load_all`
        gives now, with the same concepts: forgotten, expired and confirmed facts are changes too.
        Then the place need not be read; after None it is.

        Args:
            subject: The subject of the place.
            scope: Where its facts are visible.
            since: What `version` gave before the place was read, or the last changes.
            concepts: The concepts whose value types are known; the same at each call.

        Raises:
            StoredFactError: A changed value does not fit the type of a concept in `concepts`.
            StorageError: The store refused.
        """
        ...
