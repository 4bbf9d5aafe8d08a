"""Objects for each event loop live as long as the loop, and do not keep it alive."""

import gc
import weakref
from pathlib import Path

import anyio
import pytest
from anyio.lowlevel import current_token

from factmem import Concept, LocalFileMemoryProvider, MemoryScope, MemorySubject, SingleFact
from factmem._concurrency import PerLoop

CITY = Concept("city", "Where the user lives")
WHERE = MemorySubject.EVERYTHING, MemoryScope.Product("app")


def test_each_loop_has_its_own_object() -> None:
    made: list[object] = []
    per_loop: PerLoop[object] = PerLoop(object)

    async def look() -> None:
        assert per_loop.get() is per_loop.get()
        made.append(per_loop.get())

    for backend in ("asyncio", "trio", "asyncio"):
        anyio.run(look, backend=backend)
    assert len(set(map(id, made))) == 3


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_store_keeps_no_ended_loop(tmp_path: Path, backend: str) -> None:
    """A worker that runs `asyncio.run` for each job, with one store, must not grow."""
    store = LocalFileMemoryProvider(tmp_path)
    loops: list[weakref.ref[object]] = []

    async def job() -> None:
        loops.append(weakref.ref(current_token().native_token))
        await store.save(SingleFact(CITY, "Busan"), *WHERE)
        await store.forget(*WHERE, concept=Concept("pets", "The user's pets"))
        assert [fact.value for fact in await store.load(CITY, *WHERE)] == ["Busan"]

    for _ in range(3):
        anyio.run(job, backend=backend)
    gc.collect()
    assert [loop() for loop in loops] == [None] * 3
    anyio.run(store.aclose, backend=backend)
