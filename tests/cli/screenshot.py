"""The picture of the browser in the README: `python -m tests.cli.screenshot` writes it again.

`tests/cli/test_screenshot.py` compares the strings in it with the program's current screen.
"""

import re
import sys
import tempfile
from datetime import UTC, datetime
from html import unescape
from pathlib import Path

import anyio

from factmem import (
    Concept,
    FactSource,
    FactType,
    LocalFileMemoryProvider,
    MemoryScope,
    MemorySubject,
    MultipleFacts,
    SingleFact,
    SourceKind,
)
from factmem._cli.browse.browser import Browser, BrowserSession
from factmem._cli.browse.widgets import FactTable, PlacesTree
from factmem._cli.options import Options
from factmem.models.facts import AnyFact

FILE = Path(__file__).parents[2] / "docs" / "images" / "browse.svg"

_WHEN = datetime(2024, 3, 1, 9, 30, tzinfo=UTC)
_FACTS: tuple[AnyFact, ...] = (
    SingleFact(Concept("preferred-language", ""), "Kotlin", timestamp=_WHEN),
    SingleFact(Concept("ide-theme", ""), "dark", timestamp=_WHEN),
    SingleFact(Concept("age", "", value_type=int), 36, timestamp=_WHEN),
    MultipleFacts(Concept("pets", "", FactType.MULTIPLE), ["Miso", "Rex"], timestamp=_WHEN),
    SingleFact(
        Concept("home", ""),
        "Seoul, 서울",
        timestamp=_WHEN,
        source=FactSource(SourceKind.USER, "chat-7", 3, "I moved to Seoul last week"),
    ),
)


async def _picture(folder: str) -> str:
    user = MemorySubject("user", "", priority_level=1, per_entity=True)
    app = MemoryScope.Product("my-app")
    # The store records a save at its clock's time, so a fixed clock gives the same picture each
    # time.
    async with LocalFileMemoryProvider(folder, clock=lambda: _WHEN) as store:
        for name in ("alice", "bob"):
            await store.save_many(_FACTS, user.of(name), app)
        session = BrowserSession(store, Options(folder))
        session.title = "memory"
        browser = Browser(session)
        async with browser.run_test(size=(120, 18)) as pilot:
            await pilot.pause(0.3)
            with anyio.fail_after(60):
                while not browser.query_one(FactTable).has_focus:
                    await pilot.pause(0.05)
            browser.query_one(PlacesTree).focus()
            await pilot.press("down", "down", "enter")
            with anyio.fail_after(60):
                while not browser.query_one(FactTable).shown:
                    await pilot.pause(0.05)
            await pilot.pause(0.3)
            return browser.export_screenshot(title="factmem browse")


def picture() -> str:
    """Return the picture that the program draws now."""
    with tempfile.TemporaryDirectory() as folder:
        return anyio.run(_picture, folder)


def texts(svg: str) -> list[str]:
    """Return the strings in a picture. Its class names differ between runs."""
    found = re.findall(r"<text[^>]*>([^<]*)</text>", svg)
    return [text for each in found if (text := unescape(each).replace("\xa0", " ").strip())]


def main() -> None:
    """Write the picture."""
    FILE.parent.mkdir(parents=True, exist_ok=True)
    FILE.write_text(picture())
    sys.stdout.write(f"Wrote {FILE}\n")


if __name__ == "__main__":
    main()
