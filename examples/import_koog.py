"""Import the facts of Koog's AgentMemory into an encrypted store.

    python examples/import_koog.py                     # a sample that this program writes
    python examples/import_koog.py path/to/koogs/root  # your own files, into the folder memory

For your own files, set the environment variable FACTMEM_KEY to the key of the new store, such as
`Key.generate().to_base64()`, and KOOG_KEY to the key of Koog's files if they are encrypted. Koog's
folder is not changed.
"""

import json
import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio

from factmem import (
    Aes256GCMEncryptor,
    EncryptedStorage,
    Key,
    LocalFileMemoryProvider,
    MemorySubject,
)
from factmem.transfer.koog import import_koog

MODEL = "ai.koog.agents.memory.model"
USER = MemorySubject("user", "The person the agent talks to", 1, per_entity=True)


def write_sample(root: Path) -> None:
    """Write files in Koog's format: two valid ones, and one that a crash has truncated."""
    theme = {"keyword": "ide-theme", "description": "User's IDE theme", "factType": "SINGLE"}
    skills = {"keyword": "skills", "description": "What the user knows", "factType": "MULTIPLE"}
    single, many = f"{MODEL}.SingleFact", f"{MODEL}.MultipleFacts"
    light = {"type": single, "concept": theme, "timestamp": 1748000000000, "value": "Light"}
    dark = {"type": single, "concept": theme, "timestamp": 1748000900000, "value": "다크 🌙"}
    known = {
        "type": many,
        "concept": skills,
        "timestamp": 1748000300000,
        "values": ["Kotlin", "SQL"],
    }
    files = {
        "agent/support/subject/user": json.dumps({"ide-theme": [light, dark]}, indent=4),
        "product/my-app/subject/user": json.dumps({"skills": [known]}, indent=4),
        "organization/subject/everything": '{"holidays": [{"type": "ai.koog.ag',
    }
    for place, text in files.items():
        file = root / "memory-storage" / place
        file.parent.mkdir(parents=True)
        file.write_text(text)


async def main(root: Path, folder: Path, key: Key) -> None:
    """Import, and print the imported facts and the problems."""
    storage = EncryptedStorage(Aes256GCMEncryptor(key))
    async with LocalFileMemoryProvider(folder, storage=storage) as store:
        report = await import_koog(
            root, store, subjects=[USER.of("alice")], key=os.environ.get("KOOG_KEY")
        )
        print(f"{report.new} facts were imported")
        for place in report.places:
            print(place)
            for fact in await store.load_all(place.subject, place.scope):
                print(
                    f"  {fact.concept.keyword}: {', '.join(fact.values)} ({fact.timestamp.date()})"
                )
        for problem in report.problems:
            print(f"not imported: {problem}")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        anyio.run(main, Path(sys.argv[1]), Path("memory"), Key.from_env("FACTMEM_KEY"))
    else:
        with TemporaryDirectory() as name:  # deleted at the end, as the key is not kept
            write_sample(Path(name, "koog"))
            anyio.run(main, Path(name, "koog"), Path(name, "memory"), Key.generate())
