"""Random power cuts of a local store: nothing acknowledged is lost, nothing removed is left.

    python -m tests.storms.power_cuts --cuts 1000 --seed 1 --encrypted

A worker runs under a library that records its writes and syncs. A cut keeps what was synced before
it, and any sectors of what was written since. The files are opened, verified and read, and searched
for pieces of what was purged or erased with `copies_remain=False`.
"""

import argparse
import os
import random
import shutil
import struct
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import anyio

from factmem import FactmemError, Key
from tests.storms.power_cuts.worker import LAST, mark_of, opened
from tests.storms.preloaded import library

HEAD = struct.Struct("<IIqq")
WRITE, SYNC, TRUNCATE, UNLINK, MOVE, NOTE = range(6)
FILLED = {WRITE, MOVE, NOTE}
SECTOR = 512
HALF, PIECE = 8, 16
"""The bytes of a piece of a value or row."""
OPERATIONS = 150
CUTS_A_RUN = 25
PROCESS = 1 << 32
"""The first number of the values of a further process."""


class Step(NamedTuple):
    """A recorded call, or a note of the worker."""

    kind: int
    name: str
    offset: int
    data: bytes


def recorded(path: Path, folder: Path) -> Iterator[Step]:
    """Yield the steps of a record, without those on files that hold no rows."""
    content, at = path.read_bytes(), 0
    while at < len(content):
        kind, length, offset, size = HEAD.unpack_from(content, at)
        at += HEAD.size
        name = content[at : at + length].decode().removeprefix(f"{folder}/")
        at += length
        data = content[at : at + size]
        at += len(data) if kind in FILLED else 0
        if kind == MOVE:
            data = data.removeprefix(f"{folder}/".encode())
        if name not in {"lock", "reserve"} and not name.endswith("-shm"):
            yield Step(kind, name, offset, data if kind in FILLED else b"")


@dataclass
class Disk:
    """The files of a store: what is durable, and what was written since the last sync of each."""

    durable: dict[str, bytearray] = field(default_factory=dict)
    pending: defaultdict[str, list[Step]] = field(default_factory=lambda: defaultdict(list))

    def take(self, step: Step) -> None:
        """Apply a step. Names are durable at once: file systems keep their order."""
        if step.kind == SYNC:
            for each in self.pending.pop(step.name, ()):
                _apply(self.durable.setdefault(step.name, bytearray()), each)
            self.durable.setdefault(step.name, bytearray())
        elif step.kind == UNLINK:
            self.pending.pop(step.name, None)
            self.durable.pop(step.name, None)
        elif step.kind == MOVE:
            name = step.data.decode()
            self.durable[name] = self.durable.pop(step.name, bytearray())
            self.pending[name] = self.pending.pop(step.name, [])
        else:
            self.pending[step.name].append(step)

    def cut(self, drawn: random.Random) -> dict[str, bytes]:
        """Return the files that a power cut may leave now."""
        left = {name: bytearray(data) for name, data in self.durable.items()}
        share = drawn.choice([0, 0.2, 0.5, 0.8, 1])
        for name, steps in self.pending.items():
            for step in steps:
                file = left.setdefault(name, bytearray())
                if step.kind == TRUNCATE:
                    if drawn.random() < share:
                        _apply(file, step)
                    continue
                for start in range(0, len(step.data), SECTOR):
                    if drawn.random() < share:
                        data = step.data[start : start + SECTOR]
                        _apply(file, step._replace(offset=step.offset + start, data=data))
        return {name: bytes(data) for name, data in left.items()}


def _apply(file: bytearray, step: Step) -> None:
    if step.kind == TRUNCATE:
        del file[step.offset :]
        file.extend(bytes(step.offset - len(file)))
        return
    end = step.offset + len(step.data)
    file.extend(bytes(max(0, end - len(file))))
    file[step.offset : end] = step.data


@dataclass
class Notes:
    """What the worker has said of its operations until a cut."""

    live: dict[str, int] = field(default_factory=dict)
    """The acknowledged values that must be there, with the numbers of their users."""
    unsure: dict[str, int] = field(default_factory=dict)
    """The values of an operation that has not returned."""
    doubtful: dict[str, int] = field(default_factory=dict)
    """The values of operations that failed."""
    saves: list[set[str]] = field(default_factory=list)
    """The values of each save that may have been done, and of which none is removed since."""
    order: dict[str, int] = field(default_factory=dict)
    """The numbers of all values, in the order of their saves."""
    last: dict[int, set[str]] = field(default_factory=dict)
    """By user, what may be the mark of the last save of several values; empty if there is none."""
    mark: tuple[int, str] | None = None
    """The user and mark of the operation that has not returned."""
    gone: set[str] = field(default_factory=set)
    removed: list[bytes] = field(default_factory=list)
    """What may be in no copy that is made later."""
    clear: list[bytes] = field(default_factory=list)
    """What may be in no file, as the receipts say."""
    copies: dict[str, int] = field(default_factory=dict)
    """The backups, with how much was removed before each."""
    wrong: list[str] = field(default_factory=list)
    faults: int = 0
    removals: int = 0

    def take(self, note: str) -> None:
        """Take a note of the worker."""
        kind, *words = note.split()
        match kind:
            case "save":
                self._begin(dict.fromkeys(words[1:], int(words[0])))
                self.saves.append(set(words[1:]))
                self.order |= {value: len(self.order) + n for n, value in enumerate(words[1:])}
                if len(words) > 2:
                    self.mark = int(words[0]), mark_of(words[-1])
            case "saves":
                self._begin(dict(zip(words[1::2], map(int, words[::2]), strict=True)))
                self.order |= dict.fromkeys(words[1::2], len(self.order))
            case "saved":
                self.live |= {value: self.unsure.pop(value) for value in words}
                self.end()
            case "seen":
                self.live |= {v: self.doubtful.pop(v) for v in words if v in self.doubtful}
            case "remove":
                self._begin(dict.fromkeys(words[1:], int(words[0])))
            case "erase":
                known = (self.live | self.doubtful).items()
                self._begin({value: owner for value, owner in known if owner == int(words[0])})
                self.mark = int(words[0]), ""
            case "removed":
                gone = [*map(str.encode, self.unsure), *map(bytes.fromhex, words[1:])]
                self.removals += 1
                self.removed += gone
                self.clear += gone if words[0] == "False" else []
                self.gone |= self.unsure.keys()
                self.unsure = {}
            case "copy":
                self.copies[words[0]] = len(self.removed)
            case "wrong":
                self.wrong.append(note)
            case "faults":
                self.faults = sum(map(int, words))
            case "failed":
                self.end()
            case "done":
                self.live |= self.unsure
                self.unsure = {}
                self._settle(is_done=True)

    def end(self) -> None:
        """The operation under way has failed, or its process was killed."""
        self.doubtful |= self.unsure
        self.unsure = {}
        self._settle(is_done=False)

    def marks_of(self, owner: int) -> set[str]:
        """Return what may be the mark of a user now."""
        return self.last.get(owner, {""}) | {m for o, m in [self.mark or (-1, "")] if o == owner}

    def _settle(self, *, is_done: bool) -> None:
        if self.mark is not None:
            owner, mark = self.mark
            self.last[owner] = {mark} if is_done else self.marks_of(owner)
            self.mark = None

    def _begin(self, values: dict[str, int]) -> None:
        self.unsure = values
        self.saves = [each for each in self.saves if not each & values.keys()]
        for value in values:
            self.live.pop(value, None)
            self.doubtful.pop(value, None)


def left_pieces(folder: Path, removed: Iterable[bytes]) -> list[str]:
    """Return a line for each removed value or row of which the files have a piece."""
    contents: list[bytes] = []
    for path in folder.iterdir():
        with suppress(FileNotFoundError):  # a draft that a process has just removed
            contents.append(path.read_bytes())
    # Whatever its place, a piece has a half in the middle that begins at a multiple of its length.
    halves = {
        content[at : at + HALF] for content in contents for at in range(0, len(content), HALF)
    }
    return [
        f"a piece of what was removed is in {folder.name!r}"
        for whole in removed
        if any(
            whole[at : at + HALF] in halves
            and any(
                whole[begin : begin + PIECE] in content
                for begin in range(max(0, at - HALF), min(at, len(whole) - PIECE) + 1)
                for content in contents
            )
            for at in range(len(whole) - HALF + 1)
        )
    ]


def _is_disordered(values: list[str], notes: Notes) -> bool:
    """Return True if a process saved a value before one that is listed before it."""
    latest = defaultdict[int, int](int)
    for number in (notes.order[value] for value in values if value in notes.order):
        if number < latest[number // PROCESS]:
            return True
        latest[number // PROCESS] = number
    return False


async def faults_of(folder: Path, notes: Notes, key: str) -> list[str]:
    """Open what a cut has left, and return what is wrong with it."""
    found = list[str]()
    try:
        async with opened(folder, key) as store:
            await store.verify()
            read = dict[str, int]()
            for place in await store.list_places():
                owner, listed = int(place.subject.entity or 0), defaultdict[str, list[str]](list)
                for fact in await store.load_all(place.subject, place.scope):
                    listed[fact.concept.keyword] += map(str, fact.values)
                mark = "".join(listed.pop(LAST.keyword, []))
                found += ["an older value is current"] * (mark not in notes.marks_of(owner))
                for values in listed.values():
                    found += ["disordered"] * _is_disordered(values, notes)
                    read |= dict.fromkeys(values, owner)
    except FactmemError as exc:
        return [*found, f"damaged: {type(exc).__name__}: {exc}"]
    may_be = notes.live | notes.unsure | notes.doubtful
    found += ["lost" for value, owner in notes.live.items() if read.get(value) != owner]
    found += ["torn" for save in notes.saves if save & read.keys() and not save <= read.keys()]
    found += ["revived" for value in read if value in notes.gone]
    found += ["invented" for value, owner in read.items() if may_be.get(value) != owner]
    return found


def record(root: Path, seed: int, key: str, operations: int = OPERATIONS) -> list[Step]:
    """Run a worker and return the steps of its disk."""
    store, written = root / "home" / "store", root / "record"
    store.parent.mkdir(parents=True)
    environment = os.environ | {
        "LD_PRELOAD": str(library(root, "recorder.c")),
        "POWER_CUTS_FOLDER": str(store),
        "POWER_CUTS_RECORD": str(written),
    }
    command = [sys.executable, "-m", "tests.storms.power_cuts.worker"]
    arguments = [str(store), str(operations), str(seed), key]
    subprocess.run([*command, *arguments], env=environment, check=True)
    return list(recorded(written, store))


def faults_after_cuts(
    root: Path, steps: list[Step], cuts: int, seed: int, key: str, *, unsynced: str = ""
) -> list[str]:
    """Cut the power at random steps and return what is wrong with the files that are left.

    Args:
        root: A folder for these files.
        steps: The steps of a worker.
        cuts: How many.
        seed: What is drawn.
        key: The key of the store; empty if it is plain.
        unsynced: A file whose syncs do nothing, so that a test sees the storm notice it.
    """
    drawn = random.Random(seed)
    writes = [number for number, step in enumerate(steps) if step.kind != NOTE]
    moments = set(drawn.sample(writes, min(cuts, len(writes))))
    disk, notes, found = Disk(), Notes(), list[str]()
    for number, step in enumerate(steps):
        if number in moments:
            left = root / "left"
            left.mkdir(mode=0o700)
            for name, data in disk.cut(drawn).items():
                path = left / name
                path.write_bytes(data)
                path.chmod(0o600)
            faults = left_pieces(left, notes.clear)
            faults += anyio.run(faults_of, left, notes, key)
            found += [f"seed {seed}, step {number}: {fault}" for fault in faults]
            shutil.rmtree(left)
        if step.kind == NOTE:
            notes.take(step.data.decode())
        elif not (step.kind == SYNC and step.name == unsynced):
            disk.take(step)
    return found


def main() -> int:
    """Run the long form; 0 if nothing was found wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.storms.power_cuts")
    parser.add_argument("--cuts", type=int, default=1000, help="how often the power is cut")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="what is drawn")
    parser.add_argument("--encrypted", action="store_true", help="on encrypted stores")
    options = parser.parse_args()
    key = Key.generate().to_base64() if options.encrypted else ""
    found, begin = list[str](), time.monotonic()
    for seed in range(options.seed, options.seed + -(-options.cuts // CUTS_A_RUN)):
        with TemporaryDirectory() as folder:
            root = Path(folder).resolve()
            found += faults_after_cuts(root, record(root, seed, key), CUTS_A_RUN, seed, key)
    kind = "encrypted" if key else "plain"
    print(
        f"power cuts, {kind}, seed {options.seed}: {options.cuts} cuts, {len(found)} faults, "
        f"{time.monotonic() - begin:.0f} s",
        *found[:20],
        sep="\n",
    )
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
