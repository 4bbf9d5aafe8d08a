"""Argument checks: one wording, the type that was passed, a correct call, never a value."""

from datetime import timedelta
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction
from math import inf, nan
from typing import Any

import pytest

from factmem._arguments import (
    expect,
    expect_all,
    expect_function,
    expect_member,
    expect_methods,
    expect_within,
)
from factmem.models import Concept

SECRET = "hunter2"


class Shade(StrEnum):
    DARK = "dark"
    LIGHT = "light"


class Clock:
    def now(self) -> int:
        return 0


@pytest.mark.parametrize(
    ("value", "kind", "message"),
    [
        (SECRET, int, "size must be an int, not str: f(1)"),
        (True, int, "size must be an int, not bool: f(1)"),
        (None, Concept, "size must be a Concept, not NoneType: f(1)"),
        (Concept, Concept, "size must be a Concept, not the class Concept: f(1)"),
        (SECRET, (Concept, int), "size must be a Concept or an int, not str: f(1)"),
    ],
)
def test_an_error_names_the_type(value: object, kind: type, message: str) -> None:
    """The message has no value, which may be a key."""
    with pytest.raises(TypeError) as caught:
        expect(value, kind, "size", "f(1)")

    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (SECRET, "names must be a list of str, not str: f(['a'])"),
        ({SECRET: 1}, "names must be a list of str, not dict: f(['a'])"),
        (list, "names must be a list of str, not the class list: f(['a'])"),
        (5, "names must be a list of str, not int: f(['a'])"),
        (["a", 5], "names must be a list of str, not of int: f(['a'])"),
    ],
)
def test_a_value_that_is_not_a_list_raises(values: object, message: str) -> None:
    """A string would become the list of its letters."""
    with pytest.raises(TypeError) as caught:
        expect_all(values, str, "names", "f(['a'])")

    assert str(caught.value) == message


def test_any_iterable_of_the_right_type_is_a_list() -> None:
    """A generator can be passed, and is read once."""
    assert expect_all((name for name in "ab"), str, "names", "") == ("a", "b")


def test_a_class_is_not_a_function() -> None:
    """Calling it would create an instance by mistake."""
    assert expect_function(len, "counter", "") is len
    for value, kind in ((Clock, "the class Clock"), (SECRET, "str")):
        with pytest.raises(TypeError) as caught:
            expect_function(value, "counter", "f(len)")
        assert str(caught.value) == f"counter must be a function, not {kind}: f(len)"


def test_missing_methods_are_named() -> None:
    """A class lacks all of them, because it must be instantiated first."""
    clock = Clock()
    assert expect_methods(clock, ["now"], "clock", "") is clock
    with pytest.raises(TypeError) as caught:
        expect_methods(clock, ["now", "set", "stop"], "clock", "Clock()")
    assert (
        str(caught.value) == "clock must have now, set and stop; Clock has no set and stop: Clock()"
    )
    with pytest.raises(TypeError, match="the class Clock has no now: "):
        expect_methods(Clock, ["now"], "clock", "Clock()")


def test_a_member_may_be_passed_by_its_value() -> None:
    """Another string and another type raise different errors."""
    assert expect_member("dark", Shade, "shade") is Shade.DARK
    with pytest.raises(
        ValueError, match=r"^shade must be one of Shade\.DARK, Shade\.LIGHT, not an"
    ) as caught:
        expect_member(SECRET, Shade, "shade")
    assert SECRET not in str(caught.value)
    with pytest.raises(TypeError, match=r"Shade\.LIGHT, not int$"):
        expect_member(5, Shade, "shade")


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
    for value, name in (
        (SECRET, "str"),
        (True, "bool"),
        (None, "NoneType"),
        (Decimal(1), "Decimal"),
    ):
        with pytest.raises(TypeError, match=rf"^size must be {message}, not {name}: f\(1\)$"):
            expect_within(value, kind, "size", "f(1)", **bounds)
