"""Random changes of a local store, by SQL and by bytes: each is noticed, or changes nothing that is read.

    python -m tests.storms.tampering --cases 10000

Half of the cases are of an encrypted store. Prints for each kind of change how many were noticed by
reads alone and with an anchor; exits with 1 if one changed what is read and was not noticed.
"""

import argparse
import shutil
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from random import Random
from typing import TypeAlias

import anyio

from factmem import (
    Aes256GCMEncryptor,
    EncryptedStorage,
    Key,
    LocalFileMemoryProvider,
    SimpleStorage,
)
from factmem.errors import FactmemError
from factmem.providers.storages import Storage
from factmem.testing._facts import AGENT, LANGUAGES, PERSON, THEME, languages, theme
from tests.storms.changed_rows import (
    TABLES,
    Outcome,
    Tables,
    changes,
    copied,
    print_counts,
    unnoticed,
    with_flipped_bit,
)

__all__ = ["KINDS", "Trial", "run"]

BY_SQL = changes()
PAGE = 4096
PEOPLE = [PERSON.of(f"p{number}") for number in range(5)]


def read_tables(path: Path) -> Tables:
    """Return all rows of a database that nobody has open."""
    found: Tables = {}
    with closing(sqlite3.connect(path)) as db:
        db.row_factory = sqlite3.Row
        for table in TABLES:
            found[table] = [dict(row) for row in db.execute(f"SELECT * FROM {table}")]
    return found


def write_tables(path: Path, tables: Tables) -> None:
    """Replace all rows."""
    with closing(sqlite3.connect(path)) as db, db:
        for table, rows in tables.items():
            db.execute(f"DELETE FROM {table}")
            for row in rows:
                marks = ",".join("?" * len(row))
                columns = ",".join(row)
                values = list(row.values())
                db.execute(f"INSERT INTO {table} ({columns}) VALUES ({marks})", values)


# By bytes: the file as a failing disk or an editor leaves it

ByteChange: TypeAlias = Callable[[Random, bytes, list[bytes]], bytes]


def _flip_bit(random: Random, now: bytes, _: list[bytes]) -> bytes:
    return with_flipped_bit(random, now)


def _zero(random: Random, now: bytes, _: list[bytes]) -> bytes:
    at, size = random.randrange(len(now)), random.choice((1, 16, 512, PAGE))
    return now[:at] + bytes(len(now[at : at + size])) + now[at + size :]


def _cut(random: Random, now: bytes, _: list[bytes]) -> bytes:
    return now[: random.randrange(len(now))]


def _swap_pages(random: Random, now: bytes, _: list[bytes]) -> bytes:
    one, two = sorted(random.sample(range(0, len(now), PAGE), 2))
    first, second = now[one : one + PAGE], now[two : two + PAGE]
    return now[:one] + second + now[one + PAGE : two] + first + now[two + PAGE :]


def _old_page(random: Random, now: bytes, older: list[bytes]) -> bytes:
    then = random.choice(older)
    at = random.randrange(0, min(len(now), len(then)), PAGE)
    return now[:at] + then[at : at + PAGE] + now[at + PAGE :]


BY_BYTES: dict[str, ByteChange] = {
    "bit flipped": _flip_bit,
    "bytes zeroed": _zero,
    "file cut": _cut,
    "pages exchanged": _swap_pages,
    "old copy of a page": _old_page,
}

KINDS = (*BY_SQL, *BY_BYTES)


class Trial:
    """A store with places, some of them purged or erased, and copies of its past."""

    def __init__(self, folder: Path, *, is_encrypted: bool) -> None:
        self._storage: Storage = SimpleStorage()
        if is_encrypted:
            self._storage = EncryptedStorage(Aes256GCMEncryptor(Key.generate()))
        self._home, self._copy = folder / "home", folder / "copy"
        self._older: list[tuple[bytes, Tables]] = []

    def _opened(self, root: Path) -> LocalFileMemoryProvider:
        return LocalFileMemoryProvider(root, storage=self._storage)

    async def prepare(self) -> None:
        """Fill the store."""
        for turn in range(3):
            async with self._opened(self._home) as store:
                for person in PEOPLE:
                    await store.save(languages(f"v{turn}"), person, AGENT)
                    await store.save(theme(f"theme {turn}"), person, AGENT)
            self._keep()
        async with self._opened(self._home) as store:
            await store.forget(PEOPLE[0], AGENT, concept=LANGUAGES, value="v1", purge=True)
            await store.erase(PEOPLE[1], AGENT)
        self._keep()
        async with self._opened(self._home) as store:
            await store.erase(PEOPLE[2], AGENT)
            await store.save(languages("again"), PEOPLE[2], AGENT)
            self._truth = await _read(store)
            self._anchor = await store.anchor()
        self._now, self._tables = self._content(), read_tables(self._home / "facts.db")
        if isinstance(self._storage, SimpleStorage):
            # Only the anchor of an encrypted store knows what had been erased before it was taken.
            kept = {row["place"] for row in self._tables["places"]}
            for _, tables in self._older:
                tables["places"] = [row for row in tables["places"] if row["place"] in kept]

    def _content(self) -> bytes:
        return (self._home / "facts.db").read_bytes()

    def _keep(self) -> None:
        self._older.append((self._content(), read_tables(self._home / "facts.db")))

    async def change(self, kind: str, random: Random) -> Outcome | None:
        """Change a copy of the store, and look; None where the change left all as it was."""
        shutil.rmtree(self._copy, ignore_errors=True)
        self._copy.mkdir(parents=True)
        database = self._copy / "facts.db"
        database.write_bytes(self._now)
        if kind in BY_BYTES:
            older = [content for content, _ in self._older]
            content = BY_BYTES[kind](random, self._now, older)
            if content == self._now:
                return None
            database.write_bytes(content)
        else:
            changed = copied(self._tables)
            BY_SQL[kind](random, changed, [tables for _, tables in self._older])
            if changed == self._tables:
                return None
            try:
                write_tables(database, changed)
            except (sqlite3.Error, OverflowError):
                return None  # the tables themselves refuse it: two rows of one key
        return await self._judged(kind)

    async def _judged(self, kind: str) -> Outcome:
        is_harmless, is_alone, is_noticed = False, False, False
        async with self._opened(self._copy) as store:
            try:
                is_harmless = await _read(store) == self._truth
            except FactmemError:
                is_alone = True
        async with self._opened(self._copy) as store:
            try:
                await store.verify(self._anchor)
            except FactmemError:
                is_noticed = True
        return Outcome(kind, is_alone, is_alone or is_noticed, is_harmless)


async def _read(store: LocalFileMemoryProvider) -> object:
    """Return all that can be read: one concept after the other first, then whole places."""
    values = [await store.load(each, one, AGENT) for one in PEOPLE for each in (THEME, LANGUAGES)]
    entries = [await store.entries(person, AGENT) for person in PEOPLE]
    places = await store.places()
    listed = sorted((str(info.subject.entity), info.count) for info in places)
    return values, entries, listed, len(await store.list_places())


async def run(folder: Path, cases: int, seed: int, *, is_encrypted: bool) -> list[Outcome]:
    """Change a store in many ways, one after the other."""
    random, outcomes = Random(seed), list[Outcome]()
    trial = Trial(folder, is_encrypted=is_encrypted)
    await trial.prepare()
    while len(outcomes) < cases:
        outcome = await trial.change(random.choice(KINDS), random)
        if outcome is not None:
            outcomes.append(outcome)
    return outcomes


def main() -> int:
    """Run as many cases as the command line asks for."""
    parser = argparse.ArgumentParser(prog="python -m tests.storms.tampering")
    parser.add_argument("--cases", type=int, default=10_000, help="half of them encrypted")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="what is drawn")
    given = parser.parse_args()
    print(f"tampering, seed {given.seed}", flush=True)
    count = 0
    for is_encrypted in (False, True):
        with tempfile.TemporaryDirectory() as folder:
            outcomes = anyio.run(
                partial(run, is_encrypted=is_encrypted), Path(folder), given.cases // 2, given.seed
            )
        print("encrypted" if is_encrypted else "plain", flush=True)
        print_counts(KINDS, outcomes)
        count += len(unnoticed(outcomes))
    print(f"tampering: {count} unnoticed")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
