"""Bring over what Koog's AgentMemory has kept, into an encrypted store.

    python import_koog.py                     # a sample that it writes itself
    python import_koog.py path/to/koogs/root  # your own; KOOG_KEY holds its key if it has one

Nothing in Koog's folder is changed.
"""

import json
import os
import sys
from pathlib import Path

import anyio

from factmem import Aes256GCMEncryptor, EncryptedStorage, LocalFileMemoryProvider, MemorySubject
from factmem.koog import import_koog

MODEL = "ai.koog.agents.memory.model"
USER = MemorySubject("user", "The person the agent talks to", 1, per_entity=True)


def write_sample(root: Path) -> None:
    """Write files as Koog would: two good ones, and one that a crash has cut short."""
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


async def main() -> None:
    """Import, and show what came over and what did not."""
    if len(sys.argv) > 1:
        root = Path(sys.argv[1])
    else:
        root = Path("koog")
        write_sample(root)
    key = Aes256GCMEncryptor.generate_key()  # keep it: without it the store cannot be read
    storage = EncryptedStorage(Aes256GCMEncryptor(key))
    async with LocalFileMemoryProvider("memory", storage=storage) as store:
        report = await import_koog(
            root, store, subjects=[USER.of("alice")], key=os.environ.get("KOOG_KEY")
        )
        print(f"{report.new} facts came over")
        for place in report.places:
            print(place)
            for fact in await store.load_all(place.subject, place.scope):
                print(
                    f"  {fact.concept.keyword}: {', '.join(fact.values)} ({fact.timestamp:%Y-%m-%d})"
                )
        for problem in report.problems:
            print(f"left out: {problem}")


if __name__ == "__main__":
    anyio.run(main)
