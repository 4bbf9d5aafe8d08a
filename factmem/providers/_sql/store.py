"""SqlStore: the public methods that stores in databases have beside those of a `FactStore`.

SqlBackend: the asynchronous backend of a store in a database.

It runs the blocking operations of `StoredPlaces` in worker threads, shares a transaction among
concurrent saves, and starts again in forked children.
"""

import os
import weakref
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import Self, TypeAlias, TypeVar

from anyio import CancelScope
from anyio.lowlevel import checkpoint_if_cancelled
from typing_extensions import override

from factmem._concurrency.per_loop import Workers
from factmem.ledger.entries import Entry
from factmem.ledger.ledger import Ledger
from factmem.models.boundary import Boundary
from factmem.models.places import Identity, MemoryScope, MemorySubject
from factmem.models.when import moment
from factmem.providers._arguments import check_span
from factmem.providers._backend import Decision, Erased, Extension, Present, StoreClock
from factmem.providers._group_commit import GroupCommit
from factmem.providers._sql.anchors import Anchors
from factmem.providers._sql.conversations import StoredConversations
from factmem.providers._sql.keys import StoreKeys
from factmem.providers._sql.stored_places import StoredPlaces
from factmem.providers._sql.writing import Moment, Save
from factmem.providers.conversation_store import ConversationStore
from factmem.providers.results import PlaceInfo, PlaceLimit, ShredReceipt, StoreStatus
from factmem.providers.storages import ProviderKeys, check_progress, open_keys
from factmem.providers.store import FactStore

R = TypeVar("R")

_Restart: TypeAlias = "weakref.WeakMethod[Callable[[], None]]"


class SqlBackend:
    """Runs the operations of a store's places for asynchronous callers.

    Args:
        places: The blocking operations.
        clock: The clock of the store.
    """

    def __init__(self, places: StoredPlaces, clock: StoreClock) -> None:
        self.blocking = places
        self._clock = clock
        self.conversations: StoredConversations = StoredConversations(places, clock.recording)
        self._start()
        _restarts[self] = weakref.WeakMethod(self._start_in_child)

    def _start(self) -> None:
        self.workers: Workers = Workers()
        self._commits = GroupCommit(self.blocking.commit, self.workers, self.blocking.rest)

    def _start_in_child(self) -> None:
        """Start again in a forked child, which has none of the parent's threads."""
        self._clock.start_in_child()
        self.blocking.start_afresh()
        self._start()

    def warm(self, identity: Identity, present: Present[R | None]) -> R | None:
        return self.blocking.warm(identity, present)

    async def present(
        self,
        identity: Identity,
        present: Present[R],
        *,
        until: str | None = None,
        keyword: str | None = None,
    ) -> R:
        if until is not None:
            return await self.entries(
                identity, lambda entries: present(Ledger(entries, until=until), until)
            )
        return await self.work(lambda: self.blocking.present(identity, present, keyword))

    async def entries(self, identity: Identity, use: Callable[[list[Entry]], R]) -> R:
        return await self.work(lambda: use(self.blocking.entries(identity)))

    async def moment(self, identity: Identity) -> object:
        return await self.work(lambda: self.blocking.moment(identity))

    def append(self, identity: Identity, body: bytes, *, since: object = None) -> Awaitable[None]:
        return self._commits.submit(
            Save(identity, body, since if isinstance(since, Moment) else None)
        )

    async def change(self, identity: Identity, decide: Decision) -> int:
        return await self.work(lambda: self.blocking.change(identity, decide))

    async def extend(self, identity: Identity, extend: Extension) -> int:
        return await self.work(lambda: self.blocking.extend(identity, extend))

    async def erase(self, identity: Identity, *, only_empty: bool = False) -> Erased:
        return await self.work(lambda: self.blocking.erase(identity, only_empty=only_empty))

    async def places(self, wanted: Boundary) -> list[PlaceInfo]:
        return await self.work(lambda: self.blocking.places(wanted))

    async def identities(
        self, wanted: Boundary, after: Identity | None, limit: int | None
    ) -> list[Identity]:
        return await self.work(lambda: self.blocking.listed(wanted, after, limit))

    async def read_index(self, identity: Identity) -> bytes | None:
        return await self.work(lambda: self.blocking.index(identity))

    async def write_index(self, identity: Identity, index: bytes, version: str) -> bool:
        return await self.work(lambda: self.blocking.keep_index(identity, index, version))

    async def converse(self, call: Callable[[StoredConversations], R]) -> R:
        return await self.work(lambda: call(self.conversations))

    async def close(self) -> None:
        await self._commits.close()
        with CancelScope(shield=True):  # cancelled or not, no connection stays open
            await self.workers.run(self.blocking.close)

    async def work(self, work: Callable[[], R]) -> R:
        """Run blocking work in a worker thread."""
        await checkpoint_if_cancelled()
        return await self.workers.run(work)


_restarts: "weakref.WeakKeyDictionary[SqlBackend, _Restart]" = weakref.WeakKeyDictionary()


def _start_in_child() -> None:
    for restart in list(_restarts.values()):
        if (start := restart()) is not None:
            start()


if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(after_in_child=_start_in_child)


class SqlStore(FactStore):
    """A `FactStore` in a database: compaction, anchors, keys and shredding."""

    def __init__(self, backend: SqlBackend, limit: PlaceLimit | None, *, must_exist: bool) -> None:
        self._database = backend
        self._must_exist = must_exist
        super().__init__(backend, limit)
        self._conversations = ConversationStore(backend, self._enter_place, self._limit)

    @override
    async def __aenter__(self) -> Self:
        """Open a store that must exist, so that a service with a wrong one does not start."""
        opened = await super().__aenter__()
        if self._must_exist:
            try:
                await self._database.work(self._database.blocking.look)
            except BaseException:
                await self.aclose()
                raise
        return opened

    async def create(self) -> None:
        """Create the store if it does not exist, also with `must_exist`.

        For a deployment step: the application then opens the store with `must_exist=True`.
        """
        self._check_open()
        await self._database.work(self._database.blocking.create)

    async def ping(self) -> StoreStatus:
        """Raise unless the store can be reached, opened with this key, read and written.

        For health checks. It writes as a save does, and leaves nothing behind: it also creates a
        store that does not exist, unless it must.

        Raises:
            StorageError: The store failed, or does not exist and must.
            StoreBusyError: Other writes took too long.
            DecryptionError: The key is missing or wrong.
        """
        self._check_open()
        return await self._database.work(self._database.blocking.ping)

    async def compact(
        self,
        subject: MemorySubject,
        scope: MemoryScope,
        *,
        keep_history: timedelta = timedelta(0),
    ) -> int:
        """Rewrite a place without older history, and return the number of freed bytes of entries.

        Current values do not change; `history` and `as_of` reach back as far as `keep_history`.
        Forgettings stay, with digests of their values, so that no older bundle brings one back:
        `forget(purge=True)` leaves no digest.
        """
        check_span(keep_history)
        identity = self._enter(subject, scope)
        places = self._database.blocking
        return await self._database.work(lambda: places.compact(identity, keep_history))

    async def anchor(self, *, progress: Callable[[int, int], None] | None = None) -> str:
        """Return an anchor: a string with the end of every place, to be stored elsewhere.

        A store cannot reveal that all of it was put back to an older copy; `verify` detects this with
        an anchor. Places are listed without reading their entries. An anchor never expires. `progress`
        is called in a worker thread after each place, with the number done and the total.
        """
        self._check_open()
        check_progress(progress)
        anchors = Anchors(self._database.blocking)
        return await self._database.work(lambda: anchors.taken(progress))

    async def verify(
        self, anchor: str | None = None, *, progress: Callable[[int, int], None] | None = None
    ) -> None:
        """Raise unless every place is readable and has come at least as far as the anchor says.

        Reads every entry of every place. Without an anchor, an older copy that is whole is not
        detected. `progress` is called as `anchor` calls it.

        Raises:
            TamperedError: The store, or a place, is gone, was changed, or was put back to an older
                copy.
            CorruptJournalError: The same, in a store that is not encrypted.
            ValueError: The string is no anchor.
        """
        self._check_open()
        check_progress(progress)
        anchors = Anchors(self._database.blocking)
        await self._database.work(lambda: anchors.verify(anchor, progress))

    @override
    async def erased_at(self, subject: MemorySubject, scope: MemoryScope) -> datetime | None:
        identity, places = self._enter(subject, scope), self._database.blocking
        found = await self._database.work(lambda: places.erased_at(identity))
        return None if found is None else moment(found)

    @override
    async def shred(self) -> ShredReceipt:
        self._check_open()
        done = await self._database.work(StoreKeys(self._database.blocking).shred)
        return ShredReceipt(moment(done.began_at), done.places)

    @property
    def keys(self) -> ProviderKeys:
        """The keys of an encrypted store.

        Raises:
            ValueError: The store was opened without encryption.
        """
        self._check_open()
        places = self._database.blocking
        if places.opening.encryption is None:
            raise ValueError(
                "An unencrypted store has no keys: create it with "
                "storage=EncryptedStorage(Aes256GCMEncryptor(key)) or encryption="
            )
        return open_keys(StoreKeys(places), self._database.workers)
