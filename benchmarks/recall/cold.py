"""The processor time of a `factmem recall` in a new process.

    python -m benchmarks.recall.cold [facts ...]

The facts are those of `benchmarks.recall.speed`, of one person and of five. The first command reads
the places and stores the indexes, the later ones use them. Prints the seconds of processor time of
each command, user and system, and its matches must be those of the first.
"""

import os
import subprocess
import sys
import tempfile

import anyio

from benchmarks.recall.speed import AGENT, PEOPLE, made_up
from benchmarks.store.processes import HERE, environment
from factmem import Concept, LocalFileMemoryProvider, SingleFact

QUESTION = "Where does Mara live?"


async def fill(folder: str, count: int, people: int) -> None:
    async with LocalFileMemoryProvider(folder) as store:
        facts = [fact for _, fact in made_up(count)]
        for number, person in enumerate(PEOPLE[:people]):
            own = facts[number::people]
            for start in range(0, len(own), 5000):
                await store.save_many(own[start : start + 5000], person, AGENT)


async def add(folder: str) -> None:
    async with LocalFileMemoryProvider(folder) as store:
        fact = SingleFact(Concept("new-city", "Where she lives now"), "Haeundae")
        await store.save(fact, PEOPLE[0], AGENT)


def recalled(folder: str) -> tuple[str, float]:
    """Return what the command prints, and its processor time."""
    before = os.times()
    command = [sys.executable, "-m", "factmem", "--store", folder, "recall", QUESTION]
    done = subprocess.run(
        command, env=environment(HERE), capture_output=True, text=True, check=True
    )
    after = os.times()
    spent = after.children_user + after.children_system
    return done.stdout, spent - before.children_user - before.children_system


def main() -> None:
    for count in map(int, sys.argv[1:] or ("5000", "100000")):
        for people in (1, 5):
            with tempfile.TemporaryDirectory() as folder:
                anyio.run(fill, folder, count, people)
                found, first = recalled(folder)
                later = [recalled(folder) for _ in range(5)]
                if any(printed != found for printed, _ in later):
                    raise SystemExit("A stored index found other facts")
                best, most = min(s for _, s in later), max(s for _, s in later)
                anyio.run(add, folder)
                _, followed = recalled(folder)
                print(
                    f"{count:8,} facts, {people} place(s): the first {first:.2f} s, "
                    f"five later ones {best:.2f} to {most:.2f} s, after a save {followed:.2f} s",
                    flush=True,
                )


if __name__ == "__main__":
    main()
