"""SqlBackend: the asynchronous backend of a store in a database.

It runs the blocking operations of `StoredPlaces` in worker threads, shares a transaction among
concurrent saves, and starts again in forked children.
"""

import os
import weakref
from collections.abc import Awaitable, Callable
from typing import TypeAlias, TypeVar

from anyio import CancelScope
from anyio.lowlevel import checkpoint_if_cancelled

from factmem._concurrency.per_loop import Workers
from factmem.ledger.entries import Entry
from factmem.ledger.ledger import Ledger
from factmem.models.boundary import Boundary
from factmem.models.places import Identity
from factmem.providers._backend import Decision, Erased, Extension, Present
from factmem.providers._clock import StoreClock
from factmem.providers._group_commit import GroupCommit
from factmem.providers._sql.conversations import StoredConversations
from factmem.providers._sql.erasures import Moment
from factmem.providers._sql.stored_places import StoredPlaces
from factmem.providers._sql.writing import Save
from factmem.providers.results import PlaceInfo

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
