"""A comparison of both stores on one server, which it starts: rates and medians of their ratios.

python -m benchmarks.postgres --rounds 3 --seconds 1.5
"""

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import anyio
import orjson

from benchmarks.postgres.contenders import FACTS, USERS, create_contender
from tests.postgres.cluster import Cluster

WORKS = ("save any user", "save one user", "load one", f"load {FACTS}", f"recall {FACTS}")
SHAPES = ((1, 1), (1, 16), (2, 8))
"""Pairs of a number of processes and the number of tasks in each."""

CONTENDERS = ("langgraph", "factmem", "factmem, 1 s stale")


async def fill(name: str, dsn: str) -> None:
    """Save all facts of all users."""
    async with create_contender(name, dsn) as store:

        async def one(user: str) -> None:
            for number in range(FACTS):
                await store.put(user, number, f"value {number} of {user}")
            await store.prepare_recall(user)

        async with anyio.create_task_group() as group:
            for number in range(USERS):
                group.start_soon(one, f"user-{number}")


def measure(
    name: str, what: str, dsn: str, processes: int, tasks: int, seconds: float
) -> tuple[float, int]:
    """Return the operations per second of all processes, and the number of failures."""
    start = time.time() + 2.0 + 0.5 * processes
    command = [sys.executable, "-m", "benchmarks.postgres.worker", name, what, dsn, str(tasks)]
    running = [
        subprocess.Popen([*command, str(start), str(seconds), str(n)], stdout=subprocess.PIPE)
        for n in range(processes)
    ]
    found = [orjson.loads(each.communicate()[0].splitlines()[-1]) for each in running]
    return sum(each["rate"] for each in found), int(sum(each["failed"] for each in found))


def row(what: str, dsn: str, processes: int, tasks: int, *, rounds: int, seconds: float) -> str:
    """Return a row of the table."""
    names = [name for name in CONTENDERS if not what.startswith("save") or "stale" not in name]
    rates: dict[str, list[float]] = {name: [] for name in names}
    failed = dict.fromkeys(names, 0)
    for _ in range(rounds):
        for name in names:
            rate, lost = measure(name, what, dsn, processes, tasks, seconds)
            rates[name].append(rate)
            failed[name] += lost
    cells = [f"{what}, {processes} x {tasks}"]
    for name in CONTENDERS:
        if name in rates:
            pairs = zip(rates[name], rates["langgraph"], strict=True)
            ratio = statistics.median(mine / theirs for mine, theirs in pairs if theirs)
            shown = f"{statistics.median(rates[name]):,.0f}"
            shown += "" if name == "langgraph" else f" ({ratio:.2f})"
            cells.append(shown + (f", {failed[name]} failed" if failed[name] else ""))
        else:
            cells.append("")
    return "| " + " | ".join(cells) + " |"


def main() -> None:
    """Print a table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=1.5)
    parser.add_argument("--only", default="", help="a prefix of the works to run, such as recall")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, Cluster(Path(folder) / "data") as server:
        for name in CONTENDERS[:2]:
            anyio.run(fill, name, server.dsn())
        print("| work, processes x tasks | LangGraph /s | factmem /s (ratio) | 1 s stale |")
        print("| --- | ---: | ---: | ---: |")
        for what in (each for each in WORKS if each.startswith(given.only)):
            for processes, tasks in SHAPES:
                options = {"rounds": given.rounds, "seconds": given.seconds}
                print(row(what, server.dsn(), processes, tasks, **options), flush=True)


if __name__ == "__main__":
    main()
