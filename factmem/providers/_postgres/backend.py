"""PostgresBackend: the backend of a store in PostgreSQL, in which concurrent reads share a query."""

from typing import TypeVar

from typing_extensions import override

from factmem.models.places import Identity
from factmem.providers._backend import Present
from factmem.providers._clock import StoreClock
from factmem.providers._group_commit import GroupCommit
from factmem.providers._postgres.places import PostgresPlaces
from factmem.providers._sql.backend import SqlBackend

R = TypeVar("R")

_FEW = 1000
"""Values of the largest place that is presented on the event loop, which takes 4 ms at most."""


class PostgresBackend(SqlBackend):
    """Runs the operations of `PostgresPlaces` for asynchronous callers."""

    def __init__(self, places: PostgresPlaces, clock: StoreClock) -> None:
        self._places = places
        super().__init__(places, clock)

    def _start(self) -> None:
        super()._start()
        # A read is answered by a query that began after it, so that reads are linearizable.
        self._reads = GroupCommit(self._places.refresh, self.workers)

    @override
    async def present(
        self,
        identity: Identity,
        present: Present[R],
        *,
        until: str | None = None,
        keyword: str | None = None,
    ) -> R:
        view = self._places.known(identity)
        if until is not None or view is None or not view.is_warm or len(view) > _FEW:
            # A first read may take long, so it does not delay the reads that share a query.
            return await super().present(identity, present, until=until, keyword=keyword)
        await self._reads.submit(identity)
        if self._places.known(identity) is not view or not view.lock.acquire(blocking=False):
            return await super().present(identity, present)
        try:
            return present(view.ledger, self._places.now(view.ledger))
        finally:
            view.lock.release()

    @override
    async def close(self) -> None:
        await self._reads.close()
        await super().close()
