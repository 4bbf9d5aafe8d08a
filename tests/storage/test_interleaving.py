"""Processes and threads make their file calls in any order, and each sees a correct state."""

import random
from functools import partial

import pytest

from tests.storage.interleaved_trial import InterleavedTrial, Violation, without_locks
from tests.storage.interleaver import Stage, StageLock
from tests.storage.stores import PLAIN, SEALED, Kind

pytestmark = pytest.mark.storm

KINDS = pytest.mark.parametrize("kind", [PLAIN, SEALED], ids=lambda kind: kind.name)


@KINDS
@pytest.mark.parametrize("part", range(4))
def test_every_order_gives_correct_results(kind: Kind, part: int) -> None:
    """Four processes, one with two threads: saves, rewrites, erasures, new keys."""
    for seed in range(part * 200, part * 200 + 200):
        InterleavedTrial(kind, seed).run()


@KINDS
def test_long_runs(kind: Kind) -> None:
    """They do more of the same in one store."""
    for seed in range(20):
        InterleavedTrial(kind, 10_000 + seed, length=40).run()


@KINDS
def test_without_working_locks_nothing_is_lost_silently(kind: Kind) -> None:
    """The read-back refuses what it cannot vouch for.

    But for one order of calls: a file is replaced right after it was compared. No call of the
    operating system does both at once, which is why network folders are refused.
    """
    saved, lost = list[int](), 0
    for seed in range(500):
        try:
            saved.append(without_locks(kind, seed))
        except Violation:
            lost += 1

    assert lost <= 11
    assert max(saved) == 8, "in some order no two actors conflicted"
    assert min(saved) < 8, "and in some other order two did"


def test_a_seed_repeats_an_order() -> None:
    """Another seed gives another order."""

    def order(seed: int) -> list[int]:
        stage, steps = Stage(random.Random(seed)), list[int]()

        def play(actor: int) -> None:
            for _ in range(10):
                stage.give_way()
                steps.append(actor)

        stage.run({str(actor): partial(play, actor) for actor in range(3)})
        return steps

    assert order(1) == order(1)
    assert order(1) != order(2)
    assert sorted(order(1)) == sorted(order(2))


def test_the_stage_detects_a_deadlock() -> None:
    """Two actors that wait for each other end the run."""

    def play(stage: Stage, first: StageLock, second: StageLock) -> None:
        with first:
            stage.give_way()
            with second:
                stage.give_way()

    def is_told(seed: int) -> bool:
        stage = Stage(random.Random(seed), share=1.0)
        one, other = StageLock(stage), StageLock(stage)
        parts = {"one": partial(play, stage, one, other), "two": partial(play, stage, other, one)}
        try:
            stage.run(parts)
        except AssertionError as exc:
            return "waits for another" in str(exc)
        return False

    assert any(is_told(seed) for seed in range(20))
