"""Pausing the garbage collector: it is resumed, whatever happens in the block."""

import gc
from collections.abc import Iterator

import pytest

from factmem.concurrency.garbage import _Pause, paused_collection
from factmem.ledger.entries import encoded, stamped
from factmem.providers._arguments import stored_facts
from factmem.providers._place_reader import PlaceView
from factmem.storage.base import (
    JournalName,
    Position,
    Reading,
    Record,
)
from factmem.testing.facts import theme

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


@pytest.mark.parametrize("facts_per_record", [1, 1000])
def test_a_large_place_is_folded_without_a_collection(facts_per_record: int) -> None:
    """However many facts a record has, the collector does not run."""
    facts = stored_facts([theme(f"value {each}") for each in range(facts_per_record)])
    line = stamped(encoded(facts), "2026-01-01T00:00:00.000000Z")
    records = [Record(each + 1, line) for each in range(5000 // facts_per_record)]
    runs: list[str] = []

    def note(phase: str, info: dict[str, int]) -> None:
        runs.append(phase)

    def read(name: JournalName, after: Position | None) -> Reading:
        gc.callbacks.append(note)
        gc.collect(0)
        runs.clear()
        return Reading(records, None, is_from_start=True, is_end=True)

    view = PlaceView()
    try:
        view.follow(("a",), read)
    finally:
        gc.callbacks.remove(note)
    assert view.is_warm
    assert len(runs) <= 2  # none, or one when the pause is over
