"""Stores in memory and without one: the contract, its docstrings, and stores that nobody closes."""

import gc
import inspect
import logging
import sqlite3
import weakref
from datetime import datetime
from pathlib import Path
from typing import Any

import anyio
import pytest

from factmem import FactStore, InMemoryProvider, LocalFileMemoryProvider, NoMemory
from factmem.errors import UnboundSubjectError
from factmem.models.facts import FactSource, SourceKind
from factmem.models.when import TimeProvider
from factmem.testing._facts import AGENT, LANGUAGES, PERSON, THEME, USER, languages, theme
from factmem.testing.clock import START, SettableClock
from tests.contracts.places import CALLS, Call
from tests.contracts.stores import WholeStoreContract
from tests.tables import table


class TestInMemoryProvider(WholeStoreContract):
    def make_provider(self, clock: TimeProvider) -> InMemoryProvider:
        return InMemoryProvider(clock=clock)

    async def test_a_naive_clock_raises(self) -> None:
        """It raises before any entry is stamped."""
        store = InMemoryProvider(clock=lambda: datetime(2024, 1, 1))  # noqa: DTZ001

        with pytest.raises(ValueError, match="time of the clock is naive"):
            await store.save(theme("dark"), USER, AGENT)

        assert await store.entries(USER, AGENT) == []


@pytest.mark.parametrize("kind", ["memory", "files"])
async def test_a_store_that_was_dropped_is_closed(kind: str, tmp_path: Path) -> None:
    """Nobody needs to close it, also not one that refers to itself."""
    store: Any = InMemoryProvider() if kind == "memory" else LocalFileMemoryProvider(tmp_path)
    await store.save(theme("dark"), USER, AGENT)
    database = store._backend.database
    held = vars(database if kind == "memory" else database._db).values()
    opened = [each for each in held if isinstance(each, sqlite3.Connection)]
    store.itself, dropped = store, weakref.ref(database)

    del store, database, held
    with anyio.fail_after(60):
        while dropped() is not None:  # the thread that saved may still hold it
            gc.collect()
            await anyio.sleep(0.001)

    assert opened
    for connection in opened:
        with pytest.raises(sqlite3.ProgrammingError, match="closed"):
            connection.execute("SELECT 1")


ENTRY: Any = {"at": "2001-02-03T04:05:06.000000Z", "forget": [["a", "b", ""]]}


@pytest.fixture
def store() -> NoMemory:
    return NoMemory(clock=SettableClock())


async def test_nothing_is_stored(store: NoMemory) -> None:
    """Every read is empty, and every count is zero."""
    await store.save(theme("dark"), USER, AGENT)
    await store.save_many([theme("dark"), languages("java")], USER, AGENT)

    assert isinstance(store, FactStore)
    assert await store.load(THEME, USER, AGENT, as_of=START) == []
    assert await store.load_all(USER, AGENT, concepts=[THEME], as_of=START) == []
    assert await store.load_by_description("theme", USER, AGENT) == []
    assert await store.history(THEME, USER, AGENT) == []
    assert await store.entries(USER, AGENT) == []
    assert await store.places() == []
    assert await store.forget(USER, AGENT, concept=THEME, value="dark", purge=True) == 0
    assert await store.replay([ENTRY], USER, AGENT) == 0


async def test_the_receipt_of_an_erasure(store: NoMemory) -> None:
    """It has the time, and zero counts."""
    receipt = await store.erase(PERSON.of("alice"), AGENT)

    assert (receipt.scope, receipt.subject) == (AGENT, PERSON.of("alice"))
    assert (receipt.erased_at, receipt.count, receipt.bytes) == (START, 0, 0)


@table("call", CALLS.values(), ids=CALLS)
async def test_an_unbound_subject_raises(store: NoMemory, call: Call) -> None:
    """An application that omits the entity gets the error without a memory, too."""
    with pytest.raises(UnboundSubjectError, match=r"person\.of\("):
        await call(store, PERSON)


@table("call", CALLS.values(), ids=CALLS)
async def test_a_closed_store_raises(call: Call) -> None:
    """Closing twice is allowed."""
    store = NoMemory()
    async with store as same:
        assert same is store
    await store.aclose()

    with pytest.raises(ValueError, match="NoMemory is closed: make a new one"):
        await call(store, USER)
    with pytest.raises(ValueError, match="NoMemory is closed: make a new one"):
        await store.__aenter__()


async def test_names_are_logged_at_debug_level_and_no_values(
    store: NoMemory, caplog: pytest.LogCaptureFixture
) -> None:
    """The log shows the dropped saves."""
    caplog.set_level(logging.DEBUG, logger="factmem")
    source = FactSource(SourceKind.USER, quote="My PIN is 1234")
    await store.save(theme("PIN 1234", source=source), USER, AGENT)
    await store.forget(PERSON.of("alice"), AGENT, concept=LANGUAGES, value="PIN 1234", purge=True)
    await store.load_by_description("PIN 1234", USER, AGENT)

    assert caplog.messages == [
        "NoMemory: save agent/painter user ide-theme",
        "NoMemory: forget agent/painter person(alice)",
        "NoMemory: load agent/painter user",
    ]
    assert {record.levelno for record in caplog.records} == {logging.DEBUG}


@pytest.mark.parametrize("provider", [InMemoryProvider, LocalFileMemoryProvider, NoMemory])
def test_each_method_has_its_contract_as_docstring(provider: type[FactStore]) -> None:
    """Editors show the contract itself, not a reference to it."""
    contracts = {
        name: inspect.getdoc(method)
        for name, method in inspect.getmembers(FactStore, inspect.isfunction)
        if not name.startswith("_")
    }

    shown = {name: inspect.getdoc(getattr(provider, name)) for name in contracts}

    assert shown == contracts
    assert not [name for name, text in shown.items() if text is None or "See `" in text]
