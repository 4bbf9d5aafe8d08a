"""The time to load 1,000 current facts into a chat, in total and by part.

    python -m benchmarks.render [FACTS]

The store is warm and in memory. The end-to-end figure is one `load_facts_to_agent` into a chat
that has no memory message yet. The parts are the same work, measured separately.
"""

import gc
import platform
import statistics
import sys
import time
from collections.abc import Callable

import anyio

from factmem.ledger.resolution import PlacedFact, resolve
from factmem.memory.agent_memory import AgentMemory
from factmem.models.facts import Concept, SingleFact
from factmem.models.places import MemoryScope, MemoryScopesProfile, MemorySubject, Place
from factmem.prompt import MessageForm
from factmem.prompt.memory_message import render
from factmem.providers.in_memory import InMemoryProvider

RUNS = 200
USER = MemorySubject("user", "The person who talks to the agent", 1, per_entity=True)
ALICE = USER.of("alice")
SCOPE = MemoryScope.Agent("support-bot")


def facts(count: int) -> list[SingleFact[str]]:
    """Return facts of ordinary length, one in ten in Korean."""
    described = "What the user said about a thing that matters to them"
    return [
        SingleFact(
            Concept(f"concept-{number:04}", described),
            f"어두운 테마를 좋아해요 {number}"
            if number % 10 == 0
            else f"prefers Kotlin over Java for backend services {number}",
        )
        for number in range(count)
    ]


def median_ms(work: Callable[[], object]) -> float:
    """Return the median of many runs, in milliseconds, including garbage collection."""
    times = []
    for _ in range(RUNS):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1000


async def loaded_ms(memory: AgentMemory, *, is_repeated: bool = False) -> str:
    """Return the times of `load_facts_to_agent`, in milliseconds, as text.

    On a busy machine the processor time is more reliable than the wall time.
    """
    times, used = [], []
    messages: list[dict[str, str]] = []
    for _ in range(RUNS):
        if not is_repeated:
            messages = [{"role": "system", "content": "You help."}]
        start, start_used = time.perf_counter(), time.process_time()
        await memory.load_facts_to_agent(messages)
        times.append((time.perf_counter() - start) * 1000)
        used.append((time.process_time() - start_used) * 1000)
    processor, best = statistics.median(used), min(times)
    return f"{statistics.median(times):7.2f}  (best {best:.2f}, processor {processor:.2f})"


async def main(count: int) -> None:
    """Print one table."""
    store = InMemoryProvider()
    await store.save_many(facts(count), ALICE, SCOPE)
    profile = MemoryScopesProfile(agent=SCOPE.name)
    memory = AgentMemory(store, scopes=profile, subjects=[ALICE])
    budgeted = AgentMemory(
        store, scopes=profile, subjects=[ALICE], message_form=MessageForm(max_tokens=2_000)
    )
    current = await store.load_all(ALICE, SCOPE)
    place = Place(SCOPE, ALICE)
    placed = [PlacedFact(place, fact) for fact in current]
    gc.collect()

    print(f"{count:,} facts, Python {platform.python_version()}, {RUNS} runs, milliseconds")
    print(f"load_facts_to_agent, end to end  {await loaded_ms(memory)}")
    print(f"  again into the same chat           {await loaded_ms(memory, is_repeated=True)}")
    print(f"  within 2,000 tokens                {await loaded_ms(budgeted)}")
    times = []
    for _ in range(RUNS):
        start = time.perf_counter()
        await store.load_all(ALICE, SCOPE)
        times.append(time.perf_counter() - start)
    print(f"the store's load_all alone           {statistics.median(times) * 1000:7.2f}")
    print(f"resolve alone                        {median_ms(lambda: resolve(placed)):7.2f}")
    print(f"render alone                         {median_ms(lambda: render(placed)):7.2f}")


if __name__ == "__main__":
    anyio.run(main, int(sys.argv[1]) if len(sys.argv) > 1 else 1_000)
