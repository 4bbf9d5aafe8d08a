"""One piece of work by one contender, in a process of its own, printed as one line of JSON.

python -m benchmarks.store.work WORK CONTENDER FOLDER
"""

import json
import resource
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from statistics import median, quantiles

import anyio

from benchmarks.store.contenders import CONTENDERS, Contender, fact_json_size

MANY = 100_000


async def one(store: Contender, folder: Path) -> dict[str, float]:
    """300 saves, one after the other, into one place."""
    await store.save(0, 0)
    return {"ms": 1e3 * median([await _seconds(lambda: store.save(0, 1)) for _ in range(300)])}


async def sixteen(store: Contender, folder: Path) -> dict[str, float]:
    """16 tasks of 250 saves each, into one place."""
    await store.save(0, 0)
    return {"per_s": 4000 / await _seconds(lambda: _tasks(store, 0, []))}


async def _tasks(store: Contender, base: int, times: list[float]) -> None:
    async def saver(task: int) -> None:
        for number in range(250):
            key = base + task * 250 + number
            times.append(await _seconds(lambda key=key: store.save(0, key)))  # type: ignore[misc]

    async with anyio.create_task_group() as tasks:
        for task in range(16):
            tasks.start_soon(saver, task)


async def processes(store: Contender, folder: Path) -> dict[str, float]:
    """4 processes of 16 tasks of 250 saves each, into one place."""
    await store.save(0, 0)
    name = sys.argv[2]
    command = [sys.executable, "-m", "benchmarks.store.work", "worker", name, str(folder)]
    workers = [
        subprocess.Popen([*command, str(each)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # noqa: ASYNC220 - the parent only waits
        for each in range(4)
    ]
    for worker in workers:
        _line(worker)
    started = time.perf_counter()
    for worker in workers:
        worker.stdin.write(b"\n")  # type: ignore[union-attr]
        worker.stdin.flush()  # type: ignore[union-attr]
    times = [each for worker in workers for each in json.loads(_line(worker))]
    wall = time.perf_counter() - started
    for worker in workers:
        worker.wait()
    return {"per_s": 16_000 / wall, "p99_ms": 1e3 * quantiles(times, n=100)[98]}


def _line(worker: "subprocess.Popen[bytes]") -> bytes:
    return worker.stdout.readline()  # type: ignore[union-attr]


async def worker(store: Contender, folder: Path) -> list[float]:
    """Say that it is ready, wait for the word, save, give the seconds that each save took."""
    print("ready", flush=True)
    sys.stdin.readline()
    times: list[float] = []
    await _tasks(store, 4000 * int(sys.argv[4]), times)
    return times


async def fill(store: Contender, folder: Path) -> dict[str, float]:
    """Save 100,000 facts into one place, and tell what they take on disk."""
    for start in range(0, MANY, 1000):
        await store.save_many(0, range(start, start + 1000))
    size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())  # noqa: ASYNC240 - nothing else is under way
    return {"bytes_per_byte": size / sum(map(fact_json_size, range(MANY)))}


async def thousand(store: Contender, folder: Path) -> dict[str, float]:
    """20 times `save_many` of 1,000 facts."""
    await store.save(1, 0)
    times = [await _seconds(lambda: store.save_many(1, range(1000))) for _ in range(20)]
    return {"ms": 1e3 * median(times)}


async def full(store: Contender, folder: Path) -> dict[str, float]:
    """300 saves into a place that holds 100,000 facts, read once, and into an empty one."""
    await store.load(0, 1)
    await store.save(0, 0)
    await store.save(2, 0)
    there: list[float] = []
    empty: list[float] = []
    for _ in range(300):
        there.append(await _seconds(lambda: store.save(0, 1)))
        empty.append(await _seconds(lambda: store.save(2, 1)))
    return {"ms": 1e3 * median(there), "empty_ms": 1e3 * median(empty)}


async def warm(store: Contender, folder: Path) -> dict[str, float]:
    """20,000 loads of one concept among 100,000 facts, in rounds of 1,000."""
    await store.load(0, 4711)

    async def round_() -> None:
        for _ in range(1000):
            await store.load(0, 4711)

    return {"us": 1e3 * median([await _seconds(round_) for _ in range(20)])}


async def cold(store: Contender, folder: Path) -> dict[str, float]:
    """Open and load 100,000 facts, as the first thing that a process does."""
    seconds = await _seconds(lambda: store.load_all(0))
    return {"s": seconds, "mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3}


async def _seconds(work: Callable[[], Awaitable[object]]) -> float:
    started = time.perf_counter()
    await work()
    return time.perf_counter() - started


WORK: dict[str, Callable[[Contender, Path], Awaitable[object]]] = {
    each.__name__: each
    for each in (one, sixteen, processes, worker, fill, thousand, full, warm, cold)
}


async def main() -> None:
    """Do what the command line says."""
    work, name, folder = sys.argv[1:4]
    started = time.perf_counter()
    async with CONTENDERS[name](Path(folder)) as store:
        opened = time.perf_counter() - started
        result = await WORK[work](store, Path(folder))
    if isinstance(result, dict) and "s" in result:
        result["s"] += opened
    print(json.dumps(result))


if __name__ == "__main__":
    anyio.run(main)
