"""Four processes of sixteen tasks save at once: nothing lost, no error, and seen by others at once.

python -m tests.storms.many_processes            250 saves per task, and what that took
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio

from factmem import (
    Aes256GCMEncryptor,
    Concept,
    EncryptedStorage,
    Key,
    LocalFileMemoryProvider,
    MemoryScope,
    MemorySubject,
    SimpleStorage,
    SingleFact,
)
from factmem.providers.storages import Storage
from tests.processes import Process, Tell, heard, running

__all__ = ["Outcome", "many_processes"]

USER = MemorySubject("user", "The user", 1, per_entity=True)
AGENT = MemoryScope.Agent("storm")
PROCESSES, TASKS = 4, 16


def _storage(key: str | None) -> Storage:
    return SimpleStorage() if key is None else EncryptedStorage(Aes256GCMEncryptor(key))


def _lane(process: int, task: int) -> Concept:
    """The place that only one task saves to, so that its values must come in order."""
    return Concept(f"lane-{process}-{task}", "What the task with this number has counted " * 2)


def _place(number: int, places: int) -> MemorySubject:
    return USER.of(f"user-{number % places}")


def _value(number: int) -> str:
    return f"{number:06d}" + "." * 114


def saver(
    tell: Tell, wait: Callable[[], None], root: str, key: str | None, job: tuple[int, ...]
) -> None:
    """Save from sixteen tasks; report each save when it has returned, and all times at the end."""
    process, saves, places = job
    took: list[float] = []

    async def count(provider: LocalFileMemoryProvider, task: int) -> None:
        lane = _lane(process, task)
        for number in range(saves):
            subject = _place(process * TASKS + task + number, places)
            fact = SingleFact(lane, _value(number))
            begin = time.perf_counter()
            await provider.save(fact, subject, AGENT)
            took.append(time.perf_counter() - begin)
            tell(f"{task} {number} {subject.entity}")

    async def main() -> None:
        async with (
            LocalFileMemoryProvider(root, storage=_storage(key)) as provider,
            anyio.create_task_group() as tasks,
        ):
            for task in range(TASKS):
                tasks.start_soon(count, provider, task)

    wait()
    anyio.run(main, backend=("asyncio", "trio")[process % 2])
    tell(json.dumps(took))


@dataclass
class Outcome:
    """The results of a run."""

    saved: int = 0
    missing: int = 0
    """Acknowledged saves that were not in the store at the end, or not in their order."""
    unseen: int = 0
    """Acknowledged saves that this process did not see when it looked right afterwards."""
    looks: int = 0
    ended: int = 0
    """Processes that came to their end without an error."""
    seconds: float = 0.0
    took: list[float] = field(default_factory=list)
    """The time of each save, in seconds, ascending."""

    @property
    def is_good(self) -> bool:
        """Return True if nothing was lost, unseen or in error."""
        return self.ended == PROCESSES and not (self.missing or self.unseen)

    def __str__(self) -> str:
        def at(share: float) -> float:
            return self.took[int(len(self.took) * share)] * 1000

        return (
            f"{self.saved} saves in {self.seconds:.2f} s: {self.saved / self.seconds:,.0f}/s; "
            f"p50 {at(0.5):.1f} ms, p99 {at(0.99):.1f} ms, max {self.took[-1] * 1000:.0f} ms; "
            f"missing {self.missing}, unseen {self.unseen} of {self.looks} looks, "
            f"{PROCESSES - self.ended} processes failed"
        )


async def many_processes(
    root: Path, *, saves: int, places: int, key: str | None = None, is_watched: bool = True
) -> Outcome:
    """Run the saves, look at what is acknowledged while they run, and count what is there."""
    outcome = Outcome()
    jobs = [(process, saves, places) for process in range(PROCESSES)]
    with running(Process(saver, str(root), key, job) for job in jobs) as crew:
        begin = time.perf_counter()
        async with LocalFileMemoryProvider(root, storage=_storage(key)) as provider:
            for process, lines in heard(crew):
                told = [line.split() for line in lines if not line.startswith("[")]
                outcome.saved += len(told)
                if is_watched:
                    await _look(provider, crew.index(process), told, outcome)
                for line in lines:
                    if line.startswith("["):
                        outcome.took += json.loads(line)
                        outcome.seconds = time.perf_counter() - begin
                        outcome.ended += 1
    outcome.took.sort()
    outcome.missing = await _missing(root, key, saves, places)
    return outcome


async def _look(
    provider: LocalFileMemoryProvider, process: int, told: Iterable[list[str]], outcome: Outcome
) -> None:
    """Load the last acknowledged value of each place: it, or one that its task saved later."""
    latest = {(int(task), entity): int(number) for task, number, entity in told}
    for (task, entity), number in latest.items():
        facts = await provider.load(_lane(process, task), USER.of(entity), AGENT)
        outcome.looks += 1
        if not facts or facts[0].value < _value(number):
            outcome.unseen += 1


async def _missing(root: Path, key: str | None, saves: int, places: int) -> int:
    """Return how many saves a fresh provider does not find, each in its place and its order."""
    missing = 0
    async with LocalFileMemoryProvider(root, storage=_storage(key)) as provider:
        found: dict[tuple[str, str], list[str]] = {}
        for place in range(places):
            subject = _place(place, places)
            for entry in await provider.entries(subject, AGENT):
                for fact in entry["facts"]:
                    lane = (fact["keyword"], str(subject.entity))
                    found.setdefault(lane, []).append(str(fact["value"]))
    for process in range(PROCESSES):
        for task in range(TASKS):
            wanted: dict[str, list[str]] = {}
            for number in range(saves):
                entity = str(_place(process * TASKS + task + number, places).entity)
                wanted.setdefault(entity, []).append(_value(number))
            for entity, values in wanted.items():
                if found.get((_lane(process, task).keyword, entity)) != values:
                    missing += len(values)
    return missing


def main() -> int:
    """Run the long form; 0 if nothing was lost, unseen or in error."""
    parser = argparse.ArgumentParser(prog="python -m tests.storms.many_processes")
    parser.add_argument("--saves", type=int, default=250, help="per task")
    options = parser.parse_args()
    is_good = True
    kinds = (("plain", None), ("encrypted", Key.generate().to_base64()))
    for (kind, key), places, is_watched in product(kinds, (1, 50), (False, True)):
        with TemporaryDirectory() as folder:
            run = partial(many_processes, Path(folder) / "store", saves=options.saves)
            outcome = anyio.run(partial(run, places=places, key=key, is_watched=is_watched))
        is_good = is_good and outcome.is_good
        what = f"{kind}, {places} place{'s'[: places - 1]}{', watched' if is_watched else ''}"
        print(f"{what}: {outcome}", flush=True)
    print("many processes: nothing lost" if is_good else "many processes: FAULTS")
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
