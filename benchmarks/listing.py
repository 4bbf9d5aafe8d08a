"""Stores of very many places: the time of listing them, and the memory of what goes through all.

python -m benchmarks.listing [PLACES ...]

For each number of places a store is filled, without flushes, as only reading is measured. Times are
of the processor. Memory is the peak that tracemalloc sees, beyond what there was before; the anchor
is subtracted from that of `anchor`, and names each place itself.
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
from factmem.storage._files import LocalFiles

USER = MemorySubject("user", "The user", 1, per_entity=True)
SHOP = MemoryScope.Product("shop")
THEME = Concept("theme", "How the user wants it to look")
KEYS = [Key.from_base64(letter * 43 + "=") for letter in "AQ"]
SAVED_AT_ONCE = 256


def _opened(folder: str, kind: str) -> LocalFileMemoryProvider:
    if kind == "plain":
        return LocalFileMemoryProvider(folder)
    return LocalFileMemoryProvider(folder, storage=EncryptedStorage(Aes256GCMEncryptor(*KEYS)))


def _without_flushes() -> None:
    def nothing(*_: object) -> None:
        pass

    def none_failed(_: object, fds: list[int]) -> list[OSError | None]:
        return [None] * len(fds)

    for name, other in (("sync", nothing), ("sync_folder", nothing), ("sync_all", none_failed)):
        setattr(LocalFiles, name, other)


async def fill(folder: str, kind: str, places: str) -> None:
    """Save one fact into each place."""
    _without_flushes()
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
    """Print the peak memory of what goes through all places."""
    _without_flushes()
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


DOINGS: dict[str, Callable[..., Awaitable[None]]] = {"fill": fill, "times": times, "memory": memory}


def main() -> None:
    """Measure each size, each step in a process of its own."""
    if sys.argv[1:2] and sys.argv[1] in DOINGS:
        anyio.run(DOINGS[sys.argv[1]], *sys.argv[2:])
        return
    for kind in ("plain", "encrypted"):
        for places in map(int, sys.argv[1:] or ["20000", "100000"]):
            with TemporaryDirectory(dir=".", prefix="factmem-bench-") as root:
                print(f"\n{places:,} places, {kind}", flush=True)
                folder = str(Path(root) / "store")
                steps = [("fill", str(places)), ("times",), ("times",), ("memory",)]
                for doing, *more in steps:
                    command = [sys.executable, "-m", "benchmarks.listing", doing, folder, kind]
                    subprocess.run([*command, *more], check=True)


if __name__ == "__main__":
    main()
