"""One user with many facts and many messages: the event loop, and processor time.

    python -m benchmarks.large_user [FACTS] [MESSAGES]

A local store in a temporary folder, by default 10,000 facts and 100,000 messages, and one more
conversation of as many. "loop" is the processor time of the event loop's thread, "all" that of all
threads, both in milliseconds, as medians; the first recall of the process is shown by itself.
"""

import random
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import anyio

from factmem import (
    AgentMemory,
    Concept,
    FactSource,
    FactType,
    LocalFileMemoryProvider,
    MemoryScopesProfile,
    MemorySubject,
    MultipleFacts,
    SingleFact,
    SourceKind,
)
from factmem.models import AnyFact
from factmem.prompt import MessageForm

USER = MemorySubject("user", "The person who talks to the agent", 1, per_entity=True)
FORM = MessageForm(max_tokens=1500)
CHAT = 1000
"""The messages of one conversation."""
WORDS = [
    "harbour",
    "ferry",
    "flat",
    "tomato",
    "balcony",
    "nurse",
    "ward",
    "knee",
    "race",
    "trip",
    "mountain",
    "stick",
    "father",
    "brother",
    "drum",
]


def fact(number: int, draw: random.Random) -> AnyFact:
    """Return a fact; every third one is a value of one of 300 lists."""
    quote = "I said " + " ".join(draw.choices(WORDS, k=6))
    source = FactSource(SourceKind.USER, f"chat-{number // 50}", number % 50, quote)
    value = f"{' '.join(draw.choices(WORDS, k=4))} {number}"
    if number % 3:
        single = Concept(f"single-{number}", " ".join(draw.choices(WORDS, k=3)), value_type=str)
        return SingleFact(single, value, source=source)
    several = Concept(f"list-{number % 300}", "A list", FactType.MULTIPLE, value_type=str)
    return MultipleFacts(several, [value], source=source)


async def fill(memory: AgentMemory, facts: int, messages: int) -> None:
    """Save facts and messages."""
    draw, place = random.Random(1), memory.places[0]
    made = [fact(number, draw) for number in range(facts)]
    for first in range(0, facts, 500):
        await memory.store.save_many(made[first : first + 500], place.subject, place.scope)
    for first in range(0, messages, CHAT):
        said = [
            {"role": ("user", "assistant")[n % 2], "content": " ".join(draw.choices(WORDS, k=15))}
            for n in range(CHAT)
        ]
        await memory.conversation(f"chat-{first // CHAT}", learn=False).append(*said)
        await memory.conversation("long", learn=False).append(*said)


async def measure(name: str, call: Callable[[int], Awaitable[object]], times: int = 5) -> None:
    """Print the processor time of a call."""
    loop, every, wall = list[float](), list[float](), list[float]()
    for number in range(times):
        before = time.thread_time(), time.process_time(), time.perf_counter()
        await call(number)
        after = time.thread_time(), time.process_time(), time.perf_counter()
        for column, begun, ended in zip((loop, every, wall), before, after, strict=True):
            column.append((ended - begun) * 1000)
    figures = (f"{median(column):9.1f}" for column in (loop, every, wall))
    print(f"{name:44}{''.join(figures)}", flush=True)


async def measured(memory: AgentMemory, store: LocalFileMemoryProvider) -> None:
    """Print all figures."""
    long, chat = memory.conversation("long"), memory.conversation("chat-5", learn=False)
    scopes = MemoryScopesProfile(agent="desk")
    short = AgentMemory(store, subjects=[USER], scopes=scopes, message_form=FORM).of("alice")
    facts = await memory.current()

    async def converse(number: int) -> None:
        await chat.append({"role": "user", "content": f"My ferry is number {number}"})
        asked = {"role": "user", "content": f"Which balcony and which father, {number}?"}
        await memory.recall_facts_to_agent([asked])

    async def explain(_: int) -> None:
        for each in facts:
            await memory.why(each)

    print(f"{'milliseconds':44}{'loop':>9}{'all':>9}{'wall':>9}")
    await measure("the last 20 messages of the long chat", lambda _: long.turns(last=20))
    await measure("the first chat with recall", converse, 1)
    await measure("a chat with recall", converse)
    await measure("all facts in 1,500 tokens", lambda _: short.load_facts_to_agent([]))
    await measure("`why` of all current facts", explain, 1)


async def main() -> None:
    facts, messages = [int(each) for each in sys.argv[1:]] or [10_000, 100_000]
    with TemporaryDirectory() as folder:
        async with LocalFileMemoryProvider(Path(folder) / "store") as store:
            scopes = MemoryScopesProfile(agent="desk")
            memory = AgentMemory(store, subjects=[USER], scopes=scopes).of("alice")
            await fill(memory, facts, messages)
            await measured(memory, store)


if __name__ == "__main__":
    anyio.run(main)
