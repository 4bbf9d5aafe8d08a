"""The time of a recall over a store in local files.

    python -m benchmarks.recall.speed [--without-extra] [facts ...]

A generated fact has the keyword and description of a random fact of the corpus, six random words of
the corpus's values and a random day: about thirty terms. The facts belong to five people, each with
one place. The questions are those of the corpus. Vectors are random, of 384 numbers. Embedding a
question takes no time, because its vector is cached, and embedding a fact takes very little. Unless
noted otherwise, a time is the median over the questions of the best of five recalls each.
`--without-extra` measures recall by words without numpy and snowballstemmer.
"""

import random
import sys
import tempfile
from collections.abc import Awaitable, Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from hashlib import shake_128
from math import inf
from pathlib import Path
from statistics import median, quantiles
from time import perf_counter, process_time
from typing import Any

import anyio

from benchmarks.recall.corpus import read_facts, read_questions
from factmem import (
    AgentMemory,
    CallableEmbedder,
    Concept,
    Embedder,
    FactType,
    LocalFileMemoryProvider,
    MemoryScope,
    MemoryScopesProfile,
    MemorySubject,
    MultipleFacts,
)
from factmem.recall import RecallFilter
from factmem.recall._documents import value_words

USER = MemorySubject("user", "The person whom the agent talks to", 1, per_entity=True)
AGENT = MemoryScope.Agent("bench")
PEOPLE = [USER.of(name) for name in ("mara", "tobias", "서윤", "jiho", "nadia")]
START = datetime(2022, 1, 1, tzinfo=UTC)
DIMENSIONS = 384
_ROUNDS = 5

QUESTIONS = [question.text for question in read_questions()]


def made_up(count: int, seed: int = 7) -> Iterator[tuple[MemorySubject, MultipleFacts[str]]]:
    """Yield generated facts. None of them replaces another."""
    chance = random.Random(seed)
    corpus = read_facts()
    vocabulary = " ".join(value_words(value) for fact in corpus for value in fact.values).split()
    for number in range(count):
        like = chance.choice(corpus)
        concept = Concept(like.keyword, like.description, FactType.MULTIPLE)
        said = START + timedelta(minutes=chance.randrange(2_100_000))
        value = " ".join(chance.choices(vocabulary, k=6))
        yield PEOPLE[number % len(PEOPLE)], MultipleFacts(concept, [value], timestamp=said)


@cache
def vector(text: str) -> list[float]:
    return [byte - 127.5 for byte in shake_128(text.encode()).digest(DIMENSIONS)]


async def embed(texts: list[str]) -> list[list[float]]:
    return [vector(text) for text in texts]


def memory_of(store: LocalFileMemoryProvider, embedder: Embedder | None = None) -> AgentMemory:
    return AgentMemory(
        store, scopes=MemoryScopesProfile(agent="bench"), subjects=PEOPLE, embedder=embedder
    )


async def milliseconds(
    call: Callable[[str], Awaitable[object]], texts: Sequence[str]
) -> list[float]:
    times = []
    for text in texts:
        started = perf_counter()
        await call(text)
        times.append((perf_counter() - started) * 1000)
    return times


async def warm(name: str, call: Callable[[str], Awaitable[object]]) -> None:
    """Print the best of five recalls per question, which other load on the machine affects
    least."""
    walls, processors = [inf] * len(QUESTIONS), [inf] * len(QUESTIONS)
    for _ in range(_ROUNDS):
        for at, text in enumerate(QUESTIONS):
            processor, wall = process_time(), perf_counter()
            await call(text)
            walls[at] = min(walls[at], (perf_counter() - wall) * 1000)
            processors[at] = min(processors[at], (process_time() - processor) * 1000)
    show(name, walls)
    print(f"  {'':44} processor {median(processors):5.2f} ms")


def show(name: str, times: list[float]) -> None:
    slow = quantiles(times, n=20)[18] if len(times) > 1 else times[0]
    print(f"  {name:44} median {median(times):8.2f} ms   p95 {slow:8.2f} ms", flush=True)


async def fill(store: LocalFileMemoryProvider, count: int) -> None:
    of_person: dict[MemorySubject, list[MultipleFacts[str]]] = {}
    for person, fact in made_up(count):
        of_person.setdefault(person, []).append(fact)
    for person, facts in of_person.items():
        for start in range(0, len(facts), 1000):
            await store.save_many(facts[start : start + 1000], person, AGENT)


async def time_after_save(
    memory: AgentMemory, store: LocalFileMemoryProvider, number: int
) -> float:
    """Return the time of a recall after a save."""
    concept = Concept("note", "What was noted", FactType.MULTIPLE)
    await store.save(MultipleFacts(concept, [f"note number {number}"]), PEOPLE[0], AGENT)
    (time,) = await milliseconds(memory.recall, ["Which note was the last one?"])
    return time


async def measure_words(store: LocalFileMemoryProvider) -> None:
    memory = memory_of(store)
    show(
        "words: the first recall (reads and indexes)", await milliseconds(memory.recall, ["Hello?"])
    )
    await warm("words: warm", memory.recall)

    async def of_one(text: str) -> Any:
        return await memory.recall(text, subjects=PEOPLE[:1])

    await warm("words: warm, one person of five", of_one)

    lately = RecallFilter(since=START + timedelta(days=700))

    async def since(text: str) -> Any:
        return await memory.recall(text, where=lately)

    await warm("words: warm, said in half of the time", since)
    show(
        "words: after a save",
        [await time_after_save(memory, store, number) for number in range(10)],
    )


async def measure_meaning(store: LocalFileMemoryProvider, root: Path) -> None:
    embedder = CallableEmbedder(embed, model="random", dimensions=DIMENSIONS)
    memory = memory_of(store, embedder)
    await embed(QUESTIONS)
    cold = await milliseconds(memory.recall, ["Hello?"])
    show("fused: the first recall, all facts embedded", cold)
    size = sum(file.stat().st_size for file in (root / "indexes").glob("*"))
    print(f"  {'index files':44} {size / 2**20:8.1f} MiB")
    again = memory_of(store, embedder)
    show("fused: the first recall, with index files", await milliseconds(again.recall, ["Hello?"]))
    await warm("fused: warm", memory.recall)
    show("fused: after a save", [await time_after_save(memory, store, 100 + n) for n in range(10)])


async def measure(count: int, is_plain: bool) -> None:
    print(f"\n{count:,} facts")
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        async with LocalFileMemoryProvider(root) as store:
            await fill(store, count)
            await measure_words(store)
            if not is_plain:
                await measure_meaning(store, root)


if __name__ == "__main__":
    without_extra = "--without-extra" in sys.argv
    if without_extra:
        sys.modules |= dict.fromkeys(("numpy", "snowballstemmer"))  # type: ignore[arg-type]
    given = [each for each in sys.argv[1:] if each.isdecimal()]
    for size in map(int, given or ["5000", "100000"]):
        anyio.run(measure, size, without_extra)
