"""Store facts in encrypted files."""

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
from factmem.errors import KeyRequiredError, WrongKeyError

ALLERGY = Concept("allergy", "What the user must not eat")
ALICE = MemorySubject("user", "The person the agent talks to", 1, per_entity=True).of("alice")
APP = MemoryScope.Product("my-app")


def encrypted(folder: str, key: Key) -> LocalFileMemoryProvider:
    """Return the store with a key. In production: Key.from_env, from_file or from_keyring."""
    return LocalFileMemoryProvider(folder, storage=EncryptedStorage(Aes256GCMEncryptor(key)))


async def main(folder: str) -> None:
    """Save with a key; then try to load with another key and without one."""
    key = Key.generate()
    async with encrypted(folder, key) as store:
        await store.save(SingleFact(ALLERGY, "peanuts"), ALICE, APP)

    async with encrypted(folder, key) as store:
        for fact in await store.load(ALLERGY, ALICE, APP):
            print(f"with the key: {fact.value}")

    try:
        async with encrypted(folder, Key.generate()) as store:
            await store.load(ALLERGY, ALICE, APP)
    except WrongKeyError as error:
        print(f"with another key: {error}")

    try:
        async with LocalFileMemoryProvider(folder) as store:
            await store.load(ALLERGY, ALICE, APP)
    except KeyRequiredError as error:
        print(f"without a key: {error}")


def is_on_disk(folder: str, word: bytes) -> bool:
    """Whether a word is in any file of the store."""
    return any(word in file.read_bytes() for file in Path(folder).rglob("*") if file.is_file())


if __name__ == "__main__":
    with TemporaryDirectory() as memory:  # deleted at the end, as the key is not kept
        anyio.run(main, memory)
        print(f"the value can be found on disk: {is_on_disk(memory, b'peanuts')}")
