"""Compaction, damage and remains of erased values in local stores."""

import sqlite3
import threading
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import anyio
import pytest

from factmem.errors import CorruptJournalError, TamperedError
from factmem.providers import _group_commit
from factmem.providers._sql import writing
from factmem.providers.local_file import LocalFileMemoryProvider
from factmem.providers.results import Forgotten
from factmem.providers.storages import SimpleStorage, Storage
from factmem.testing._facts import AGENT, PERSON, THEME, languages, theme
from factmem.testing.clock import START, SettableClock
from tests.providers.local_stores import ALICE, BOB, current, disk, is_sound, run

DAY = timedelta(days=1)
SECRET = "the-secret-\u00fc-\U0001f95d"


def holds(root: Path, value: str) -> list[str]:
    """Return the files that contain a value, as UTF-8 or as JSON escapes."""
    spellings = {value.encode(), value.encode("unicode_escape"), value[:10].encode()}
    return [name for name, data in disk(root).items() if any(text in data for text in spellings)]


def is_plain(storage: Storage) -> bool:
    return isinstance(storage, SimpleStorage)


@pytest.fixture
def clock() -> SettableClock:
    return SettableClock()


async def test_compaction_removes_history(
    root: Path, storage: Storage, clock: SettableClock
) -> None:
    """It keeps the requested span, and everything current."""
    store = LocalFileMemoryProvider(root, storage=storage, clock=clock)
    for value in ("light", "dim", "dark"):
        await store.save(theme(value), ALICE, AGENT)
        clock.advance(DAY)
    await store.save(languages("java"), ALICE, AGENT)

    freed = await store.compact(ALICE, AGENT, keep_history=2 * DAY)

    assert freed > 0
    assert await current(store) == ["dark", "java"]
    told = await store.history(THEME, ALICE, AGENT)
    assert [entry.fact.values for entry in told if entry.fact] == [("dim",), ("dark",)]
    (dim,) = await store.load(THEME, ALICE, AGENT, as_of=START + DAY)
    assert dim.value == "dim"
    assert await store.compact(ALICE, AGENT) > 0
    assert await store.compact(ALICE, AGENT) == 0
    assert await current(LocalFileMemoryProvider(root, storage=storage)) == ["dark", "java"]


async def test_old_history_is_compacted_automatically(root: Path, storage: Storage) -> None:
    """With `keep_history` saves do it; without it, they never do."""
    keeping = LocalFileMemoryProvider(root / "keeping", storage=storage)
    thrifty = LocalFileMemoryProvider(root / "thrifty", storage=storage, keep_history=timedelta(0))

    for store in (keeping, thrifty):
        await store.save(languages("java"), ALICE, AGENT)
        for batch in range(10):
            async with anyio.create_task_group() as tasks:
                for number in range(100):
                    fact = theme(f"theme {batch} {number}")
                    tasks.start_soon(store.save, fact, ALICE, AGENT)
        await store.save(theme("dark"), ALICE, AGENT)

    assert len(await keeping.entries(ALICE, AGENT)) == 1002
    assert len(await thrifty.entries(ALICE, AGENT)) < 600
    for store in (keeping, thrifty):
        assert await current(store) == ["dark", "java"]


async def test_what_is_known_of_places_without_old_history_is_bounded(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process may save to millions of places with `keep_history` and compact none of them."""
    monkeypatch.setattr(writing, "_MOST_KNOWN", 3)
    store = LocalFileMemoryProvider(root, keep_history=DAY)
    for number in range(12):
        await store.save(theme("dark"), PERSON.of(f"user-{number}"), AGENT)

    assert len(store._places.tidying._compacted) <= 4


async def test_history_can_be_kept_for_the_longest_timedelta(root: Path) -> None:
    """It removes nothing, and fails no save."""
    store = LocalFileMemoryProvider(root, keep_history=timedelta.max)

    async with anyio.create_task_group() as tasks:
        for number in range(300):
            tasks.start_soon(store.save, theme(f"v{number}"), ALICE, AGENT)

    assert await store.compact(ALICE, AGENT, keep_history=timedelta.max) == 0
    assert len(await store.history(THEME, ALICE, AGENT)) == 300


@pytest.mark.storm
async def test_copies_remain_while_another_program_reads(root: Path, storage: Storage) -> None:
    """The receipt says so; they are removed when the store is closed after that."""
    store = LocalFileMemoryProvider(root, storage=storage)
    await store.save(theme(SECRET), ALICE, AGENT)
    await store.save(theme("dark"), BOB, AGENT)
    with closing(sqlite3.connect(root / "facts.db", isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM entries").fetchone()

        receipt = await store.erase(ALICE, AGENT)

        assert receipt.copies_remain
        assert bool(holds(root, SECRET)) is is_plain(storage)
        assert await current(store) == []
        reader.execute("COMMIT")
    await store.aclose()

    assert holds(root, SECRET) == []
    assert run(root, "SELECT remains FROM stores") == [(0,)]
    assert is_sound(root)


async def test_a_purge_says_that_copies_remain(root: Path, storage: Storage) -> None:
    """While another program reads, and not after that."""
    async with LocalFileMemoryProvider(root, storage=storage) as store:
        for value in (SECRET, "dark"):
            await store.save(theme(value), ALICE, AGENT)
        with closing(sqlite3.connect(root / "facts.db", isolation_level=None)) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM entries").fetchone()

            purged = await store.forget(ALICE, AGENT, concept=THEME, purge=True)

            assert isinstance(purged, Forgotten)
            assert (int(purged), purged.copies_remain) == (1, True)
            assert Forgotten.total([0, purged]).copies_remain
            reader.execute("COMMIT")
        await store.save(theme(SECRET), ALICE, AGENT)
        purged = await store.forget(ALICE, AGENT, concept=THEME, purge=True)
        assert isinstance(purged, Forgotten)
        assert not purged.copies_remain
        assert holds(root, SECRET) == []


@pytest.mark.storm
async def test_copies_are_removed_when_the_store_is_idle(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the thread that commits, as soon as the reader has finished."""
    monkeypatch.setattr(_group_commit, "_IDLE", 0.01)
    store = LocalFileMemoryProvider(root)
    await store.save(theme(SECRET), ALICE, AGENT)
    with closing(sqlite3.connect(root / "facts.db", isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM entries").fetchone()
        assert (await store.erase(ALICE, AGENT)).copies_remain
    await store.save(theme("dark"), BOB, AGENT)

    with anyio.fail_after(60):
        while holds(root, SECRET):
            await anyio.to_thread.run_sync(threading.Event().wait, 0.01)


async def test_damage_affects_no_other_place(root: Path, storage: Storage) -> None:
    """Its own place is neither read nor written, and can be erased."""
    store = LocalFileMemoryProvider(root, storage=storage)
    await store.save(theme("dark"), ALICE, AGENT)
    run(root, "UPDATE entries SET at = at + 1")
    await store.save(theme("light"), BOB, AGENT)

    cold = LocalFileMemoryProvider(root, storage=storage)
    for act in (
        lambda: cold.load(THEME, ALICE, AGENT),
        lambda: cold.load_all(ALICE, AGENT),
        lambda: cold.history(THEME, ALICE, AGENT),
        lambda: cold.forget(ALICE, AGENT, concept=THEME),
        lambda: cold.compact(ALICE, AGENT),
    ):
        with pytest.raises((CorruptJournalError, TamperedError)):
            await act()
    assert await current(cold, BOB) == ["light"]
    with pytest.raises(CorruptJournalError if is_plain(storage) else TamperedError):
        await LocalFileMemoryProvider(root, storage=storage).verify()

    receipt = await cold.erase(ALICE, AGENT)

    assert receipt.count is None
    assert await current(cold) == []
    await cold.verify()


async def test_a_corrected_clock_loses_nothing(root: Path, clock: SettableClock) -> None:
    """A compaction does not use the times of earlier reads."""
    store = LocalFileMemoryProvider(root, clock=clock)
    await store.save(theme("dark", expires_at=START + timedelta(days=9)), ALICE, AGENT)
    clock.now = START + timedelta(days=36500)
    assert await current(store) == []
    clock.now = START + timedelta(days=1)

    assert await store.compact(ALICE, AGENT) == 0

    assert await current(LocalFileMemoryProvider(root, clock=clock)) == ["dark"]
