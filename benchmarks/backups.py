"""Saves and loads beside a backup of a large store, and alone, by turns.

    python -m benchmarks.backups [MB] [ROUNDS]

A local store, by default of 500 MB, is made in the current folder. Each round saves and loads for
some seconds alone, and then while a backup runs. Times are medians in milliseconds. Only times of
one run are divided, as other programs use the disk too; the load average shows how many.
"""

import os
import random
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import anyio

from factmem import Concept, FactType, LocalFileMemoryProvider, MultipleFacts, SingleFact
from tests.world import AGENT, USER

LOG = Concept("log", "What was said", FactType.MULTIPLE)
THEME = Concept("theme", "How the user wants it to look")
PLACES = 2000
"""More than the store keeps in memory."""
ALONE = 5.0

Times = tuple[list[float], list[float]]
"""The milliseconds of each save, and of each load."""


async def fill(store: LocalFileMemoryProvider, megabytes: int) -> None:
    """Save facts of 20 kB, a megabyte at a time."""
    draw = random.Random(1)
    for number in range(megabytes):
        facts = [MultipleFacts(LOG, [draw.randbytes(10_000).hex()]) for _ in range(50)]
        await store.save_many(facts, USER.of(f"{number % PLACES}"), AGENT)


async def turn(store: LocalFileMemoryProvider, times: Times, is_over: Callable[[], bool]) -> None:
    """Save and load until it is over."""
    draw = random.Random()
    while not is_over():
        first, second = (USER.of(f"small {draw.randrange(PLACES)}") for _ in "12")
        begin = time.perf_counter()
        await store.save(SingleFact(THEME, f"dark {begin}"), first, AGENT)
        saved = time.perf_counter()
        await store.load(THEME, second, AGENT)
        times[0].append((saved - begin) * 1000)
        times[1].append((time.perf_counter() - saved) * 1000)


async def measure(store: LocalFileMemoryProvider, copy: Path) -> None:
    """Print the figures of one round."""
    alone: Times = ([], [])
    beside: Times = ([], [])
    until = time.monotonic() + ALONE
    await turn(store, alone, lambda: time.monotonic() > until)
    begin = time.monotonic()
    took = 0.0

    async def back_up() -> None:
        nonlocal took
        await store.backup(copy)
        took = time.monotonic() - begin

    async with anyio.create_task_group() as group:
        group.start_soon(back_up)
        await turn(store, beside, lambda: took > 0)
    shutil.rmtree(copy)
    for name, before, during in zip(("save", "load"), alone, beside, strict=True):
        first, second = median(before), median(during)
        print(f"| {name} | {first:.2f} | {second:.2f} | {second / first:.2f} |")
    print(f"| backup | {took:.1f} s | load {os.getloadavg()[0]:.0f} | |", flush=True)


async def main(root: Path, megabytes: int, rounds: int) -> None:
    async with LocalFileMemoryProvider(root / "store") as store:
        await fill(store, megabytes)
        print("| | alone | beside a backup | ratio |\n|---|---|---|---|")
        for _ in range(rounds):
            await measure(store, root / "copy")


if __name__ == "__main__":
    size, times = (*map(int, sys.argv[1:]), *(500, 5)[len(sys.argv) - 1 :])
    with TemporaryDirectory(dir=".", prefix="factmem-bench-") as folder:
        anyio.run(main, Path(folder), size, times)
