"""One run of a script over a disk in memory, and what may be found at any moment of it.

Several actors, each like a process with a view of its own, write one after another. Before every
changing call of the disk the power may fail: whatever it may leave is opened, judged, written to
and read again. One of the actors may be killed in a call, and calls may fail.
"""

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple, assert_never

from factmem.errors import (
    CorruptJournalError,
    StorageError,
    TamperedError,
    WrongKeyError,
)
from factmem.storage._folder import JournalFolder
from factmem.storage._keys import SealedMode
from factmem.storage._manifest import MANIFEST
from factmem.storage._writer import FolderWriter
from factmem.storage.base import (
    Appended,
    JournalName,
    JournalWriter,
    Position,
    Record,
)
from factmem.storage.encryption.aes256gcm import Aes256GCMEncryptor
from tests.storage.disk_model import Image
from tests.storage.memory_disk import Killed, MemoryDisk
from tests.storage.stores import (
    ANN,
    BOB,
    KEYS,
    Kind,
    append,
    followed,
    read,
    read_by_summary,
    record,
    summarize,
)

__all__ = [
    "Accident",
    "Append",
    "Compact",
    "Erase",
    "Index",
    "Outcome",
    "Rest",
    "Rotate",
    "Step",
    "Summarize",
    "Trial",
]

AFTER = b'{"id":"after","text":"what is saved after the crash"}'


class Append(NamedTuple):
    """Append records of these sizes: each inner tuple is a call, all under one lock.

    Calls on different journals are one batch, whose files are synced at the same time.
    """

    actor: str
    calls: tuple[tuple[JournalName, tuple[int, ...]], ...]


class Compact(NamedTuple):
    """Rewrite a journal without some of its records."""

    actor: str
    name: JournalName
    drop: int
    """The number of acknowledged records that are dropped, the oldest ones."""


class Erase(NamedTuple):
    """Remove a journal."""

    actor: str
    name: JournalName


class Index(NamedTuple):
    """Write an index beside a journal."""

    actor: str
    name: JournalName


class Summarize(NamedTuple):
    """Write a summary beside a journal."""

    actor: str
    name: JournalName


class Rest(NamedTuple):
    """Write the end marks of the journals that the actor saved to."""

    actor: str


class Rotate(NamedTuple):
    """Rotate the store to the next key."""

    actor: str
    is_rewriting: bool


Step = Append | Compact | Erase | Index | Summarize | Rest | Rotate


class Accident(NamedTuple):
    """A failure in a run besides the power cut."""

    kill_at: int = 0
    """The changing call in which an actor is killed; 0 if none is."""
    kill_share: float = 0.0
    fail_at: frozenset[int] = frozenset()
    """The changing calls that fail."""
    keeps_cache: bool = True

    def first(self) -> int:
        """Return the first call that fails; 0 if none does."""
        return min({*self.fail_at, *([self.kill_at] if self.kill_at else [])}, default=0)


@dataclass
class Outcome:
    """The results of runs."""

    states: int = 0
    failed_states: int = 0
    """The number of states after an injected error."""
    runs: int = 0
    alarms: int = 0
    """States after an injected error that were reported as damaged, though nothing was lost."""
    violations: Counter[str] = field(default_factory=Counter)
    samples: dict[str, str] = field(default_factory=dict)
    """The first case of each kind of violation."""

    def add(self, other: "Outcome") -> None:
        """Add the counts of another outcome."""
        self.states += other.states
        self.failed_states += other.failed_states
        self.runs += other.runs
        self.alarms += other.alarms
        self.violations.update(other.violations)
        self.samples = {**other.samples, **self.samples}


class _Expected:
    """The allowed contents of one journal."""

    def __init__(self) -> None:
        self.sure: dict[int, bytes] = {}
        """Acknowledged records, by number."""
        self.possible: set[bytes] = set()
        """Records whose write has begun, and is neither acknowledged nor known to have failed."""
        self.leaving: list[dict[int, bytes]] = []
        """Acknowledged records whose removal did not return: all exist, or none."""
        self.indexes: set[bytes | None] = {None}
        """The allowed indexes: any that was written since the last erasure, or none."""

    def objection(self, found: Sequence[Record]) -> str | None:
        """Return what is wrong with the content; None if nothing is."""
        numbers = [each.number for each in found]
        if any(after <= before for before, after in pairwise(numbers)):
            return "the order is broken"
        by_number = dict(found)
        for number, data in self.sure.items():
            if by_number.get(number) != data:
                return "an acknowledged record is lost"
        others = {data for number, data in found if number not in self.sure}
        if len(others) != len(found) - len(self.sure):
            return "a record is there twice"
        for group in self.leaving:
            there = others.intersection(group.values())
            if there and len(there) != len(group):
                return "a removal is seen in part"
            others -= there
        if not others <= self.possible:
            return "a record was invented, or came back"
        return None

    def settle(self, found: Sequence[Record]) -> None:
        """Require the content from now on: an acknowledged write made it durable."""
        self.sure = dict(found)
        self.possible = set()
        self.leaving = []

    def leave(self, numbers: Sequence[int]) -> None:
        """Start to remove records."""
        self.leaving.append({number: self.sure.pop(number) for number in numbers})


class _Actor:
    """A process: its view of the store, and the records that it read."""

    def __init__(self, folder: JournalFolder) -> None:
        self.folder = folder
        self.read: dict[JournalName, tuple[list[Record], Position | None]] = {}
        self.has_rotated = False


class Trial:
    """One run of a script; see the module."""

    def __init__(
        self,
        kind: Kind,
        script: Sequence[Step],
        *,
        accident: Accident = Accident(),  # noqa: B008 - a tuple
        most: int | None = 8,
        seed: int = 0,
    ) -> None:
        self._kind, self._script, self._accident = kind, script, accident
        self._most = most
        self._rng = random.Random(seed)
        self._count = 0
        self._key = 0
        self._has_index = self._has_summary = False
        self._retired: list[int] = []
        self._actors: dict[str, _Actor] = {}
        self._expected = {ANN: _Expected(), BOB: _Expected()}
        self._active: JournalName = ANN
        self.outcome = Outcome(runs=1)
        self.disk = disk = MemoryDisk()
        disk.kill_at, disk.kill_share = accident.kill_at, accident.kill_share
        disk.fail_at, disk.keeps_cache = accident.fail_at, accident.keeps_cache
        disk.watch = self._cut_power

    def run(self) -> Outcome:
        """Run the script, and return its outcome."""
        for step in self._script:
            if not self._attempt(step) and isinstance(step, Rotate | Erase):
                self._attempt(step)  # as the error message says
            try:
                self._look()
            except Exception as exc:
                self._violate(f"a reader gets {type(exc).__name__}", exc)
        self._cut_power()
        return self.outcome

    def _attempt(self, step: Step) -> bool:
        """Take a step; return whether it succeeded."""
        failures = self.disk.failures
        try:
            self._take(step)
        except Killed:
            self._bury(step)
        except (CorruptJournalError, TamperedError) as exc:
            self._alarm("a writer is told of damage", exc)
        except StorageError as exc:
            if self.disk.failures == failures:
                self._violate("a write is refused without a reason", exc)
        except Exception as exc:
            self._violate(f"a writer gets {type(exc).__name__}", exc)
        return self.disk.failures == failures

    def _actor(self, name: str) -> _Actor:
        actor = self._actors.get(name)
        if actor is None:
            actor = self._actors[name] = _Actor(self._kind.open(self.disk))
        return actor

    def _bury(self, step: Step) -> None:
        """Replace the killed actor; a rotation, and perhaps an erasure, is called again."""
        self.disk.revive()
        self._actors.pop(step.actor, None)
        if isinstance(step, Rotate) or (isinstance(step, Erase) and self._rng.random() < 0.5):
            self._take(step._replace(actor=f"{step.actor}'s heir"))

    # Actions of the actors

    def _take(self, step: Step) -> None:
        match step:
            case Append(actor, calls):
                with self._actor(actor).folder.exclusive() as writer:
                    if len({name for name, _ in calls}) == len(calls) > 1:
                        self._append_batch(writer, calls)
                    else:
                        for name, sizes in calls:
                            self._append(writer, name, sizes)
            case Compact(actor, name, drop):
                with self._actor(actor).folder.exclusive() as writer:
                    self._compact(writer, name, drop)
            case Erase(actor, name):
                with self._actor(actor).folder.exclusive() as writer:
                    self._erase(writer, name)
            case Index(actor, name):
                self._index(self._actor(actor), name)
            case Summarize(actor, name):
                self._has_summary = True
                summarize(self._actor(actor).folder, name)
            case Rest(actor):
                self._actor(actor).folder.rest()
            case Rotate(actor, is_rewriting):
                self._rotate(self._actor(actor), is_rewriting=is_rewriting)
            case _:
                assert_never(step)

    def _append(self, writer: JournalWriter, name: JournalName, sizes: Sequence[int]) -> None:
        batch = self._begun(name, sizes)
        self._acknowledge(name, batch, writer.append(name, batch))
        self._settle(name, writer)

    def _append_batch(
        self, writer: FolderWriter, calls: Sequence[tuple[JournalName, Sequence[int]]]
    ) -> None:
        appends = [(name, self._begun(name, sizes)) for name, sizes in calls]
        failures: list[Exception] = []
        for (name, batch), done in zip(appends, writer.append_all(appends), strict=True):
            if isinstance(done, Exception):
                failures.append(done)
            else:
                self._acknowledge(name, batch, done)
        if failures:
            raise failures[0]
        for name, _ in appends:
            self._settle(name, writer)

    def _begun(self, name: JournalName, sizes: Sequence[int]) -> list[bytes]:
        """Return new records of a journal, which are allowed from now on."""
        self._active = name
        first = self._count
        self._count += len(sizes)
        batch = [record(first + at, size) for at, size in enumerate(sizes, 1)]
        self._expected[name].possible.update(batch)
        return batch

    def _acknowledge(self, name: JournalName, batch: Sequence[bytes], done: Appended) -> None:
        expected = self._expected[name]
        expected.possible.difference_update(batch)
        expected.sure.update(enumerate(batch, done.after.last - len(batch) + 1))

    def _compact(self, writer: JournalWriter, name: JournalName, drop: int) -> None:
        expected, self._active = self._expected[name], name
        found = read(writer, name)
        if not found:
            return
        dropped = sorted(expected.sure)[:drop]
        expected.leave(dropped)
        writer.rewrite(name, [each for each in found if each.number not in dropped])
        expected.leaving.pop()
        self._settle(name, writer)

    def _erase(self, writer: JournalWriter, name: JournalName) -> None:
        expected, self._active = self._expected[name], name
        expected.leave(sorted(expected.sure))
        writer.erase(name)
        self._expected[name] = _Expected()

    def _index(self, actor: _Actor, name: JournalName) -> None:
        self._has_index = True
        self._count += 1
        index = b"the index %d " % self._count * 20
        self._expected[name].indexes.add(index)
        actor.folder.write_index(name, index, lambda writer: bool(read(writer, name)))

    def _check_index(self, folder: JournalFolder, name: JournalName) -> None:
        if self._has_index and folder.read_index(name) not in self._expected[name].indexes:
            self._violate("an index came back, or was invented", None)

    def _check_summary(
        self, folder: JournalFolder, name: JournalName, found: Sequence[Record]
    ) -> None:
        if self._has_summary and read_by_summary(folder, name) not in (None, found):
            self._violate("a summary gives something else than its journal", None)

    def _rotate(self, actor: _Actor, *, is_rewriting: bool) -> None:
        keys = actor.folder.keys
        if keys is None or self._key + 1 == len(KEYS) or not self.disk.exists(MANIFEST):
            return
        self._dismiss_rotators(actor)
        actor.has_rotated = True
        keys.rotate(Aes256GCMEncryptor(KEYS[self._key + 1]), rewrite=is_rewriting)
        self._retired.append(self._key)
        self._key += 1

    def _dismiss_rotators(self, but: _Actor) -> None:
        """Discard actors that know only the key before the rotation."""
        for name, actor in list(self._actors.items()):
            if actor.has_rotated and actor is not but:
                del self._actors[name]

    def _settle(self, name: JournalName, writer: JournalWriter) -> None:
        if not self.disk.failures:
            found = read(writer, name)
            if (objection := self._expected[name].objection(found)) is not None:
                self._violate(objection, None)
            self._expected[name].settle(found)

    # Checks

    def _look(self) -> None:
        """Let every actor read on, and compare it with a new process."""
        for name, expected in self._expected.items():
            try:
                found = read(self._kind.open(self.disk), name)
            except (CorruptJournalError, TamperedError) as exc:
                self._alarm("a reader is told of damage", exc)
                continue
            if (objection := expected.objection(found)) is not None:
                self._violate(f"{objection}, as a new process sees it", None)
            for actor in self._actors.values():
                self._check_index(actor.folder, name)
                self._check_summary(actor.folder, name, found)
                self._follow(actor, name, found)

    def _follow(self, actor: _Actor, name: JournalName, found: Sequence[Record]) -> None:
        records, position = actor.read.get(name, ([], None))
        is_current = position is not None and actor.folder.is_current(name, position)
        if is_current and records != found:
            self._violate("an old view is called current", None)
        try:
            actor.read[name] = followed(actor.folder, name, records, position)
        except (CorruptJournalError, TamperedError) as exc:
            actor.read.pop(name, None)
            self._alarm("a reader who follows is told of damage", exc)
        else:
            if actor.read[name][0] != found:
                self._violate("a reader who follows sees something else", None)

    def _cut_power(self) -> None:
        if self.disk.count + 1 < self._accident.first():
            return  # an undisturbed run of the same script was here
        most = self._most
        images = self.disk.all_images() if most is None else self.disk.images(self._rng, most)
        for image in images:
            self.outcome.states += 1
            self.outcome.failed_states += self.disk.failures > 0
            try:
                self._examine(image)
            except (CorruptJournalError, TamperedError) as exc:
                self._alarm("after a power cut there is a false alarm", exc)
                self._salvage(image)
            except Exception as exc:
                self._violate(f"after a power cut {type(exc).__name__} is raised", exc)

    def _examine(self, image: Image) -> None:
        disk = MemoryDisk(image)
        folder = self._kind.open(disk)
        found: dict[JournalName, list[Record]] = {}
        for name, expected in self._expected.items():
            found[name] = read(folder, name)
            self._check_index(folder, name)
            self._check_summary(folder, name, found[name])
            if (objection := expected.objection(found[name])) is not None:
                return self._violate(f"after a power cut {objection}", None)
        dice, saved = self._rng.random(), [AFTER]
        append(folder, self._active, AFTER)
        if dice < 0.3:  # the second save continues from the first
            append(folder, self._active, AFTER)
            saved.append(AFTER)
        if dice < 0.1:
            for second in disk.images(self._rng, 2):
                self._go_on(MemoryDisk(second), found, saved)
        else:
            self._go_on(disk, {self._active: found[self._active]}, saved)
        self._check_lock_out(folder)
        return None

    def _salvage(self, image: Image) -> None:
        """Check that a reported damage loses nothing: a salvage finds the acknowledged records."""
        folder = self._kind.open(MemoryDisk(image))
        for name, expected in self._expected.items():
            try:
                if name in folder.names():
                    with folder.exclusive() as writer:
                        writer.salvage(name)
                found = read(folder, name)
            except Exception as exc:
                self._violate(f"a salvage raises {type(exc).__name__}", exc)
            else:
                if (objection := expected.objection(found)) is not None:
                    self._violate(f"after a salvage {objection}", None)

    def _go_on(
        self,
        disk: MemoryDisk,
        before: dict[JournalName, list[Record]],
        saved: Sequence[bytes],
    ) -> None:
        """Check that content after a power cut stays, and later saves too."""
        folder = self._kind.open(disk)
        for name, records in before.items():
            found = read(folder, name)
            if found[: len(records)] != records:
                self._violate("a save after a power cut loses what was there", None)
            added = [each.data for each in found[len(records) :]]
            if added != (saved if name == self._active else []):
                self._violate("a save after a power cut is not there", None)

    def _check_lock_out(self, folder: JournalFolder) -> None:
        for key in self._retired:
            try:
                SealedMode(Aes256GCMEncryptor(KEYS[key])).ring(folder.manifest.fields)
            except WrongKeyError:
                continue
            self._violate("an old key opens the store after a rotation", None)

    def _alarm(self, what: str, exc: Exception) -> None:
        if self.disk.failures:
            self.outcome.alarms += 1
        else:
            self._violate(what, exc)

    def _violate(self, what: str, exc: Exception | None) -> None:
        self.outcome.violations[what] += 1
        if what not in self.outcome.samples:
            self.outcome.samples[what] = (
                f"{self._kind.name}, call {self.disk.count}, {self._accident}, "
                f"last calls {self.disk.log[-6:]}, {exc!r}, script {self._script}"
            )
