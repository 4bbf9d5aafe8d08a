"""A worker that saves, purges, erases and copies a store, and notes what came of it.

A library that is preloaded records the notes, and with them each write of the process, or lets
calls on its files fail. Without one, notes are printed.
"""

import ctypes
import faulthandler
import random
import sqlite3
import sys
from collections.abc import Awaitable, Callable, Iterable
from contextlib import closing, suppress
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

import anyio

from factmem import LocalFileMemoryProvider
from factmem.errors import CorruptJournalError, DecryptionError, FactmemError
from factmem.models.facts import AnyFact, Concept, FactType, MultipleFacts, SingleFact
from factmem.providers._sqlite.database import SqliteDatabase
from tests.world import AGENT, USER, storage_of

NAMES = 4
TAGS = [Concept(f"tags-{number}", "Tags", FactType.MULTIPLE) for number in range(3)]
LAST = Concept("last", "The mark of the last save of several values")
SHARED = 1000
"""The user of all processes, who is not erased."""
HANG = 120
"""Seconds after which an operation hangs, and the process ends with its traces."""
AFTERWARDS = 3
"""The saves that must succeed when the disk works again."""


class Orders(NamedTuple):
    """What a worker is to do; the texts of its command line."""

    folder: str
    operations: str
    seed: str
    key: str = ""
    first: str = "0"
    """The first of its users."""
    gap: str = ""
    """The calls on its files between two that fail, on average; empty if none fails."""
    mutant: str = ""
    """A rule that is switched off, so that a test sees a storm notice it: of `MUTANTS`."""


MUTANTS = ("log", "errors", "order")
"""The log is not emptied; what failed is acknowledged; values are reported in the wrong order."""


def mark_of(value: str) -> str:
    """Return what stands for a value where the value may be removed."""
    return sha256(value.encode()).hexdigest()[:12]


def opened(folder: Path | str, key: str) -> LocalFileMemoryProvider:
    """Return the store of a folder; it is plain if the key is empty."""
    return LocalFileMemoryProvider(folder, storage=storage_of(*filter(None, [key])))


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
        self._is_faulty = bool(orders.gap)
        self._drawn = random.Random(int(orders.seed))
        self._library = ctypes.CDLL(None)
        self._live: dict[str, tuple[int, int]] = {}
        self._held: set[str] = set()
        """The values that were acknowledged, and not removed since."""
        self._places: dict[int, bytes] = {}
        """The keys of the places of its users, in an encrypted store."""

    def _note(self, *words: object) -> None:
        if hasattr(self._library, "power_cuts_note"):
            self._library.power_cuts_note(" ".join(map(str, words)).encode())
        else:
            print(*words, flush=True)

    def _fail(self, gap: int) -> None:
        if self._orders.gap:
            self._library.disk_faults_arm(
                ctypes.c_long(gap), ctypes.c_ulong(self._drawn.getrandbits(32))
            )

    async def run(self) -> None:
        """Do all operations."""
        store, first = opened(self._orders.folder, self._orders.key), int(self._orders.first)
        if self._orders.mutant == "log":
            SqliteDatabase.truncate = lambda *_: True  # type: ignore[method-assign]
        for owner in range(first, first + NAMES) if self._orders.key else ():
            before = stored(self._orders.folder)
            await self._save(store, owner)
            new = stored(self._orders.folder).keys() - before
            if len(new) == 1:  # none of the other process, after an erasure
                self._places[owner] = new.pop()
        self._note("ready")
        self._fail(int(self._orders.gap or 0))
        for number in range(int(self._orders.operations)):
            faulthandler.dump_traceback_later(HANG, exit=True)
            chance, owner = self._drawn.random(), self._drawn.randrange(first, first + NAMES)
            if chance < 0.5 or not self._live:
                await self._save(store, owner)
            elif chance < 0.55:
                await self._save_at_once(store, [*range(first, first + NAMES), SHARED])
            elif chance < 0.6:
                owner = self._drawn.choice([owner, SHARED])
                await self._tried(partial(self._read, store, owner))
            elif chance < 0.61:
                owner = self._drawn.choice([owner, SHARED])
                await self._tried(partial(store.compact, USER.of(f"{owner}"), AGENT))
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
        faulthandler.cancel_dump_traceback_later()
        self._fail(0)
        self._is_faulty = False  # an error is a fault of the store from now on
        for _ in range(AFTERWARDS):
            await self._save(store, first)
        await store.aclose()
        if self._orders.gap:
            self._note("faults", *map(self._library.disk_faults_count, range(4)))

    async def _tried(self, call: Callable[[], Awaitable[object]]) -> bool:
        """Await a call, and note and return whether it succeeded."""
        is_done = await self._succeeds(call)
        self._note("done" if is_done or self._orders.mutant == "errors" else "failed")
        return is_done

    async def _succeeds(self, call: Callable[[], Awaitable[object]]) -> bool:
        """Await a call. Only a failing disk may be an error, and none is called damage."""
        try:
            await call()
        except FactmemError as exc:
            if not self._is_faulty:
                raise
            if isinstance(exc, CorruptJournalError | DecryptionError):
                self._note("wrong", type(exc).__name__, exc)
            return False
        return True

    async def _save(self, store: LocalFileMemoryProvider, owner: int) -> None:
        topic = self._drawn.randrange(len(TAGS))
        size = self._drawn.choice([40, 200, 1500])
        values = [self._drawn.randbytes(size).hex() for _ in range(self._drawn.choice([1, 1, 4]))]
        self._note("save", owner, *(values[::-1] if self._orders.mutant == "order" else values))
        facts: list[AnyFact] = [MultipleFacts(TAGS[topic], values)]
        if len(values) > 1:
            facts.append(SingleFact(LAST, mark_of(values[-1])))
        if await self._tried(lambda: store.save_many(facts, USER.of(f"{owner}"), AGENT)):
            self._held.update(values)
        self._live |= dict.fromkeys(values, (owner, topic))

    async def _save_at_once(self, store: LocalFileMemoryProvider, owners: Iterable[int]) -> None:
        """Save a value of each user by a task of its own: they share a commit."""
        values = {self._drawn.randbytes(40).hex(): owner for owner in owners}
        done: list[str] = []

        async def save(value: str, owner: int) -> None:
            fact = MultipleFacts(TAGS[0], [value])
            if await self._succeeds(lambda: store.save(fact, USER.of(f"{owner}"), AGENT)):
                done.append(value)

        self._note("saves", *(f"{owner} {value}" for value, owner in values.items()))
        async with anyio.create_task_group() as tasks:
            for value, owner in values.items():
                tasks.start_soon(save, value, owner)
        self._note("saved", *done)
        self._held.update(done)
        self._live |= {value: (owner, 0) for value, owner in values.items()}

    async def _read(self, store: LocalFileMemoryProvider, owner: int) -> None:
        """Compare what is there with what was acknowledged; note what was not and is read."""
        found: list[str] = []
        for topic in TAGS:
            facts = await store.load(topic, USER.of(f"{owner}"), AGENT)
            found += [value for fact in facts for value in fact.values]
        own = {value for value, (whose, _) in self._live.items() if whose == owner}
        if missing := (own & self._held).difference(found):
            self._note("wrong", f"{len(missing)} values are not there")
        if len(set(found)) < len(found):
            self._note("wrong", "a value is there twice")
        self._note("seen", *(own & set(found) - self._held))

    async def _purge(self, store: LocalFileMemoryProvider) -> None:
        value = self._drawn.choice(sorted(self._live))
        self._held.discard(value)
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
        self._held &= self._live.keys()
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
    _orders = Orders(*sys.argv[1:])
    anyio.run(Worker(_orders).run, backend=("asyncio", "trio")[int(_orders.first) // NAMES % 2])
