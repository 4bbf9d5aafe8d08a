"""A backend whose storage answers with a delay, like a database: all I/O is async, the clock is its own.

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
from factmem.providers._backend import Decision, Erased, ErasedSinceError, Extension, Present
from factmem.providers._clock import StoreClock
from factmem.providers._ledger_store import LedgerStore
from factmem.providers._place_lists import page_of, place_info
from factmem.providers.results import PlaceInfo

_DELAY = 0.0005


@dataclass
class _Table:
    """The rows of a place on the server. Rewriting makes a new snapshot; 0 means no table."""

    rows: list[bytes] = field(default_factory=list)
    snapshot: int = field(default_factory=count(1).__next__)
    recorded_at: str = ""
    index: bytes | None = None


@dataclass
class _Followed:
    """The state of a place in the client."""

    ledger: Ledger = field(default_factory=Ledger)
    snapshot: int = 0
    last: int = 0


class Server:
    """Tables behind a delay. The code after a delay is one transaction."""

    def __init__(self, clock: TimeProvider = system_clock) -> None:
        self.clock = StoreClock(clock)
        self.tables: dict[Identity, _Table] = {}
        self.rows_sent = 0
        self.erasures = 0

    async def table(self, identity: Identity) -> _Table:
        """Return the table of a place, or an empty one that is not stored."""
        await anyio.sleep(_DELAY)
        return self.tables.get(identity, _Table(snapshot=0))

    def add(self, identity: Identity, rows: Sequence[bytes]) -> None:
        table = self.tables.setdefault(identity, _Table())
        table.rows += rows
        table.recorded_at = max([table.recorded_at, *(decoded(row)["at"] for row in rows)])

    def add_entries(self, identity: Identity, entries: Sequence[Entry]) -> None:
        self.add(identity, [stamped(encoded_entry(entry), entry["at"]) for entry in entries])


class DelayedBackend:
    """A `Backend` over a `Server`."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._places: dict[Identity, _Followed] = {}
        self._nothing = Ledger()

    def warm(self, identity: Identity, present: Present[Any]) -> None:
        """The server is asked every time."""

    async def _follow(self, identity: Identity) -> tuple[_Followed, str]:
        table = await self._server.table(identity)
        now = self._server.clock.now(table.recorded_at)
        place = self._places.pop(identity, _Followed())
        if table.snapshot == 0:
            return _Followed(self._nothing), now
        if place.snapshot != table.snapshot:
            place = _Followed(snapshot=table.snapshot)
        for row in table.rows[place.last :]:
            place.ledger.apply(decoded(row))
        self._server.rows_sent += len(table.rows) - place.last
        place.last = len(table.rows)
        self._places[identity] = place
        return place, now

    async def present(
        self, identity: Identity, present: Present[Any], *, until: str | None = None, **_: object
    ) -> Any:
        if until is None:
            place, now = await self._follow(identity)
            return present(place.ledger, now)
        return present(Ledger((await self._entries(identity))[1], until=until), until)

    async def _entries(self, identity: Identity) -> tuple[int, list[Entry]]:
        table = await self._server.table(identity)
        self._server.rows_sent += len(table.rows)
        return table.snapshot, [decoded(row) for row in table.rows]

    async def entries(self, identity: Identity, use: Callable[[list[Entry]], Any]) -> Any:
        return use((await self._entries(identity))[1])

    async def moment(self, identity: Identity) -> object:
        table = await self._server.table(identity)
        return self._server.erasures, table.snapshot

    async def append(self, identity: Identity, body: bytes, *, since: Any = None) -> None:
        table = await self._server.table(identity)
        is_erased = since is not None and since[0] != self._server.erasures
        if is_erased and (table.snapshot == 0 or table.snapshot != since[1]):
            raise ErasedSinceError
        self._server.add(identity, [stamped(body, self._server.clock.recording(table.recorded_at))])

    async def change(self, identity: Identity, decide: Decision) -> int:
        while True:
            place, now = await self._follow(identity)
            if place.ledger is self._nothing:
                return 0
            change, read = decide(place.ledger, now), (place.snapshot, place.last)
            entries = (await self._entries(identity))[1] if change.edit is not None else []
            table = await self._server.table(identity)
            if (table.snapshot, len(table.rows)) != read:
                continue
            rows: list[bytes] = []
            if change.facts or change.forget:
                at = self._server.clock.recording(table.recorded_at)
                rows = [stamped(encoded(change.facts, change.forget), at)]
            if change.edit is None:
                self._server.add(identity, rows)
            else:
                left = [each for each in change.edit([*entries, *map(decoded, rows)]) if each]
                self._server.erasures += 1
                del self._server.tables[identity]
                if left:
                    self._server.add_entries(identity, left)
            return len(change.forget)

    async def extend(self, identity: Identity, extend: Extension) -> int:
        while True:
            snapshot, entries = await self._entries(identity)
            now = self._server.clock.recording()
            new = extend(entries, max([now, *(entry["at"] for entry in entries)]))
            if not new:
                return 0
            table = await self._server.table(identity)
            if (table.snapshot, len(table.rows)) == (snapshot, len(entries)):
                self._server.add_entries(identity, new)
                return len(new)

    async def erase(self, identity: Identity, *, only_empty: bool = False) -> Erased:
        place, now = await self._follow(identity)
        if only_empty and self._server.tables.get(identity, _Table()).rows:
            return Erased(now, 0, 0)
        self._server.erasures += 1
        table = self._server.tables.pop(identity, _Table())
        size = sum(map(len, table.rows))
        return Erased(now, len(place.ledger.confirmations(now)), size)

    async def places(self, wanted: Boundary) -> list[PlaceInfo]:
        await anyio.sleep(_DELAY)
        return [
            place_info(identity, Ledger(map(decoded, table.rows)), sum(map(len, table.rows)),
                       self._server.clock.now(table.recorded_at))
            for identity, table in self._server.tables.items()
            if wanted.allows(identity)
        ]  # fmt: skip

    async def identities(
        self, wanted: Boundary, after: Identity | None, limit: int | None
    ) -> list[Identity]:
        await anyio.sleep(_DELAY)
        return page_of(filter(wanted.allows, self._server.tables), after, limit)

    async def read_index(self, identity: Identity) -> bytes | None:
        return (await self._server.table(identity)).index

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
