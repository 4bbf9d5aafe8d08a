"""The work of a storm's processes: writers do numbered operations that anyone can compute.

A lane is one task of one life of one writer. Its operations follow from its name and their number,
so whoever knows how far a lane has come knows what must be in the store.
"""

import os
import random
import signal
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

import anyio
from factmem.storage._files import LocalFiles

from factmem import (
    Concept,
    FactType,
    LocalFileMemoryProvider,
    MemoryScope,
    MemorySubject,
    MultipleFacts,
    SingleFact,
)
from factmem.models import AnyFact
from tests.doors import DoorStorage
from tests.processes import Tell

__all__ = [
    "AGENT",
    "LOG",
    "MUTANTS",
    "PLACES",
    "STATE",
    "TASKS",
    "Operation",
    "Turn",
    "Work",
    "operation",
    "rotator",
    "writer",
]

LOG = Concept("log", "All that was ever saved, in its order", FactType.MULTIPLE)
STATE = Concept("state", "What was saved last")
AGENT = MemoryScope.Agent("storm")
PLACES = [
    MemorySubject("user", "The user", 1, per_entity=True).of(name) for name in ("ann", "bob", "cid")
]
TASKS = 3


@dataclass(frozen=True)
class Operation:
    """One thing that a lane does to one place."""

    kind: Literal["save", "state", "both", "forget", "compact"]
    place: int
    values: tuple[str, ...] = ()
    """The values that it adds to the log or forgets."""
    state: str | None = None


def operation(lane: str, number: int) -> Operation:
    """Return the operation of a lane with a number, from 1 on."""
    chance = random.Random(f"{lane}:{number}")
    place = chance.randrange(len(PLACES))
    size = 20_000 if chance.random() < 0.01 else chance.randrange(600)
    value = f"{lane}:{number}:{'·x' * (size // 2)}"
    drawn = chance.random()
    if drawn < 0.6:
        return Operation("save", place, (value,))
    if drawn < 0.75:
        return Operation("state", place, (), value)
    if drawn < 0.9:
        return Operation("both", place, (f"{value}/a", f"{value}/b"), value)
    if drawn < 0.97:
        for earlier in range(number - 1, 0, -1):
            done = operation(lane, earlier)
            if done.kind == "save":
                return Operation("forget", done.place, done.values)
    return Operation("compact", place)


async def perform(store: LocalFileMemoryProvider, todo: Operation) -> None:
    """Do an operation."""
    subject = PLACES[todo.place]
    match todo.kind:
        case "save":
            await store.save(MultipleFacts(LOG, todo.values), subject, AGENT)
        case "state":
            await store.save(SingleFact(STATE, str(todo.state)), subject, AGENT)
        case "both":
            first, second = todo.values
            facts: list[AnyFact] = [
                MultipleFacts(LOG, (first,)),
                SingleFact(STATE, str(todo.state)),
                MultipleFacts(LOG, (second,)),
            ]
            await store.save_many(facts, subject, AGENT)
        case "forget":
            await store.forget(subject, AGENT, concept=LOG, value=todo.values[0])
        case "compact":
            await store.compact(subject, AGENT)


@dataclass(frozen=True)
class Work:
    """The orders of a writer."""

    root: str
    keys: tuple[str, ...]
    """The keys that it has, as base64; none in a store in the clear."""
    life: int
    """Its number among all writers of the storm, from which everything else follows."""
    fuse: int | None
    """The file call during which it kills itself; None if another process must."""
    mutant: str | None = None


class TornFiles(LocalFiles):
    """Writes in pieces, with pauses, and dies in the middle of a call when its fuse has burnt."""

    def __init__(self, folder: str, chance: random.Random, fuse: int | None) -> None:
        super().__init__(folder)
        self._chance = chance
        self._left = fuse

    @classmethod
    def with_fuse(cls, seed: int, fuse: int | None) -> Callable[[str], "TornFiles"]:
        """Return a door for a storage; its chances follow from the seed."""
        return lambda folder: cls(folder, random.Random(seed), fuse)

    def _burn(self) -> None:
        if self._left is not None:
            self._left -= 1
            if self._left < 0:
                os.kill(os.getpid(), signal.SIGKILL)

    def append(self, fd: int, data: bytes) -> None:
        if self._left == 0:
            super().append(fd, data[: self._chance.randrange(len(data) + 1)])
        self._burn()
        while data and self._chance.random() < 0.3:
            at = self._chance.randrange(len(data) + 1)
            super().append(fd, data[:at])
            time.sleep(self._chance.random() * 0.002)
            data = data[at:]
        super().append(fd, data)

    def sync(self, fd: int) -> None:
        self._burn()
        super().sync(fd)

    def sync_folder(self, name: str) -> None:
        self._burn()
        super().sync_folder(name)

    def create(self, name: str) -> int:
        self._burn()
        return super().create(name)

    def rename(self, old: str, new: str) -> None:
        self._burn()
        super().rename(old, new)
        self._burn()


def writer(tell: Tell, wait: Callable[[], None], work: Work) -> None:
    """Work until killed. A line per operation that has returned: lane, number, begin and end."""
    if work.mutant is not None:
        MUTANTS[work.mutant]()
    files = TornFiles.with_fuse(work.life, work.fuse)
    storage = DoorStorage(files, work.keys or None, busy_timeout=60)
    keep = timedelta(0) if work.life % 2 else None

    async def run(store: LocalFileMemoryProvider, lane: str) -> None:
        number = 0
        while True:
            number += 1
            todo = operation(lane, number)
            begin = time.monotonic_ns()
            try:
                await perform(store, todo)
            except Exception as exc:
                tell(f"! {lane} {number} {type(exc).__name__}: {exc}")
                os._exit(1)
            tell(f"{lane} {number} {begin} {time.monotonic_ns()}")

    async def main() -> None:
        store = LocalFileMemoryProvider(work.root, storage=storage, keep_history=keep)
        async with anyio.create_task_group() as tasks:
            for task in range(TASKS):
                tasks.start_soon(run, store, f"{work.life}.{task}")

    wait()
    anyio.run(main, backend=("asyncio", "trio")[work.life // 2 % 2])


@dataclass(frozen=True)
class Turn:
    """The orders of a rotator."""

    root: str
    old: str
    """The only key that the store had before."""
    new: str
    life: int
    fuse: int | None
    """The file call in the middle of which it kills itself."""


def rotator(tell: Tell, wait: Callable[[], None], turn: Turn) -> None:
    """Rotate once, and report when it has returned; it has the old key or both, at random."""
    keys = (turn.old,) if turn.life % 2 else (turn.new, turn.old)
    files = TornFiles.with_fuse(turn.life, turn.fuse)
    store = LocalFileMemoryProvider(turn.root, storage=DoorStorage(files, keys, busy_timeout=60))
    wait()
    try:
        anyio.run(store.keys.rotate, turn.new, backend=("asyncio", "trio")[turn.life // 2 % 2])
    except Exception as exc:
        tell(f"! rotator: {type(exc).__name__}: {exc}")
        os._exit(1)
    tell("rotated")


def _without_lock() -> None:
    LocalFiles.lock = lambda self, timeout: nullcontext()  # type: ignore[method-assign]


def _without_header() -> None:
    class AnyHeader(bytes):
        """Equal to whatever stands where the first line is read again."""

        def __eq__(self, other: object) -> bool:
            return True

        __hash__ = bytes.__hash__

    read = LocalFiles.read
    LocalFiles.read = lambda self, fd, count, offset: (  # type: ignore[method-assign]
        AnyHeader(read(self, fd, count, offset)) if offset == 0 else read(self, fd, count, offset)
    )


def _without_manifest() -> None:
    read, seen = LocalFiles.content, dict[str, bytes]()

    def content(files: LocalFiles, name: str) -> bytes | None:
        found = seen.get(name) or read(files, name)
        if found is not None:
            seen[name] = found
        return found

    LocalFiles.content = content  # type: ignore[method-assign, assignment]


MUTANTS: dict[str, Callable[[], None]] = {
    "no lock": _without_lock,
    "no look at the first line": _without_header,
    "no look at the manifest": _without_manifest,
}
"""Rules of the protocol that can be switched off, to see the storm notice."""
