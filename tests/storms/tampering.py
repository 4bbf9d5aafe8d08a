"""Random changes of a local store, by SQL and by bytes: each is noticed, or changes no read.

    python -m tests.storms.tampering --cases 10000

Half of the cases are of an encrypted store. Exits with 1 if one altered what is read, unnoticed.
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

from factmem import Key, LocalFileMemoryProvider
from tests.storms.changed_rows import (
    TABLES,
    Outcome,
    Tables,
    Trial,
    changes,
    run,
    unnoticed,
    with_flipped_bit,
)
from tests.world import storage_of

BY_SQL = changes()
PAGE = 4096


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


class Files(Trial):
    """A local store, of which a copy is changed."""

    refusals = (sqlite3.Error, OverflowError)

    def __init__(self, folder: Path, *, is_encrypted: bool) -> None:
        super().__init__(BY_SQL, is_encrypted=is_encrypted)
        self._storage = storage_of(*[Key.generate()] * is_encrypted)
        self._root = folder / "store"
        self._contents: list[bytes] = []

    def opened(self) -> LocalFileMemoryProvider:
        return LocalFileMemoryProvider(self._root, storage=self._storage)

    def tables(self) -> Tables:
        self._contents.append((self._root / "facts.db").read_bytes())
        return read_tables(self._root / "facts.db")

    def write(self, tables: Tables) -> None:
        self._put(self._contents[-1])
        if tables is not self._now:
            write_tables(self._root / "facts.db", tables)

    def _put(self, content: bytes) -> None:
        shutil.rmtree(self._root)
        self._root.mkdir()
        (self._root / "facts.db").write_bytes(content)

    async def change(self, kind: str, random: Random) -> Outcome | None:
        if kind not in BY_BYTES:
            return await super().change(kind, random)
        *older, now = self._contents
        content = BY_BYTES[kind](random, now, older)
        if content == now:
            return None
        self._put(content)
        return await self.judged(kind)


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
            trial = Files(Path(folder), is_encrypted=is_encrypted)
            work = partial(run, cases=given.cases // 2, seed=given.seed)
            outcomes = anyio.run(work, trial, KINDS)
        noticed = sum(each.is_noticed for each in outcomes)
        print(f"encrypted: {is_encrypted}, {len(outcomes)} changes, {noticed} noticed", flush=True)
        for each in unnoticed(outcomes):
            count += 1
            print(each, flush=True)
    print(f"tampering: {count} unnoticed")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
