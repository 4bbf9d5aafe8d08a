"""A whole store of your own: a `Backend` that keeps the entries of each place as rows of SQLite.

`FactStore` has the methods of a `FactStore` and decides what is current. A backend stores lines of
JSON, in order. Here each of its methods is one transaction, so that any number of processes may use
the file.
"""

import json
import sqlite3
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import anyio

from factmem import Concept, FactType, MemoryScope, MemorySubject, MultipleFacts, SingleFact
from factmem.ledger.entries import Entry, decoded, encoded_entry, stamped
from factmem.ledger.ledger import Ledger
from factmem.models.places import Boundary, Identity
from factmem.models.when import StoreClock, TimeProvider, system_clock
from factmem.providers import (
    Decision,
    Erased,
    ErasedSinceError,
    Extension,
    FactStore,
    PlaceInfo,
    Present,
    Unread,
    place_info,
)

R = TypeVar("R")
_Edit = Callable[[Sequence[Entry]], Sequence[Entry | None]]

TABLES = """
CREATE TABLE IF NOT EXISTS lines (number INTEGER PRIMARY KEY, place TEXT, made INTEGER, line BLOB);
CREATE INDEX IF NOT EXISTS lines_by_place ON lines (place);
CREATE TABLE IF NOT EXISTS indexes (place TEXT PRIMARY KEY, bytes BLOB);
CREATE TABLE IF NOT EXISTS erasures (number INTEGER PRIMARY KEY);
"""


class _View:
    """The ledger of a place, and how far it was read."""

    def __init__(self, made: int) -> None:
        self.made, self.last, self.ledger = made, 0, Ledger()


class _StoredPlace:
    """A place in a transaction.

    `ledger` applies the lines that were added since the last call, by any process, to the cached
    ledger. `made` is the number of erasures before the place was created, so a place that is
    created again differs; it is None if the place does not exist.
    """

    nothing = Ledger()

    def __init__(
        self, database: sqlite3.Connection, identity: Identity, views: dict[str, _View]
    ) -> None:
        self._database, self._views = database, views
        self.key = json.dumps(identity)
        ((self.erasures,),) = database.execute("SELECT count(*) FROM erasures")
        query = "SELECT min(made), sum(length(line)) FROM lines WHERE place = ?"
        ((self.made, self.size),) = database.execute(query, (self.key,))

    @property
    def ledger(self) -> Ledger:
        if self.made is None:
            self._views.pop(self.key, None)
            return self.nothing
        view = self._views.get(self.key)
        if view is None or view.made != self.made:
            view = self._views[self.key] = _View(self.made)
        for number, line in self._lines(view.last):
            view.ledger.apply(decoded(line))
            view.last = number
        return view.ledger

    @property
    def entries(self) -> list[Entry]:
        return [decoded(line) for _, line in self._lines()]

    def _lines(self, after: int = 0) -> list[tuple[int, bytes]]:
        query = "SELECT number, line FROM lines WHERE place = ? AND number > ? ORDER BY number"
        return self._database.execute(query, (self.key, after)).fetchall()

    def add(self, lines: Sequence[bytes]) -> None:
        made = self.erasures if self.made is None else self.made
        insert = "INSERT INTO lines (place, made, line) VALUES (?, ?, ?)"
        self._database.executemany(insert, [(self.key, made, line) for line in lines])

    def write(self, lines: Sequence[bytes], edit: _Edit | None) -> None:
        """Add lines, and write all anew if there is an edit: other processes read all again."""
        if edit is not None:
            edited = edit([*self.entries, *map(decoded, lines)])
            self.erase()
            lines = [_line(entry) for entry in edited if entry]
        self.add(lines)

    def erase(self) -> None:
        self._database.execute("INSERT INTO erasures DEFAULT VALUES")
        self._database.execute("DELETE FROM lines WHERE place = ?", (self.key,))
        self._database.execute("DELETE FROM indexes WHERE place = ?", (self.key,))
        self.erasures, self.made = self.erasures + 1, None


class _SqliteBackend:
    """A `Backend` over one file; see the protocol for the contract of each method."""

    def __init__(self, path: str, clock: TimeProvider) -> None:
        self._clock = StoreClock(clock)
        self._lock = threading.Lock()
        self._views: dict[str, _View] = {}
        self._database = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        self._database.execute("PRAGMA secure_delete = on")
        self._database.executescript(TABLES)

    async def _work(self, work: Callable[[sqlite3.Connection], R]) -> R:
        """Run a transaction in a worker thread. An error rolls it back."""

        def run() -> R:
            with self._lock, self._database as database:
                database.execute("BEGIN IMMEDIATE")
                return work(database)

        return await anyio.to_thread.run_sync(run)

    async def _at(self, identity: Identity, work: Callable[[_StoredPlace], R]) -> R:
        return await self._work(
            lambda database: work(_StoredPlace(database, identity, self._views))
        )

    def _now(self, place: _StoredPlace) -> str:
        return self._clock.now(place.ledger.recorded_at)

    def _recording(self, place: _StoredPlace) -> str:
        return self._clock.recording(place.ledger.recorded_at)

    def warm(self, identity: Identity, present: Present[R | None]) -> R | None:
        return None  # each read queries the file

    async def present(
        self,
        identity: Identity,
        present: Present[R],
        *,
        until: str | None = None,
        keyword: str | None = None,
    ) -> R:
        def read(place: _StoredPlace) -> R:
            if until is None:
                return present(place.ledger, self._now(place))
            return present(Ledger(place.entries, until=until), until)

        return await self._at(identity, read)

    async def entries(self, identity: Identity, use: Callable[[list[Entry]], R]) -> R:
        return await self._at(identity, lambda place: use(place.entries))

    async def unread(
        self, known: Mapping[Identity, object], use: Callable[[Mapping[Identity, Unread]], R]
    ) -> R:
        def read(database: sqlite3.Connection) -> dict[Identity, Unread]:
            places = {each: _StoredPlace(database, each, self._views) for each in known}
            return {each: Unread(None, True, place.entries) for each, place in places.items()}

        return use(await self._work(read))

    async def moment(self, identity: Identity) -> object:
        return await self._at(identity, lambda place: (place.erasures, place.made))

    async def append(
        self, identity: Identity, entry: dict[str, Any], *, since: object = None
    ) -> None:
        def write(place: _StoredPlace) -> None:
            if isinstance(since, tuple):
                erasures, made = since
                is_same = made is not None and made == place.made
                if erasures != place.erasures and not is_same:
                    raise ErasedSinceError
            place.add([stamped(encoded_entry(entry), self._recording(place))])

        await self._at(identity, write)

    async def change(self, identity: Identity, decide: Decision) -> int:
        def write(place: _StoredPlace) -> int:
            if place.made is None:
                return 0
            change = decide(place.ledger, self._now(place))
            lines: list[bytes] = []
            if change.entry is not None:
                lines = [stamped(encoded_entry(change.entry), self._recording(place))]
            place.write(lines, change.edit)
            return change.forgotten

        return await self._at(identity, write)

    async def extend(
        self, identity: Identity, extend: Extension, *, since: str | None = None
    ) -> int:
        def write(place: _StoredPlace) -> int:
            change = extend(place.entries, self._recording(place))
            lines = [_line(entry) for entry in change.entries]
            place.write(lines, change.edit)
            return len(change.entries)

        return await self._at(identity, write)

    async def erase(self, identity: Identity, *, only_empty: bool = False) -> Erased:
        def write(place: _StoredPlace) -> Erased:
            now = self._now(place)
            if only_empty and place.made is not None:
                return Erased(now, 0, 0)
            count = len(place.ledger.confirmations(now))
            place.erase()
            return Erased(now, count, place.size or 0)

        return await self._at(identity, write)

    async def places(self, wanted: Boundary) -> list[PlaceInfo]:
        def read(database: sqlite3.Connection) -> list[PlaceInfo]:
            found = [
                (identity, _StoredPlace(database, identity, self._views))
                for identity in _identities(database)
                if wanted.allows(identity)
            ]
            return [
                place_info(identity, place.ledger, place.size, self._now(place))
                for identity, place in found
            ]

        return await self._work(read)

    async def identities(
        self, wanted: Boundary, after: Identity | None, limit: int | None
    ) -> list[Identity]:
        first = "" if after is None else json.dumps(after)
        found = await self._work(lambda database: _identities(database, first))
        return [identity for identity in found if wanted.allows(identity)][:limit]

    async def read_index(self, identity: Identity) -> bytes | None:
        def read(database: sqlite3.Connection) -> bytes | None:
            query = "SELECT bytes FROM indexes WHERE place = ?"
            found = database.execute(query, (json.dumps(identity),)).fetchone()
            return found[0] if found else None

        return await self._work(read)

    async def write_index(self, identity: Identity, index: bytes, version: str) -> bool:
        def write(database: sqlite3.Connection) -> bool:
            place = _StoredPlace(database, identity, self._views)
            if place.made is None or place.ledger.version(self._now(place)) != version:
                return False
            database.execute("REPLACE INTO indexes VALUES (?, ?)", (place.key, index))
            return True

        return await self._work(write)

    async def close(self) -> None:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(self._database.close)


def _line(entry: Entry) -> bytes:
    return stamped(encoded_entry(entry), entry["at"])


def _identities(database: sqlite3.Connection, after: str = "") -> list[Identity]:
    query = "SELECT DISTINCT place FROM lines WHERE place > ? ORDER BY place"
    return [tuple(json.loads(key)) for (key,) in database.execute(query, (after,))]


class SqliteProvider(FactStore):
    """A store in one SQLite file. A save is durable when it returns."""

    def __init__(self, path: str, *, clock: TimeProvider = system_clock) -> None:
        super().__init__(_SqliteBackend(path, clock))


THEME = Concept("ide-theme", "The user's preferred IDE theme")
SNACKS = Concept("snacks", "What the user eats while working", FactType.MULTIPLE)
ALICE = MemorySubject("user", "The person the agent talks to", 1, per_entity=True).of("alice")
APP = MemoryScope.Product("my-app")


async def main() -> None:
    """Use the store like any other."""
    async with SqliteProvider("facts.sqlite") as store:
        await store.save(SingleFact(THEME, "light"), ALICE, APP)
        await store.save(SingleFact(THEME, "dark"), ALICE, APP)
        await store.save(MultipleFacts(SNACKS, ("김밥", "nuts")), ALICE, APP)

        for theme in await store.load(THEME, ALICE, APP):
            print(f"theme: {theme.value}")
        print(f"saved {len(await store.history(THEME, ALICE, APP))} times")
        for fact in await store.load_by_description("김밥", ALICE, APP):
            print(f"found: {', '.join(fact.values)}")


if __name__ == "__main__":
    anyio.run(main)
