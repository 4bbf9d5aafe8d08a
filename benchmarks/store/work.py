"""The work of a contender's process: one slice for each line of standard input.

A slice is a few milliseconds of work. Its answer is one line of JSON with its wall time and its
processor time in seconds, and further measurements.
"""

import json
import os
import random
import resource
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import anyio

from benchmarks.store.contenders import CONTENDERS, Contender, fact_json_size

__all__ = ["MANY", "OPERATIONS", "main"]

MANY = 100_000
"""Facts in the large place, number 0."""

OPERATIONS = {
    "one": 20,
    "sixteen": 16 * 12,
    "places": 64 * 3,
    "processes": 4 * 16 * 60,
    "thousand": 1,
    "warm": 500,
    "cold_all": 1,
    "cold_one": 1,
    "import": 1,
    "first_save": 1,
}
"""The number of operations in one slice of each work."""

Answer = dict[str, object]


async def one(store: Contender, folder: Path) -> Answer:
    """Do 20 saves into one place, one after the other."""
    for number in range(20):
        await store.save(3, number)
    return {}


async def sixteen(store: Contender, folder: Path) -> Answer:
    """Run 16 tasks with 12 saves each, into one place."""
    await _tasks(store, 16, 12, lambda task: 4)
    return {}


async def places(store: Contender, folder: Path) -> Answer:
    """Run 64 tasks with 3 saves each, each task into its own place."""
    await _tasks(store, 64, 3, lambda task: 100 + task)
    return {}


async def fill_places(store: Contender, folder: Path) -> Answer:
    """Save 300 facts into each of the 64 places."""
    for task in range(64):
        first = random.randrange(MANY - 300)
        await store.save_many(100 + task, range(first, first + 300))
    return {}


async def processes(store: Contender, folder: Path) -> Answer:
    """Run 16 tasks with 60 saves each into one place, in one of 4 processes."""
    return {"saves": await _tasks(store, 16, 60, lambda task: 5)}


async def _tasks(
    store: Contender, count: int, saves: int, place_of: Callable[[int], int]
) -> list[float]:
    times: list[float] = []
    first = random.randrange(MANY)

    async def saver(task: int) -> None:
        for number in range(saves):
            started = time.perf_counter()
            await store.save(place_of(task), (first + task * saves + number) % MANY)
            times.append(time.perf_counter() - started)

    async with anyio.create_task_group() as group:
        for task in range(count):
            group.start_soon(saver, task)
    return times


async def thousand(store: Contender, folder: Path) -> Answer:
    """Do one `save_many` of 1,000 facts."""
    await store.save_many(1, range(1000))
    return {}


async def warm(store: Contender, folder: Path) -> Answer:
    """Load one concept of 100,000 facts 500 times, after the place was read."""
    for _ in range(500):
        await store.load(0, 4711)
    return {}


async def fill(store: Contender, folder: Path) -> Answer:
    """Save 100,000 facts into one place, and return their size on disk."""
    for start in range(0, MANY, 1000):
        await store.save_many(0, range(start, start + 1000))
    size = _size(folder)
    disk = size / sum(map(fact_json_size, range(MANY)))
    for _ in range(10):
        await store.save_many(2, range(1000))
        await store.load_all(2)
    again = (_size(folder) - size) / (10 * sum(map(fact_json_size, range(1000))))
    return {"disk": disk, "disk_again": again}


def _size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


async def cold_all(store: Contender, folder: Path) -> Answer:
    """Load 100,000 facts as the first operation of a process."""
    if (count := await store.load_all(0)) != MANY:
        raise ValueError(f"{count} facts of {MANY}")
    return {}


async def cold_one(store: Contender, folder: Path) -> Answer:
    """Load one concept of 100,000 as the first operation of a process."""
    await store.load(0, 4711)
    return {}


WORK: dict[str, Callable[[Contender, Path], Awaitable[Answer]]] = {
    each.__name__: each
    for each in (
        *(one, sixteen, places, processes, thousand, warm, cold_all, cold_one),
        *(fill, fill_places),
    )
}


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


@asynccontextmanager
async def _measured(answer: Answer) -> AsyncIterator[None]:
    cpu, started = _cpu(), time.perf_counter()
    yield
    answer["wall"] = time.perf_counter() - started
    answer["cpu"] = _cpu() - cpu
    answer["mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


async def serve(name: str, folder: Path) -> None:
    """Do the work named by each line of standard input, and print its answer."""
    async with CONTENDERS[name](folder) as store:
        print("{}", flush=True)
        for line in sys.stdin:
            answer: Answer = {}
            async with _measured(answer):
                answer.update(await WORK[line.strip()](store, folder))
            print(json.dumps(answer), flush=True)


async def cold(name: str, folder: Path, work: str) -> None:
    """Open the store and do one work, to measure the cost at the start of a process."""
    answer: Answer = {}
    async with _measured(answer), CONTENDERS[name](folder) as store:
        await WORK[work](store, folder)
    print(json.dumps(answer))


async def saves(name: str, folder: Path, count: str) -> None:
    """Do `count` saves, whose system calls `strace` counts from outside."""
    async with CONTENDERS[name](folder) as store:
        for number in range(int(count)):
            await store.save(3, number)


def main() -> None:
    """Run the command of the command line."""
    command, name, folder, *rest = sys.argv[1:]
    os.makedirs(folder, exist_ok=True)
    commands: dict[str, Callable[..., Awaitable[None]]] = {
        "serve": serve,
        "cold": cold,
        "saves": saves,
    }
    anyio.run(commands[command], name, Path(folder), *rest)
