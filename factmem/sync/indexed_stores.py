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

        Takes microseconds if nothing changed. Versions of different instances are not comparable.
        None means that the version is unknown.
        """
        return self._portal.call(self._wrapped.version, subject, scope)

    def read_index(self, subject: MemorySubject, scope: MemoryScope) -> bytes | None:
        """Return the index last written for a place; None if there is no complete one.

        Raises:
            StorageError: The store failed.
        """
        return self._portal.call(self._wrapped.read_index, subject, scope)

    def write_index(
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
        """Record statements in one place, all or none, in one durable write.

        A fact never replaces a value that was said later, and never restores a value whose
        retraction was said later. A retraction never ends a value that was said later. Such late
        statements are recorded only in the history. If times are equal, the order of recording
        decides. A time after the store's clock counts as now. Values saved with `save` count as
        said at their `timestamp`.

        Args:
            facts: The facts; the `timestamp` of each is the time it was said.
            subject: The subject of the facts.
            scope: The scope of the facts.
            retracted: Values that are no longer true.
            since: The moment before the chat was read. Nothing is recorded if any process has
                erased or purged the place since then. A place that did not exist at that moment
                counts as erased if any place was.

        Raises:
            ValueError: A value would change in a round trip through JSON. Nothing was recorded.
            PlaceFullError: The facts exceed the limit of the place. Nothing was recorded.
            StorageError: The store failed. Nothing was acknowledged.
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
        return self._portal.call(
            self._wrapped.list_places, subjects=subjects, scopes=scopes, after=after, limit=limit
        )
