"""Change a store's key while it is in use, and keep a second one for emergencies."""

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


def opened(folder: str, key: Key) -> LocalFileMemoryProvider:
    """Return the store, to be opened with a key."""
    return LocalFileMemoryProvider(folder, storage=EncryptedStorage(Aes256GCMEncryptor(key)))


async def main(folder: str) -> None:
    """Rotate: first keep the new key safe, then rotate, and only then forget the old one."""
    old, new, recovery = Key.generate(), Key.generate(), Key.from_passphrase("correct horse")
    async with opened(folder, old) as store:
        await store.save(SingleFact(CITY, "Busan"), ALICE, APP)

        await store.keys.rotate(new)  # new data keys; every journal is written anew
        await store.keys.add(recovery)  # a second way in, as with a spare house key
        print(f"keys that open the store: {len(await store.keys.ids())}")

    for name, key in (("new", new), ("recovery", recovery)):
        async with opened(folder, key) as store:
            [fact] = await store.load(CITY, ALICE, APP)
            print(f"{name} key: {fact.value}")

    try:
        async with opened(folder, old) as store:
            await store.load(CITY, ALICE, APP)
    except WrongKeyError:
        print("old key: opens nothing any more")


if __name__ == "__main__":
    with TemporaryDirectory() as memory:  # the keys are gone when this ends
        anyio.run(main, memory)
