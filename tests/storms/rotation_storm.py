"""Keys are rotated again and again while writers work, and writers and rotator are killed.

After each rotation no older key opens the store, and no file and no ring holds an older data key.
In the end nothing that was acknowledged is lost, and a copy of the store that is put back is told
by an anchor that was kept elsewhere.

    python -m tests.storms.rotation_storm --rotations 200
"""

import argparse
import shutil
import sqlite3
import sys
import time
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio
import orjson

from factmem import Aes256GCMEncryptor, Key, LocalFileMemoryProvider
from factmem.errors import TamperedError, WrongKeyError
from factmem.providers._sql.sealed import KeyRing
from tests.processes import Process
from tests.storms.kill_storm import Outcome, Storm
from tests.storms.work import AGENT, LOG, PLACES, Turn, rotator
from tests.world import storage_of

OF_ONE_STORE = 20
"""The rotations of a store in the long form: its writers only add, and a rotation rewrites it."""


class RotationStorm(Storm):
    """A storm in which one more process rotates the keys."""

    def __init__(
        self, root: Path, keys: Sequence[str], *, seed: int = 0, mutant: str | None = None
    ) -> None:
        super().__init__(root, keys=keys, seed=seed, mutant=mutant)
        self.rotations = 0
        self.cut_short = 0
        """The number of rotators that were killed before they reported their rotation."""
        self._rotators = 0
        self._is_rotating = False

    def also(self) -> None:
        """Keep one rotator at work, once there is a store."""
        if self._is_rotating or not (self.root / "facts.db").exists():
            return
        old, new = self.keys[self.rotations : self.rotations + 2]
        drawn = self.chance.random() if self._rotators else 0.0  # the first one burns a fuse
        fuse = self.chance.randrange(40) if drawn < 0.5 else None
        kill_in = self.chance.random() * 0.1 if 0.5 <= drawn < 0.7 else None
        turn = Turn(str(self.root), old, new, self._rotators, fuse)
        self._rotators += 1
        self._is_rotating = True
        self.launch(Process(rotator, turn), self._hear_rotator, kill_in)

    def _hear_rotator(self, process: Process) -> None:
        is_done = False
        for line in process.lines():
            if line == "ready":
                process.go()
            elif line == "rotated":
                is_done = True
                self._check_rotated()
            else:
                self.outcome.faults.errors.append(line)
        if process.is_over:
            self._is_rotating = False
            self.ended(process)
            self.cut_short += not is_done
        if is_done:
            self.rotations += 1

    def _check_rotated(self) -> None:
        """Check that the new key alone opens the store, and that only its data key is left."""
        errors = self.outcome.faults.errors
        *old, new = self.keys[: self.rotations + 2]
        with suppress(WrongKeyError):
            anyio.run(LocalFileMemoryProvider(self.root, storage=storage_of(*old)).places)
            errors.append("an old key opens the store after a rotation")
        with closing(sqlite3.connect(f"file:{self.root}/facts.db?mode=ro", uri=True)) as db:
            ((store, slots),) = db.execute("SELECT id, slots FROM stores")
            heads = db.execute("SELECT DISTINCT substr(data_key, 1, 4) FROM places").fetchall()
        try:
            unwrapped = Aes256GCMEncryptor(new).unwrap(orjson.loads(slots), store)
        except WrongKeyError:
            errors.append("the new key does not open the store after a rotation")
            return
        ring = KeyRing.load(unwrapped.ring)
        if set(ring.generations) != {ring.generation}:
            errors.append("an old data key is left in the ring after a rotation")
        if heads != [(ring.generation.to_bytes(4, "big"),)]:
            errors.append("a place is left under an old data key after a rotation")

    async def check_rollback(self) -> None:
        """Check that an anchor detects an older copy of the store that was put back."""
        copy = self.root.with_name("copy")
        shutil.copytree(self.root, copy)
        store = self.opened()
        subject, errors = PLACES[0], self.outcome.faults.errors
        await store.forget(subject, AGENT, concept=LOG)
        anchor = await store.anchor()
        await store.verify(anchor)
        shutil.rmtree(self.root)
        shutil.copytree(copy, self.root)
        with suppress(TamperedError):
            await self.opened().verify(anchor)
            errors.append("an older copy of the store was taken for the newest")


def rotation_storm(
    root: Path, rotations: int, *, seed: int = 0, mutant: str | None = None
) -> tuple[Outcome, RotationStorm]:
    """Rotate so many times; return what came of it, and the storm."""
    keys = [Key.generate().to_base64() for _ in range(rotations + 2)]
    storm = RotationStorm(root, keys, seed=seed, mutant=mutant)
    outcome = storm.run(lambda: storm.rotations >= rotations)
    if not outcome.faults:
        anyio.run(storm.check_rollback)
    return outcome, storm


def main() -> int:
    """Run the long form; 0 if nothing was found wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.storms.rotation_storm")
    parser.add_argument("--rotations", type=int, default=200, help="how many are to come to an end")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="what is drawn")
    options = parser.parse_args()
    count = 0
    for begin in range(0, options.rotations, OF_ONE_STORE):
        rotations, seed = min(OF_ONE_STORE, options.rotations - begin), options.seed + begin
        print(f"rotation storm, seed {seed}", flush=True)
        with TemporaryDirectory() as folder:
            outcome, storm = rotation_storm(Path(folder) / "store", rotations, seed=seed)
        print(
            f"{storm.rotations} rotations, {storm.cut_short} more cut short; {outcome}", flush=True
        )
        count += bool(outcome.faults)
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
