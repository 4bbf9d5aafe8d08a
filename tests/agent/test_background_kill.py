"""A process that is killed between its answer and the end of extraction."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from factmem.providers.local_file import LocalFileMemoryProvider
from tests.world import ALICE, PRODUCT

pytestmark = pytest.mark.storm

ROOT = Path(__file__).parent.parent.parent


@pytest.mark.parametrize(
    ("point", "heard", "batches"),
    [
        ("extraction", ["acknowledged", "Noted."], [0]),
        ("write", ["acknowledged", "Noted."], [0]),
        ("commit", ["acknowledged", "Noted."], [0]),
        ("end", ["acknowledged", "Noted.", "saved"], [3]),
    ],
)
async def test_a_killed_agent_loses_no_acknowledged_fact_and_leaves_no_part_of_a_batch(
    tmp_path: Path, anyio_backend_name: str, point: str, heard: list[str], batches: list[int]
) -> None:
    """Earlier saves are stored; of the three new facts, all are or none is."""
    done = subprocess.run(  # noqa: ASYNC221 - the test has nothing else to do
        [sys.executable, "-m", "tests.agent.killed", str(tmp_path), point, anyio_backend_name],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == -signal.SIGKILL, done.stderr
    assert done.stdout.split() == heard
    async with LocalFileMemoryProvider(tmp_path) as store:
        known = {fact.concept.keyword: fact.values for fact in await store.load_all(ALICE, PRODUCT)}
    assert known.pop("ide-theme") == ("dark",)
    assert len(known) in batches
    assert all(keyword.startswith("thing-") for keyword in known)
