"""Programs that fork beside threads and SQLite, and one that leaves a save behind."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

LOCKED = """
import ctypes, os, sqlite3, sys, anyio, _sqlite3
library = ctypes.PyDLL(_sqlite3.__file__)
library.sqlite3_mutex_alloc.restype = ctypes.c_void_p
library.sqlite3_mutex_enter.argtypes = library.sqlite3_mutex_leave.argtypes = [ctypes.c_void_p]
mutexes = [library.sqlite3_mutex_alloc(number) for number in (3, 5, 11)]  # as other threads may
os.register_at_fork(
    before=lambda: [library.sqlite3_mutex_enter(each) for each in mutexes],
    after_in_parent=lambda: [library.sqlite3_mutex_leave(each) for each in mutexes],
)
from factmem.providers.local_file import LocalFileMemoryProvider
from factmem.testing._facts import AGENT, THEME, USER, theme
store = LocalFileMemoryProvider(sys.argv[1])
anyio.run(store.save, theme("dark"), USER, AGENT)
child = os.fork()
if child == 0:
    anyio.run(store.save, theme("dim"), USER, AGENT)
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
anyio.run(store.save, theme("light"), USER, AGENT)
saved = [each.fact.value for each in anyio.run(store.history, THEME, USER, AGENT)]
assert saved == ["dark", "dim", "light"], saved
"""

THREADS = """
import os, sys, threading, time, anyio
from factmem.providers.local_file import LocalFileMemoryProvider
from factmem.testing._facts import AGENT, USER, theme
root, shared, failed = sys.argv[1], LocalFileMemoryProvider(sys.argv[1] + "/shared"), []
def fork(number):
    for turn in range(12):
        own = LocalFileMemoryProvider(f"{root}/{number}-{turn % 3}")
        anyio.run(own.save, theme("dark"), USER, AGENT)
        child = os.fork()
        if child == 0:
            anyio.run(shared.save, theme("dim"), USER, AGENT)
            os._exit(0)
        anyio.run(own.aclose)
        if os.waitpid(child, 0)[1]:
            failed.append(child)
sys.unraisablehook = lambda unraisable: failed.append(unraisable.exc_value)
threads = [threading.Thread(target=fork, args=[number]) for number in range(3)]
for each in threads:
    each.start()
while any(each.is_alive() for each in threads):
    anyio.run(shared.save, theme("light"), USER, AGENT)
sys.exit(len(failed))
"""

CALLBACK = """
import os, sys, anyio
from factmem.errors import FactmemError
from factmem.providers.local_file import LocalFileMemoryProvider
from factmem.testing._facts import AGENT, USER, theme
async def main():
    async with LocalFileMemoryProvider(sys.argv[1]) as store:
        await store.save(theme("dark"), USER, AGENT)
        def report(done, total):
            if os.fork() == 0:
                os._exit(0)
            os.wait()
        try:
            await store.verify(progress=report)
        except FactmemError:
            pass
        await store.save(theme("dim"), USER, AGENT)
        await store.verify()
anyio.run(main)
"""

BESIDE = """
import os, sys, threading, anyio
from factmem.models.places import MemorySubject
from factmem.providers.local_file import LocalFileMemoryProvider
from factmem.testing._facts import AGENT, theme
person = MemorySubject("person", "A person", 1, per_entity=True)
numbers, done = [], threading.Event()
def fork():
    if os.fork() == 0:
        os._exit(0)
    os.wait()
    done.set()
thread = threading.Thread(target=fork)
def report(number, total):
    numbers.append(number)
    if len(numbers) == 1:
        thread.start()
    done.wait(0.01)
async def main():
    async with LocalFileMemoryProvider(sys.argv[1]) as store:
        for number in range(200):
            await store.save(theme("dark"), person.of(str(number)), AGENT)
        await store.verify(progress=report)
anyio.run(main)
assert numbers.count(1) == 2, numbers.count(1)
"""


LEFT = """
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


STRICT = ["-X", "dev", "-W", "error"]
FORKS = ["-W", "ignore::DeprecationWarning"]
"""Python 3.12 warns of every fork beside threads, which is what this is about."""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="Windows has no fork")
@pytest.mark.parametrize(
    ("options", "program"),
    [
        *((FORKS, program) for program in (LOCKED, CALLBACK, BESIDE)),
        pytest.param(FORKS, THREADS, marks=pytest.mark.storm),
        pytest.param(STRICT, LEFT, marks=pytest.mark.storm),
    ],
    ids=["locked", "callback", "beside", "threads", "left"],
)
def test_no_program_hangs_or_warns(tmp_path: Path, options: list[str], program: str) -> None:
    """Neither a parent nor a child, which would hold the lock of the store meanwhile."""
    command = [sys.executable, *options, "-c", program, str(tmp_path / "store")]

    done = subprocess.run(command, timeout=50, capture_output=True, text=True, check=False)

    assert (done.returncode, done.stderr) == (0, "")
