"""Change the key of a store while it is in use, and add a recovery key."""

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
from factmem.errors import WrongKeyError

CITY = Concept("city", "Where the user lives")
ALICE = MemorySubject("user", "The person the agent talks to", 1, per_entity=True).of("alice")
APP = MemoryScope.Product("my-app")


def open_store(folder: str, key: Key) -> LocalFileMemoryProvider:
    """Return the store with a key."""
    return LocalFileMemoryProvider(folder, storage=EncryptedStorage(Aes256GCMEncryptor(key)))


async def main(folder: str) -> None:
    """Rotate the key. First store the new key safely, then rotate, then discard the old key."""
    old, new, recovery = Key.generate(), Key.generate(), Key.from_passphrase("correct horse")
    async with open_store(folder, old) as store:
        await store.save(SingleFact(CITY, "Busan"), ALICE, APP)

        await store.keys.rotate(new)  # creates new data keys and rewrites every place
        await store.keys.add(recovery)  # opens the store as well
        print(f"keys that open the store: {len(await store.keys.ids())}")

    for name, key in (("new", new), ("recovery", recovery)):
        async with open_store(folder, key) as store:
            for fact in await store.load(CITY, ALICE, APP):
                print(f"{name} key: {fact.value}")

    try:
        async with open_store(folder, old) as store:
            await store.load(CITY, ALICE, APP)
    except WrongKeyError:
        print("old key: no longer opens the store")


if __name__ == "__main__":
    with TemporaryDirectory() as memory:  # deleted at the end, as the keys are not kept
        anyio.run(main, memory)
