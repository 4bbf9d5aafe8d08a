"""A backend whose storage answers late, as a database does: all I/O is async, the clock is its own.

The client keeps a folded ledger per place, asks for the rows after the ones it has, and changes a
place on the condition that no row was added since: it starts over when one was.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import anyio

from factmem.ledger.entries import Entry, decoded, encoded, encoded_entry, stamped
from factmem.ledger.ledger import Ledger
from factmem.models.boundary import Boundary
from factmem.models.clock import TimeProvider, system_clock
from factmem.models.places import Identity
from factmem.providers._backend import (
    Decision,
    Erased,
    ErasedSinceError,
    Extension,
    Present,
)
from factmem.providers._clock import StoreClock
from factmem.providers._ledger_store import LedgerStore
from factmem.providers._place_lists import page_of, place_info
from factmem.providers.results import PlaceInfo

_DELAY = 0.0005
_snapshots = count(1)


@dataclass
class _Table:
    """The rows of a place on the server. Rewritten rows are another snapshot."""

    rows: list[bytes] = field(default_factory=list)
    snapshot: int = field(default_factory=lambda: next(_snapshots))
    recorded_at: str = ""
    index: bytes | None = None

    def append(self, rows: Sequence[bytes]) -> None:
        self.rows += rows
        self.recorded_at = max([self.recorded_at, *(decoded(row)["at"] for row in rows)])


@dataclass
class _Followed:
    """What the client knows of a place."""

    ledger: Ledger = field(default_factory=Ledger)
    snapshot: int = 0
    last: int = 0


class Server:
    """Tables behind a delay. What follows a delay is one transaction."""

    def __init__(self, clock: TimeProvider = system_clock) -> None:
        self.clock = StoreClock(clock)
        self.tables: dict[Identity, _Table] = {}
        self.rows_sent = 0
        self.erasures = 0

    def now(self, identity: Identity) -> str:
        table = self.tables.get(identity)
        return self.clock.now("" if table is None else table.recorded_at)

    def rows(self, identity: Identity, snapshot: int, last: int) -> tuple[int, list[bytes]]:
        table = self.tables.get(identity)
        if table is None:
            return 0, []
        rows = table.rows[last if table.snapshot == snapshot else 0 :]
        self.rows_sent += len(rows)
        return table.snapshot, rows

    def is_at(self, identity: Identity, snapshot: int, last: int) -> bool:
        table = self.tables.get(identity)
        known = (0, 0) if table is None else (table.snapshot, len(table.rows))
        return known == (snapshot, last)


class DelayedBackend:
    """A `Backend` over a `Server`."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._places: dict[Identity, _Followed] = {}
        self._nothing = Ledger()

    def warm(self, identity: Identity, present: Present[Any]) -> None:
        """The server must always be asked."""

    async def _follow(self, identity: Identity) -> tuple[_Followed, str]:
        await anyio.sleep(_DELAY)
        place = self._places.setdefault(identity, _Followed())
        snapshot, rows = self._server.rows(identity, place.snapshot, place.last)
        if snapshot == 0:
            del self._places[identity]
            return _Followed(self._nothing), self._server.now(identity)
        if snapshot != place.snapshot:
            place = self._places[identity] = _Followed(snapshot=snapshot)
        for row in rows:
            place.ledger.apply(decoded(row))
        place.last += len(rows)
        return place, self._server.now(identity)

    async def present(
        self,
        identity: Identity,
        present: Present[Any],
        *,
        until: str | None = None,
        keyword: str | None = None,
    ) -> Any:
        if until is None:
            place, now = await self._follow(identity)
            return present(place.ledger, now)
        return present(Ledger((await self._entries(identity))[2], until=until), until)

    async def _entries(self, identity: Identity) -> tuple[int, str, list[Entry]]:
        await anyio.sleep(_DELAY)
        snapshot, rows = self._server.rows(identity, 0, 0)
        return snapshot, self._server.clock.recording(), [decoded(row) for row in rows]

    async def entries(self, identity: Identity, use: Callable[[list[Entry]], Any]) -> Any:
        return use((await self._entries(identity))[2])

    async def moment(self, identity: Identity) -> object:
        await anyio.sleep(_DELAY)
        table = self._server.tables.get(identity)
        return self._server.erasures, None if table is None else table.snapshot

    async def append(self, identity: Identity, body: bytes, *, since: Any = None) -> None:
        await anyio.sleep(_DELAY)
        known = self._server.tables.get(identity)
        is_same = known is not None and since is not None and known.snapshot == since[1]
        if since is not None and since[0] != self._server.erasures and not is_same:
            raise ErasedSinceError
        table = self._server.tables.setdefault(identity, _Table())
        table.append([stamped(body, self._server.clock.recording(table.recorded_at))])

    async def change(self, identity: Identity, decide: Decision) -> int:
        while True:
            place, now = await self._follow(identity)
            if place.ledger is self._nothing:
                return 0
            change = decide(place.ledger, now)
            read = place.snapshot, place.last
            entries = (await self._entries(identity))[2] if change.edit is not None else []
            await anyio.sleep(_DELAY)
            if not self._server.is_at(identity, *read):
                continue
            table = self._server.tables[identity]
            rows: list[bytes] = []
            if change.facts or change.forget:
                at = self._server.clock.recording(table.recorded_at)
                rows = [stamped(encoded(change.facts, change.forget), at)]
                table.append(rows)
            if change.edit is not None:
                left = [each for each in change.edit([*entries, *map(decoded, rows)]) if each]
                self._server.erasures += 1
                del self._server.tables[identity]
                if left:
                    self._server.tables[identity] = _Table()
                    self._server.tables[identity].append([_row(entry) for entry in left])
            return len(change.forget)

    async def extend(self, identity: Identity, extend: Extension) -> int:
        while True:
            snapshot, now, entries = await self._entries(identity)
            read = snapshot, len(entries)
            new = extend(entries, max([now, *(entry["at"] for entry in entries)]))
            if not new:
                return 0
            await anyio.sleep(_DELAY)
            if self._server.is_at(identity, *read):
                table = self._server.tables.setdefault(identity, _Table())
                table.append([_row(entry) for entry in new])
                return len(new)

    async def erase(self, identity: Identity, *, only_empty: bool = False) -> Erased:
        place, now = await self._follow(identity)
        if only_empty and self._server.tables.get(identity, _Table()).rows:
            return Erased(now, 0, 0, key_destroyed=False)
        self._server.erasures += 1
        table = self._server.tables.pop(identity, _Table())
        size = sum(map(len, table.rows))
        return Erased(now, len(place.ledger.confirmations(now)), size, key_destroyed=False)

    async def places(self, wanted: Boundary) -> list[PlaceInfo]:
        await anyio.sleep(_DELAY)
        return [
            place_info(identity, Ledger(map(decoded, table.rows)), sum(map(len, table.rows)),
                       self._server.now(identity))
            for identity, table in self._server.tables.items()
            if wanted.allows(identity)
        ]  # fmt: skip

    async def identities(
        self, wanted: Boundary, after: Identity | None, limit: int | None
    ) -> list[Identity]:
        await anyio.sleep(_DELAY)
        return page_of(filter(wanted.allows, self._server.tables), after, limit)

    async def read_index(self, identity: Identity) -> bytes | None:
        await anyio.sleep(_DELAY)
        return self._server.tables.get(identity, _Table()).index

    async def write_index(self, identity: Identity, index: bytes, version: str) -> bool:
        place, now = await self._follow(identity)
        if place.ledger is self._nothing or place.ledger.version(now) != version:
            return False
        self._server.tables[identity].index = bytes(index)
        return True

    async def close(self) -> None:
        await anyio.sleep(_DELAY)


class DelayedStore(LedgerStore):
    def __init__(self, server: Server) -> None:
        super().__init__(DelayedBackend(server))


def _row(entry: Entry) -> bytes:
    return stamped(encoded_entry(entry), entry["at"])
