"""Fails if the time of a parser or an operation grows over 2.6 times while its input doubles.

python -m tests.scaling                 all parsers and shapes, and all operations
python -m tests.scaling folded words    those whose name holds one of the words

Processor time is measured, so other load on the machine does little harm; a measurement that fails
is repeated before it counts.
"""

import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import product
from time import process_time
from typing import Any

from tests.scaling.operations import OPERATIONS
from tests.scaling.parsers import JSON_PARSERS, TEXT_PARSERS
from tests.scaling.shapes import ARGUMENTS, TEXTS

MOST_GROWTH = 2.6
"""Linear time gives 2, quadratic time 4; the rest is noise of the caches."""

LEAST_TIME = 0.004
"""Seconds below which the clock says little."""

LARGEST = 2**18
DOUBLINGS = 3
TRIES = 4


def _seconds(parse: Callable[[Any], object], text: Any) -> float:
    gc.collect()
    gc.disable()  # a collection walks through everything that the process holds
    try:
        start = process_time()
        with suppress(ValueError, TypeError, RecursionError):  # to reject such text is right
            parse(text)
        return process_time() - start
    finally:
        gc.enable()


def _growth(parse: Callable[[Any], object], shape: Callable[[int], Any]) -> float:
    """Return the factor per doubling, over three doublings; 1 if all sizes are fast.

    A single doubling would not do: the step from one cache of the processor to the next costs a
    factor of 4 once.
    """
    size = 2**10
    while (_seconds(parse, shape(size))) < LEAST_TIME:
        size *= 2
        if size > LARGEST:
            return 1.0
    # Made anew each time: an operation may change what it is done to.
    before = min(_seconds(parse, shape(size)) for _ in range(3))
    after = min(_seconds(parse, shape(size * 2**DOUBLINGS)) for _ in range(2))
    growth: float = (after / before) ** (1 / DOUBLINGS)
    return growth


def _fails(parse: Callable[[Any], object], shape: Callable[[int], Any]) -> float | None:
    """Return the growth if it is too fast in every try."""
    growths: list[float] = []
    for _ in range(TRIES):
        growths.append(_growth(parse, shape))
        if growths[-1] <= MOST_GROWTH:
            return None
    return min(growths)


def _cases() -> Iterator[tuple[str, str, Callable[[Any], object], Callable[[int], Any]]]:
    everywhere = {**TEXT_PARSERS, **JSON_PARSERS}
    for (name, parse), (kind, shape) in product(everywhere.items(), TEXTS.items()):
        yield name, kind, parse, shape
    for (name, parse), (kind, shape) in product(JSON_PARSERS.items(), ARGUMENTS.items()):
        yield name, kind, parse, shape
    for name, operation in OPERATIONS.items():
        yield name, "how much there is", operation.run, operation.prepare


def main(wanted: list[str]) -> int:
    """Measure each parser with each shape; return the number of failures."""
    count, failed = 0, 0
    for name, kind, parse, shape in _cases():
        if wanted and not any(word in name for word in wanted):
            continue
        count += 1
        if (growth := _fails(parse, shape)) is not None:
            failed += 1
            print(f"{name} is not linear in {kind}: {growth:.1f} times per doubling")
    print(f"{count} parsers and shapes, {failed} not linear")
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]) > 0)
