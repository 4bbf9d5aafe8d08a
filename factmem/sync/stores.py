"""Fact stores without await: any FactStore, local files, keys.

Written by tests/sync/generate.py: change the async class.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from types import EllipsisType
from typing import Any

from typing_extensions import TypeVar

from factmem._arguments import expect_methods
from factmem.ledger.entries import Amendment, Edit, Entry
from factmem.ledger.history import History, HistoryEntry
from factmem.ledger.replay import CurrentChange
from factmem.models.facts import AnyFact, Concept, L
from factmem.models.places import MemoryScope, MemorySubject, Place
from factmem.models.sources import FactSource
from factmem.models.values import JsonValue
from factmem.providers.base import AgentMemoryProvider, ErasureReceipt, FactStore, PlaceInfo, Purge
from factmem.providers.in_memory import InMemoryProvider
from factmem.providers.indexed import PlaceChanges
from factmem.providers.learning import Learned, Moment, RetractedFact
from factmem.providers.local_file import LocalFileMemoryProvider, ProviderKeys
from factmem.providers.no_memory import NoMemory
from factmem.providers.postgres import PostgresMemoryProvider
from factmem.providers.shredding import ShredReceipt
from factmem.storage.base import SalvagedJournal
from factmem.storage.encryption.aes256gcm import Encryption
from factmem.storage.encryption.key import Key
from factmem.sync._wrapping import Wraps, WrapsContext
from factmem.sync.portal import SHARED_PORTAL, Portal

__all__ = [
    "IndexedStoreSync",
    "KeysSync",
    "LocalStoreSync",
    "PostgresStoreSync",
    "ProviderSync",
    "StoreSync",
]
S = TypeVar("S", bound=FactStore, default=FactStore)
Indexed = InMemoryProvider | LocalFileMemoryProvider | NoMemory | PostgresMemoryProvider
I = TypeVar("I", bound=Indexed)
T = TypeVar("T")


class KeysSync(Wraps[ProviderKeys]):
    """The keys of an encrypted store for code that does not use `await`."""

    def ids(self) -> list[str]:
        """Return the ids of the key slots; an id reveals nothing about its key."""
        return self._portal.call(self._wrapped.ids)

    def add(self, key: Key | str | Encryption) -> None:
        """Let another key open the store."""
        return self._portal.call(self._wrapped.add, key)

    def remove(self, key: Key | str | Encryption) -> None:
        """Close the store to a key.

        Whoever has that key and an old copy of `factmem.json` can still read the files as they
        are; `rotate` shuts them out.

        Raises:
            WrongKeyError: It does not open the store.
            ValueError: It is the only one.
        """
        return self._portal.call(self._wrapped.remove, key)

    def rotate(
        self,
        key: Key | str | Encryption,
        *,
        rewrite: bool = True,
        progress: Callable[[int, int], None] | None = None,
    ) -> None:
        """Give the store a new key and new data keys, and rewrite every journal with them.

        All other keys stop at once; this provider goes on with the new one, others need it too.
        Keep the new key safe before you call, and the old one until the call returns; after a
        crash or an error call it again. With `rewrite=False` only the wrapping of the data keys
        changes, at once: right for a changed passphrase, not for a key that leaked. `progress` is
        called in a worker thread after each journal, with how many are done and how many there are.
        """
        return self._portal.call(self._wrapped.rotate, key, rewrite=rewrite, progress=progress)


class ProviderSync(Wraps[AgentMemoryProvider]):
    """A provider for code that does not use `await`."""

    def save(self, fact: AnyFact, subject: MemorySubject, scope: MemoryScope) -> None:
        """Keep `fact` as the newest of its concept.

        A SINGLE fact replaces what its concept held in this place, a MULTIPLE one adds the values
        that are not there yet; a value that is current already is confirmed, not doubled. Once
        this returns the fact is as durable as the provider promises. If it raises, the fact is not
        acknowledged and is kept whole or not at all; a save that is cancelled before its write
        has begun is not kept, later it is.

        Raises:
            ValueError: A value would not come back equal from its JSON. Nothing was kept.
            StorageError: The store refused. Nothing was acknowledged.
        """
        return self._portal.call(self._wrapped.save, fact, subject, scope)

    def load(self, concept: Concept[Any, L], subject: MemorySubject, scope: MemoryScope) -> list[L]:
        """Return the current facts of a concept; empty if it has none.

        A SINGLE concept gives at most one `SingleFact`, a MULTIPLE one a `MultipleFacts` per save
        that still holds values, oldest first.

        Raises:
            StoredFactError: A stored value does not fit the concept's `value_type`.
            StorageError: The store could not be read.
        """
        return self._portal.call(self._wrapped.load, concept, subject, scope)

    def load_all(self, subject: MemorySubject, scope: MemoryScope) -> list[AnyFact]:
        """Return all current facts, each concept in the type it was last saved with.

        Raises:
            StorageError: The store could not be read.
        """
        return self._portal.call(self._wrapped.load_all, subject, scope)

    def load_by_description(
        self, description: str, subject: MemorySubject, scope: MemoryScope
    ) -> list[AnyFact]:
        """Return the current facts that a few words describe.

        A fact matches when its concept's description holds the phrase, or when every word of it
        is in the keyword, the description or the values; case and width (NFKC) are ignored.

        Raises:
            StorageError: The store could not be read.
        """
        return self._portal.call(self._wrapped.load_by_description, description, subject, scope)


class StoreSync(WrapsContext[S]):
    """A `FactStore` for code that does not use `await`.

        with StoreSync(InMemoryProvider()) as store:
            store.save(fact, subject, scope)

    Args:
        store: The store to call. Leaving the `with` block closes it.
        portal: Where it runs; one loop that all twins share by default.
    """

    def __init__(self, store: S, portal: Portal = SHARED_PORTAL) -> None:
        example = "StoreSync(InMemoryProvider())"
        needed = ("save", "load", "history", "forget", "aclose")
        super().__init__(expect_methods(store, needed, "store", example), portal)

    def save_many(
        self, facts: Iterable[AnyFact], subject: MemorySubject, scope: MemoryScope
    ) -> None:
        """Keep several facts in one place at once, all or none, in one durable write.

        No reader, no crash and no failure ever shows a part of them. Facts for several places are
        several calls. No facts, nothing happens. Raises as `save` does.
        """
        return self._portal.call(self._wrapped.save_many, facts, subject, scope)

    def load(
        self,
        concept: Concept[Any, L],
        subject: MemorySubject,
        scope: MemoryScope,
        *,
        as_of: datetime | None = None,
    ) -> list[L]:
        """Return the facts of a concept that are current, or were at `as_of`.

        Raises:
            StoredFactError: A stored value does not fit the concept's `value_type`.
            StorageError: The store could not be read.
            ValueError: `as_of` is naive.
        """
        return self._portal.call(self._wrapped.load, concept, subject, scope, as_of=as_of)

    def load_all(
        self,
        subject: MemorySubject,
        scope: MemoryScope,
        *,
        concepts: Iterable[Concept[Any, Any]] = (),
        as_of: datetime | None = None,
    ) -> list[AnyFact]:
        """Return all facts that are current, or were at `as_of`.

        A store does not know value types: values are plain JSON, but for the concepts named in
        `concepts`, which come as `load` gives them.

        Raises:
            StoredFactError: A stored value does not fit the type of a concept in `concepts`.
            StorageError: The store could not be read.
            ValueError: `as_of` is naive.
        """
        return self._portal.call(
            self._wrapped.load_all, subject, scope, concepts=concepts, as_of=as_of
        )

    def history(
        self, concept: Concept[Any, Any], subject: MemorySubject, scope: MemoryScope
    ) -> list[HistoryEntry]:
        """Return every save, confirmation and forgetting of a concept, oldest first.

        Raises:
            StoredFactError: A value of the history does not fit the concept's `value_type`.
            StorageError: The store could not be read.
        """
        return self._portal.call(self._wrapped.history, concept, subject, scope)

    def forget(
        self,
        subject: MemorySubject,
        scope: MemoryScope,
        *,
        concept: Concept[T, Any] | None = None,
        value: T | EllipsisType = ...,
        fact_id: str | None = None,
        source: FactSource | None = None,
        older_than: datetime | timedelta | None = None,
        concepts: Iterable[Concept[Any, Any]] | None = None,
        fact_ids: Iterable[str] | None = None,
        metadata: Mapping[str, JsonValue] | None = None,
        purge: Purge = False,
    ) -> int:
        """Forget the current values that meet all given conditions, and return their number.

        They disappear from every read at once, and do not come back by themselves. History still
        shows the earlier saves, and that a value was forgotten.

        Args:
            subject: The subject of the facts.
            scope: Where they are visible.
            concept: Values of this concept's keyword.
            value: This value of `concept`.
            fact_id: Values saved as this fact.
            source: Values whose sources are all covered by `source`: each of its fields
                that is not None must agree.
            older_than: Values last confirmed before this moment, or longer ago than this.
            concepts: Values of these concepts' keywords.
            fact_ids: Values saved as one of these facts.
            metadata: Values whose metadata has all of these keys, with equal values.
            purge: Also rewrite the storage without the values, in history too. Facts of other
                values may quote a message that contains one: the result names them in `quoting`,
                and `purge="quotes"` takes the values out of their quotes. Keywords, descriptions
                and metadata stay as they are: `mentioning` names the facts where one contains a
                value.

        Returns:
            How many values were current, as a `Forgotten` where the store reports what is left.

        Raises:
            ValueError: No condition was given (`erase` empties a place), `value` came without
                `concept`, or `older_than` is naive.
            StorageError: The store refused.
        """
        return self._portal.call(
            self._wrapped.forget,
            subject,
            scope,
            concept=concept,
            value=value,
            fact_id=fact_id,
            source=source,
            older_than=older_than,
            concepts=concepts,
            fact_ids=fact_ids,
            metadata=metadata,
            purge=purge,
        )

    def erase(
        self, subject: MemorySubject, scope: MemoryScope, *, only_empty: bool = False
    ) -> ErasureReceipt:
        """Remove a place with its whole history, physically, and return a receipt.

        Args:
            subject: The subject of the place.
            scope: The scope of the place.
            only_empty: Leave a place that holds any entry as it is; the receipt is that of a place
                that does not exist. Nothing is saved between the look and the erasure.

        Raises:
            StorageError: The store refused.
        """
        return self._portal.call(self._wrapped.erase, subject, scope, only_empty=only_empty)

    def places(
        self,
        *,
        subjects: Iterable[MemorySubject] | None = None,
        scopes: Iterable[MemoryScope] | None = None,
    ) -> list[PlaceInfo]:
        """Return the places that hold anything, ordered by identity; reads every one of them.

        Reads only the requested places, not those of other customers. Names are compared as
        everywhere: a subject or a scope whose name only looks alike is another one, and an empty
        list asks for nothing.

        Args:
            subjects: Only what concerns one of these; all by default.
            scopes: Only places visible in one of these; all by default.

        Raises:
            UnboundSubjectError: One of `subjects` is per entity and names none.
            TypeError: They are no lists of subjects and scopes.
            StorageError: The store could not be read.
        """
        return self._portal.call(self._wrapped.places, subjects=subjects, scopes=scopes)

    def entries(self, subject: MemorySubject, scope: MemoryScope) -> list[Entry]:
        """Return the ledger of a place as plain JSON, oldest first: what `replay` takes.

        Raises:
            StorageError: The store could not be read.
        """
        return self._portal.call(self._wrapped.entries, subject, scope)

    def replay(self, entries: Sequence[Entry], subject: MemorySubject, scope: MemoryScope) -> int:
        """Append entries recorded elsewhere, with their own times, and return how many were new.

        An entry is new unless all of its facts, by id, are in the place already; so the same
        bundle can be imported twice. On an error none of them is kept; after a crash the first ones
        may be, and the same call adds the rest.

        Raises:
            ValueError: No store could have recorded an entry.
            StorageError: The store refused.
        """
        return self._portal.call(self._wrapped.replay, entries, subject, scope)

    def amend(self, change: Amendment, subject: MemorySubject, scope: MemoryScope) -> int:
        """Append what `change` makes of the ledger of a place, and return how many entries that is.

        No other write to the place happens in between: what `change` sees is what its entries follow.
        It is for changes that depend on current values, such as one value taking the place of
        another. Each entry is kept whole or not at all.

        Args:
            change: Takes the entries, oldest first, and the time at which its own are recorded, as
                a stamp. It may run in a worker thread, with the store held: it must be quick, and
                call nothing of the store. What it raises is raised, and nothing is kept.
            subject: The subject of the place.
            scope: Where its facts are visible.

        Raises:
            ValueError: No store could have recorded an entry that it returned.
            StorageError: The store refused.
        """
        return self._portal.call(self._wrapped.amend, change, subject, scope)

    def amend_current(
        self, change: CurrentChange, subject: MemorySubject, scope: MemoryScope
    ) -> int:
        """Append an entry that `change` makes from the current facts; `amend` without history.

        A store keeps current facts in memory, so the cost does not grow with the history. Nothing
        else is written to the place in between.

        Args:
            change: Takes the ledger of the place and the time as a stamp, and returns an entry with
                `facts`, `forget` or both, or None for no change. The rules for `change` of `amend`
                hold. It may be called again.
            subject: The subject of the place.
            scope: The scope of the place.

        Returns:
            The number of entries: 1 or 0.

        Raises:
            ValueError: A store could not have recorded the entry.
            StorageError: The store failed.
        """
        return self._portal.call(self._wrapped.amend_current, change, subject, scope)

    def rewrite(self, edit: Edit, subject: MemorySubject, scope: MemoryScope) -> int:
        """Rewrite the ledger of a place, history included; return how many entries changed.

        Use it to remove old history or to rename a concept, which appending cannot do. No other
        write happens in between. The result is stored completely or not at all, and no copy of
        removed entries stays. Times cannot change.

        Args:
            edit: Takes the entries, oldest first, and returns for each one the entry as it was,
                another one, or None to remove it. The rules for `change` of `amend` hold.
            subject: The subject of the place.
            scope: The scope of the place.

        Raises:
            ValueError: A store could not have recorded the entries that it returned.
            StorageError: The store refused.
        """
        return self._portal.call(self._wrapped.rewrite, edit, subject, scope)

    def save(self, fact: AnyFact, subject: MemorySubject, scope: MemoryScope) -> None:
        """Keep `fact` as the newest of its concept.

        A SINGLE fact replaces what its concept held in this place, a MULTIPLE one adds the values
        that are not there yet; a value that is current already is confirmed, not doubled. Once
        this returns the fact is as durable as the provider promises. If it raises, the fact is not
        acknowledged and is kept whole or not at all; a save that is cancelled before its write
        has begun is not kept, later it is.

        Raises:
            ValueError: A value would not come back equal from its JSON. Nothing was kept.
            StorageError: The store refused. Nothing was acknowledged.
        """
        return self._portal.call(self._wrapped.save, fact, subject, scope)

    def load_by_description(
        self, description: str, subject: MemorySubject, scope: MemoryScope
    ) -> list[AnyFact]:
        """Return the current facts that a few words describe.

        A fact matches when its concept's description holds the phrase, or when every word of it
        is in the keyword, the description or the values; case and width (NFKC) are ignored.

        Raises:
            StorageError: The store could not be read.
        """
        return self._portal.call(self._wrapped.load_by_description, description, subject, scope)


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


class PostgresStoreSync(IndexedStoreSync[PostgresMemoryProvider]):
    """A `PostgresMemoryProvider` for code that does not use `await`.

    with PostgresStoreSync(PostgresMemoryProvider(dsn)) as store:
        store.save(fact, subject, scope)
    """

    def migrate(self) -> None:
        """Create the tables, or bring them to the version of this release.

        The first write does it too. Call it where the role that creates tables is not the role of
        the application: in a deployment step. With `role` it also grants that role what it needs.

        Raises:
            StorageError: The tables have a later version than this release knows.
        """
        return self._portal.call(self._wrapped.migrate)

    def compact(
        self, subject: MemorySubject, scope: MemoryScope, *, keep_history: timedelta = timedelta(0)
    ) -> int:
        """Rewrite a place without older history, and return how many bytes of entries that freed.

        Current values do not change; `history` and `as_of` reach back as far as `keep_history`.
        """
        return self._portal.call(self._wrapped.compact, subject, scope, keep_history=keep_history)

    def anchor(self) -> str:
        """Return how far every place has come, as a string to be kept outside the database.

        A database cannot reveal that all of it was put back to an older copy; `verify` detects it
        by an anchor. Places are listed and their entries not read; an anchor stays good for ever.
        """
        return self._portal.call(self._wrapped.anchor)

    def verify(self, anchor: str) -> None:
        """Raise unless every place has come at least as far as the anchor says.

        In an encrypted store it also reads every entry of every place.

        Raises:
            TamperedError: The store, or a place, is gone, was changed or was put back to an older
                copy.
            CorruptJournalError: The same, in a store that is not encrypted.
            ValueError: The string is no anchor.
        """
        return self._portal.call(self._wrapped.verify, anchor)

    def shred(self) -> ShredReceipt:
        """Destroy the keys of everything that was erased or purged before now.

        The store must be opened with a `RenewableEncryption`, such as `KeyFile(path)`, whose keys
        are outside the database. The data keys of all places are wrapped under a new key, and the
        old key is destroyed: nothing opens what older copies of the database hold of erased places,
        in its log, on standbys, in backups. What lives is not rewritten. Others may use the store
        meanwhile. Nothing is final before it returns; after a crash call it again.

        Raises:
            ValueError: The keys cannot be destroyed, or the store has other keys besides.
        """
        return self._portal.call(self._wrapped.shred)

    @property
    def keys(self) -> KeysSync:
        """The keys of an encrypted store.

        `rotate` rewrites each place under a new data key, in a transaction of its own, while
        others use the store. They need the new key from the moment it is called.

        Raises:
            ValueError: The store was opened without `encryption`.
        """
        return KeysSync(self._wrapped.keys, self._portal)

    def history(
        self, concept: Concept[Any, Any], subject: MemorySubject, scope: MemoryScope
    ) -> History:
        """Return every save, confirmation and forgetting of a concept, oldest first.

        Raises:
            StoredFactError: A value of the history does not fit the concept's `value_type`.
            StorageError: The store could not be read.
        """
        return self._portal.call(self._wrapped.history, concept, subject, scope)

    def version(self, subject: MemorySubject, scope: MemoryScope) -> str:
        """Return a string that changes whenever the result of `load_all` may have changed.

        Takes microseconds if nothing changed. Versions of different instances cannot be compared.
        None means that the store does not know.
        """
        return self._portal.call(self._wrapped.version, subject, scope)


class LocalStoreSync(IndexedStoreSync[LocalFileMemoryProvider]):
    """A `LocalFileMemoryProvider` for code that does not use `await`.

    with LocalStoreSync(LocalFileMemoryProvider("facts")) as store:
        store.save(fact, subject, scope)
    """

    def compact(
        self, subject: MemorySubject, scope: MemoryScope, *, keep_history: timedelta = timedelta(0)
    ) -> int:
        """Rewrite a place's journal without older history, and return how many bytes it freed.

        Current values do not change; `history` and `as_of` reach back as far as `keep_history`.
        """
        return self._portal.call(self._wrapped.compact, subject, scope, keep_history=keep_history)

    def salvage(self, subject: MemorySubject, scope: MemoryScope) -> SalvagedJournal:
        """Go on with what can be read of a damaged place, and keep a copy of its file.

        Raises:
            ValueError: There is no file of that place.
        """
        return self._portal.call(self._wrapped.salvage, subject, scope)

    def anchor(self, *, progress: Callable[[int, int], None] | None = None) -> str:
        """Return how far every place has come, as a string to be kept elsewhere.

        A folder cannot reveal that all of it was put back to an older copy; `verify` detects it by
        an anchor. Reads every file; an anchor stays good for ever. `progress` is called in a worker
        thread after each place, with how many are done and how many there are.
        """
        return self._portal.call(self._wrapped.anchor, progress=progress)

    def take_torn_writes(self) -> int:
        """Return how many unfinished writes were found since this was last called.

        A crash leaves them; they were acknowledged to no caller. Events of a memory report them as
        `torn_writes`.
        """
        return self._wrapped.take_torn_writes()

    def verify(
        self, anchor: str, *, progress: Callable[[int, int], None] | None = None
    ) -> list[str]:
        """Raise unless every place has come at least as far as the anchor says.

        Reads all of every file. `progress` is called as `anchor` calls it.

        Returns:
            The paths of journals that end in a write that was never acknowledged; the next save
            sets its bytes aside. And of end marks that cannot be read, which may be deleted.

        Raises:
            TamperedError: The store, or a place, is gone or was put back to an older copy.
            CorruptJournalError: The same, in a store that is not encrypted.
            ValueError: The string is no anchor.
        """
        return self._portal.call(self._wrapped.verify, anchor, progress=progress)

    @property
    def keys(self) -> KeysSync:
        """The keys of an encrypted store.

        Raises:
            ValueError: The store is not encrypted.
        """
        return KeysSync(self._wrapped.keys, self._portal)

    def history(
        self, concept: Concept[Any, Any], subject: MemorySubject, scope: MemoryScope
    ) -> History:
        """Return every save, confirmation and forgetting of a concept, oldest first.

        Raises:
            StoredFactError: A value of the history does not fit the concept's `value_type`.
            StorageError: The store could not be read.
        """
        return self._portal.call(self._wrapped.history, concept, subject, scope)

    def version(self, subject: MemorySubject, scope: MemoryScope) -> str:
        """Return a string that changes whenever the result of `load_all` may have changed.

        Takes microseconds if nothing changed. Versions of different instances cannot be compared.
        None means that the store does not know.
        """
        return self._portal.call(self._wrapped.version, subject, scope)
