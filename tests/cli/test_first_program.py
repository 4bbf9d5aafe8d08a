"""The README's first program: what it saved is there in a second process, and in the browser."""

import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import anyio
import pytest

from factmem._cli.browse.browser import Browser
from factmem._cli.browse.session import BrowserSession
from factmem._cli.browse.widgets import FactTable, PlacesTree
from factmem._cli.opening import storage_of
from factmem._cli.options import Options
from factmem.providers.local_file import LocalFileMemoryProvider
from tests.test_docs import blocks_of, run_block

README = Path(__file__).parents[2] / "README.md"
FIRST, CHAT = [block for block in blocks_of(README) if block.language == "python"][:2]

LATER = """
async def later() -> None:
    async with AgentMemory.open("memory", user="alice", concepts=[Traveller]) as memory:
        print(await memory.current(Traveller))


anyio.run(later)
"""


@pytest.mark.storm
def test_a_profile_is_saved_detected_reloaded_and_browsed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By one class of two fields."""
    monkeypatch.chdir(tmp_path)
    module = ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", module)
    for block in (FIRST, CHAT):
        assert run_block(block, module) == block.expected

    program = FIRST.code.partition("async def main")[0] + LATER
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "home_city='Busan' diet='vegetarian'\n"

    assert anyio.run(browsed, str(tmp_path / "memory")) == {"Busan", "vegetarian"}


async def browsed(folder: str) -> set[Any]:
    """Return the values that `factmem browse` shows of the only place."""
    options = Options(folder)
    async with LocalFileMemoryProvider(folder, storage=storage_of(options)) as store:
        browser = Browser(BrowserSession(store, options, actor="jane"))
        async with browser.run_test(size=(200, 30)) as pilot:
            tree = browser.query_one(PlacesTree)
            with anyio.fail_after(60):
                while tree.last_line < 2 or tree.cursor_line != 0:
                    await pilot.pause(0.01)
                tree.focus()
                await pilot.press("down", "down", "enter")
                while len(browser.query_one(FactTable).shown) < 2:
                    await pilot.pause(0.01)
            return {row.value for row in browser.query_one(FactTable).shown}
