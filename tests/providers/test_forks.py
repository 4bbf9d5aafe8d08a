"""Forks while other threads open stores, fork as well, or use SQLite for something else."""

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
person, numbers, done = MemorySubject("person", "A person", 1, per_entity=True), [], threading.Event()
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


@pytest.mark.skipif(not hasattr(os, "fork"), reason="Windows has no fork")
@pytest.mark.parametrize(
    "program", [LOCKED, CALLBACK, BESIDE, pytest.param(THREADS, marks=pytest.mark.storm)]
)
def test_no_fork_hangs(tmp_path: Path, program: str) -> None:
    """Neither the parent nor a child, which would hold the lock of the store meanwhile."""
    # Python 3.12 warns of every fork beside threads, which is what this is about.
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", program, str(tmp_path)]

    done = subprocess.run(command, timeout=50, capture_output=True, text=True, check=False)

    assert (done.returncode, done.stderr) == (0, "")
