"""LocalBackend: the backend of a folder, with worker threads, group commit and fork handling."""

import os
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
from factmem.providers._group_commit import GroupCommit
from factmem.providers._local_places import LocalPlaces, Save
from factmem.providers.results import PlaceInfo
from factmem.storage.base import Journals

R = TypeVar("R")

_Restart: TypeAlias = "weakref.WeakMethod[Callable[[], None]]"


class LocalBackend:
    """Runs the blocking operations of `LocalPlaces` in its own threads."""

    def __init__(
        self, journals: Journals, clock: StoreClock, keep_history: timedelta | None
    ) -> None:
        self.journals = journals
        self._clock = clock
        self.blocking = LocalPlaces(journals, clock, keep_history)
        self._reset()
        _restarts[self] = weakref.WeakMethod(self._start_in_child)

    def _reset(self) -> None:
        # Bound here, which saves a call in each warm load.
        self.warm = self.blocking.reading.warm
        self.workers = Workers()
        self._commits = GroupCommit(self.blocking.commit, self.workers, self.blocking.rest)

    def _start_in_child(self) -> None:
        """Start with new threads and views in a forked child, which has no threads of its parent."""
        self._clock.start_in_child()
        self.blocking.reset()
        self._reset()

    async def present(
        self,
        identity: Identity,
        present: Present[R],
        *,
        until: str | None = None,
        keyword: str | None = None,
    ) -> R:
        if until is None:
            return await self.work(
                lambda: self.blocking.reading.present(identity, present, keyword)
            )
        return await self.entries(
            identity, lambda entries: present(Ledger(entries, until=until), until)
        )

    async def entries(self, identity: Identity, use: Callable[[list[Entry]], R]) -> R:
        return await self.work(lambda: use(self.blocking.entries(identity)))

    async def moment(self, identity: Identity) -> object:
        return await self.work(lambda: self.blocking.moment(identity))

    def append(self, identity: Identity, body: bytes, *, since: object = None) -> Awaitable[None]:
        return self._commits.submit(Save(identity, body, since))

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
        return await self.work(lambda: self.blocking.identities(wanted, after, limit))

    async def read_index(self, identity: Identity) -> bytes | memoryview | None:
        return await self.work(lambda: self.blocking.index(identity))

    async def write_index(self, identity: Identity, index: bytes, version: str) -> bool:
        return await self.work(lambda: self.blocking.keep_index(identity, index, version))

    async def close(self) -> None:
        await self._commits.close()
        with CancelScope(shield=True):  # a cancelled close must not leave descriptors open
            await self.workers.run(self.blocking.close)

    async def work(self, work: Callable[[], R]) -> R:
        await checkpoint_if_cancelled()
        return await self.workers.run(work)


_restarts: "weakref.WeakKeyDictionary[LocalBackend, _Restart]" = weakref.WeakKeyDictionary()


def _start_in_child() -> None:
    for restart in list(_restarts.values()):
        if (begin_anew := restart()) is not None:
            begin_anew()


os.register_at_fork(after_in_child=_start_in_child)
