"""SqlStore: the public methods that stores in databases have beside those of a `FactStore`."""

from collections.abc import Callable, Collection, Sequence
from datetime import datetime, timedelta
from typing import Self

from typing_extensions import override

from factmem.ledger.entries import Entry
from factmem.models.places import DEFINITIONS, MemoryScope, MemorySubject, Place
from factmem.models.when import moment
from factmem.providers._sql.anchors import Anchors
from factmem.providers._sql.conversations import StoredConversations
from factmem.providers._sql.keys import StoreKeys
from factmem.providers._sql.search import StoredSearch
from factmem.providers._sql.stored_places import StoredPlaces
from factmem.providers.conversation_store import ConversationStore
from factmem.providers.results import (
    PlaceLimit,
    SearchAnswer,
    SearchQuestion,
    ShredReceipt,
    StoreStatus,
    TurnCandidate,
    check_progress,
    check_span,
)
from factmem.providers.storages import ProviderKeys
from factmem.providers.store import FactStore


class SqlStore(FactStore):
    """A `FactStore` in a database: compaction, anchors, keys, shredding and search."""

    def __init__(
        self,
        places: StoredPlaces,
        limit: PlaceLimit | None,
        search: StoredSearch | None = None,
        *,
        must_exist: bool,
    ) -> None:
        self._places = places
        self._search = search
        self._must_exist = must_exist
        super().__init__(places, limit)
        self._conversations = ConversationStore(
            StoredConversations(places), places, self._enter_place, limit
        )

    @override
    async def __aenter__(self) -> Self:
        """Open a store that must exist, so that a service with a wrong one does not start."""
        opened = await super().__aenter__()
        if self._must_exist:
            try:
                await self._places.open()
            except BaseException:
                await self.aclose()
                raise
        return opened

    async def create(self) -> None:
        """Create the store if it does not exist, also with `must_exist`.

        For a deployment step: the application then opens the store with `must_exist=True`.
        """
        self._check_open()
        await self._places.create()

    async def ping(self) -> StoreStatus:
        """Raise unless the store can be reached, opened with this key, read and written.

        For health checks. It writes as a save does, and removes what it wrote. It also creates a
        missing store, unless `must_exist` is set.

        Raises:
            StorageError: The store failed, or does not exist and must.
            StoreBusyError: Other writes took too long.
            DecryptionError: The key is missing or wrong.
        """
        self._check_open()
        return await self._places.ping()

    async def compact(
        self, subject: MemorySubject, scope: MemoryScope, *, keep_history: timedelta = timedelta(0)
    ) -> int:
        """Rewrite a place without older history, and return the number of freed bytes.

        Current values do not change; `history` and `as_of` reach back as far as `keep_history`.
        Forgettings stay, with digests of their values, so that no older bundle brings one back:
        `forget(purge=True)` leaves no digest.
        """
        check_span(keep_history)
        return await self._places.compact(self._enter(subject, scope), keep_history)

    async def anchor(self, *, progress: Callable[[int, int], None] | None = None) -> str:
        """Return an anchor: a string with the end of every place, to be stored elsewhere.

        A store cannot reveal that all of it was rolled back to an older copy; `verify` detects this
        with an anchor, which never expires. Places are listed without reading their entries.
        `progress` is called in a thread after each place, with the number done and the total.
        """
        self._check_open()
        check_progress(progress)
        anchors = Anchors(self._places)
        return await self._places.work(lambda: anchors.take(progress))

    async def verify(
        self, anchor: str | None = None, *, progress: Callable[[int, int], None] | None = None
    ) -> None:
        """Raise unless every place is readable and ends no earlier than in the anchor.

        Reads every entry of every place. Without an anchor, an older copy that is whole is not
        detected. `progress` is called as `anchor` calls it.

        Raises:
            TamperedError: The store, or a place, is gone, was changed, or was rolled back.
            CorruptJournalError: The same, in a store that is not encrypted.
            ValueError: The string is no anchor.
        """
        self._check_open()
        check_progress(progress)
        anchors = Anchors(self._places)
        await self._places.work(lambda: anchors.verify(anchor, progress))

    @override
    async def erased_at(self, subject: MemorySubject, scope: MemoryScope) -> datetime | None:
        found = await self._places.erased_at(self._enter(subject, scope))
        return None if found is None else moment(found)

    async def states(self, known: Collection[str] = ()) -> dict[str, Place | None]:
        """Return a string for the state of the facts of each place, without reading them.

        The string of an unchanged place stays the same, in all processes; after any change it is
        another one. So a program that keeps the strings reads only what has changed since. Costs
        some microseconds for a place.

        Args:
            known: Strings from an earlier call, whose places are not returned again.

        Returns:
            The place of each string; None if the string is in `known`.
        """
        self._check_open()
        found = await self._places.states(frozenset(known))
        return {
            state: None if identity is None else Place.of_identity(identity)
            for state, identity in found.items()
            if identity != DEFINITIONS
        }

    async def entries_since(self, place: Place, state: str) -> list[Entry] | None:
        """Return the entries that were recorded after a state of `states`.

        None if an earlier entry was changed or removed meanwhile: then read all with `entries`.
        """
        return await self._places.entries_since(self._enter_place(place), state)

    @override
    async def is_searched(self, places: Sequence[Place], *, meaning: bool) -> bool:
        self._check_open()
        search = self._search
        if search is None or (meaning and not search.has_meaning):
            return False
        return await self._places.work(lambda: search.is_searched(places))

    @override
    async def candidates(
        self, places: Sequence[Place], question: SearchQuestion
    ) -> SearchAnswer | None:
        self._check_open()
        search = self._search
        if search is None:
            return None
        return await self._places.work(lambda: search.candidates(places, question))

    @override
    async def turn_candidates(
        self, places: Sequence[Place], question: SearchQuestion
    ) -> Sequence[TurnCandidate] | None:
        self._check_open()
        search = self._search
        if search is None:
            return None
        return await self._places.work(lambda: search.turns(places, question))

    @override
    async def shred(self) -> ShredReceipt:
        self._check_open()
        return await self._places.work(StoreKeys(self._places).shred)

    @property
    def keys(self) -> ProviderKeys:
        """The keys of an encrypted store.

        Raises:
            ValueError: The store was opened without encryption.
        """
        self._check_open()
        places = self._places
        if places.opening.encryption is None:
            raise ValueError(
                "An unencrypted store has no keys: create it with storage=EncryptedStorage"
                "(Aes256GCMEncryptor(key)), a database with encryption=Aes256GCMEncryptor(key)"
            )
        return ProviderKeys(StoreKeys(places), places.workers)
