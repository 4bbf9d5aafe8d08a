"""Questions with time words: hit@5 and MRR over facts of one person that differ in their times.

    python -m benchmarks.recall.times            both sets of questions, by words
    python -m benchmarks.recall.times --misses   and the questions without a right fact among five

A line of `times/facts.txt` is id, keyword, value, the day it was said, and since and until. A line
of questions has the ids of the right facts. The clock stands at 2026-11-20.
"""

import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import anyio

from factmem import (
    AgentMemory,
    Concept,
    FactType,
    InMemoryProvider,
    MemoryScope,
    MemoryScopesProfile,
    MemorySubject,
    MultipleFacts,
)

HERE = Path(__file__).parent / "times"
NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
SETS = ("first", "second")
_USER = MemorySubject("user", "The person who talks to the agent", 1)
_AGENT = MemoryScope.Agent("bench")


def lines(name: str) -> list[list[str]]:
    """Return the fields of each line of a file."""
    text = (HERE / f"{name}.txt").read_text("utf-8")
    return [
        [field.strip() for field in line.split("|")]
        for line in text.splitlines()
        if line and not line.startswith("#")
    ]


async def build_memory() -> AgentMemory:
    """Return a memory with all facts, each saved on the day it was said."""
    now = [NOW]
    store = InMemoryProvider(clock=lambda: now[0])
    for fact_id, keyword, value, said, period in lines("facts"):
        now[0] = datetime.fromisoformat(said).replace(hour=12, tzinfo=UTC)
        since, _, until = period.partition("..")
        fact = MultipleFacts(
            Concept(keyword, f"{keyword} of the user", FactType.MULTIPLE),
            [value],
            id=fact_id,
            timestamp=now[0],
            since=since or None,
            until=until or None,
        )
        await store.save(fact, _USER, _AGENT)
    now[0] = NOW
    return AgentMemory(
        store, scopes=MemoryScopesProfile(agent="bench"), subjects=[_USER], clock=lambda: NOW
    )


async def run(sets: Sequence[str] = SETS, *, misses: bool = False) -> list[float]:
    """Print and return hit@5 of each set of questions."""
    memory, found = await build_memory(), list[float]()
    for name in sets:
        ranks: list[int] = []
        for question, right in lines(name):
            ids = [match.fact.id for match in await memory.recall(question, limit=10)]
            rank = next((at for at, each in enumerate(ids, 1) if each in right.split()), 99)
            ranks.append(rank)
            if misses and rank > 5:
                print(f"  {question} {right}: {' '.join(ids)}")
        hits = sum(rank <= 5 for rank in ranks) / len(ranks)
        mrr = sum(1 / rank for rank in ranks if rank <= 10) / len(ranks)
        first = sum(rank == 1 for rank in ranks) / len(ranks)
        print(f"{name}: {len(ranks)} questions, hit@1 {first:.3f}, hit@5 {hits:.3f}, MRR {mrr:.3f}")
        found.append(hits)
    return found


if __name__ == "__main__":
    names = [each for each in sys.argv[1:] if not each.startswith("-")] or SETS
    anyio.run(lambda: run(names, misses="--misses" in sys.argv))
