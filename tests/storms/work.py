"""The work of a storm's processes: writers do numbered operations that anyone can compute.

A lane is one task of one life of one writer. Its operations follow from its name and their number,
so whoever knows how far a lane has come knows what must be in the store.
"""

import os
import random
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Literal

import anyio

from factmem import (
    Concept,
    FactType,
    LocalFileMemoryProvider,
    MemoryScope,
    MemorySubject,
    MultipleFacts,
    SingleFact,
)
from factmem._concurrency import FileLock
from factmem.models import AnyFact
from factmem.providers._sqlite.files import Guard
from factmem.providers._sqlite.session import SqliteSession
from tests.doors import watched
from tests.processes import Tell, fork
from tests.world import storage_of

LOG = Concept("log", "All that was ever saved, in its order", FactType.MULTIPLE)
STATE = Concept("state", "What was saved last")
AGENT = MemoryScope.Agent("storm")
PLACES = [
    MemorySubject("user", "The user", 1, per_entity=True).of(f"u{number}") for number in range(64)
]
BUSY = 3
"""The places of most operations."""
TASKS = 3
LANES = TASKS + 1
"""The lanes of a writer, with that of its forked child."""


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
    place = chance.randrange(BUSY if chance.random() < 0.7 else len(PLACES))
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
    """The statement before which it kills itself; None if another process must."""
    mutant: str | None = None


class Fuse:
    """Counts the statements of a process, and kills it when the fuse has burnt."""

    def __init__(self, left: int | None) -> None:
        self._left = left

    def __call__(self, sql: str) -> None:
        if self._left is not None:
            self._left -= 1
            if self._left < 0:
                os.kill(os.getpid(), signal.SIGKILL)


def read_files(root: str) -> None:
    """Read all files of the own store, as a backup does: closing them drops SQLite's locks."""
    for file in Path(root).iterdir():
        with suppress(FileNotFoundError):
            file.read_bytes()


def writer(tell: Tell, wait: Callable[[], None], work: Work) -> None:
    """Work until killed. A line per operation that has returned: lane, number, begin and end.

    Every third writer copies the folder again and again, and every fourth one forks a child that
    saves too.
    """
    if work.mutant is not None:
        MUTANTS[work.mutant]()
    keep = timedelta(0) if work.life % 2 else None
    backend = ("asyncio", "trio")[work.life // 2 % 2]
    store = LocalFileMemoryProvider(work.root, storage=storage_of(*work.keys), keep_history=keep)

    async def run(lane: str, last: int = sys.maxsize) -> None:
        for number in range(1, last + 1):
            todo = operation(lane, number)
            begin = time.monotonic_ns()
            try:
                await perform(store, todo)
            except Exception as exc:
                tell(f"! {lane} {number} {type(exc).__name__}: {exc}")
                os._exit(1)
            tell(f"{lane} {number} {begin} {time.monotonic_ns()}")
            if number % 10 == 0:
                read_files(work.root)

    async def main() -> None:
        async with anyio.create_task_group() as tasks:
            for task in range(TASKS):
                tasks.start_soon(run, f"{work.life}.{task}")

    # A child that is forked while a thread imports an event loop would wait for that for ever.
    anyio.run(anyio.sleep, 0, backend=backend)
    wait()
    with watched(Fuse(work.fuse)):
        if work.life % 3 == 0:
            threading.Thread(target=_copy_again_and_again, args=(work,), daemon=True).start()
        if work.life % 4 == 0:
            threading.Thread(target=anyio.run, args=(main,), kwargs={"backend": backend}).start()
            time.sleep(random.Random(work.life).random() * 0.1)
            child = fork()
            if not child:
                anyio.run(run, f"{work.life}.{TASKS}", 5, backend=backend)
                os._exit(0)
            os.waitpid(child, 0)
            threading.Event().wait()
        anyio.run(main, backend=backend)


def _copy_again_and_again(work: Work) -> None:
    copy = f"{work.root}-copy-{work.life}"
    while True:
        with suppress(OSError):  # files come and go
            shutil.copytree(work.root, copy)
        shutil.rmtree(copy, ignore_errors=True)


@dataclass(frozen=True)
class Turn:
    """The orders of a rotator."""

    root: str
    old: str
    """The only key that the store had before."""
    new: str
    life: int
    fuse: int | None
    """The statement before which it kills itself."""


def rotator(tell: Tell, wait: Callable[[], None], turn: Turn) -> None:
    """Rotate once, and report when it has returned; it has the old key or both, at random."""
    keys = (turn.old,) if turn.life % 2 else (turn.new, turn.old)
    store = LocalFileMemoryProvider(turn.root, storage=storage_of(*keys))
    wait()
    try:
        with watched(Fuse(turn.fuse)):
            anyio.run(store.keys.rotate, turn.new, backend=("asyncio", "trio")[turn.life // 2 % 2])
    except Exception as exc:
        tell(f"! rotator: {type(exc).__name__}: {exc}")
        os._exit(1)
    tell("rotated")


def _without_transactions() -> None:
    @contextmanager
    def transaction(session: SqliteSession) -> Iterator[None]:
        with session._lock():
            yield

    SqliteSession.transaction = transaction  # type: ignore[method-assign, assignment]


def _without_locks() -> None:
    """Neither the lock of the store nor the guards; SQLite's own are dropped by `read_files`."""
    FileLock.held = lambda self, *_, **__: nullcontext()  # type: ignore[method-assign, assignment]
    Guard.of = lambda path: None  # type: ignore[method-assign]


MUTANTS: dict[str, Callable[[], None]] = {
    "no transactions": _without_transactions,
    "no locks": _without_locks,
}
"""Rules of the engine that can be switched off, to see the storm notice."""
