"""One place with very many facts: time and memory of a recall, by words and with vectors.

    python -m benchmarks.recall.large_place [facts [folder]]

By default a million generated facts of one person, in unencrypted local files. Each step is a
separate process, to measure its own memory. "at most" is the largest resident size, which includes
the resident pages of mapped files. Vectors are random, of 384 numbers.
"""

import resource
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from statistics import median
from time import perf_counter, process_time

import anyio

from benchmarks.recall.speed import (
    AGENT,
    DIMENSIONS,
    PEOPLE,
    QUESTIONS,
    made_up,
    memory_of,
    milliseconds,
    time_after_save,
    vector,
)
from factmem import AgentMemory, CallableEmbedder, LocalFileMemoryProvider

_SAVED_AT_ONCE = 5_000
_GIBIBYTE = 2**30
_PAGE = resource.getpagesize()


def resident() -> float:
    """Return the resident memory in GiB."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE / _GIBIBYTE


async def show(name: str, work: Callable[[], Awaitable[object]]) -> None:
    wall, processor = perf_counter(), process_time()
    await work()
    wall, processor = perf_counter() - wall, process_time() - processor
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / _GIBIBYTE
    print(
        f"  {name:38} {wall:8.1f} s   processor {processor:8.1f} s   "
        f"memory {resident():5.2f} GiB, at most {most:5.2f}",
        flush=True,
    )


async def fill(store: LocalFileMemoryProvider, count: int) -> None:
    facts = []
    for _, fact in made_up(count):
        facts.append(fact)
        if len(facts) == _SAVED_AT_ONCE:
            await store.save_many(facts, PEOPLE[0], AGENT)
            facts = []


async def search(memory: AgentMemory, store: LocalFileMemoryProvider) -> None:
    await show("the first recall", lambda: memory.recall("Hello?"))
    await milliseconds(memory.recall, QUESTIONS)
    processor = process_time()
    times = await milliseconds(memory.recall, QUESTIONS)
    processor = (process_time() - processor) / len(QUESTIONS) * 1000
    print(f"  warm: median {median(times):.1f} ms, processor {processor:.1f} ms in the mean")
    times = [await time_after_save(memory, store, number) for number in range(5)]
    print(f"  after a save: median {median(times):.1f} ms", flush=True)
    await show("closing", memory.aclose)


async def embed_once(texts: list[str]) -> list[list[float]]:
    """Embed texts like `embed`, without its cache."""
    return [vector.__wrapped__(text) for text in texts]


async def step(name: str, count: int, folder: str) -> None:
    print(name, flush=True)
    embedder = CallableEmbedder(embed_once, model="random", dimensions=DIMENSIONS)
    async with LocalFileMemoryProvider(folder) as store:
        if name == "saving":
            await show(f"{count:,} facts", lambda: fill(store, count))
        else:
            await search(memory_of(store, None if name == "words" else embedder), store)


def main(count: int, folder: str) -> None:
    for name in ("saving", "words", "words and meanings", "words and meanings, from the index"):
        command = [sys.executable, "-m", __spec__.name, str(count), folder, name]
        subprocess.run(command, check=True)


if __name__ == "__main__":
    facts = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    if len(sys.argv) > 3:
        anyio.run(step, sys.argv[3], facts, sys.argv[2])
    elif len(sys.argv) > 2:
        main(facts, sys.argv[2])
    else:
        with tempfile.TemporaryDirectory() as made:
            main(facts, made)
