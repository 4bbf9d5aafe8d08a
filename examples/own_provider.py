"""A custom provider: four methods over a table in SQLite.

`factmem.ledger.entries` converts facts to lines of JSON, and `factmem.ledger.ledger` computes the
current facts of a place from its lines. A backend only has to store lines in order.
"""

import json
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from typing import Any, TypeVar
from unicodedata import normalize

import anyio

from factmem import (
    AgentMemoryProvider,
    Concept,
    FactType,
    MemoryScope,
    MemorySubject,
    MultipleFacts,
    Place,
    SingleFact,
)
from factmem.ledger.entries import (
    decoded,
    encoded,
    stamp,
    stamped,
    stored,
)
from factmem.ledger.ledger import Ledger
from factmem.models import AnyFact

L = TypeVar("L", bound=AnyFact)


class SqliteProvider:
    """One row per save. Each call opens its own connection, so any task or thread may call."""

    def __init__(self, path: str) -> None:
        self._path = path

    async def save(self, fact: AnyFact, subject: MemorySubject, scope: MemoryScope) -> None:
        """Append a line to the place; SQLite's default makes it durable."""
        line = stamped(encoded([stored(fact)]), self._now())
        await anyio.to_thread.run_sync(self._append, self._key(subject, scope), line)

    async def load(
        self, concept: Concept[Any, L], subject: MemorySubject, scope: MemoryScope
    ) -> list[L]:
        """Return the current facts of a concept."""
        return (await self._ledger(subject, scope)).load(concept, self._now())

    async def load_all(self, subject: MemorySubject, scope: MemoryScope) -> list[AnyFact]:
        """Return the current facts of all concepts."""
        return (await self._ledger(subject, scope)).load_all((), self._now())

    async def load_by_description(
        self, description: str, subject: MemorySubject, scope: MemoryScope
    ) -> list[AnyFact]:
        """Return the facts that contain every word, also as a part of a longer word."""
        words = _folded(description).split()
        if not words:
            raise ValueError("description must have at least one word; load_all returns all facts")
        facts = await self.load_all(subject, scope)
        return [fact for fact in facts if all(word in _text(fact) for word in words)]

    async def _ledger(self, subject: MemorySubject, scope: MemoryScope) -> Ledger:
        key = self._key(subject, scope)
        lines = await anyio.to_thread.run_sync(self._lines, key)
        return Ledger(decoded(line) for line in lines)

    def _append(self, key: str, line: bytes) -> None:
        with closing(self._connect()) as database, database:
            database.execute("INSERT INTO entries (place, line) VALUES (?, ?)", (key, line))

    def _lines(self, key: str) -> list[bytes]:
        with closing(self._connect()) as database:
            query = "SELECT line FROM entries WHERE place = ? ORDER BY number"
            return [line for (line,) in database.execute(query, (key,))]

    def _connect(self) -> sqlite3.Connection:
        database = sqlite3.connect(self._path)
        database.execute(
            "CREATE TABLE IF NOT EXISTS entries (number INTEGER PRIMARY KEY, place TEXT, line BLOB)"
        )
        return database

    @staticmethod
    def _key(subject: MemorySubject, scope: MemoryScope) -> str:
        """Return the key of a place. Raises for an unbound subject."""
        return json.dumps(Place(scope, subject).identity)

    @staticmethod
    def _now() -> str:
        return stamp(datetime.now(UTC))


def _folded(text: str) -> str:
    return normalize("NFKC", text).casefold()


def _text(fact: AnyFact) -> str:
    return _folded(f"{fact.concept.keyword} {fact.concept.description} {fact.values}")


THEME = Concept("ide-theme", "The user's preferred IDE theme")
SNACKS = Concept("snacks", "What the user eats while working", FactType.MULTIPLE)
ALICE = MemorySubject("user", "The person the agent talks to", 1, per_entity=True).of("alice")
APP = MemoryScope.Product("my-app")


async def main() -> None:
    """Use the provider wherever an `AgentMemoryProvider` is accepted."""
    provider: AgentMemoryProvider = SqliteProvider("facts.sqlite")
    await provider.save(SingleFact(THEME, "light"), ALICE, APP)
    await provider.save(SingleFact(THEME, "dark"), ALICE, APP)
    await provider.save(MultipleFacts(SNACKS, ("김밥", "nuts")), ALICE, APP)

    [theme] = await provider.load(THEME, ALICE, APP)
    print(f"theme: {theme.value}")
    for fact in await provider.load_by_description("김밥", ALICE, APP):
        print(f"found: {', '.join(fact.values)}")


if __name__ == "__main__":
    anyio.run(main)
