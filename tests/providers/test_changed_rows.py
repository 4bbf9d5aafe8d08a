"""Columns that decide which place is listed, copied and erased, changed by an attacker."""

from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest

from factmem import AgentMemory, LocalFileMemoryProvider, MemoryScopesProfile, export_facts
from factmem.errors import CorruptJournalError, TamperedError
from factmem.providers.storages import Storage
from factmem.testing._facts import AGENT, PERSON, THEME, languages, theme
from factmem.testing.clock import SettableClock
from tests.providers.local_stores import ALICE, BOB, current, run

CHANGES: dict[str, object] = {
    "owner": b"x" * 16,
    "owner ": b"",
    "subject": b"x" * 16,
    "scope": b"x" * 16,
    "store": 2,
    "bytes": 0,
    "bytes ": 10**6,
    "recorded_at": 2**52,
    "recorded_at ": 1,
    "purged": 5,
    "made": 3,
    "snapshot": 7,
    "last": 1,
    "tail": None,
    "tail ": b"x" * 40,
}


def change(root: Path, column: str, value: object, *, chat: bool = False) -> None:
    longest = "SELECT place FROM entries GROUP BY place ORDER BY count(*) DESC LIMIT 1"
    which = "place <> owner" if chat else f"place = ({longest})"
    run(root, f"UPDATE places SET {column} = ? WHERE {which}", value)


async def of_bob(root: Path, storage: Storage, *, chat: bool) -> LocalFileMemoryProvider:
    """Return a store with a place of Bob, which may have a conversation, and one of Alice."""
    async with LocalFileMemoryProvider(root, storage=storage) as store:
        await store.save(theme("dark"), BOB, AGENT)
        await store.save(languages("java"), BOB, AGENT)
        await store.save(theme("light"), ALICE, AGENT)
        if chat:
            memory = AgentMemory(
                store, scopes=MemoryScopesProfile(agent=AGENT.name), subjects=[PERSON]
            )
            await memory.of("bob").conversation("c").append({"role": "user", "content": "a secret"})
    return LocalFileMemoryProvider(root, storage=storage)


@pytest.mark.parametrize("column", CHANGES)
async def test_a_changed_row_of_a_place_is_not_read(
    root: Path, storage: Storage, column: str
) -> None:
    """It could hide a user from listings, exports and erasures, and still be read."""
    await (await of_bob(root, storage, chat=False)).aclose()
    change(root, column.strip(), CHANGES[column])

    async with LocalFileMemoryProvider(root, storage=storage) as store:
        with pytest.raises((CorruptJournalError, TamperedError)):
            await store.load(THEME, BOB, AGENT)
    async with LocalFileMemoryProvider(root, storage=storage) as store:
        with pytest.raises((CorruptJournalError, TamperedError)):
            # A save moves the time of a row: an earlier one decides nothing for it.
            await (
                store.verify() if column == "recorded_at " else store.save(theme("dim"), BOB, AGENT)
            )
    async with LocalFileMemoryProvider(root, storage=storage) as store:
        with pytest.raises((CorruptJournalError, TamperedError)):
            await store.forget(BOB, AGENT, concept=THEME, purge=True)
    if column.strip() in {"owner", "store", "bytes"}:
        async with LocalFileMemoryProvider(root, storage=storage) as store:
            for call in (
                store.places,
                store.verify,
                partial(export_facts, store, root.with_name("bundle")),
                partial(store.places, subjects=[ALICE, BOB], scopes=[AGENT]),
            ):
                with pytest.raises((CorruptJournalError, TamperedError)):
                    await call()


@pytest.mark.parametrize("column", ["owner", "subject", "scope", "bytes ", "recorded_at", "tail "])
async def test_a_changed_row_of_a_conversation_is_not_read(
    root: Path, storage: Storage, column: str
) -> None:
    """It would outlive the erasure of its user."""
    store = await of_bob(root, storage, chat=True)
    change(root, column.strip(), CHANGES[column], chat=True)
    async with store:
        memory = AgentMemory(store, scopes=MemoryScopesProfile(agent=AGENT.name), subjects=[PERSON])
        chat = memory.of("bob").conversation("c")

        with pytest.raises((CorruptJournalError, TamperedError)):
            await chat.turns()
        with pytest.raises((CorruptJournalError, TamperedError)):
            await chat.append({"role": "user", "content": "more"})


async def test_a_receipt_does_not_lie_in_the_future(root: Path, storage: Storage) -> None:
    """`replay_erasures` would erase what is said until then."""
    await (await of_bob(root, storage, chat=False)).aclose()
    change(root, "recorded_at", 2**52)  # in 2112

    async with LocalFileMemoryProvider(root, storage=storage) as store:
        assert (await store.erase(BOB, AGENT)).erased_at.year < 2100


ROWS = {
    "of a place that is there": "place, made, store, recorded_at FROM places LIMIT 1",
    "of a place that is there, with a tag": (
        "CAST(p.place || substr(e.place, 17) AS BLOB), p.made, 1, e.at FROM places p, erased e"
    ),
    "of a place that is not": "zeroblob(16), 1, 1, 1",
    "without a key": "x'', 1, 1, 1",
    "moved in time": "place, made, store, at + 1 FROM erased",
    "moved to another place": (
        "CAST(zeroblob(16) || substr(place, 17) AS BLOB), made, store, at FROM erased"
    ),
    "of another life": "place, made + 1, store, at FROM erased",
}


@pytest.mark.parametrize("row", ROWS)
async def test_an_erasure_that_was_not_is_noticed(root: Path, storage: Storage, row: str) -> None:
    """Each backup would lack a user without a word, and no import would bring them back."""
    async with LocalFileMemoryProvider(root, storage=storage) as store:
        for person in (ALICE, BOB):
            await store.save(theme("dark"), person, AGENT)
        await store.erase(ALICE, AGENT)
        await store.backup(root.with_name("sound"))
    run(root, f"INSERT OR REPLACE INTO erased SELECT {ROWS[row]}")

    async with LocalFileMemoryProvider(root, storage=storage) as store:
        with pytest.raises((CorruptJournalError, TamperedError)):
            await store.verify()
        with pytest.raises((CorruptJournalError, TamperedError)):
            await store.backup(root.with_name("copy"))
    assert not root.with_name("copy").exists()
    async with LocalFileMemoryProvider(root, storage=storage) as store:
        with pytest.raises((CorruptJournalError, TamperedError)):
            await store.restore(root.with_name("sound"))


async def test_an_erasure_is_known_after_a_restore(root: Path, storage: Storage) -> None:
    """Also by the store that was restored, whose rows were copied."""
    async with LocalFileMemoryProvider(root, storage=storage) as store:
        for person in (ALICE, BOB):
            await store.save(theme("dark"), person, AGENT)
        await store.backup(root.with_name("sound"))
        erased = await store.erase(ALICE, AGENT)
        await store.save(theme("again"), ALICE, AGENT)
        await store.erase(ALICE, AGENT)

        assert await store.restore(root.with_name("sound")) == 1
        await store.verify()
        assert [info.subject.entity for info in await store.places()] == ["bob"]
        known = await store.erased_at(ALICE, AGENT)
        assert known is not None
        assert known >= erased.erased_at


async def test_a_corrected_clock_changes_no_row(root: Path, storage: Storage) -> None:
    """Times of a place never go back, and its row says so."""
    clock = SettableClock()
    async with LocalFileMemoryProvider(root, storage=storage, clock=clock) as store:
        await store.save(theme("dark"), BOB, AGENT)
        for days in (400, -800, 3):
            clock.advance(timedelta(days=days))
            await store.save(theme(f"after {days}"), BOB, AGENT)
            await store.forget(BOB, AGENT, concept=THEME, purge=True)
            await store.save(languages(f"l{days}"), BOB, AGENT)
    async with LocalFileMemoryProvider(root, storage=storage) as store:
        await store.verify()
        assert await current(store, BOB) == ["l400", "l-800", "l3"]
