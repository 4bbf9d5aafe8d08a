"""A worker whose writes are recorded: it saves, purges and erases, and notes what came of it."""

import ctypes
import random
import sys
from pathlib import Path

import anyio

from factmem import Aes256GCMEncryptor, EncryptedStorage, LocalFileMemoryProvider, SimpleStorage
from factmem.models.facts import Concept, FactType, MultipleFacts
from tests.world import AGENT, USER

NAMES = 4
TAGS = [Concept(f"tags-{number}", "Tags", FactType.MULTIPLE) for number in range(3)]


def opened(folder: Path | str, key: str) -> LocalFileMemoryProvider:
    """Return the store of a folder; it is plain if the key is empty."""
    storage = EncryptedStorage(Aes256GCMEncryptor(key)) if key else SimpleStorage()
    return LocalFileMemoryProvider(folder, storage=storage)


async def work(folder: str, operations: int, seed: int, key: str) -> None:
    """Change the store at random, and open it again now and then."""
    drawn, library = random.Random(seed), ctypes.CDLL(None)
    live: dict[str, tuple[int, int]] = {}

    def note(*words: object) -> None:
        library.power_cuts_note(" ".join(map(str, words)).encode())

    store = opened(folder, key)
    for _ in range(operations):
        chance, name = drawn.random(), drawn.randrange(NAMES)
        if chance < 0.6 or not live:
            topic = drawn.randrange(len(TAGS))
            size = drawn.choice([40, 200, 1500])
            values = [drawn.randbytes(size).hex() for _ in range(drawn.choice([1, 1, 4]))]
            note("save", name, *values)
            fact = MultipleFacts(TAGS[topic], values)
            await store.save(fact, USER.of(f"{name}"), AGENT)
            live |= dict.fromkeys(values, (name, topic))
        elif chance < 0.9:
            value = drawn.choice(sorted(live))
            name, topic = live.pop(value)
            note("remove", name, value)
            gone = await store.forget(
                USER.of(f"{name}"), AGENT, concept=TAGS[topic], value=value, purge=True
            )
            note("removed", name, gone.copies_remain, value)
        elif chance < 0.95:
            values = [value for value, (owner, _) in live.items() if owner == name]
            note("remove", name, *values)
            receipt = await store.erase(USER.of(f"{name}"), AGENT)
            live = {value: place for value, place in live.items() if value not in values}
            note("removed", name, receipt.copies_remain, *values)
        else:
            await store.aclose()
            store = opened(folder, key)
            continue
        note("done")
    await store.aclose()


if __name__ == "__main__":
    anyio.run(work, sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
