"""The short form of four processes that save at once."""

from pathlib import Path

import pytest

from factmem import Key
from tests.storms.many_processes import PROCESSES, TASKS, many_processes

pytestmark = pytest.mark.storm

SAVES = 5


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("places", [1, 50])
@pytest.mark.parametrize("key", [None, Key.generate().to_base64()], ids=["plain", "encrypted"])
async def test_processes_that_save_at_once(tmp_path: Path, key: str | None, places: int) -> None:
    """Nothing is lost, no save fails, and this process sees each after it has returned."""
    outcome = await many_processes(tmp_path / "store", saves=SAVES, places=places, key=key)

    assert outcome.is_good, outcome
    assert outcome.saved == PROCESSES * TASKS * SAVES
    assert outcome.looks > 0
