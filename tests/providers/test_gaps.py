"""Copies of deleted rows in the gaps of pages, and the rules by which they are overwritten."""

import os
import random
import sqlite3
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any, BinaryIO

import pytest
from anyio.to_thread import run_sync

from factmem import Concept, FactType, LocalFileMemoryProvider, MultipleFacts
from factmem.providers._sqlite import gaps
from factmem.testing._facts import AGENT, THEME, theme
from tests.providers.local_stores import ALICE, BOB, disk, is_sound, run

MARK = b"MARK-of-a-row"
NOTES = Concept("notes", "What was said", FactType.MULTIPLE)


def spans(data: bytes) -> Iterator[tuple[int, int]]:
    """Yield the gaps of a database by walking its trees from their roots, as SQLite does."""
    size = int.from_bytes(data[16:18], "big") or 1
    size = 65536 if size == 1 else size
    with closing(sqlite3.connect(":memory:")) as db:
        db.deserialize(data[:18] + b"\1\1" + data[20:])  # as without a log
        roots = [1, *(row[0] for row in db.execute("SELECT rootpage FROM sqlite_master"))]
    while roots:
        number = roots.pop()
        if not number:
            continue
        page = data[(number - 1) * size : number * size]
        head = 100 if number == 1 else 0
        cells = int.from_bytes(page[head + 3 : head + 5], "big")
        first = head + (12 if page[head] in (2, 5) else 8)
        content = int.from_bytes(page[head + 5 : head + 7], "big") or 65536
        yield (number - 1) * size + first + 2 * cells, (number - 1) * size + content
        if page[head] in (2, 5):
            pointers = [int.from_bytes(page[head + 8 : head + 12], "big")]
            for n in range(cells):
                at = int.from_bytes(page[first + 2 * n : first + 2 * n + 2], "big")
                pointers.append(int.from_bytes(page[at : at + 4], "big"))
            roots += pointers


def plant(root: Path) -> int:
    """Leave a copy of a row in each gap of a closed store, as SQLite does; return how many."""
    path = root / "facts.db"
    data = bytearray(path.read_bytes())
    count = 0
    for start, end in spans(bytes(data)):
        if end - start >= len(MARK):
            data[start : start + len(MARK)] = MARK
            count += 1
    path.write_bytes(data)
    return count


def another(root: Path) -> sqlite3.Connection:
    """Return a connection of another program, which refuses at once and serves any thread."""
    path = root / "facts.db"
    return sqlite3.connect(path, isolation_level=None, timeout=0, check_same_thread=False)


def marks(root: Path) -> int:
    """Count the copies in all files of a store."""
    return sum(data.count(MARK) for data in disk(root).values())


async def made(root: Path) -> LocalFileMemoryProvider:
    """Return a store of some pages, with a copy of a row in each gap."""
    async with LocalFileMemoryProvider(root) as store:
        for number in range(40):
            await store.save(MultipleFacts(NOTES, [f"{number} " + "x" * 400]), ALICE, AGENT)
        await store.save(theme("dark"), BOB, AGENT)
    assert plant(root) > 8
    return LocalFileMemoryProvider(root)


async def purge(store: LocalFileMemoryProvider, number: int = 3) -> None:
    value = f"{number} " + "x" * 400
    assert await store.forget(ALICE, AGENT, concept=NOTES, value=value, purge=True)


async def copies_of_gaps_are_cleared(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In all pages at the first removal, and in those that were written since at the next."""
    async with await made(root) as store:
        await purge(store)
        assert marks(root) == 0
        assert is_sound(root)


async def no_other_writes_meanwhile(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another program that writes during it would write pages with their gaps."""
    async with await made(root) as store:
        with closing(another(root)) as other:
            real, seen = gaps.clear_gaps, []

            def clear(*args: Any) -> int:
                try:
                    other.execute("UPDATE entries SET line = substr(line, 2)")
                    seen.append("written")
                except sqlite3.OperationalError:
                    seen.append("refused")
                return int(real(*args))

            monkeypatch.setattr(gaps, "clear_gaps", clear)
            await purge(store)
        assert seen == ["refused"]


async def a_page_in_the_log_is_noticed(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another program wrote between the truncation and the lock: copies remain, and are said to."""
    async with await made(root) as store:
        database = store._files

        files = database.files
        with closing(another(root)) as other:
            real = files.connect

            def connect(mode: str) -> sqlite3.Connection:
                other.execute("UPDATE stores SET anchors = anchors + 1")
                monkeypatch.setattr(files, "connect", real)
                return real(mode)

            await store.save(theme("dim"), BOB, AGENT)
            monkeypatch.setattr(files, "connect", connect)
            assert (await store.erase(ALICE, AGENT)).copies_remain
        await purge_again(store)
    assert marks(root) == 0


async def purge_again(store: LocalFileMemoryProvider) -> None:
    assert not (await store.erase(BOB, AGENT)).copies_remain


async def pages_in_memory_do_not_come_back(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection that had read the pages, with their gaps, changes them afterwards."""
    async with await made(root) as store:
        with closing(another(root)) as other:
            real = gaps.clear_gaps

            def clear(file: BinaryIO, numbers: Any = None) -> int:
                other.execute("SELECT sum(length(line)) FROM entries").fetchall()
                return int(real(file, numbers))

            monkeypatch.setattr(gaps, "clear_gaps", clear)
            await purge(store)
            other.execute("UPDATE entries SET line = substr(line, 2)")
            other.execute("PRAGMA wal_checkpoint(truncate)")
            assert marks(root) == 0
        await store.save(MultipleFacts(NOTES, ["later"]), ALICE, AGENT)
    assert marks(root) == 0


async def zeros_are_on_disk_first(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A power cut after the commit must not leave what the store has said to be gone."""
    async with await made(root) as store:
        steps: list[int] = []

        def remains() -> int:
            return int(run(root, "SELECT remains FROM stores")[0][0])

        def fsync(fd: int) -> None:
            steps.append(remains())
            os.fsync(fd)

        monkeypatch.setattr(gaps, "os", SimpleNamespace(**{**vars(os), "fsync": fsync}))
        await purge(store)
        assert steps == [1]
        assert remains() == 0


async def no_other_descriptor_is_opened(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Closing one drops the locks of SQLite, and another process then takes itself for the last."""
    async with await made(root) as store:
        await store.save(theme("dim"), BOB, AGENT)
        opened: list[object] = []

        def listen(event: str, args: tuple[object, ...]) -> None:
            if event == "open" and is_on:
                opened.append(args[0])

        is_on = True
        sys.addaudithook(listen)
        await purge(store)
        is_on = False
        assert not [each for each in opened if str(each).endswith("facts.db")]


async def a_refusal_is_said(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that refuses the zeros: copies remain, until the next removal."""
    async with await made(root) as store:
        with monkeypatch.context() as patch:

            def refuse(*_: object) -> int:
                raise OSError(5, "Input/output error")

            patch.setattr(gaps, "clear_gaps", refuse)
            assert (await store.erase(ALICE, AGENT)).copies_remain
        assert marks(root)
        await purge_again(store)
        assert marks(root) == 0


async def pages_of_another_log_are_looked_at(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What another program wrote, and put into the file, is in no log that is known."""
    async with await made(root) as store:
        await purge(store, 3)
        with closing(another(root)) as other:
            other.execute("CREATE TABLE fill AS SELECT randomblob(300) AS b FROM entries")
            other.execute("PRAGMA wal_checkpoint(truncate)")
            other.execute("DROP TABLE fill")
            other.execute("PRAGMA wal_checkpoint(truncate)")
        looked: list[object] = []
        real = gaps.clear_gaps

        def clear(file: BinaryIO, numbers: Any = None) -> int:
            looked.append(numbers)
            return int(real(file, numbers))

        monkeypatch.setattr(gaps, "clear_gaps", clear)
        await purge(store, 5)
        await purge(store, 7)
        assert looked[0] is None
        assert looked[1] is not None


async def only_gaps_are_written(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In databases of all shapes, with pages whose first byte is by chance that of a B-tree."""
    await run_sync(_only_gaps, root)


def _only_gaps(root: Path) -> None:
    root.mkdir()
    for seed in range(9):
        size = (512, 4096, 65536)[seed % 3]
        rnd, path = random.Random(seed), root / f"{seed}.db"
        with closing(sqlite3.connect(path, isolation_level=None)) as db:
            db.execute(f"PRAGMA page_size = {size}")
            db.execute(f"PRAGMA auto_vacuum = {rnd.choice(['none', 'full', 'incremental'])}")
            db.execute("CREATE TABLE t (a BLOB PRIMARY KEY, b BLOB) WITHOUT ROWID")
            db.execute("CREATE TABLE r (a INTEGER PRIMARY KEY, b BLOB)")
            for _ in range(rnd.randrange(400)):
                long = bytes([rnd.choice([2, 5, 10, 13])]) * rnd.choice([9, 90, 900, 9000])
                db.execute("INSERT OR REPLACE INTO t VALUES (?, ?)", (rnd.randbytes(9), long))
                db.execute("INSERT INTO r (b) VALUES (?)", (long,))
            db.execute("DELETE FROM t WHERE a < ?", (bytes([rnd.randrange(256)]),))
            db.execute("DELETE FROM r WHERE a % 3 = 0")
        before = path.read_bytes()
        allowed = bytearray(before)
        for start, end in spans(before):
            allowed[start:end] = bytes(end - start)
        with open(path, "r+b", buffering=0) as file:
            gaps.clear_gaps(file)
        after = path.read_bytes()
        free = _free(before, size)
        for at in range(0, len(before), size):
            if at // size + 1 not in free:
                assert after[at : at + size] == allowed[at : at + size], (seed, at // size + 1)
        with closing(sqlite3.connect(path)) as db:
            assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def _free(data: bytes, size: int) -> set[int]:
    """Return the pages of the free list, whose content is of no table."""
    found: set[int] = set()
    trunk = int.from_bytes(data[32:36], "big")
    while trunk:
        page = data[(trunk - 1) * size : trunk * size]
        many = int.from_bytes(page[4:8], "big")
        found |= {int.from_bytes(page[8 + 4 * n : 12 + 4 * n], "big") for n in range(many)}
        trunk = int.from_bytes(page[:4], "big")
    return found


async def a_backup_has_no_copies(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor has a store that was restored from it."""
    async with await made(root) as store:
        await store.backup(root.with_name("backup"))
        assert marks(root.with_name("backup")) == 0
    async with LocalFileMemoryProvider(root.with_name("other")) as other:
        plant(root.with_name("backup"))
        await other.restore(root.with_name("backup"))
        assert await other.load(THEME, BOB, AGENT)
    assert marks(root.with_name("other")) == 0


Check = Callable[[Path, pytest.MonkeyPatch], Awaitable[None]]

CHECKS: list[Check] = [
    copies_of_gaps_are_cleared,
    no_other_writes_meanwhile,
    a_page_in_the_log_is_noticed,
    pages_in_memory_do_not_come_back,
    zeros_are_on_disk_first,
    no_other_descriptor_is_opened,
    a_refusal_is_said,
    pages_of_another_log_are_looked_at,
    only_gaps_are_written,
    a_backup_has_no_copies,
]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_copies_in_gaps_are_overwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, check: Check
) -> None:
    """Erased means gone from the files, and the database stays whole."""
    await check(tmp_path / "store", monkeypatch)
