"""A worker that saves, purges, erases and copies a store, and notes what came of it.

A library that is preloaded records the notes, and with them each write of the process, or lets
calls on its files fail. Without one, notes are printed.
"""

import ctypes
import random
import sqlite3
import sys
from collections.abc import Awaitable, Callable
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

import anyio

from factmem import Aes256GCMEncryptor, EncryptedStorage, LocalFileMemoryProvider, SimpleStorage
from factmem.errors import CorruptJournalError, DecryptionError, FactmemError
from factmem.models.facts import Concept, FactType, MultipleFacts
from factmem.providers._sqlite.database import SqliteDatabase
from tests.world import AGENT, USER

NAMES = 4
TAGS = [Concept(f"tags-{number}", "Tags", FactType.MULTIPLE) for number in range(3)]
GAP = 400
"""The calls between two that fail, on average."""


class Orders(NamedTuple):
    """What a worker is to do; the texts of its command line."""

    folder: str
    operations: str
    seed: str
    key: str = ""
    first: str = "0"
    """The first of its users."""
    is_faulty: str = ""
    """Whether calls on its files fail."""
    is_mutant: str = ""
    """Whether the log is not emptied, so that a test sees a storm notice it."""


def opened(folder: Path | str, key: str) -> LocalFileMemoryProvider:
    """Return the store of a folder; it is plain if the key is empty."""
    storage = EncryptedStorage(Aes256GCMEncryptor(key)) if key else SimpleStorage()
    return LocalFileMemoryProvider(folder, storage=storage)


def stored(folder: str) -> dict[bytes, set[bytes]]:
    """Return the ciphertexts of each place: its lines, and its wrapped key."""
    found: dict[bytes, set[bytes]] = {}
    with (
        suppress(sqlite3.Error),  # its disk fails, or there is no store yet
        closing(sqlite3.connect(f"file:{folder}/facts.db?mode=ro", uri=True)) as db,
    ):
        for place, line in db.execute(
            "SELECT place, line FROM entries UNION ALL SELECT place, data_key FROM places"
        ).fetchall():
            found.setdefault(place, set()).add(line)
    return found


class Worker:
    """Changes the store at random, and opens it again now and then."""

    def __init__(self, orders: Orders) -> None:
        self._orders = orders
        self._drawn = random.Random(int(orders.seed))
        self._library = ctypes.CDLL(None)
        self._live: dict[str, tuple[int, int]] = {}
        self._places: dict[int, bytes] = {}
        """The keys of the places of its users, in an encrypted store."""

    def _note(self, *words: object) -> None:
        if hasattr(self._library, "power_cuts_note"):
            self._library.power_cuts_note(" ".join(map(str, words)).encode())
        else:
            print(*words, flush=True)

    def _fail(self, gap: int) -> None:
        if self._orders.is_faulty:
            self._library.disk_faults_arm(
                ctypes.c_long(gap), ctypes.c_ulong(self._drawn.getrandbits(32))
            )

    async def run(self) -> None:
        """Do all operations."""
        store, first = opened(self._orders.folder, self._orders.key), int(self._orders.first)
        if self._orders.is_mutant:
            SqliteDatabase.truncate = lambda *_: True  # type: ignore[method-assign]
        for owner in range(first, first + NAMES) if self._orders.key else ():
            before = stored(self._orders.folder)
            await self._save(store, owner)
            new = stored(self._orders.folder).keys() - before
            if len(new) == 1:  # none of the other process, after an erasure
                self._places[owner] = new.pop()
        self._note("ready")
        self._fail(GAP)
        for number in range(int(self._orders.operations)):
            chance, owner = self._drawn.random(), self._drawn.randrange(first, first + NAMES)
            if chance < 0.6 or not self._live:
                await self._save(store, owner)
            elif chance < 0.9:
                await self._purge(store)
            elif chance < 0.95:
                await self._erase(store, owner)
            elif chance < 0.953:
                self._note("copy", copy := f"{self._orders.folder}-{first}-{number}")
                await self._tried(partial(store.backup, copy))
            else:
                await self._tried(store.aclose)
                store = opened(self._orders.folder, self._orders.key)
        self._fail(0)
        await store.aclose()
        if self._orders.is_faulty:
            self._note("faults", *map(self._library.disk_faults_count, range(4)))

    async def _tried(self, call: Callable[[], Awaitable[object]]) -> object:
        """Await a call and note that it returned. Only a failing disk may be an error."""
        try:
            result = await call()
        except FactmemError as exc:
            if not self._orders.is_faulty:
                raise
            if isinstance(exc, CorruptJournalError | DecryptionError):
                self._note("wrong", type(exc).__name__, exc)
            self._note("failed")
            return None
        self._note("done")
        return result

    async def _save(self, store: LocalFileMemoryProvider, owner: int) -> None:
        topic = self._drawn.randrange(len(TAGS))
        size = self._drawn.choice([40, 200, 1500])
        values = [self._drawn.randbytes(size).hex() for _ in range(self._drawn.choice([1, 1, 4]))]
        self._note("save", owner, *values)
        fact = MultipleFacts(TAGS[topic], values)
        await self._tried(lambda: store.save(fact, USER.of(f"{owner}"), AGENT))
        self._live |= dict.fromkeys(values, (owner, topic))

    async def _purge(self, store: LocalFileMemoryProvider) -> None:
        value = self._drawn.choice(sorted(self._live))
        owner, topic = self._live.pop(value)
        self._note("remove", owner, value)

        async def purge() -> bool:
            gone = await store.forget(
                USER.of(f"{owner}"), AGENT, concept=TAGS[topic], value=value, purge=True
            )
            return gone.copies_remain

        await self._removed(owner, purge)

    async def _erase(self, store: LocalFileMemoryProvider, owner: int) -> None:
        self._live = {value: place for value, place in self._live.items() if place[0] != owner}
        self._note("erase", owner)

        async def erase() -> bool:
            return (await store.erase(USER.of(f"{owner}"), AGENT)).copies_remain

        await self._removed(owner, erase)

    async def _removed(self, owner: int, remove: Callable[[], Awaitable[bool]]) -> None:
        """Remove, and note whether copies remain, and which ciphertexts are gone."""
        place = self._places.get(owner, b"")
        before = stored(self._orders.folder).get(place, set()) if place else set()

        async def noted() -> None:
            remains = await remove()
            # Without rows the read may have failed.
            after = stored(self._orders.folder) if place else {}
            gone = before - after.get(place, set()) if after else set()
            self._note("removed", remains, *(each.hex() for each in gone))

        await self._tried(noted)


if __name__ == "__main__":
    anyio.run(Worker(Orders(*sys.argv[1:])).run)
