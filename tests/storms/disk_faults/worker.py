"""A worker of the storm of disk faults: it saves, forgets, compacts and reads, and says what came of it.

It prints a line for each operation that is over: its lane and number, when it began and ended, and
"done" or "failed". "seen" and a lane and a number: a value of a failed save was read. "!" and a text: a
fault of the store. It ends when its input ends, or after enough faults.
"""

import argparse
import ctypes
import random
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial

import anyio

from factmem import Aes256GCMEncryptor, EncryptedStorage, LocalFileMemoryProvider, SimpleStorage
from factmem.errors import CorruptJournalError, DecryptionError, FactmemError
from tests.storms.work import AGENT, LOG, PLACES, TASKS, Operation, operation, perform

__all__ = ["KINDS", "MUTANTS"]

KINDS = ("write", "sync", "truncate", "read")
"""The kinds of calls that fail, in the order of the library."""

MUTANTS = ("errors are ignored",)
"""Rules that can be switched off, so that a test sees the storm notice it."""

GAP = 20
"""The calls between two faults on average."""

LIVES = 60
"""The operations between two openings of the store on average."""

AFTERWARDS = 3
"""The operations of each task that must succeed when the disk works again."""


def _tell(*words: object) -> None:
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


class Disk:
    """The disk of this process, which fails once it is told to."""

    def __init__(self, faults: int, seed: int) -> None:
        self._most, self._seed = faults, seed
        self._library = ctypes.CDLL(None) if faults else None

    @property
    def counts(self) -> list[int]:
        """How many calls of each kind have failed."""
        if self._library is None:
            return [0 for _ in KINDS]
        return [self._library.disk_faults_count(kind) for kind in range(len(KINDS))]

    @property
    def is_done(self) -> bool:
        """Whether it has failed often enough."""
        return self._library is not None and sum(self.counts) >= self._most

    def fail(self) -> None:
        """Fail from now on."""
        if self._library is not None:
            self._library.disk_faults_arm(ctypes.c_long(GAP), ctypes.c_ulong(self._seed))

    def work(self) -> None:
        """Fail no more."""
        if self._library is not None:
            self._library.disk_faults_arm(ctypes.c_long(0), ctypes.c_ulong(0))


@dataclass
class Lane:
    """One task, and what it knows of its values."""

    name: str
    number: int = 0
    held: list[set[str]] = field(default_factory=lambda: [set() for _ in PLACES])
    """By place, the values that were acknowledged and that it has not begun to forget."""
    failed: dict[str, int] = field(default_factory=dict)
    """Values of failed saves, with the numbers of their operations."""

    def begin(self) -> Operation:
        """Return the next operation."""
        self.number += 1
        todo = operation(self.name, self.number)
        if todo.kind == "forget":
            self.held[todo.place].difference_update(todo.values)
            for value in todo.values:
                self.failed.pop(value, None)
        return todo

    def end(self, todo: Operation, *, is_done: bool) -> None:
        """Note what came of it."""
        if todo.kind == "forget":
            return
        if is_done:
            self.held[todo.place].update(todo.values)
        else:
            self.failed.update(dict.fromkeys(todo.values, self.number))


class Worker:
    """Runs the tasks of one process over one store, which it opens again now and then."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._chance = random.Random(f"{options.seed} {options.life}")
        self._disk = Disk(options.faults, options.seed)
        self._is_over = threading.Event()

    def _opened(self) -> LocalFileMemoryProvider:
        key = self._options.key
        storage = EncryptedStorage(Aes256GCMEncryptor(key)) if key else SimpleStorage()
        return LocalFileMemoryProvider(self._options.root, storage=storage)

    async def run(self) -> None:
        """Work until the end of the input, or until the disk has failed often enough."""
        threading.Thread(target=self._listen, daemon=True).start()
        lanes = [Lane(f"{self._options.life}.{task}") for task in range(TASKS)]
        self._disk.fail()
        while not self._is_over.is_set() and not self._disk.is_done:
            store, steps = self._opened(), self._chance.randrange(1, LIVES)
            async with anyio.create_task_group() as tasks:
                for lane in lanes:
                    tasks.start_soon(self._work, store, lane, steps // TASKS + 1)
            await self._guarded(store.aclose)
        self._disk.work()
        self._options.faults = 0  # an error is a fault of the store from now on
        async with self._opened() as store:
            for lane in lanes:
                await self._work(store, lane, AFTERWARDS)
        _tell("faults", *self._disk.counts)

    def _listen(self) -> None:
        sys.stdin.read()
        self._is_over.set()

    async def _work(self, store: LocalFileMemoryProvider, lane: Lane, steps: int) -> None:
        for _ in range(steps):
            todo, begin = lane.begin(), time.monotonic_ns()
            is_done = await self._guarded(partial(perform, store, todo))
            end = time.monotonic_ns()
            is_told = is_done or self._options.mutant == MUTANTS[0]
            _tell(lane.name, lane.number, begin, end, "done" if is_told else "failed")
            lane.end(todo, is_done=is_done)
            if self._chance.random() < 0.3:
                await self._guarded(partial(self._read, store, lane))

    async def _read(self, store: LocalFileMemoryProvider, lane: Lane) -> None:
        place = self._chance.randrange(len(PLACES))
        wanted = set(lane.held[place])
        facts = await store.load(LOG, PLACES[place], AGENT)
        found = [value for fact in facts for value in fact.values]
        missing = wanted.difference(found)
        if missing:
            _tell("!", f"{len(missing)} values are not there, such as {min(missing)[:20]}")
        if len(set(found)) < len(found):
            _tell("! a value is there twice")
        for value in lane.failed.keys() & set(found):
            _tell("seen", lane.name, lane.failed.pop(value))

    async def _guarded(self, call: Callable[[], Awaitable[None]]) -> bool:
        """Await a call, and return whether it succeeded; only the disk may be the reason if not."""
        try:
            await call()
        except FactmemError as exc:
            is_alarm = isinstance(exc, CorruptJournalError | DecryptionError)
            if is_alarm or not self._options.faults:
                _tell("!", type(exc).__name__, str(exc).replace("\n", " "))
            return False
        except Exception as exc:
            _tell("! it gets out:", type(exc).__name__, str(exc).replace("\n", " "))
            return False
        return True


def main() -> int:
    """Work as the options say."""
    parser = argparse.ArgumentParser(prog="python -m tests.storms.disk_faults.worker")
    parser.add_argument("root")
    parser.add_argument("--key", default="", help="as base64; none for a plain store")
    parser.add_argument("--life", type=int, default=0, help="the number of this worker")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--faults", type=int, default=0, help="how many; none without the library")
    parser.add_argument("--mutant", default="", choices=["", *MUTANTS])
    options = parser.parse_args()
    anyio.run(Worker(options).run, backend=("asyncio", "trio")[options.life % 2])
    return 0


if __name__ == "__main__":
    sys.exit(main())
