"""The base class of stores, and the protocol of a small provider.

`AgentMemoryProvider` is structural: a backend of your own needs no base class. `FactStore` is the
class of complete stores; a subclass writes eight methods and inherits the others. A memory wraps a
provider that is no `FactStore` into one, with `as_store`. The suites in `factmem.testing` are the
contract of both.
"""

from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from factmem.errors import StorageError
from factmem.models.boundary import UNBOUNDED
from factmem.models.clock import stamp
from factmem.models.concepts import ConceptDefinition
from factmem.models.facts import AnyFact, Concept
from factmem.models.places import Identity, MemoryScope, MemorySubject, Place
from factmem.providers._place_lists import checked_page, page_of
from factmem.providers._provider import AgentMemoryProvider
from factmem.providers._store_core import StoreCore
from factmem.providers.conversations import ConversationStore
from factmem.providers.erasures import moment_of, unless_erased
from factmem.providers.results import (
    ErasureReceipt,
    Learned,
    Moment,
    PlaceChanges,
    RetractedFact,
    ShredReceipt,
)
from factmem.providers.searched import Describe, SearchAnswer, SearchQuestion, TextVectors

if TYPE_CHECKING:
    from factmem.ledger.changes import FactChange

__all__ = ["AgentMemoryProvider", "FactStore"]


class FactStore(StoreCore):
    """A provider with history, forgetting and listing. factmem's own providers are such stores.

    Subclass it and write `load_all`, `forget`, `erase`, `places`, `entries`, `replay`, `amend` and
    `rewrite`. All other methods have a default. Override those that the store can do better: a
    recall reads whole places without `version` and `changes`, and `learn` lets the statement that
    was recorded last win, not the one that was said last.
    """

    @property
    def small_provider(self) -> str | None:
        """The class of the wrapped provider, if it has only four methods; else None."""
        return None

    @property
    def conversations(self) -> ConversationStore:
        """The conversations of the store.

        Raises:
            StorageError: This store keeps none.
        """
        raise StorageError(
            f"{type(self).__name__} keeps no conversations: use LocalFileMemoryProvider, "
            f"PostgresMemoryProvider or InMemoryProvider"
        )

    async def concepts(self) -> list[ConceptDefinition]:
        """Return what the store was told about each concept, ordered by keyword.

        Empty if the store keeps no definitions.

        Raises:
            StorageError: The store failed.
        """
        return []

    async def define(self, concepts: Iterable[Concept[Any, Any]]) -> None:
        """Tell the store the concepts of a program, in one durable write.

        A definition is taken over if it can read all values of the one that the store has: a wider
        type, one with `read`, MULTIPLE instead of SINGLE, a new keyword with `was`. Others change
        nothing; `compared` of the result of `concepts` names them.

        Raises:
            StorageError: The store failed.
        """

    async def begin(self, operation: str) -> datetime:
        """Return when an operation over the whole store was begun: by the first call, by default now.

        Raises:
            StorageError: The store failed.
        """
        return datetime.now(UTC)

    async def list_places(
        self,
        *,
        subjects: Iterable[MemorySubject] | None = None,
        scopes: Iterable[MemoryScope] | None = None,
        after: Place | None = None,
        limit: int | None = None,
    ) -> list[Place]:
        """Return the places that are not empty, in the store's own order, without reading them.

        A place that exists for the whole time of a listing is in exactly one page. A place that is
        created or erased meanwhile is in one page or in none. Subjects have no description.

        Args:
            subjects: Only places of these subjects; all by default. `USER.every("acme")` stands
                for all users of a tenant.
            scopes: Only places in these scopes; all by default.
            after: The last place of the page before. It need not exist any more.
            limit: The maximum number of places to return; None for all.

        Raises:
            UnboundSubjectError: A subject is per entity and has no entity.
            TypeError: An argument is of the wrong type.
            ValueError: `limit` is less than 1.
            StorageError: The store failed.
        """
        first, most = checked_page(after, limit)
        wanted, found = UNBOUNDED.narrowed(subjects=subjects, scopes=scopes), list[Identity]()
        for those, where in wanted.listings():
            infos = await self.places(subjects=those, scopes=where)
            found += filter(wanted.allows, (info.place.identity for info in infos))
        return [Place.of_identity(each) for each in page_of(found, first, most)]

    async def version(self, subject: MemorySubject, scope: MemoryScope) -> str | None:
        """Return a string that changes whenever the result of `load_all` may have changed.

        Takes microseconds if nothing changed. Versions of different instances are not comparable.
        None means that the version is unknown.
        """
        return None

    def watch(
        self,
        places: Iterable[Place],
        *,
        since: datetime | None = None,
        concepts: Iterable[Concept[Any, Any]] = (),
    ) -> AsyncGenerator["FactChange"]:
        """Yield the changes of places as they are recorded, by any process, until it is closed.

            async for change in store.watch(memory.places):
                print(change.actor, change.kind, [fact.text for fact in change.facts])

        Each is yielded once, those of a place in order. After a kill, `since=change.at` of the last
        change continues and misses none: it may yield that one again. 50 times a second the versions
        of the places are compared, and those that have changed are read.

        Args:
            places: The places; they need not exist yet.
            since: Changes from this time on are new; by default those after the first look.
            concepts: The concepts whose value types are known.
        """
        from factmem.providers._watching import watched  # few programs need it

        return watched(self, places, since=since, concepts=concepts)

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
        return None

    async def read_index(self, subject: MemorySubject, scope: MemoryScope) -> bytes | None:
        """Return the index last written for a place; None if there is no complete one.

        Raises:
            StorageError: The store failed.
        """
        return None

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
        return False

    async def moment(self, subject: MemorySubject, scope: MemoryScope) -> Moment:
        """Return the present moment of a place; see `learn`.

        Raises:
            StorageError: The store could not be read.
        """
        return await moment_of(self, subject, scope)

    async def learn(
        self,
        facts: Iterable[AnyFact],
        subject: MemorySubject,
        scope: MemoryScope,
        *,
        retracted: Iterable[RetractedFact] = (),
        since: Moment | None = None,
    ) -> Learned:
        """Record statements in one place, all or none, in one durable write.

        The order is that of `save`, and the result names what it made late: a fact never replaces a
        value that was said later, and never restores a value that was retracted or forgotten later.
        A retraction never ends a value that was said later. Such late statements are recorded only
        in the history. A time after the store's clock counts as now.

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
        async with unless_erased(self, since) as is_written:
            if is_written:
                stated = list(facts)
                if stated:
                    await self.save_many(stated, subject, scope)
                for each in retracted:
                    await self.forget(subject, scope, concept=each.concept, value=each.value)
        return Learned(is_erased=not is_written)

    async def erased_at(self, subject: MemorySubject, scope: MemoryScope) -> datetime | None:
        """Return when a place with facts was last erased; None for never, or if that is unknown.

        An import skips what was recorded before.

        Raises:
            StorageError: The store could not be read.
        """
        return None

    async def replay_erasures(self, erased: Iterable[ErasureReceipt]) -> int:
        """Erase again what an older copy of the store brought back; return the number of places.

        Each place loses what was recorded in it until the time of its receipt; later entries stay.

        Args:
            erased: The receipts since the copy was made, which the application keeps elsewhere.

        Raises:
            StorageError: The store failed. The same call continues.
        """
        return sum([await self._erase_again(each) for each in erased])

    async def _erase_again(self, receipt: ErasureReceipt) -> bool:
        subject, scope, until = receipt.subject, receipt.scope, receipt.erased_at
        entries = await self.entries(subject, scope)
        is_old = [entry["at"] <= stamp(until) for entry in entries]
        try:
            keeper = self.conversations
        except StorageError:  # this store keeps none
            keeper = None
        chats = [] if keeper is None else await keeper.conversations(receipt.place)
        if all(is_old) and all(chat.last_at <= until for chat in chats):
            if entries or chats:
                await self.erase(subject, scope)
            return bool(entries or chats)
        for chat in chats:
            assert keeper is not None  # noqa: S101 - it has returned the conversations
            await keeper.remove(chat.id, receipt.place, before=until)
        if any(is_old):
            kept = stamp(until)
            await self.rewrite(
                lambda entries: [each if each["at"] > kept else None for each in entries],
                subject,
                scope,
            )
        return any(is_old) or any(chat.first_at <= until for chat in chats)

    async def is_searched(self, places: Sequence[Place]) -> bool:
        """Return whether `candidates` searches these places, rather than the recall in memory.

        Raises:
            StorageError: The store failed.
        """
        return False

    async def facts_to_embed(
        self, place: Place, *, model: str, dimensions: int, limit: int
    ) -> Mapping[bytes, AnyFact]:
        """Return facts whose text has no vector of a model yet, by the digests of their texts.

        Empty if the store does not keep vectors.
        """
        return {}

    async def add_vectors(
        self, place: Place, vectors: TextVectors, *, model: str, dimensions: int
    ) -> None:
        """Store the vectors of texts by their digests; None marks a text that has no vector.

        Texts that no fact has any more are ignored.
        """

    async def candidates(
        self, places: Sequence[Place], question: SearchQuestion, describe: Describe
    ) -> SearchAnswer:
        """Return the facts that may answer a question, from these places only.

        It finds what was saved before the call, and nothing that was forgotten before it.

        Args:
            places: All places of a recall.
            question: The question.
            describe: Returns the documents of new facts; may be called in a worker thread.

        Raises:
            StorageError: The store failed.
        """
        return SearchAnswer((), {})

    async def shred(self) -> ShredReceipt:
        """Destroy the keys of all facts that were erased or purged before now.

        The store must be opened with a `RenewableEncryption`, such as `KeyFile(path)`, whose keys
        are stored elsewhere. The data keys of all places are wrapped under a new key, and the old
        key is destroyed. Then nothing can decrypt erased places in older copies of the store: in
        logs, on standbys, in backups. Existing facts are not rewritten, and other processes can use
        the store meanwhile. Erasures are final when it returns; after a crash or an error call it
        again.

        Raises:
            ValueError: The keys of the store cannot be destroyed, or other keys open it too.
            StorageError: The store failed.
        """
        raise ValueError(f"{type(self).__name__} has no keys that can be destroyed")


def is_complete(store: FactStore) -> bool:
    """Return whether a store can do more than the four methods of a small provider."""
    return not isinstance(store.small_provider, str)


def fact_store(store: FactStore) -> FactStore:
    """Return a store, or raise `TypeError` if it wraps a provider with four methods."""
    if is_complete(store):
        return store
    raise TypeError(
        f"{store.small_provider} is not a FactStore: listing, forgetting, erasing, merging, "
        f"exporting and tools need a subclass of FactStore, such as LocalFileMemoryProvider(path)"
    )
