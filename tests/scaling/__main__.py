"""Fails when a parser's time grows faster than 2.6 times while its input doubles.

python -m tests.scaling                 all parsers and shapes
python -m tests.scaling folded words    those whose name holds one of the words

Processor time is measured, so other load on the machine does little harm; a measurement that fails
is repeated before it counts.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import pairwise, product
from time import process_time

from tests.scaling.parsers import JSON_PARSERS, TEXT_PARSERS
from tests.scaling.shapes import ARGUMENTS, TEXTS

MOST_GROWTH = 2.6
"""Linear time gives 2, quadratic time 4; the rest is noise of the caches."""

LEAST_TIME = 0.004
"""Seconds below which the clock says little."""

LARGEST = 2**18
DOUBLINGS = 3
TRIES = 4


def _seconds(parse: Callable[[str], object], text: str) -> float:
    start = process_time()
    with suppress(ValueError, TypeError, RecursionError):  # to reject such text is right
        parse(text)
    return process_time() - start


def _growth(parse: Callable[[str], object], shape: Callable[[int], str]) -> list[float]:
    """Return the factors between the times for doubling sizes; none if all sizes are fast."""
    size = 2**10
    while (_seconds(parse, shape(size))) < LEAST_TIME:
        size *= 2
        if size > LARGEST:
            return []
    sizes = [size * 2**step for step in range(DOUBLINGS + 1)]
    times = [min(_seconds(parse, shape(size)) for _ in range(2)) for size in sizes]
    return [after / before for before, after in pairwise(times)]


def _is_linear(parse: Callable[[str], object], shape: Callable[[int], str]) -> bool:
    growths = (_growth(parse, shape) for _ in range(TRIES))
    return any(all(factor <= MOST_GROWTH for factor in growth) for growth in growths)


def _cases() -> Iterator[tuple[str, str, Callable[[str], object], Callable[[int], str]]]:
    everywhere = {**TEXT_PARSERS, **JSON_PARSERS}
    for (name, parse), (kind, shape) in product(everywhere.items(), TEXTS.items()):
        yield name, kind, parse, shape
    for (name, parse), (kind, shape) in product(JSON_PARSERS.items(), ARGUMENTS.items()):
        yield name, kind, parse, shape


def main(wanted: list[str]) -> int:
    """Measure each parser with each shape; return the number of failures."""
    count, failed = 0, 0
    for name, kind, parse, shape in _cases():
        if wanted and not any(word in name for word in wanted):
            continue
        count += 1
        if not _is_linear(parse, shape):
            failed += 1
            factors = ", ".join(f"{factor:.1f}" for factor in _growth(parse, shape))
            print(f"{name} is not linear in {kind}: {factors}")
    print(f"{count} parsers and shapes, {failed} not linear")
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]) > 0)
