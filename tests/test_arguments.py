"""Bounds of numbers and spans: one wording, and a correct call.

The wrong calls of each room test what other arguments must be.
"""

from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from math import inf, nan
from typing import Any

import pytest

from factmem._arguments import expect_within


@pytest.mark.parametrize(
    ("kind", "bounds", "good", "bad", "message"),
    [
        (int, {"least": 1}, [1, 7], [0, -1], "an int of at least 1"),
        (float, {"least": 0}, [0, 0.5, inf, Fraction(1, 2)], [-0.1, nan], "a number of at least 0"),
        (float, {"least": 0, "most": 1}, [0, 1, 0.5], [1.1, nan], "a number from 0 to 1"),
        (float, {"above": 0, "most": 1}, [1, 0.1], [0, 2, nan], "a number above 0 and at most 1"),
        (float, {"above": 0}, [0.1], [0, nan], "a number above 0"),
        (float, {}, [-1, 0.1], [], "a number"),
        (
            timedelta,
            {"least": timedelta(0)},
            [timedelta(0), timedelta(days=1)],
            [timedelta(-1)],
            "a timedelta of at least 0",
        ),
        (timedelta, {"above": timedelta(0)}, [timedelta(1)], [timedelta(0)], "a timedelta above 0"),
    ],
)
def test_numbers_must_be_in_range(
    kind: type, bounds: dict[str, Any], good: list[Any], bad: list[Any], message: str
) -> None:
    """A number outside of the range would be a silent mistake, and so would NaN."""
    for value in good:
        assert expect_within(value, kind, "size", "f(1)", **bounds) is value
    for value in bad:
        with pytest.raises(ValueError, match=rf"^size must be {message}: f\(1\)$"):
            expect_within(value, kind, "size", "f(1)", **bounds)
    for value, name in (("7", "str"), (True, "bool"), (None, "NoneType"), (Decimal(1), "Decimal")):
        with pytest.raises(TypeError, match=rf"^size must be {message}, not {name}: f\(1\)$"):
            expect_within(value, kind, "size", "f(1)", **bounds)
