"""The asynchronous backend of a PostgreSQL store: event loop, worker threads, forked children."""

import os
import time
import weakref
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import TypeAlias, TypeVar

from anyio import CancelScope
from anyio.lowlevel import checkpoint_if_cancelled

from factmem.concurrency.per_loop import Workers
from factmem.ledger.entries import Entry
from factmem.ledger.ledger import Ledger
from factmem.models.boundary import Boundary
from factmem.models.places import Identity
from factmem.providers._backend import Decision, Erased, Extension, Present
from factmem.providers._clock import StoreClock
from factmem.providers._postgres.attempts import ReadAttempts, SaveAttempts
from factmem.providers._postgres.batches import Save
from factmem.providers._postgres.blocking import PostgresPlaces
from factmem.providers._postgres.erasures import Moment
from factmem.providers._postgres.loop_commit import LoopCommit
from factmem.providers._postgres.views import View
from factmem.providers.results import PlaceInfo

R = TypeVar("R")

_Restart: TypeAlias = "weakref.WeakMethod[Callable[[], None]]"

_FEW = 1000
"""Values of the largest place that is read on the event loop, which takes 4 ms at most."""


class PostgresBackend:
    """Runs the operations of `PostgresPlaces` for asynchronous callers.

    Concurrent saves share a transaction, and concurrent reads share a query. Small ones begin on
    the event loop, the rest runs in worker threads.

    Args:
        places: The blocking operations.
        clock: The clock of the store.
        max_staleness: How long cached facts may be returned without asking the database.
    """

    def __init__(self, places: PostgresPlaces, clock: StoreClock, max_staleness: timedelta) -> None:
        self.blocking = places
        self._clock = clock
        self._stale = max_staleness.total_seconds()
        self._start_afresh()
        _restarts[self] = weakref.WeakMethod(self._start_in_child)

    def _start_afresh(self) -> None:
        self.workers = Workers()
        places, seconds = self.blocking, self.blocking.connections.seconds
        # One batch at a time: with a second one that commits while the first waits for its flush,
        # 16 tasks made two batches of eight, and 0.6 of the saves a second.
        saves = SaveAttempts(places, self._clock)
        self._commits = LoopCommit(places.commit, self.workers, saves, seconds)
        # A read is answered by a query that began after it, so that reads are linearizable.
        reads = ReadAttempts(places)
        self._reads = LoopCommit(places.refresh, self.workers, reads, seconds)

    def _start_in_child(self) -> None:
        """Start again in a forked child, which has none of the parent's threads."""
        self._clock.start_in_child()
        self.blocking.start_afresh()
        self._start_afresh()

    def warm(self, identity: Identity, present: Present[R | None]) -> R | None:
        view = self.blocking.known(identity) if self._stale else None
        if view is None or not self._is_fresh(view) or not view.lock.acquire(blocking=False):
            return None
        try:
            return present(view.ledger, self.blocking.now(view.ledger))
        finally:
            view.lock.release()

    def _is_fresh(self, view: View) -> bool:
        return view.is_warm and time.monotonic() - view.checked < self._stale

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
        view = self._small(identity)
        if view is None:
            # A first read may take long, so it does not delay the reads that share a query.
            return await self.work(lambda: self.blocking.present(identity, present, keyword))
        if self._is_fresh(view):
            await checkpoint_if_cancelled()
        else:
            await self._reads.submit(identity)
            view = self._small(identity)  # a new view, if the first was evicted meanwhile
        if view is None or not view.lock.acquire(blocking=False):
            return await self.work(lambda: self.blocking.present(identity, present))
        try:
            return present(view.ledger, self.blocking.now(view.ledger))
        finally:
            view.lock.release()

    def _small(self, identity: Identity) -> View | None:
        """Return the view of a place if it is complete and small enough for the event loop."""
        view = self.blocking.known(identity)
        return view if view is not None and view.is_warm and len(view) <= _FEW else None

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

    async def close(self) -> None:
        await self._commits.close()
        await self._reads.close()
        with CancelScope(shield=True):  # cancelled or not, no connection stays open
            await self.workers.run(self.blocking.connections.close)

    async def work(self, work: Callable[[], R]) -> R:
        """Run blocking work in a worker thread."""
        await checkpoint_if_cancelled()
        return await self.workers.run(work)


_restarts: "weakref.WeakKeyDictionary[PostgresBackend, _Restart]" = weakref.WeakKeyDictionary()


def _start_in_child() -> None:
    for restart in list(_restarts.values()):
        if (begin_anew := restart()) is not None:
            begin_anew()


os.register_at_fork(after_in_child=_start_in_child)
