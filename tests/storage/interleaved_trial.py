"""Several processes and threads at once over one disk, and what each of them must see.

Every actor appends, rewrites, erases, rotates keys and follows the journals, switched between file
calls as a seed says. What a reader must find is what was acknowledged before it began; and now and
then the power fails, and what is left must hold the same.
"""

import random
import threading
from collections.abc import Callable, Sequence
from typing import cast

from factmem.errors import (
    CorruptJournalError,
    StorageError,
    TamperedError,
)
from factmem.storage._folder import JournalFolder
from factmem.storage.base import (
    JournalName,
    Position,
    Record,
)
from factmem.storage.encryption.aes256gcm import Aes256GCMEncryptor
from tests.storage.interleaver import SharedDisk, Stage, StageLock
from tests.storage.memory_disk import MemoryDisk
from tests.storage.stores import ANN, BOB, KEYS, Kind, append, followed, read, record

__all__ = ["InterleavedTrial", "Violation", "without_locks"]


class Violation(AssertionError):  # noqa: N818 - it is no error of the code that raises it
    """An actor saw something that it must not see."""


class _Known:
    """The state of one journal as seen from outside."""

    def __init__(self) -> None:
        self.tried: set[bytes] = set()
        self.acknowledged: dict[bytes, int] = {}
        self.leaving: set[bytes] = set()
        """The records that a call was removing."""
        self.removed: set[bytes] = set()

    def must_have(self) -> set[bytes]:
        """Return what every read that begins now will find, except records being removed."""
        return self.acknowledged.keys() - self.leaving

    def check(self, found: Sequence[Record], needed: set[bytes], removed: set[bytes]) -> None:
        """Compare the result of a read with the state at its start."""
        numbers = [each.number for each in found]
        if numbers != sorted(set(numbers)):
            raise Violation("the order is broken")
        there = {data: number for number, data in found}
        if needed - self.leaving - there.keys():
            raise Violation("an acknowledged record is missing")
        if there.keys() & removed:
            raise Violation("a removed record is there")
        if there.keys() - self.tried or len(there) != len(found):
            raise Violation("a record was invented")
        if any(self.acknowledged.get(data, n) != n for data, n in there.items()):
            raise Violation("a record changed its number")


class InterleavedTrial:
    """One run; see the module."""

    def __init__(self, kind: Kind, seed: int, *, length: int = 5) -> None:
        self._kind, self._rng, self._length = kind, random.Random(seed), length
        self._stage = Stage(self._rng)
        self._disk = SharedDisk(self._stage)
        self._known = {ANN: _Known(), BOB: _Known()}
        self._count = 0
        self._has_rotated = False

    def run(self) -> None:
        """Run to the end; `Violation` or what an actor raised if anything is wrong."""
        self._disk.watch = self._perhaps_cut_power
        alone, shared = self._folder(), self._folder()
        self._stage.run(
            {
                "a process": lambda: self._play(alone),
                "another": lambda: self._play(self._folder()),
                "a thread": lambda: self._play(shared),
                "another thread of the same process": lambda: self._play(shared),
                "a reader": lambda: self._play(self._folder(), is_reader=True),
            }
        )
        self._disk.watch = lambda: None
        for name, known in self._known.items():
            found = read(self._kind.open(self._disk), name)
            known.check(found, known.must_have(), known.removed)
            if {each.data for each in found} != known.must_have():
                raise Violation("what is there in the end is not what was saved")

    def _folder(self) -> JournalFolder:
        folder = self._kind.open(self._disk)
        folder._mutex = cast("threading.Lock", StageLock(self._stage))
        folder.manifest.opening = cast("threading.Lock", StageLock(self._stage))
        return folder

    def _play(self, folder: JournalFolder, *, is_reader: bool = False) -> None:
        views: dict[JournalName, tuple[list[Record], Position | None]] = {}
        writes = [self._append] * 5 + [self._compact, self._compact, self._erase, self._rotate]
        for _ in range(self._length):
            name = self._rng.choice((ANN, ANN, BOB))
            if is_reader or self._rng.random() < 0.3:
                self._follow(folder, name, views)
            else:
                act: Callable[[JournalFolder, JournalName], None] = self._rng.choice(writes)
                act(folder, name)

    def _records(self, name: JournalName) -> list[bytes]:
        made: list[bytes] = []
        for _ in range(self._rng.choice((1, 1, 2, 3))):
            self._count += 1
            made.append(record(self._count))
        self._known[name].tried.update(made)
        return made

    def _append(self, folder: JournalFolder, name: JournalName) -> None:
        made = self._records(name)
        with folder.exclusive() as writer:
            end = writer.append(name, made).after.last
            numbered = {data: end - len(made) + at for at, data in enumerate(made, 1)}
            self._known[name].acknowledged.update(numbered)

    def _compact(self, folder: JournalFolder, name: JournalName) -> None:
        known = self._known[name]
        with folder.exclusive() as writer:
            found = read(writer, name)
            if found:
                known.leaving.add(found[0].data)
                writer.rewrite(name, found[1:])
                known.removed.add(found[0].data)

    def _erase(self, folder: JournalFolder, name: JournalName) -> None:
        known = self._known[name]
        with folder.exclusive() as writer:
            gone = {each.data for each in read(writer, name)}
            known.leaving |= gone
            writer.erase(name)
            known.removed |= gone

    def _rotate(self, folder: JournalFolder, name: JournalName) -> None:
        if folder.keys is not None and not self._has_rotated and folder.codec() is not None:
            self._has_rotated = True
            folder.keys.rotate(Aes256GCMEncryptor(KEYS[1]))

    def _follow(
        self,
        folder: JournalFolder,
        name: JournalName,
        views: dict[JournalName, tuple[list[Record], Position | None]],
    ) -> None:
        known = self._known[name]
        records, position = views.get(name, ([], None))
        needed, removed = known.must_have(), set(known.removed)
        if position is not None and folder.is_current(name, position):
            known.check(records, needed, removed)
        needed, removed = known.must_have(), set(known.removed)
        views[name] = followed(folder, name, records, position)
        known.check(views[name][0], needed, removed)

    def _perhaps_cut_power(self) -> None:
        if self._rng.random() < 0.03:
            for image in self._disk.images(self._rng, 2):
                folder = self._kind.open(MemoryDisk(image))
                for name, known in self._known.items():
                    known.check(read(folder, name), known.must_have(), known.removed)


def without_locks(kind: Kind, seed: int) -> int:
    """Let two processes append where locks are not honoured, and return how many saves succeeded.

    There the promise is less: up to the first save that is refused, whatever was acknowledged is
    there, or the journal is called damaged and a salvage finds it.
    """
    rng = random.Random(seed)
    stage = Stage(rng)
    disk = SharedDisk(stage, honours_locks=False)
    acknowledged: list[bytes] = []
    append(kind.open(disk), ANN, record(1), record(2))

    def play(first: int) -> None:
        folder = kind.open(disk)
        for number in range(first, first + 4):
            try:
                append(folder, ANN, record(number))
            except (StorageError, TamperedError):
                return
            acknowledged.append(record(number))

    stage.run({"one": lambda: play(10), "two": lambda: play(20)})
    folder = kind.open(disk)
    try:
        found = read(folder, ANN)
    except (CorruptJournalError, TamperedError):
        with folder.exclusive() as writer:
            writer.salvage(ANN)
        found = read(folder, ANN)
    if not {each.data for each in found} >= {record(1), record(2), *acknowledged}:
        raise Violation("an acknowledged record is missing")
    return len(acknowledged)
