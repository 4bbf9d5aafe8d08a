"""A place of 1,000,000 facts: a cold load of one fact.

python -m benchmarks.store.million [--facts 1000000] [--rounds 5]

Each load is the first operation of a new process.
"""

import argparse
import shutil
import tempfile
from collections.abc import Awaitable, Callable
from multiprocessing import get_context
from pathlib import Path
from statistics import median

import anyio

from benchmarks.store.contenders import CONTENDERS
from benchmarks.store.processes import HERE, Process

__all__ = ["main"]

KINDS = ("factmem", "factmem, encrypted")


async def fill(name: str, folder: Path, count: int) -> None:
    """Save `count` facts into place 0, in a process that does not read them."""
    async with CONTENDERS[name](folder) as store:
        for start in range(0, count, 1000):
            await store.save_many(0, range(start, start + 1000))


def _run(work: Callable[..., Awaitable[None]], *arguments: object) -> None:
    """Run a function in a new process. A fork would inherit the memory of this process."""
    process = get_context("spawn").Process(target=anyio.run, args=(work, *arguments))
    process.start()
    process.join()
    if process.exitcode:
        raise SystemExit(process.exitcode)


def cold_load_cells(name: str, folder: Path, rounds: int) -> str:
    """Return the median time, processor time and memory of a cold load."""
    process = Process(name, HERE, folder / "serving")
    found = [process.cold("cold_one") for _ in range(rounds)]
    process.stop()
    wall, cpu = (median(each[key] for each in found) * 1e3 for key in ("wall", "cpu"))
    return f"{wall:,.0f} | {cpu:,.0f} | {median(each['mb'] for each in found):.0f}"


def main() -> None:
    """Measure both kinds of store."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--facts", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    print("| cold load of one | ms | processor, ms | memory, MB |\n| --- | ---: | ---: | ---: |")
    for name in KINDS:
        with tempfile.TemporaryDirectory(prefix="factmem-bench-", dir=".") as folder:
            root = Path(folder).resolve() / "serving"
            root.mkdir()
            _run(fill, name, root, given.facts)
            print(f"| {name} | {cold_load_cells(name, root.parent, given.rounds)} |", flush=True)
            shutil.rmtree(root)


if __name__ == "__main__":
    main()
