"""Fact stores with indexes without await.

Written by tests/sync/generate.py: change the async class.
"""

from collections.abc import Iterable
from typing import Any

from typing_extensions import TypeVar

from factmem.models.facts import AnyFact, Concept
from factmem.models.places import MemoryScope, MemorySubject, Place
from factmem.providers.in_memory import InMemoryProvider
from factmem.providers.indexed import PlaceChanges
from factmem.providers.learning import Learned, Moment, RetractedFact
from factmem.providers.local_file import LocalFileMemoryProvider
from factmem.providers.no_memory import NoMemory
from factmem.providers.postgres import PostgresMemoryProvider
from factmem.sync.stores import StoreSync

__all__ = ["IndexedStoreSync"]
Indexed = InMemoryProvider | LocalFileMemoryProvider | NoMemory | PostgresMemoryProvider
I = TypeVar("I", bound=Indexed)


class IndexedStoreSync(StoreSync[I]):
    """An `InMemoryProvider`, or another store with indexes, without `await`."""

    def version(self, subject: MemorySubject, scope: MemoryScope) -> str | None:
        """Return a string that changes whenever the result of `load_all` may have changed.

        Takes microseconds if nothing changed. Versions of different instances cannot be compared.
        None means that the store does not know.
        """
        return self._portal.call(self._wrapped.version, subject, scope)

    def read_index(self, subject: MemorySubject, scope: MemoryScope) -> bytes | memoryview | None:
        """Return the index last written for a place; None if there is no complete one.

        A `memoryview` may refer to a file mapped into memory, so that the operating system reads
        only the used parts of a large index. It stays readable after later writes and removals.

        Raises:
            StorageError: The store refused.
        """
        return self._portal.call(self._wrapped.read_index, subject, scope)

    def write_index(
        self, subject: MemorySubject, scope: MemoryScope, index: bytes, *, version: str
    ) -> bool:
        """Replace the index of a place, unless the place has changed.

        Concurrent readers, in other processes too, get the old or the new index, always complete.
        The write is not durable: a power cut may lose it.

        Args:
            subject: The subject of the place.
            scope: Where its facts are visible.
            index: The index.
            version: The result of `version` from before the indexed facts were read. If the place
                has another version now, nothing is written, so that a value purged meanwhile does
                not come back.

        Returns:
            Whether it was written.

        Raises:
            StorageError: The store refused, or was busy.
        """
        return self._portal.call(self._wrapped.write_index, subject, scope, index, version=version)

    def changes(
        self,
        subject: MemorySubject,
        scope: MemoryScope,
        *,
        since: str,
        concepts: Iterable[Concept[Any, Any]] = (),
    ) -> PlaceChanges | None:
        """Return the changes since a version; None if they are unknown.

        Applied to the result of `load_all` at that version, the changes must give its present
        result, with the same concepts: forgotten, expired and confirmed facts are changes too.
        After None the caller reads the whole place.

        Args:
            subject: The subject of the place.
            scope: Where its facts are visible.
            since: The result of `version` from before the place was read, or of the last changes.
            concepts: The concepts whose value types are known; the same at each call.

        Raises:
            StoredFactError: A changed value does not fit the type of a concept in `concepts`.
            StorageError: The store refused.
        """
        return self._portal.call(
            self._wrapped.changes, subject, scope, since=since, concepts=concepts
        )

    def moment(self, subject: MemorySubject, scope: MemoryScope) -> Moment:
        """Return the present moment of a place; see `learn`.

        Raises:
            StorageError: The store could not be read.
        """
        return self._portal.call(self._wrapped.moment, subject, scope)

    def learn(
        self,
        facts: Iterable[AnyFact],
        subject: MemorySubject,
        scope: MemoryScope,
        *,
        retracted: Iterable[RetractedFact] = (),
        since: Moment | None = None,
    ) -> Learned:
        """Record statements in one place at once, all or none, in one durable write.

        A fact never replaces a value that was said later, and never brings back a value whose
        retraction was said later; a retraction never ends a value that was said later. Such a
        statement goes into the history alone. Where times are equal, the order of recording
        decides. A time after the store's clock counts as now. Values that were saved with `save`
        count as said at their `timestamp`.

        Args:
            facts: The facts; the `timestamp` of each says when it was said.
            subject: Their subject.
            scope: Where they are visible.
            retracted: Values that are no longer true.
            since: The moment before the chat was read. Nothing is recorded where the place was
                erased or purged since then, by any process; a place that did not exist then counts
                as erased if any place was.

        Raises:
            ValueError: A value would not come back equal from its JSON. Nothing was recorded.
            PlaceFullError: The facts exceed the limit of the place. Nothing was recorded.
            StorageError: The store refused. Nothing was acknowledged.
        """
        return self._portal.call(
            self._wrapped.learn, facts, subject, scope, retracted=retracted, since=since
        )

    def list_places(
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
        return self._portal.call(
            self._wrapped.list_places, subjects=subjects, scopes=scopes, after=after, limit=limit
        )
