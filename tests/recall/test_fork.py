"""A forked child can use the memory that it inherited, whatever its parent was doing."""

import os
import threading

import anyio
import pytest

from factmem.providers.in_memory import InMemoryProvider
from tests.doubles import TopicEmbedder
from tests.processes import apart
from tests.world import AGENT, ALICE, bare_note, found_values, recall_memory


def _forked(backend: str) -> None:
    store = InMemoryProvider()
    memory = recall_memory(store, embedder=TopicEmbedder())

    async def ask() -> None:
        assert found_values(await memory.recall("any animal?")) == ["cat"]

    async def save_and_ask() -> None:
        await store.save(bare_note("pet", "cat"), ALICE, AGENT)
        await ask()

    anyio.run(save_and_ask, backend=backend)
    is_held, may_end = threading.Event(), threading.Event()

    def hold() -> None:
        (index,) = memory._settings.indexes._indexes.values()
        with memory._settings.indexes._lock, index._lock:
            is_held.set()
            may_end.wait(60)

    holder = threading.Thread(target=hold)
    holder.start()
    assert is_held.wait(60)
    child = os.fork()
    if child == 0:
        try:
            anyio.run(ask, backend=backend)
        except BaseException:
            os._exit(1)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    may_end.set()
    holder.join()
    assert os.waitstatus_to_exitcode(status) == 0


@pytest.mark.storm
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_forked_child_starts_fresh(backend: str) -> None:
    """It waits for no lock that a thread of the parent held."""
    apart(_forked, backend, deadline=60)
