"""Every key on every screen of `factmem browse`, over a store with everything in it."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zlib import crc32

import anyio
import pytest
from textual.pilot import Pilot
from textual.widgets import Static

from factmem import (
    AgentMemory,
    Concept,
    FactSource,
    FactType,
    LocalFileMemoryProvider,
    MemoryScope,
    MemoryScopesProfile,
    MemorySubject,
    MultipleFacts,
    SingleFact,
    SourceKind,
)
from factmem._cli.browse.browser import Browser, BrowserSession
from factmem._cli.browse.widgets import FactPage
from factmem._cli.options import Options
from factmem.models import FactState

USER = MemorySubject("user", "", 1, per_entity=True)
APP = MemoryScope.Product("app")
ALICE = USER.of("alice")
PLAN = Concept("plan", "The plan", review=True)
CITY = Concept("city", "Where the user lives")
PETS = Concept("pets", "The pets", FactType.MULTIPLE)
GRID = Concept("grid", "A table", value_type=list[dict[str, int]])
QUOTED = FactSource(SourceKind.USER, "chat-7", 3, "I like \x1b[2J it [b]really[/b]", model="m")

KEYS = (
    *("enter", "escape", "tab", "up", "down", "left", "home", "end", "pageup", "pagedown"),
    *("space", "backspace", "slash", "question_mark", "ctrl+s"),
    *"yefhusripjknNgGa",
)
"""All keys of the bindings, and one that has none; q ends the browser."""
SCREENS: dict[str, tuple[str, ...]] = {
    "inbox": ("i",),
    "place": ("p", "a", "enter", "enter"),
    "search": ("slash", *"bus", "enter"),
    "tree": ("p", "escape", "tab", "tab"),
    "page of the inbox": ("i", "enter"),
    "page of a place": ("p", "enter", "down", "down", "enter", "end", "enter"),
    "name": ("i", "y"),
    "edit": ("i", "e"),
    "reject": ("i", "f"),
    "former": ("p", "enter", "down", "down", "enter", "h"),
    "keys": ("question_mark",),
}


async def fill(store: LocalFileMemoryProvider) -> None:
    """Save values in every state, of every kind."""
    memory = AgentMemory(
        store, scopes=MemoryScopesProfile(product="app"), subjects=[USER], concepts=[PLAN]
    ).of("alice")
    for value in ("Busan", "Seoul", "Busan"):
        await memory.save(CITY, value)
    await memory.save(CITY, "Busan", confirmed=True)
    await store.save(MultipleFacts(PETS, ["Miso", "Rex " * 200], metadata={"a": [1]}), ALICE, APP)
    await memory.save(GRID, [{"x": 1}])
    await store.save(
        SingleFact(Concept("note", ""), "\u202e[red]x[/] 👨\u200d👩 مرحبا\n2"), USER.of("b"), APP
    )
    await store.save(
        SingleFact(Concept("open", "", value_type=bool), True), MemorySubject.EVERYTHING, APP
    )
    soon = datetime.now(UTC) + timedelta(days=30)
    await store.save(SingleFact(Concept("job", "The job"), "cook", since=soon.date()), ALICE, APP)
    await store.save(SingleFact(Concept("visa", "The visa"), "B2", expires_at=soon), ALICE, APP)
    waits = FactState.PROPOSED
    await store.learn([SingleFact(PLAN, "Gold", source=QUOTED, state=waits)], ALICE, APP)
    await store.learn([SingleFact(CITY, "Rome", source=QUOTED)], ALICE, APP)
    await store.learn([MultipleFacts(PETS, ["Tom"], source=QUOTED)], ALICE, APP)
    await memory.contents.forget(concept=GRID)


@asynccontextmanager
async def browsing(folder: Path, width: int) -> AsyncGenerator[tuple[Browser, Pilot[None]]]:
    async with LocalFileMemoryProvider(folder) as store:
        await fill(store)
        browser = Browser(BrowserSession(store, Options(str(folder))))
        async with browser.run_test(size=(width, 30)) as pilot:
            with anyio.fail_after(60):
                while not (browser.session.recent.is_complete and browser.session.recent.count()):
                    await pilot.pause(0.01)
            yield browser, pilot


async def home(browser: Browser, pilot: Pilot[None]) -> None:
    """Close dialogs and pages, and leave fields."""
    while len(browser.screen_stack) > 1:
        await browser.pop_screen()
    browser.workers.cancel_group(browser, "page")
    await pilot.press("escape", "i")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"  # the loop of textual


@pytest.mark.storm
@pytest.mark.parametrize("width", [70, 100, 140])
@pytest.mark.parametrize("name", SCREENS)
async def test_no_key_ends_the_browser(
    tmp_path: Path, name: str, width: int, pytestconfig: pytest.Config
) -> None:
    """Enter on a proposed value ended it, with a traceback that showed the user's words."""
    async with browsing(tmp_path, width) as (browser, pilot):
        # Each press takes a second in all: without `--thorough` the cases share the keys.
        step = 1 if pytestconfig.getoption("--thorough") else 24
        begin = crc32(f"{name} {width}".encode()) % step
        for key in KEYS[begin::step]:
            await home(browser, pilot)
            await pilot.press(*SCREENS[name], key)
            assert browser.is_running, key


async def test_the_page_of_each_waiting_value_opens(tmp_path: Path) -> None:
    """At 70 columns; and only what somebody confirmed is confirmed."""
    async with browsing(tmp_path, 70) as (browser, pilot):
        assert browser.session.recent.count() >= 3
        for position in range(browser.session.recent.count()):
            await home(browser, pilot)
            await pilot.press("home", *["down"] * position, "enter")
            with anyio.fail_after(60):
                while not isinstance(browser.screen, FactPage):
                    await pilot.pause(0.01)
            page = str(browser.screen.query_one(Static).render())
            assert ("\nconfirmed " in page) == (
                browser.screen.row.fact.state is FactState.CONFIRMED
            )
