"""Removed values leave no trace, and others are not lost, with kills and a failing disk.

    python -m tests.storms.erasures --removals 20000 --kills 100 --faults 500 --encrypted

Two processes share a store and one of its places. Writes, syncs, truncations and reads of one fail,
or are done in part; it goes on. The other is killed and followed by a third. Nothing may be lost,
invented or in another order, no sound file called damaged, and only exceptions of factmem get out.
All files are searched for pieces of 16 bytes: of what a receipt says remains nowhere, at once and
at the end, and of all that was removed before in each backup and restored store.
"""

import argparse
import os
import random
import shutil
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio

from factmem import Key
from tests.storms.power_cuts.__main__ import PROCESS, Notes, faults_of, left_pieces
from tests.storms.power_cuts.worker import NAMES, Orders, opened
from tests.storms.preloaded import library

LOOKS = 10
"""Each so many-th removal is looked for at once."""


@dataclass
class Residue:
    """Two processes on one store after another, and what is left of that which they removed."""

    root: Path
    key: str
    seed: int
    gap: int = 400
    mutant: str = ""
    rounds: int = 0
    kills: int = 0
    faults: int = 0
    copies: int = 0
    removals: int = 0
    clear: int = 0
    """The rows and values of which nothing remains, as the receipts say."""
    found: list[str] = field(default_factory=list)

    def run(self, operations: int) -> None:
        """Let the processes do so many operations each, and look at the files."""
        self.rounds += 1
        self._folder = self.root / f"{self.rounds}" / "store"
        self._folder.parent.mkdir()
        drawn = random.Random(f"{self.seed} {self.rounds}")
        workers = [self._started(number, operations, drawn) for number in range(2)]
        fatal = drawn.randrange(operations)
        heard = [threading.Thread(target=self._hear, args=[each]) for each in workers]
        heard[0].start()
        self._hear(workers[1], fatal)
        self.kills += workers[1][0].wait() != 0
        last = self._started(2, operations, drawn)
        self._hear(last)
        heard[0].join()
        notes = [notes for _, notes in (*workers, last)]
        codes = [workers[0][0].wait(), last[0].wait()]
        self.found += [f"a process ended with {code}" for code in codes if code]
        self._judge(notes)
        shutil.rmtree(self._folder.parent)

    def _started(
        self, number: int, operations: int, drawn: random.Random
    ) -> "tuple[subprocess.Popen[str], Notes]":
        gap = "" if number else str(self.gap)
        seed, first = str(drawn.getrandbits(30)), str(number * NAMES)
        orders = Orders(str(self._folder), str(operations), seed, self.key, first, gap, self.mutant)
        environment = {"DISK_FAULTS_FOLDER": str(self._folder)}
        if gap:
            environment["LD_PRELOAD"] = str(self.root / "failing_disk.so")
        worker = subprocess.Popen(
            [sys.executable, "-m", "tests.storms.power_cuts.worker", *orders],
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | environment,
        )
        assert worker.stdout is not None
        notes = Notes()
        for line in worker.stdout:
            notes.take(line)
            if line == "ready\n":
                break
        return worker, notes

    def _hear(
        self, started: "tuple[subprocess.Popen[str], Notes]", fatal: int | None = None
    ) -> None:
        worker, notes = started
        assert worker.stdout is not None
        with worker.stdout:
            for number, line in enumerate(worker.stdout):
                if line.endswith("\n"):  # a killed process may have written a part
                    looked = len(notes.clear)
                    notes.take(line)
                    if notes.removals % LOOKS == 0 and len(notes.clear) > looked:
                        self.found += left_pieces(self._folder, notes.clear[looked:])
                if number == fatal:
                    worker.kill()
        notes.end()

    def _judge(self, notes: list[Notes]) -> None:
        every = Notes()
        for process, each in enumerate(notes):
            for name in ("live", "doubtful", "gone", "last"):
                getattr(every, name).update(getattr(each, name))
            every.order |= {
                value: number + process * PROCESS for value, number in each.order.items()
            }
            every.clear += each.clear
            every.saves += each.saves
            self.found += each.wrong
            self.faults += each.faults
            self.removals += each.removals
        self.clear += len(every.clear)
        self.found += left_pieces(self._folder, every.clear)
        self.found += anyio.run(faults_of, self._folder, every, self.key)
        self.found += left_pieces(self._folder, every.clear)
        for each in notes:
            for name, count in each.copies.items():
                if (copy := Path(name)).exists():
                    self.copies += 1
                    self.found += left_pieces(copy, each.removed[:count])
                    anyio.run(self._restore, copy)
                    self.found += left_pieces(self._folder, each.removed[:count])

    async def _restore(self, copy: Path) -> None:
        async with opened(self._folder, self.key) as store:
            await store.restore(copy)
            await store.verify()


def residue(
    root: Path, wanted: argparse.Namespace, operations: int = 300, *, mutant: str = ""
) -> Residue:
    """Go on until there were so many removals, kills and faults, or something was found."""
    library(root, "failing_disk.c")
    key = Key.generate().to_base64() if wanted.encrypted else ""
    storm = Residue(root, key, wanted.seed, wanted.gap, mutant)
    while not storm.found and (
        storm.removals < wanted.removals
        or storm.kills < wanted.kills
        or storm.faults < wanted.faults
    ):
        storm.run(operations)
    return storm


def main(given: list[str] | None = None) -> int:
    """Run the long form; 0 if nothing was found wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.storms.erasures")
    parser.add_argument("--seed", type=int, default=0, help="what is drawn")
    parser.add_argument("--removals", type=int, default=0, help="with at least so many removals")
    parser.add_argument("--kills", type=int, default=0, help="with at least so many kills")
    parser.add_argument("--faults", type=int, default=0, help="with at least so many failing calls")
    parser.add_argument("--gap", type=int, default=400, help="calls between two that fail")
    parser.add_argument("--encrypted", action="store_true", help="on encrypted stores")
    options = parser.parse_args(given)
    begin = time.monotonic()
    with TemporaryDirectory() as name:
        storm = residue(Path(name).resolve(), options)
    print(
        f"residue: {storm.rounds} stores, {storm.removals} removals, {storm.clear} values and "
        f"rows gone, {storm.kills} kills, {storm.faults} faults, {storm.copies} backups and "
        f"restored stores, {len(storm.found)} faults, {time.monotonic() - begin:.0f} s",
        *storm.found[:20],
        sep="\n",
    )
    return 1 if storm.found else 0


if __name__ == "__main__":
    sys.exit(main())
