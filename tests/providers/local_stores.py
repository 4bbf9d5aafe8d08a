"""Helpers that inspect and change a local store from outside."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from factmem import (
    Aes256GCMEncryptor,
    EncryptedStorage,
    FactStore,
    Key,
    LocalFileMemoryProvider,
    MemorySubject,
)
from factmem.testing._facts import AGENT, LANGUAGES, PERSON, THEME

KEY = Key.generate()
"""The key of the encrypted stores."""

ALICE, BOB = PERSON.of("alice"), PERSON.of("bob")
CAROL = PERSON.of("carol")


def sealed(*keys: Key | str) -> EncryptedStorage:
    """Return the storage of a store with these keys, or the one key of the tests."""
    return EncryptedStorage(Aes256GCMEncryptor(*(keys or [KEY])))


def opened(root: Path, *keys: Key) -> LocalFileMemoryProvider:
    """Return a store that is opened with some keys."""
    return LocalFileMemoryProvider(root, storage=sealed(*keys))


def disk(root: Path) -> dict[str, bytes]:
    """Return every file of a store, by its path in the store."""
    files = sorted(path for path in root.rglob("*") if path.is_file())
    return {str(path.relative_to(root)): path.read_bytes() for path in files}


def run(root: Path, statement: str, *parameters: object) -> list[Any]:
    """Run a statement on a store's database, as another program does, and return its rows."""
    with closing(sqlite3.connect(root / "facts.db", isolation_level=None)) as db:
        return db.execute(statement, parameters).fetchall()


def is_sound(root: Path) -> bool:
    """Return True if SQLite finds no damage in the database."""
    return run(root, "PRAGMA integrity_check") == [("ok",)]


async def current(store: FactStore, subject: MemorySubject = ALICE) -> list[str]:
    """Return the current theme and languages of a place."""
    themes = await store.load(THEME, subject, AGENT)
    languages = await store.load(LANGUAGES, subject, AGENT)
    return [*(fact.value for fact in themes), *(v for fact in languages for v in fact.values)]
