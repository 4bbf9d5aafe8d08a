"""The contenders, behind one interface: save one fact, save many, load one, load all.

A fact has a value of about 120 bytes, and its concept a description of 100 bytes. The SQL
contenders store the keyword, description and value in one row.

factmem is imported only by its root names, so that another checkout of it can be a contender too.
"""

import json
import os
import sqlite3
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Protocol

import aiosqlite
import anyio
from langgraph.store.base import PutOp
from langgraph.store.sqlite.aio import AsyncSqliteStore

from factmem import (
    Aes256GCMEncryptor,
    Concept,
    EncryptedStorage,
    Key,
    LocalFileMemoryProvider,
    MemoryScope,
    MemorySubject,
    SimpleStorage,
    SingleFact,
)

__all__ = ["CONTENDERS", "Contender", "fact_json_size"]

DESCRIPTION = (
    "What the user said about this point when asked for it by the support agent last year. "
    + "." * 14
)
KEY = Key.from_base64("A" * 43 + "=")
USER = MemorySubject("user", "The user", 1, per_entity=True)
PRODUCT = MemoryScope.Product("benchmark")


def value_of(number: int) -> str:
    """Return a string of about 120 bytes that is different for each number."""
    return f"Answer number {number}: ".ljust(120, "x")


class Contender(Protocol):
    """A store to measure; `place` selects one of many independent places."""

    async def save(self, place: int, number: int) -> None: ...
    async def save_many(self, place: int, numbers: Sequence[int]) -> None: ...
    async def load(self, place: int, number: int) -> str: ...
    async def load_all(self, place: int) -> int: ...


class Factmem:
    def __init__(self, provider: LocalFileMemoryProvider) -> None:
        self._provider = provider

    async def save(self, place: int, number: int) -> None:
        await self._provider.save(_fact(number), USER.of(f"user-{place}"), PRODUCT)

    async def save_many(self, place: int, numbers: Sequence[int]) -> None:
        facts = [_fact(number) for number in numbers]
        await self._provider.save_many(facts, USER.of(f"user-{place}"), PRODUCT)

    async def load(self, place: int, number: int) -> str:
        facts = await self._provider.load(_concept(number), _subject(place), PRODUCT)
        return facts[0].value

    async def load_all(self, place: int) -> int:
        return len(await self._provider.load_all(_subject(place), PRODUCT))


def _concept(number: int) -> Concept:
    concept = _concepts.get(number)
    if concept is None:
        concept = _concepts[number] = Concept(f"concept-{number}", DESCRIPTION)
    return concept


def _subject(place: int) -> MemorySubject:
    subject = _subjects.get(place)
    if subject is None:
        subject = _subjects[place] = USER.of(f"user-{place}")
    return subject


_concepts: dict[int, Concept] = {}
_subjects: dict[int, MemorySubject] = {}


def _fact(number: int) -> SingleFact[str]:
    return SingleFact(Concept(f"concept-{number}", DESCRIPTION), value_of(number))


@asynccontextmanager
async def _plain(root: Path) -> AsyncIterator[Contender]:
    async with LocalFileMemoryProvider(root / "plain", storage=SimpleStorage()) as provider:
        yield Factmem(provider)


@asynccontextmanager
async def _encrypted(root: Path) -> AsyncIterator[Contender]:
    storage = EncryptedStorage(Aes256GCMEncryptor(KEY))
    async with LocalFileMemoryProvider(root / "encrypted", storage=storage) as provider:
        yield Factmem(provider)


class RawFsync:
    """Appends the JSON of a fact to a file and calls fsync, in a worker thread.

    This is the lower bound for one save at a time of a store that does not block its event loop.
    """

    def __init__(self, root: Path) -> None:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
        self._file = os.open(root / "raw", flags, 0o600)

    async def save(self, place: int, number: int) -> None:
        await anyio.to_thread.run_sync(self._write, number)

    def _write(self, number: int) -> None:
        _fact(number)
        os.write(self._file, _fact_json(number) + b"\n")
        os.fsync(self._file)

    async def save_many(self, place: int, numbers: Sequence[int]) -> None:
        raise LookupError("a raw file is measured one save at a time")

    async def load(self, place: int, number: int) -> str:
        raise LookupError("a raw file cannot load facts")

    async def load_all(self, place: int) -> int:
        raise LookupError("a raw file cannot load facts")


@asynccontextmanager
async def _raw(root: Path) -> AsyncIterator[Contender]:
    yield RawFsync(root)


class Sqlite:
    """The standard library's SQLite on the caller's thread: WAL, synchronous=FULL."""

    def __init__(self, root: Path) -> None:
        self._db = sqlite3.connect(root / "sqlite.db", isolation_level=None, timeout=60)
        self._db.execute("pragma journal_mode=wal")
        self._db.execute("pragma synchronous=full")
        self._db.execute(
            "create table if not exists facts (place int, keyword text, description text, "
            "value text, primary key (place, keyword))"
        )

    async def save(self, place: int, number: int) -> None:
        self._db.execute("insert or replace into facts values (?, ?, ?, ?)", _row(place, number))

    async def save_many(self, place: int, numbers: Sequence[int]) -> None:
        self._db.execute("begin")
        rows = [_row(place, number) for number in numbers]
        self._db.executemany("insert or replace into facts values (?, ?, ?, ?)", rows)
        self._db.execute("commit")

    async def load(self, place: int, number: int) -> str:
        query = "select value from facts where place = ? and keyword = ?"
        row = self._db.execute(query, (place, f"concept-{number}")).fetchone()
        return str(row[0])

    async def load_all(self, place: int) -> int:
        query = "select keyword, description, value from facts where place = ?"
        return len(self._db.execute(query, (place,)).fetchall())


def _row(place: int, number: int) -> tuple[int, str, str, str]:
    return place, f"concept-{number}", DESCRIPTION, value_of(number)


@asynccontextmanager
async def _sqlite(root: Path) -> AsyncIterator[Contender]:
    yield Sqlite(root)


class LangGraph:
    """LangGraph's `AsyncSqliteStore`, switched to WAL and synchronous=FULL."""

    def __init__(self, store: AsyncSqliteStore) -> None:
        self._store = store

    async def save(self, place: int, number: int) -> None:
        await self._store.aput((f"user-{place}",), f"concept-{number}", _document(number))

    async def save_many(self, place: int, numbers: Sequence[int]) -> None:
        puts = [PutOp((f"user-{place}",), f"concept-{each}", _document(each)) for each in numbers]
        await self._store.abatch(puts)

    async def load(self, place: int, number: int) -> str:
        item = await self._store.aget((f"user-{place}",), f"concept-{number}")
        if item is None:
            raise LookupError(number)
        return str(item.value["value"])

    async def load_all(self, place: int) -> int:
        return len(await self._store.asearch((f"user-{place}",), limit=1_000_000))


def _document(number: int) -> dict[str, str]:
    return {"description": DESCRIPTION, "value": value_of(number)}


@asynccontextmanager
async def _langgraph(root: Path) -> AsyncIterator[Contender]:
    async with aiosqlite.connect(root / "langgraph.db", isolation_level=None) as db:
        await db.execute("pragma journal_mode=wal")
        await db.execute("pragma synchronous=full")
        await db.execute("pragma busy_timeout=60000")
        store = AsyncSqliteStore(db)
        await store.setup()
        yield LangGraph(store)


CONTENDERS: dict[str, Callable[[Path], AbstractAsyncContextManager[Contender]]] = {
    "factmem": _plain,
    "factmem, encrypted": _encrypted,
    "langgraph": _langgraph,
    "sqlite": _sqlite,
    "raw fsync": _raw,
}


def _fact_json(number: int) -> bytes:
    fields = {
        "id": "0" * 32,
        "keyword": f"concept-{number}",
        "description": DESCRIPTION,
        "type": "SINGLE",
        "timestamp": "2026-01-01T00:00:00.000000Z",
        "value": value_of(number),
    }
    return json.dumps(fields, separators=(",", ":")).encode()


def fact_json_size(number: int) -> int:
    """Return the size of a fact's JSON, which disk use is compared with."""
    return len(_fact_json(number))
