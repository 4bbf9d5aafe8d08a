"""A save that a program leaves behind: nothing is printed when it is collected."""

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import asyncio, sys, threading
from factmem.providers.local_file import LocalFileMemoryProvider
from factmem.testing._facts import AGENT, USER, theme

begun, over = threading.Event(), threading.Event()
store = LocalFileMemoryProvider(sys.argv[1])
commit = store._places._commits._commit
store._places._commits._commit = lambda batch: (begun.set(), over.wait(), commit(batch))
loop = asyncio.new_event_loop()
loop.slow_callback_duration = 60  # of a busy machine
saving = store.save(theme("dark"), USER, AGENT)
task = loop.create_task(saving)
loop.run_until_complete(asyncio.to_thread(lambda: None))
loop.run_until_complete(asyncio.to_thread(begun.wait))
loop.close()
task._log_destroy_pending = False
saving.close()
del saving, task, loop
over.set()
"""


@pytest.mark.storm
def test_a_save_that_is_collected_prints_nothing(tmp_path: Path) -> None:
    """Its loop ended while the save was being written."""
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error", "-c", PROGRAM, str(tmp_path / "memory")],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert (done.returncode, done.stderr) == (0, "")
