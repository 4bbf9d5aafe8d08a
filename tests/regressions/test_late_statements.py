"""Later statements win, even if the extraction of earlier ones took longer."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import anyio

from factmem.providers.local_file import LocalFileMemoryProvider
from factmem.testing.chat import ScriptedChatModel
from tests.memory.test_remembering import SlowModel
from tests.world import AGENT, ALICE, THEME, item, memory_of

NOW = datetime.now(UTC) - timedelta(minutes=5)
GREEN = {"facts": [item(value="green", quote="green theme")]}
NO_GREEN = {"facts": [item(value="green", quote="no green theme", action="retract")]}


def worker(root: Path, model: Any) -> Any:
    """Another process, as far as the store knows."""
    return memory_of(LocalFileMemoryProvider(root), model, concepts=[THEME])


async def themes(root: Path) -> list[str]:
    """The current theme."""
    return [f.value for f in await LocalFileMemoryProvider(root).load(THEME, ALICE, AGENT)]


async def test_a_slower_retraction_ends_nothing(tmp_path: Path) -> None:
    """It was said before the value was said again."""
    first = worker(tmp_path, ScriptedChatModel(GREEN))
    await first.remember("I use the green theme.", said_at=NOW)
    slow, quick = SlowModel(NO_GREEN), ScriptedChatModel(GREEN)
    reports: list[Any] = []

    async def retract() -> None:
        said_at = NOW + timedelta(seconds=1)
        text = "I use no green theme any more."
        reports.append(await worker(tmp_path, slow).remember(text, source="b", said_at=said_at))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(retract)
        await slow.asked.wait()
        later = NOW + timedelta(seconds=2)
        again = worker(tmp_path, quick)
        await again.remember("I use the green theme.", source="c", said_at=later)
        slow.go.set()

    assert await themes(tmp_path) == ["green"]
    assert reports[0].retracted == []
    [refused] = reports[0].refused
    assert (refused.value, refused.said_at) == ("green", NOW + timedelta(seconds=1))
