"""A portal runs async functions for threads, running loops, forked children and exit handlers."""

import contextvars
import os
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager

import anyio
import anyio.lowlevel
import pytest

from factmem.sync import Portal

WHO: contextvars.ContextVar[str] = contextvars.ContextVar("WHO", default="nobody")


@pytest.fixture
def portal() -> Iterator[Portal]:
    with Portal() as made:
        yield made


async def who() -> str:
    await anyio.lowlevel.checkpoint()
    return WHO.get()


async def fail() -> None:
    raise LookupError("as asked")


def test_calls_return_results_and_raise_errors(portal: Portal) -> None:
    async def doubled(number: int, *, plus: int = 0) -> int:
        return 2 * number + plus

    assert portal.call(doubled, 3) == 6
    assert portal.call(doubled, 3, plus=1) == 7
    with pytest.raises(LookupError, match="as asked"):
        portal.call(fail)


def test_all_calls_share_one_loop_and_one_thread(portal: Portal) -> None:
    async def thread() -> int:
        return threading.get_ident()

    with ThreadPoolExecutor(8) as pool:
        threads = set(pool.map(lambda _: portal.call(thread), range(40)))

    assert len(threads) == 1


@pytest.mark.parametrize("count", [400, pytest.param(2000, marks=pytest.mark.storm)])
def test_many_calls_from_32_threads_see_their_own_context(portal: Portal, count: int) -> None:
    def call(number: int) -> bool:
        WHO.set(str(number))
        return portal.call(who) == str(number)

    with ThreadPoolExecutor(32) as pool:
        done = pool.map(lambda n: contextvars.copy_context().run(call, n), range(count))

        assert all(done)


@pytest.mark.anyio
async def test_a_call_works_inside_a_running_loop(portal: Portal) -> None:
    assert portal.call(who) == "nobody"


def test_a_call_from_its_own_loop_raises(portal: Portal) -> None:
    async def nested() -> str:
        return portal.call(who)

    with pytest.raises(RuntimeError, match="await the async method here"):
        portal.call(nested)


@asynccontextmanager
async def logged(name: str, log: list[str]) -> AsyncIterator[str]:
    log.append(f"{name} in")
    async with anyio.create_task_group():  # must be exited in the task that entered it
        yield name
    log.append(f"{name} out")


def test_resources_are_entered_and_exited_in_one_task(portal: Portal) -> None:
    log: list[str] = []

    with portal.entered(logged("a", log)) as name:
        log.append(name)

    assert log == ["a in", "a", "a out"]


def test_a_closed_portal_starts_again_and_can_be_closed_twice() -> None:
    others = set(threading.enumerate())  # threads of portals that other tests left open
    portal = Portal()
    assert portal.call(who) == "nobody"
    portal.close()
    portal.close()

    assert portal.call(who) == "nobody"
    portal.close()
    left = set(threading.enumerate()) - others
    assert not [each for each in left if each.name == "factmem-portal"]


@pytest.mark.storm
def test_an_interrupt_cancels_the_function() -> None:
    """Ctrl-C reaches the waiting thread; the function must not continue unseen."""
    script = """
import os, signal, threading, anyio
from factmem.sync import Portal

# a shell that starts the tests in the background has them ignore the signal
signal.signal(signal.SIGINT, signal.default_int_handler)

portal, ended = Portal(), threading.Event()

async def wait():
    threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
    try:
        await anyio.sleep_forever()
    finally:
        ended.set()

try:
    portal.call(wait)
except KeyboardInterrupt:
    print("interrupted", ended.wait(60))
"""
    assert _printed(script) == "interrupted True"


@pytest.mark.storm
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_a_forked_child_works_and_exits() -> None:
    """Another thread may have held the lock during the fork; the interpreter exits normally."""
    script = """
import os, sys, threading, warnings
warnings.simplefilter("ignore", DeprecationWarning)  # Python warns of forks beside threads
from factmem.sync import Portal

portal = Portal()

async def pid():
    return os.getpid()

assert portal.call(pid) == os.getpid()
held, release = threading.Event(), threading.Event()
def hold():
    with portal._lock:
        held.set()
        release.wait()
threading.Thread(target=hold, daemon=True).start()
held.wait()
child = os.fork()
if child == 0:
    ok = portal.call(pid) == os.getpid()
    portal.close()
    sys.exit(0 if ok else 1)
release.set()
print(os.waitpid(child, 0)[1], portal.call(pid) == os.getpid())
"""
    assert _printed(script) == "0 True"


@pytest.mark.skipif(sys.version_info[:2] == (3, 12), reason="3.12 starts no thread at exit")
@pytest.mark.storm
def test_exit_handlers_can_call() -> None:
    script = """
import atexit
from factmem.sync.portal import SHARED_PORTAL

async def say(text):
    print(text)

atexit.register(SHARED_PORTAL.call, say, "at exit")
"""
    assert _printed(script) == "at exit"


def _printed(script: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout.strip()
