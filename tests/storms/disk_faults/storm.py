"""A process on a failing disk, and others on the same store whose disk works."""

import os
import shutil
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import anyio

from factmem import Aes256GCMEncryptor, EncryptedStorage, Key, LocalFileMemoryProvider
from factmem.providers.storages import SimpleStorage
from tests.storms.acknowledged import Acknowledged, Faults
from tests.storms.disk_faults.worker import KINDS
from tests.storms.preloaded import library
from tests.storms.work import AGENT, LOG, PLACES, Operation, operation

__all__ = ["Outcome", "disk_fault_storm"]

FAULTS_A_ROUND = 150
"""The faults on one store; then a new one is begun, as loads and compactions of a large one are slow."""

HEALTHY = 2
HANG = 120.0
"""Seconds in which the faults of one round must have happened."""


@dataclass
class Outcome:
    """The results of a storm."""

    faults: list[int] = field(default_factory=lambda: [0 for _ in KINDS])
    """The calls that failed, by kind."""
    operations: int = 0
    failed: int = 0
    """The operations that raised."""
    rounds: int = 0
    seconds: float = 0.0
    found: Faults = field(default_factory=Faults)

    @property
    def injected(self) -> int:
        """The number of calls that failed."""
        return sum(self.faults)

    def __str__(self) -> str:
        kinds = ", ".join(f"{name} {count}" for name, count in zip(KINDS, self.faults, strict=True))
        return (
            f"{self.injected} failed calls ({kinds}) in {self.rounds} rounds; {self.operations} "
            f"operations, {self.failed} of them failed; {self.seconds:.1f} s; {self.found}"
        )


class _Record(Acknowledged):
    """What was acknowledged, what failed and may have been done, and what of that was read."""

    def __init__(self) -> None:
        super().__init__()
        self.failed: dict[tuple[str, int], Operation] = {}
        self.seen: list[tuple[str, int]] = []

    def take(self, line: str) -> None:
        words = line.split()
        if words[0] == "seen":
            self.seen.append((words[1], int(words[2])))
            return
        *operation_line, outcome = words
        if outcome == "done":
            super().take(" ".join(operation_line))
            self._settle(operation(words[0], int(words[1])))
        else:
            lane, number, begin, end = words[0], *map(int, words[1:4])
            self.last[lane] = number
            self.times[lane, number] = (begin, end)
            self.failed[lane, number] = operation(lane, number)
            self.unsure.add((lane, number))

    def under_way(self) -> list[Operation]:
        """Return what may have been done and was not acknowledged."""
        return list(self.failed.values())

    def _settle(self, done: Operation) -> None:
        """A value that was forgotten may not be there, whatever came of its save."""
        if done.kind == "forget":
            for key, todo in list(self.failed.items()):
                if todo.kind == "save" and todo.values == done.values:
                    del self.failed[key]

    async def judge(self, store: LocalFileMemoryProvider, faults: Faults) -> None:
        """Compare a store with what was acknowledged and read."""
        await store.verify()
        for place, subject in enumerate(PLACES):
            await self._check_place(store, place, faults)
            facts = await store.load(LOG, subject, AGENT)
            found = {value for fact in facts for value in fact.values}
            read = [self.failed[key] for key in self.seen if key in self.failed]
            faults.lost += [
                f"read, and gone: {todo.values[0][:40]}"
                for todo in read
                if todo.place == place
                and not found.issuperset(todo.values)
                and not self._may_be_forgotten(todo)
            ]

    def _may_be_forgotten(self, todo: Operation) -> bool:
        return any(
            each.kind == "forget" and each.values == todo.values for each in self.failed.values()
        )


class _Round:
    """The workers of one store."""

    def __init__(self, root: Path, key: str, outcome: Outcome) -> None:
        self._root, self._key, self._outcome = root, key, outcome
        self._record = _Record()
        self._lock = threading.Lock()

    def run(self, faults: int, seed: int, preload: Path, mutant: str) -> None:
        options = ["--seed", str(seed), "--faults", str(faults), "--mutant", mutant]
        environment = {"LD_PRELOAD": str(preload), "DISK_FAULTS_FOLDER": str(self._root)}
        faulty = self._started(options, environment)
        healthy = [self._started(["--life", str(number + 1)], {}) for number in range(HEALTHY)]
        ears = [threading.Thread(target=self._hear, args=[each]) for each in (faulty, *healthy)]
        for ear in ears:
            ear.start()
        ears[0].join(HANG)
        if ears[0].is_alive():
            self._outcome.found.errors.append(f"the faulty process hung for {HANG:g} s")
            faulty.kill()
        for worker, ear in zip((faulty, *healthy), ears, strict=True):
            assert worker.stdin is not None
            worker.stdin.close()
            ear.join(HANG)
            if ear.is_alive():
                self._outcome.found.errors.append(f"a process hung for {HANG:g} s")
                worker.kill()
            if worker.wait():
                self._outcome.found.errors.append(f"a process ended with {worker.returncode}")
        anyio.run(self._judge)

    def _started(self, options: list[str], environment: dict[str, str]) -> "subprocess.Popen[str]":
        program = [sys.executable, "-m", "tests.storms.disk_faults.worker", str(self._root)]
        return subprocess.Popen(
            [*program, f"--key={self._key}", *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **environment},
        )

    def _hear(self, worker: "subprocess.Popen[str]") -> None:
        assert worker.stdout is not None
        with worker.stdout:
            for line in worker.stdout:
                with self._lock:
                    self._note(line.rstrip("\n"))

    def _note(self, line: str) -> None:
        outcome = self._outcome
        if line.startswith("!"):
            outcome.found.errors.append(line)
        elif line.startswith("faults"):
            counts = map(int, line.split()[1:])
            outcome.faults = [a + b for a, b in zip(outcome.faults, counts, strict=True)]
        else:
            self._record.take(line)
            outcome.operations += not line.startswith("seen")
            outcome.failed += line.endswith(" failed")

    async def _judge(self) -> None:
        storage = EncryptedStorage(Aes256GCMEncryptor(self._key)) if self._key else SimpleStorage()
        try:
            async with LocalFileMemoryProvider(self._root, storage=storage) as store:
                await self._record.judge(store, self._outcome.found)
        except Exception as exc:
            self._outcome.found.errors.append(f"at the end: {type(exc).__name__}: {exc}")


def disk_fault_storm(
    folder: Path, faults: int, *, is_encrypted: bool = False, seed: int = 0, mutant: str = ""
) -> Outcome:
    """Let so many file calls fail, on a new store every 150; `mutant` is a rule to switch off."""
    outcome, begin = Outcome(), time.monotonic()
    preload = library(folder, "failing_disk.c")
    while outcome.injected < faults and not outcome.found:
        key = Key.generate().to_base64() if is_encrypted else ""
        root = folder / f"store-{outcome.rounds}"
        wanted = min(FAULTS_A_ROUND, faults - outcome.injected)
        this = _Round(root, key, outcome)
        this.run(wanted, seed * 1000 + outcome.rounds, preload, mutant)
        outcome.rounds += 1
        shutil.rmtree(root, ignore_errors=True)
    outcome.seconds = time.monotonic() - begin
    return outcome
