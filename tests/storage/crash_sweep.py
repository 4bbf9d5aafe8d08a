"""Runs scripts with every accident, and counts what they leave.

    python -m tests.storage.crash_sweep --states 1000000

prints the figures and exits with 1 if anything was violated.
"""

import argparse
import random
import sys
import time
from collections.abc import Iterator, Sequence

from tests.storage.crash_trial import (
    Accident,
    Append,
    Compact,
    Erase,
    Index,
    Outcome,
    Rest,
    Rotate,
    Step,
    Summarize,
    Trial,
)
from tests.storage.stores import ANN, BOB, PLAIN, SEALED, Kind

__all__ = ["SCRIPT", "accidents", "errors", "kills", "random_script", "sweep"]

SCRIPT: list[Step] = [
    Append("A", ((ANN, (20, 20, 20)),)),
    Append("A", ((ANN, (20, 90)),)),
    Rest("A"),
    Append("B", ((ANN, (40,)), (ANN, (600,)))),
    Rest("B"),
    Compact("A", ANN, 1),
    Rest("A"),
    Append("B", ((ANN, (20, 60, 20)), (BOB, (20,)))),
    Append("A", ((ANN, (20,)),)),
    Index("A", BOB),
    Summarize("B", ANN),
    Rest("B"),
    Rotate("B", is_rewriting=True),
    Append("A", ((BOB, (20, 300)),)),
    Rest("A"),
    Compact("B", ANN, 2),
    Erase("A", BOB),
    Append("B", ((ANN, (20,)),)),
    Append("A", ((BOB, (20,)),)),
    Rest("A"),
    Append("B", ((BOB, (20,)),)),
    Append("B", ((ANN, (20, 40)), (BOB, (90,)))),
]
"""A script of two processes that take turns and use every operation."""

_SHARES = (0.0, 0.3, 0.7, 1.0)
_WIDTHS = (1, 2, 3, 7)
_FAILING = ("append", "sync", "create", "rename", "remove", "destroy", "make_folder")


def random_script(rng: random.Random) -> list[Step]:
    """Return a random script of two or three actors, one after another."""
    script: list[Step] = [Append("A", ((ANN, (20,) * rng.randint(1, 5)),))]
    for _ in range(rng.randint(4, 8)):
        actor, name, dice = rng.choice("ABC"), rng.choice((ANN, ANN, BOB)), rng.random()
        if dice < 0.2:
            script.append(Compact(actor, name, rng.randint(0, 3)))
        elif dice < 0.28:
            script += [Index(actor, name), Erase(rng.choice("ABC"), name)]
        elif dice < 0.32:
            script.append(Index(actor, name) if dice < 0.3 else Summarize(actor, name))
        elif dice < 0.4:
            script.append(Rotate(actor, is_rewriting=rng.random() < 0.7))
        elif dice < 0.52:
            script.append(Rest(actor))
        else:
            calls = [
                (rng.choice((name, name, BOB)), _sizes(rng)) for _ in range(rng.choice((1, 1, 2)))
            ]
            script.append(Append(actor, tuple(calls)))
    return script


def _sizes(rng: random.Random) -> tuple[int, ...]:
    return tuple(rng.choice((10, 20, 40, 90, 400)) for _ in range(rng.choice((1, 1, 2, 3, 5))))


def kills(log: Sequence[str]) -> Iterator[Accident]:
    """Yield every way to kill an actor in a run with these calls."""
    for at, kind in enumerate(log, 1):
        for share in _SHARES if kind == "append" else (0.0,):
            yield Accident(kill_at=at, kill_share=share)


def errors(log: Sequence[str]) -> Iterator[Accident]:
    """Yield every way for calls to fail, and for an actor to be killed afterwards."""
    for at, kind in enumerate(log, 1):
        if not kind.startswith(_FAILING):
            continue
        for keeps_cache in (True, False):
            for width in _WIDTHS:
                yield Accident(fail_at=frozenset(range(at, at + width)), keeps_cache=keeps_cache)
            for after in (1, 2, 3):
                yield Accident(at + after, 0.5, frozenset({at}), keeps_cache)


def accidents(log: Sequence[str], *, is_failing: bool) -> list[Accident]:
    """Return every accident of one kind."""
    return list(errors(log) if is_failing else kills(log))


def sweep(
    kind: Kind,
    *,
    states: int,
    is_failing: bool,
    first: int = 0,
    step: int = 1,
    most: int = 6,
    share: float = 1.0,
    is_lone: bool = False,
    stops_early: bool = False,
) -> Outcome:
    """Run scripts with every accident until so many states were examined.

    Args:
        kind: How the store is kept.
        states: How many states are enough; with `is_failing`, states after an injected error.
        is_failing: Whether calls fail, rather than actors being killed.
        first: The first random script; `-1` begins with `SCRIPT`.
        step: How far the next random script is.
        most: How many states are examined before each call.
        share: Which part of the accidents of a script is tried, drawn and in any order.
        is_lone: Whether one process does it all and is never killed.
        stops_early: Whether the first violation, or false alarm, is enough.
    """
    total, number = Outcome(), first
    while True:
        rng = random.Random(number)
        script = SCRIPT if number < 0 else random_script(rng)
        if is_lone:
            script = [each._replace(actor="A") for each in script]
        base = Trial(kind, script, most=most, seed=number)
        total.add(base.run())
        if stops_early and total.violations:
            return total
        possible = accidents(base.disk.log, is_failing=is_failing)
        if is_lone:
            possible = [each for each in possible if not each.kill_at]
        for accident in rng.sample(possible, round(len(possible) * share)):
            trial = Trial(kind, script, accident=accident, most=most, seed=rng.randrange(1 << 30))
            total.add(trial.run())
            if (total.failed_states if is_failing else total.states) >= states:
                return total
            if stops_early and (total.violations or (is_lone and total.alarms)):
                return total
        number += step


def main() -> int:
    """Run the long form."""
    parser = argparse.ArgumentParser(description="Crash states and I/O errors, in great number")
    parser.add_argument(
        "--states",
        type=int,
        default=1_000_000,
        help="how many in all: a quarter of them after "
        "kills and power cuts and a quarter after I/O errors, in the clear and encrypted",
    )
    parser.add_argument(
        "--seed", type=int, default=-1, help="the first script; -1 is the one that does everything"
    )
    options = parser.parse_args()
    has_failed = False
    for kind in (PLAIN, SEALED):
        for is_failing in (False, True):
            start = time.monotonic()
            done = sweep(
                kind, states=options.states // 4, is_failing=is_failing, first=options.seed
            )
            what = "I/O errors" if is_failing else "kills and power cuts"
            print(
                f"{kind.name}, {what}: {done.states:,} states in {done.runs:,} runs, "
                f"{done.failed_states:,} after an error, {done.alarms:,} false alarms after an "
                f"error, {done.violations.total():,} violations, "
                f"{time.monotonic() - start:.0f} s",
                flush=True,
            )
            for name, count in done.violations.most_common():
                has_failed = True
                print(f"  {count:,} x {name}\n    {done.samples[name]}")
    return int(has_failed)


if __name__ == "__main__":
    sys.exit(main())
