"""A store with many users: bytes on disk, memory, and the times of common calls.

python -m benchmarks.many_places [USERS] [FACTS]
"""

import resource
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio

from factmem import (
    AgentMemory,
    Concept,
    FactType,
    LocalFileMemoryProvider,
    MemoryScope,
    MemoryScopesProfile,
    MemorySubject,
    MultipleFacts,
)

USER = MemorySubject("user", "The user", 1, per_entity=True)
PRODUCT = MemoryScope.Product("desk")
NOTES = Concept("notes", "What the user wants noted", FactType.MULTIPLE)


def _resident() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


async def _timed(name: str, call: Callable[[], Awaitable[object]], times: int = 5) -> None:
    took: list[float] = []
    for _ in range(times):
        begin = time.perf_counter()
        await call()
        took.append((time.perf_counter() - begin) * 1000)
    print(f"{name:<44} {statistics.median(took):10.2f} ms")


async def measure(users: int, facts: int) -> None:
    """Fill a store, and time calls of a new instance."""
    with TemporaryDirectory() as root:
        folder = Path(root) / "memory"
        begin = time.perf_counter()
        async with LocalFileMemoryProvider(folder) as store:
            for number in range(users):
                batch = [
                    MultipleFacts(NOTES, [f"note {each} of {number}"]) for each in range(facts)
                ]
                await store.save_many(batch, USER.of(f"user-{number}"), PRODUCT)
        filled = time.perf_counter() - begin
        size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
        print(
            f"{users} users with {facts} facts each: {size / 2**20:.1f} MB, {filled:.1f} s to fill"
        )
        before = _resident()
        async with LocalFileMemoryProvider(folder) as store:
            profile = MemoryScopesProfile(product="desk")
            memory = AgentMemory(store, scopes=profile, subjects=[USER])
            alice = memory.of("user-7")
            await _timed("first prompt of a user in a new worker", alice.text, 1)
            await _timed("prompt of the same user", alice.text, 50)

            async def save() -> None:
                fact = MultipleFacts(NOTES, ["one more"])
                await store.save(fact, USER.of("user-8"), PRODUCT)

            await _timed("save", save, 50)
            await _timed("places of one user", alice.contents.places)
            await _timed("places of all users, first", memory.contents.places, 1)
            await _timed("places of all users, again", memory.contents.places)
            everyone = [memory.of(f"user-{number}") for number in range(min(users, 5000))]
            begin = time.perf_counter()
            for each in everyone:
                await each.text()
            took = (time.perf_counter() - begin) / len(everyone) * 1000
            print(f"{'first prompt of each of ' + str(len(everyone)):<44} {took:10.2f} ms each")
            await _timed("erase a user", lambda: alice.contents.reset(confirm=True), 1)
            print(f"{'memory of the worker above the start':<44} {_resident() - before:10.1f} MB")


if __name__ == "__main__":
    users, facts, *_ = [*map(int, sys.argv[1:]), *(1000, 20)[len(sys.argv) - 1 :]]
    anyio.run(measure, users, facts)
