"""Objects for each event loop, which do not keep it alive, and pauses of the garbage collector."""

import gc
import weakref
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest
from anyio.lowlevel import current_token

from factmem import Concept, LocalFileMemoryProvider, MemoryScope, MemorySubject, SingleFact
from factmem._concurrency import PerLoop, _Pause, paused_collection
from factmem.testing._facts import AGENT, PERSON, USER

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


MANY = 100_000


@pytest.fixture(autouse=True)
def _same_thresholds() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    assert gc.get_threshold() == before


def test_the_collector_is_paused_inside_only() -> None:
    before = gc.get_threshold()
    with paused_collection(MANY):
        assert gc.get_threshold()[0] == 0
        assert gc.isenabled()
    assert gc.get_threshold() == before


def test_few_objects_need_no_pause() -> None:
    before = gc.get_threshold()
    with paused_collection(10):
        assert gc.get_threshold() == before


def test_the_last_block_to_end_resumes() -> None:
    before = gc.get_threshold()
    first, second = paused_collection(MANY), paused_collection(MANY)
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert gc.get_threshold()[0] == 0
    second.__exit__(None, None, None)
    assert gc.get_threshold() == before


def test_an_error_inside_resumes() -> None:
    before = gc.get_threshold()
    with pytest.raises(ZeroDivisionError), paused_collection(MANY):
        raise ZeroDivisionError
    assert gc.get_threshold() == before


def test_a_program_that_disables_the_collector_meanwhile_is_respected() -> None:
    try:
        with paused_collection(MANY):
            gc.disable()
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_thresholds_set_meanwhile_are_kept() -> None:
    before = gc.get_threshold()
    try:
        with paused_collection(MANY):
            gc.set_threshold(123, 4, 5)
        assert gc.get_threshold() == (123, 4, 5)
    finally:
        gc.set_threshold(*before)


def test_a_child_forked_meanwhile_has_the_collector_on() -> None:
    before = gc.get_threshold()
    pause = _Pause()
    with pause:
        pause.start_in_child()
        assert gc.get_threshold() == before
    with pause:
        assert gc.get_threshold()[0] == 0


@pytest.mark.parametrize("facts_per_save", [10, 1000])
def test_a_large_place_is_read_without_a_collection(tmp_path: Path, facts_per_save: int) -> None:
    """However many facts were saved at once, the collector does not run while they are folded."""
    facts = [SingleFact(Concept(f"note-{each}", "A note"), "value") for each in range(5000)]
    writer, reader = LocalFileMemoryProvider(tmp_path), LocalFileMemoryProvider(tmp_path)

    async def save() -> None:
        async with anyio.create_task_group() as tasks:
            for first in range(0, len(facts), facts_per_save):
                some = facts[first : first + facts_per_save]
                tasks.start_soon(writer.save_many, some, USER, AGENT)

    anyio.run(save)
    anyio.run(reader.load_all, PERSON.of("nobody"), AGENT)  # the database is open now
    runs: list[str] = []

    def note(phase: str, info: dict[str, int]) -> None:
        runs.append(phase)

    gc.callbacks.append(note)
    try:
        gc.collect(0)
        runs.clear()
        anyio.run(reader.version, USER, AGENT)
    finally:
        gc.callbacks.remove(note)
    assert len(runs) <= 6  # those of the event loop, and one after each pause
