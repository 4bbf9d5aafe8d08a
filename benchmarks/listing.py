"""Stores with very many places: time of listing, and peak memory of operations on all places.

python -m benchmarks.listing [PLACES ...]

For each number of places a store is filled, and only reading is measured. Times are processor
times. Memory is the peak of tracemalloc during the operation. The anchor contains the name of each
place, so its size is printed too.
"""

import subprocess
import sys
import time
import tracemalloc
from collections.abc import Awaitable, Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio

from factmem import (
    Aes256GCMEncryptor,
    Concept,
    EncryptedStorage,
    Key,
    LocalFileMemoryProvider,
    MemoryScope,
    MemorySubject,
    SingleFact,
)

USER = MemorySubject("user", "The user", 1, per_entity=True)
SHOP = MemoryScope.Product("shop")
THEME = Concept("theme", "How the user wants it to look")
KEYS = [Key.from_base64(letter * 43 + "=") for letter in "AQ"]
SAVED_AT_ONCE = 256


def _opened(folder: str, kind: str) -> LocalFileMemoryProvider:
    if kind == "plain":
        return LocalFileMemoryProvider(folder)
    return LocalFileMemoryProvider(folder, storage=EncryptedStorage(Aes256GCMEncryptor(*KEYS)))


async def fill(folder: str, kind: str, places: str) -> None:
    """Save one fact into each place."""
    async with _opened(folder, kind) as store:
        for start in range(0, int(places), SAVED_AT_ONCE):
            async with anyio.create_task_group() as group:
                for number in range(start, min(int(places), start + SAVED_AT_ONCE)):
                    fact = SingleFact(THEME, f"dark {number}")
                    group.start_soon(store.save, fact, USER.of(f"user-{number}"), SHOP)


async def times(folder: str, kind: str) -> None:
    """Print the processor time of listings in a new process."""
    for title, limit in (("all places", None), ("a page of 1,000", 1000)):
        async with _opened(folder, kind) as store:
            start = time.process_time()
            found = await store.list_places(limit=limit)
            took = time.process_time() - start
            print(f"| list {title}, {len(found):,} | {took:.2f} s |", flush=True)


async def memory(folder: str, kind: str) -> None:
    """Print the peak memory of the operations that read all places."""
    async with _opened(folder, kind) as store:
        anchor = await _traced("anchor", store.anchor)
        await _traced("verify", lambda: store.verify(anchor))
        if kind == "encrypted":
            await _traced("rotate", lambda: store.keys.rotate(KEYS[1]))


async def _traced(name: str, call: Callable[[], Awaitable[object]]) -> str:
    tracemalloc.start()
    result = await call()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    text = result if isinstance(result, str) else ""
    size = f", the anchor {len(text) / 2**20:.1f} MB" if text else ""
    print(f"| {name} | peak {peak / 2**20:.1f} MB{size} |", flush=True)
    return text


STEPS: dict[str, Callable[..., Awaitable[None]]] = {"fill": fill, "times": times, "memory": memory}


def main() -> None:
    """Measure each size, and run each step in a separate process."""
    if sys.argv[1:2] and sys.argv[1] in STEPS:
        anyio.run(STEPS[sys.argv[1]], *sys.argv[2:])
        return
    for kind in ("plain", "encrypted"):
        for places in map(int, sys.argv[1:] or ["20000", "100000"]):
            with TemporaryDirectory(dir=".", prefix="factmem-bench-") as root:
                print(f"\n{places:,} places, {kind}", flush=True)
                folder = str(Path(root) / "store")
                steps = [("fill", str(places)), ("times",), ("times",), ("memory",)]
                for step, *more in steps:
                    command = [sys.executable, "-m", "benchmarks.listing", step, folder, kind]
                    subprocess.run([*command, *more], check=True)


if __name__ == "__main__":
    main()
