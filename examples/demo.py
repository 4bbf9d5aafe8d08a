"""Save preferences in one process and load them in another, unencrypted and encrypted.

python examples/demo.py
"""

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

import anyio
from pydantic import BaseModel

from factmem import (
    Aes256GCMEncryptor,
    AgentMemory,
    Concept,
    EncryptedStorage,
    FactType,
    Key,
    LocalFileMemoryProvider,
    MemoryScope,
    MemoryScopesProfile,
    MemorySubject,
    MultipleFacts,
    SingleFact,
)


class Workspace(BaseModel):
    """The settings of an editor."""

    theme: Literal["dark", "light"]
    font_size: int
    plugins: list[str]


LANGUAGE = Concept("preferred-language", "The programming language the user likes best")
DRINK = Concept("좋아하는-음료", "사용자가 좋아하는 음료")
SNACKS = Concept("snacks", "What the user eats while working", FactType.MULTIPLE)
WORKSPACE = Concept("workspace", "How the user's editor is set up", value_type=Workspace)

USER = MemorySubject("user", "The person the agent talks to", 1, per_entity=True)
ALICE = USER.of("alice")
APP = MemoryScope.Product("my-app")

EDITOR = Workspace(theme="dark", font_size=14, plugins=["IdeaVim", "한국어 언어팩"])


def open_store(folder: Path, kind: str) -> LocalFileMemoryProvider:
    """Return a plain or an encrypted store. The key comes from the environment."""
    if kind == "plain":
        return LocalFileMemoryProvider(folder / kind)
    encryptor = Aes256GCMEncryptor(Key.from_env("FACTMEM_KEY"))
    return LocalFileMemoryProvider(folder / kind, storage=EncryptedStorage(encryptor))


async def monday(folder: Path, kind: str) -> None:
    """Save facts about Alice. When a save returns, its facts survive a power failure."""
    async with open_store(folder, kind) as store:
        await store.save(SingleFact(LANGUAGE, "Java"), ALICE, APP)
        await store.save(SingleFact(LANGUAGE, "Kotlin 💚"), ALICE, APP)
        await store.save_many(  # all or none
            [
                SingleFact(DRINK, "따뜻한 유자차 🍵"),
                MultipleFacts(SNACKS, ("김밥 한 줄", "trail mix 🥜")),
                SingleFact(WORKSPACE, EDITOR),
            ],
            ALICE,
            APP,
        )
    print(f"  {kind}: saved five facts about Alice")


async def friday(folder: Path, kind: str) -> None:
    """Load the facts that another process saved, each value with its type."""
    async with open_store(folder, kind) as store:
        memory = AgentMemory(store, scopes=MemoryScopesProfile(product="my-app"), subjects=[ALICE])
        workspace = await memory.value(WORKSPACE)
        print(f"  {kind}:")
        print(f"    language   {await memory.value(LANGUAGE)}   (the newest of two saves)")
        print(f"    음료       {await memory.value(DRINK)}")
        print(f"    snacks     {', '.join(await memory.values(SNACKS))}")
        print(f"    workspace  {workspace!r}")
        assert workspace == EDITOR

        saves = await store.history(LANGUAGE, ALICE, APP)
        values = [entry.fact.values[0] for entry in saves if entry.fact is not None]
        print(f"    history    {' -> '.join(values)}")

        gone = await store.forget(ALICE, APP, concept=SNACKS, value="trail mix 🥜", purge=True)
        left = await memory.values(SNACKS)
        print(f"    forgotten  {gone} value; snacks now: {', '.join(left)}")
        assert not await store.load_all(USER.of("bob"), APP), "Bob sees nothing of Alice's"


def show_files(folder: Path, kind: str) -> bytes:
    """Print the files of a store, and return their content."""
    everything = b""
    print(f"  {kind}/")
    for file in sorted((folder / kind).rglob("*")):
        if not file.is_file():
            continue
        data = file.read_bytes()
        everything += file.name.encode() + data
        print(f"    {file.relative_to(folder / kind)}  ({len(data)} bytes)")
    with closing(sqlite3.connect(folder / kind / "facts.db")) as database:
        for row in database.execute("SELECT entity, keyword, value FROM statements LIMIT 4"):
            print("      " + " | ".join(map(str, row)))
    return everything


def main() -> None:
    """Run the first process, start the second, and print the files."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        os.environ["FACTMEM_KEY"] = Key.generate().to_base64()

        print(f"Monday, process {os.getpid()}", flush=True)
        for kind in ("plain", "encrypted"):
            anyio.run(monday, folder, kind)
        sys.stdout.flush()

        again = [sys.executable, __file__, str(folder)]
        subprocess.run(again, check=True)  # noqa: S603 - it starts itself

        print("Files")
        plain, encrypted = (show_files(folder, kind) for kind in ("plain", "encrypted"))
        for text in ("Kotlin 💚", "유자차", "alice", "preferred-language"):
            assert text.encode() in plain
            assert text.encode() not in encrypted
        assert b"trail mix" not in plain
        print("  Plain files can be read and searched. Encrypted files reveal nothing, not even")
        print("  names. The purged value is in neither of them.")


if __name__ == "__main__":
    if len(sys.argv) == 1:
        main()
    else:
        print(f"Friday, process {os.getpid()}")
        for each in ("plain", "encrypted"):
            anyio.run(friday, Path(sys.argv[1]), each)
