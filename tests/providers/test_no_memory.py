"""The store that saves nothing, and checks its arguments like every other."""

import logging
from typing import Any

import pytest

from factmem.errors import UnboundSubjectError
from factmem.models.facts import FactSource, SourceKind
from factmem.providers.no_memory import NoMemory
from factmem.providers.store import FactStore
from factmem.testing._facts import AGENT, LANGUAGES, PERSON, THEME, USER, languages, theme
from factmem.testing.clock import START, SettableClock
from tests.contracts.places import CALLS, Call
from tests.tables import table

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
