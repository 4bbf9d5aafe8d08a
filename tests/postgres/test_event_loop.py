"""Saves and reads of many tasks, event loops and threads; some are cancelled or fail."""

import asyncio
import gc
import random
import time
import weakref
from collections import Counter

import anyio
import pytest
from anyio.lowlevel import current_token

from factmem.models.places import MemorySubject
from factmem.providers.postgres import PostgresMemoryProvider
from factmem.testing._facts import AGENT, LANGUAGES, THEME, USER, languages, theme
from tests.postgres.cluster import Cluster
from tests.postgres.conftest import NewStore

PERSON = MemorySubject("person", "", 1, per_entity=True)

ON_ASYNCIO = pytest.mark.parametrize("anyio_backend", ["asyncio"])


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """Run each test on both event loops."""
    backend: str = request.param
    return backend


async def _warm(provider: PostgresMemoryProvider) -> None:
    """Open the connections, and read the place."""
    async with anyio.create_task_group() as group:
        for _ in range(4):
            group.start_soon(provider.save, languages("first"), USER, AGENT)
            group.start_soon(provider.load, LANGUAGES, USER, AGENT)
    await provider.load(LANGUAGES, USER, AGENT)


async def _values(provider: PostgresMemoryProvider, subject: MemorySubject = USER) -> Counter[str]:
    """Return how often each value was saved."""
    entries = await provider.entries(subject, AGENT)
    return Counter(
        str(value) for entry in entries for fact in entry["facts"] for value in fact["values"]
    )


async def test_the_event_loop_runs_while_the_server_is_silent(
    new_store: NewStore, cluster: Cluster
) -> None:
    """Tasks without the store do not wait for a save and a load of others."""
    provider = new_store()
    await _warm(provider)
    cluster.pause()
    try:
        async with anyio.create_task_group() as group:
            group.start_soon(provider.save, languages("kept"), USER, AGENT)
            group.start_soon(provider.load, LANGUAGES, USER, AGENT)
            for _ in range(40):
                await anyio.sleep(0.005)  # a call that blocks the loop fails at its own deadline
            cluster.resume()
    finally:
        cluster.resume()

    assert (await _values(provider))["kept"] == 1


async def test_more_reads_than_a_batch_gather_at_once(new_store: NewStore) -> None:
    """Each of them is answered."""
    provider, other = new_store(), new_store()
    await _warm(provider)
    await other.save(theme("dark"), USER, AGENT)
    found: list[str] = []

    async def load() -> None:
        found.extend(fact.value for fact in await provider.load(THEME, USER, AGENT))

    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            for _ in range(700):
                group.start_soon(load)

    assert found == ["dark"] * 700


async def test_an_unexpected_error_loses_no_connection(
    new_store: NewStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each save of the batch raises it, and the next one is stored."""
    provider = new_store(max_connections=1)
    await _warm(provider)
    with monkeypatch.context() as patched:
        patched.setattr(provider._places.clock, "micros", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            await provider.save(languages("refused"), USER, AGENT)

    with anyio.fail_after(60):
        await provider.save(languages("next"), USER, AGENT)

    found = await _values(provider)
    assert (found["refused"], found["next"]) == (0, 1)
    connections = provider._server.connections
    assert len(connections._idle) == 1
    assert connections._free._value == 1


@ON_ASYNCIO
@pytest.mark.parametrize("turns", range(4))
async def test_saves_survive_the_end_of_the_first_task(
    new_store: NewStore, cluster: Cluster, turns: int
) -> None:
    """asyncio's `Task.cancel` ends it at any step; the others share its batch."""
    provider = new_store(max_connections=1)
    await _warm(provider)
    cluster.pause()
    try:
        first = asyncio.create_task(provider.save(languages("ended"), USER, AGENT))
        others = [
            asyncio.create_task(provider.save(languages(f"v{number}"), USER, AGENT))
            for number in range(5)
        ]
        for _ in range(turns):
            await asyncio.sleep(0)
        first.cancel()
        late = asyncio.create_task(provider.save(languages("late"), USER, AGENT))
        await asyncio.sleep(0)
    finally:
        cluster.resume()

    with anyio.fail_after(60):
        for task in (*others, late):
            await task
    with pytest.raises(asyncio.CancelledError):
        await first
    found = await _values(provider)
    assert [found[f"v{number}"] for number in range(5)] == [1] * 5
    assert found["late"] == 1
    assert found["ended"] <= 1


async def test_cancelled_scopes_leave_whole_saves(new_store: NewStore, cluster: Cluster) -> None:
    """A save that was sent is waited for; one that was not begun is not done."""
    provider = new_store(max_connections=1)
    await _warm(provider)
    scopes = [anyio.CancelScope(), anyio.CancelScope()]

    async def save(value: str, number: int) -> None:
        with scopes[number]:
            await provider.save(languages(value), USER, AGENT)

    cluster.pause()
    try:
        async with anyio.create_task_group() as group:
            group.start_soon(save, "begun", 0)
            await anyio.wait_all_tasks_blocked()
            while provider._places._commits._queue:  # noqa: ASYNC110 - a thread takes it
                await anyio.sleep(0.001)
            group.start_soon(save, "queued", 1)
            group.start_soon(provider.save, languages("kept"), USER, AGENT)
            await anyio.wait_all_tasks_blocked()
            for scope in scopes:
                scope.cancel()
            await anyio.sleep(0.05)
            cluster.resume()
    finally:
        cluster.resume()

    found = await _values(provider)
    assert (found["begun"], found["queued"], found["kept"]) == (1, 0, 1)


async def test_event_loops_in_threads_share_a_store(
    new_store: NewStore, anyio_backend_name: str
) -> None:
    """Each has batches of its own, over the connections of all."""
    provider = new_store(max_connections=3)
    await _warm(provider)

    async def save_all(name: str) -> None:
        async with anyio.create_task_group() as group:
            for number in range(60):
                group.start_soon(provider.save, languages(f"{name}-{number}"), USER, AGENT)
        for number in range(20):
            await provider.save(languages(f"{name}+{number}"), USER, AGENT)
            assert await provider.load(LANGUAGES, USER, AGENT)

    def run(name: str) -> None:
        anyio.run(save_all, name, backend=anyio_backend_name)

    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            for name in "abcdef":
                group.start_soon(anyio.to_thread.run_sync, run, name)

    found = await _values(provider)
    assert sum(found[value] for value in found if value != "first") == 6 * 80
    assert max(found[value] for value in found if value != "first") == 1


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_store_keeps_no_ended_loop(new_store: NewStore, backend: str) -> None:
    """A worker that runs `asyncio.run` for each job, with one store, must not grow."""
    provider = new_store()
    loops: list[weakref.ref[object]] = []

    async def job() -> None:
        loops.append(weakref.ref(current_token().native_token))
        await _warm(provider)
        await provider.forget(USER, AGENT, concept=THEME)

    for _ in range(3):
        anyio.run(job, backend=backend)
    end = time.monotonic() + 60
    while any(loop() is not None for loop in loops):  # until worker threads have ended
        assert time.monotonic() < end
        gc.collect()


@ON_ASYNCIO
async def test_random_ends_of_tasks_lose_and_double_nothing(new_store: NewStore) -> None:
    """What was acknowledged is there once; what was cancelled is there once or not at all."""
    await _cancel_at_random(new_store(), seconds=1.5)


async def _cancel_at_random(provider: PostgresMemoryProvider, seconds: float) -> None:
    await _warm(provider)
    rng, started, acknowledged = random.Random(16), 0, set[str]()
    running: set[asyncio.Task[None]] = set()

    async def save(value: str) -> None:
        await provider.save(languages(value), PERSON.of(str(len(value) % 3)), AGENT)
        acknowledged.add(value)

    end = anyio.current_time() + seconds
    while anyio.current_time() < end:
        for _ in range(rng.randrange(40)):
            started += 1
            running.add(asyncio.create_task(save(f"v{started}")))
        for _ in range(rng.randrange(6)):
            await asyncio.sleep(0)
        await asyncio.sleep(rng.choice([0, 0, 0.001, 0.003]))
        for task in rng.sample(sorted(running, key=id), min(len(running), rng.randrange(12))):
            task.cancel()
        running = {task for task in running if not task.done()}
        if len(running) > 600:
            await asyncio.wait(running)
    with anyio.fail_after(60):
        await asyncio.gather(*running, return_exceptions=True)
    await provider.aclose()

    reader = PostgresMemoryProvider(provider._server.connections._source, store=provider._name)
    try:
        found = sum([await _values(reader, PERSON.of(str(n))) for n in range(3)], Counter[str]())
    finally:
        await reader.aclose()
    assert len(acknowledged) > 100
    assert started > len(acknowledged)
    assert acknowledged - set(found) == set()
    assert {value: times for value, times in found.items() if times > 1 and value != "first"} == {}
