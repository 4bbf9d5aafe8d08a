"""Helpers that inspect a local store from outside."""

from pathlib import Path

from factmem.models.places import MemorySubject
from factmem.providers.base import FactStore
from factmem.encryption.key import Key
from factmem.testing.facts import (
    AGENT,
    LANGUAGES,
    PERSON,
    THEME,
)

__all__ = ["ALICE", "BOB", "KEY", "current", "disk", "journal_of", "journals"]

KEY = Key.generate()
"""The key of the encrypted stores."""

ALICE, BOB = PERSON.of("alice"), PERSON.of("bob")


def disk(root: Path) -> dict[str, bytes]:
    """Return every file of a store, by its path in the store."""
    files = sorted(path for path in root.rglob("*") if path.is_file())
    return {str(path.relative_to(root)): path.read_bytes() for path in files}


def journals(root: Path) -> list[Path]:
    """Return the files of all journals and those beside them, except torn writes."""
    return sorted(file for file in (root / "journals").iterdir() if ".torn-" not in file.name)


def journal_of(root: Path) -> Path:
    """Return the file of the only journal."""
    (journal,) = journals(root)
    return journal


async def current(store: FactStore, subject: MemorySubject = ALICE) -> list[str]:
    """Return the current theme and languages of a place."""
    themes = await store.load(THEME, subject, AGENT)
    languages = await store.load(LANGUAGES, subject, AGENT)
    return [*(fact.value for fact in themes), *(v for fact in languages for v in fact.values)]
