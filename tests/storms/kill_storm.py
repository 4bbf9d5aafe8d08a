"""Writers are killed at any moment, and nothing that was acknowledged is lost.

Four processes, on asyncio and trio, save to 64 places, forget and compact; some fork children that
save too, or copy the folder again and again, as a backup does. They are killed with SIGKILL from
outside, or kill themselves before a statement. Meanwhile this process reads without a lock. In the
end every acknowledged fact must be there as it was saved, in an order that agrees with the times at
which the saves began and returned.

    python -m tests.storms.kill_storm --kills 1000
"""

import argparse
import random
import selectors
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio

from factmem import Key, LocalFileMemoryProvider
from tests.processes import Process
from tests.storms.acknowledged import Acknowledged, Faults
from tests.storms.work import LANES, PLACES, Work, writer
from tests.world import storage_of

WRITERS = 4


HANG = 60.0
"""Seconds without a word from any process that count as a hang."""


@dataclass
class Outcome:
    """The results of a storm."""

    kills: int = 0
    suicides: int = 0
    """The number of kills before a statement, by the writer itself."""
    operations: int = 0
    looks: int = 0
    seconds: float = 0.0
    faults: Faults = field(default_factory=Faults)

    def __str__(self) -> str:
        return (
            f"{self.kills} kills, {self.suicides} of them before a statement; "
            f"{self.operations} operations acknowledged; {self.looks} looks by a reader; "
            f"{self.seconds:.1f} s; {self.faults}"
        )


class Storm:
    """One storm over one store.

    Args:
        root: The store's folder.
        keys: Its keys, as base64; none for a store in the clear.
        seed: Everything that is drawn follows from it, but not when it happens.
        mutant: A rule of the engine that is switched off.
    """

    def __init__(
        self, root: Path, *, keys: Sequence[str] = (), seed: int = 0, mutant: str | None = None
    ) -> None:
        self.root, self.keys = root, tuple(keys)
        self.chance = random.Random(seed)
        self.outcome = Outcome()
        self._mutant = mutant
        self._lives = 0
        self._crew: dict[Process, Work] = {}
        self._left: dict[Process, int] = {}
        """The number of operations a writer may still report before it is killed."""
        self._doomed: dict[Process, float] = {}
        """When a process is killed."""
        self._selector = selectors.DefaultSelector()
        self._acknowledged = Acknowledged()
        self._is_over = False

    def run(self, is_enough: Callable[[], bool]) -> Outcome:
        """Let it storm until it is enough or something is wrong, and check what is there."""
        begin = time.monotonic()
        reader = threading.Thread(target=anyio.run, args=(self._read,))
        reader.start()
        try:
            self._rage(is_enough)
        finally:
            self._is_over = True
            reader.join()
            for key in list(self._selector.get_map().values()):
                process = key.fileobj
                assert isinstance(process, Process)
                process.kill()
                while not process.is_over:
                    key.data(process)
            self._selector.close()
        anyio.run(self._check)
        self.outcome.operations = sum(self._acknowledged.last.values())
        self.outcome.seconds = time.monotonic() - begin
        return self.outcome

    def launch(
        self, process: Process, hear: Callable[[Process], None], kill_in: float | None = None
    ) -> None:
        """Take in a process, to be heard, and killed in so many seconds if it is not over."""
        self._selector.register(process, selectors.EVENT_READ, hear)
        if kill_in is not None:
            self._doomed[process] = time.monotonic() + kill_in

    def ended(self, process: Process) -> int:
        """Let go of a process that is over, and return its exit code."""
        self._selector.unregister(process)
        self._doomed.pop(process, None)
        code = process.end()
        self.outcome.kills += code == -signal.SIGKILL
        self.outcome.suicides += code == -signal.SIGKILL and not process.was_killed
        if code not in {0, -signal.SIGKILL}:
            self.outcome.faults.errors.append(f"a process ended with {code}")
        return code

    def opened(self) -> LocalFileMemoryProvider:
        """Return a new store on the storm's folder."""
        return LocalFileMemoryProvider(self.root, storage=storage_of(*self.keys))

    def also(self) -> None:
        """Do what the storm needs beside its writers; called again and again."""

    def _rage(self, is_enough: Callable[[], bool]) -> None:
        heard = time.monotonic()
        while not is_enough() and not self.outcome.faults:
            while len(self._crew) < WRITERS:
                self._launch_writer()
            self.also()
            for key, _ in self._selector.select(self._execute()):
                heard = time.monotonic()
                key.data(key.fileobj)
            if time.monotonic() > heard + HANG:
                self.outcome.faults.errors.append(f"nobody told anything for {HANG:g} s")

    def _execute(self) -> float:
        """Kill the processes whose time has come, and return the seconds to the next one."""
        now = time.monotonic()
        for process, when in list(self._doomed.items()):
            if when <= now:
                process.kill()
                del self._doomed[process]
        return min(self._doomed.values(), default=now + 1) - now

    def _launch_writer(self) -> None:
        is_own = self.chance.random() < 0.4
        fuse = self.chance.randrange(1, 100) if is_own else None
        work = Work(str(self.root), self.keys, self._lives, fuse, self._mutant)
        self._lives += 1
        process = Process(writer, work)
        self._crew[process] = work
        self._left[process] = 1 << 62 if is_own else self.chance.randrange(60)
        self.launch(process, self._hear_writer)

    def _hear_writer(self, process: Process) -> None:
        for line in process.lines():
            if line == "ready":
                process.go()
            elif line.startswith("!"):
                self.outcome.faults.errors.append(line)
            else:
                self._acknowledged.take(line)
                self._left[process] -= 1
        if process.is_over:
            del self._crew[process], self._left[process]
            self.ended(process)
        elif self._left[process] < 0 and not process.was_killed:
            self._doomed.setdefault(process, time.monotonic() + self.chance.random() * 0.01)

    async def _read(self) -> None:
        """Look again and again, with a store that is kept and with a new one each time."""
        kept = self.opened()
        while not self._is_over and not self.outcome.faults:
            for place in range(len(PLACES)):
                store = self.opened() if self.outcome.looks % 5 == 0 else kept
                try:
                    await self._acknowledged.look(store, place, self.outcome.faults)
                except Exception as exc:
                    self.outcome.faults.errors.append(f"reader: {type(exc).__name__}: {exc}")
                self.outcome.looks += 1
                await anyio.sleep(0.002)

    async def _check(self) -> None:
        lanes = [f"{life}.{lane}" for life in range(self._lives) for lane in range(LANES)]
        found = await self._acknowledged.check(self.opened, lanes)
        for name, faults in vars(found).items():
            getattr(self.outcome.faults, name).extend(faults)


def kill_storm(
    root: Path, kills: int, *, key: str | None, seed: int = 0, mutant: str | None = None
) -> Outcome:
    """Kill so many writers of a store; `mutant` is a rule of the engine to switch off."""
    storm = Storm(root, keys=() if key is None else (key,), seed=seed, mutant=mutant)
    return storm.run(lambda: storm.outcome.kills >= kills)


def main() -> int:
    """Run the long form; 0 if nothing was found wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.storms.kill_storm")
    parser.add_argument(
        "--kills",
        type=int,
        default=1000,
        help="how many in all: half of them on a store in the "
        "clear, half on an encrypted one; a few more may fall before it ends",
    )
    parser.add_argument("--seed", type=int, default=int(time.time()), help="what is drawn")
    options = parser.parse_args()
    print(f"kill storm, seed {options.seed}", flush=True)
    kills, faults = 0, 0
    for kind, key in (("plain", None), ("encrypted", Key.generate().to_base64())):
        with TemporaryDirectory() as folder:
            root = Path(folder) / "store"
            outcome = kill_storm(root, (options.kills + 1) // 2, key=key, seed=options.seed)
        print(f"{kind}: {outcome}", flush=True)
        kills += outcome.kills
        faults += outcome.faults.count
    print(f"kill storm: {kills} kills, {faults} faults", flush=True)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
