"""Argument checks: one wording, the type that was passed, a correct call, never a value."""

from enum import StrEnum

import pytest

from factmem._arguments import expect, expect_all, expect_function, expect_member, expect_methods
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
    ],
)
def test_another_kind_is_named_by_its_type(value: object, kind: type, message: str) -> None:
    """The message holds no value, as it may be a key."""
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
def test_what_is_no_list_is_refused(values: object, message: str) -> None:
    """A string would be taken for the list of its letters."""
    with pytest.raises(TypeError) as caught:
        expect_all(values, str, "names", "f(['a'])")

    assert str(caught.value) == message


def test_any_iterable_of_the_kind_is_a_list() -> None:
    """A generator can be passed, and is walked once."""
    assert expect_all((name for name in "ab"), str, "names", "") == ("a", "b")


def test_a_class_is_no_function() -> None:
    """Calling it would make an instance, by mistake."""
    assert expect_function(len, "counter", "") is len
    for value, kind in ((Clock, "the class Clock"), (SECRET, "str")):
        with pytest.raises(TypeError) as caught:
            expect_function(value, "counter", "f(len)")
        assert str(caught.value) == f"counter must be a function, not {kind}: f(len)"


def test_missing_methods_are_named() -> None:
    """A class has none of them, as it must be instantiated first."""
    clock = Clock()
    assert expect_methods(clock, ["now"], "clock", "") is clock
    with pytest.raises(TypeError) as caught:
        expect_methods(clock, ["now", "set", "stop"], "clock", "Clock()")
    assert (
        str(caught.value) == "clock must have now, set and stop; Clock has no set and stop: Clock()"
    )
    with pytest.raises(TypeError, match="the class Clock has no now: "):
        expect_methods(Clock, ["now"], "clock", "Clock()")


def test_a_member_is_passed_as_itself_or_by_its_value() -> None:
    """Another string and another type have different errors."""
    assert expect_member("dark", Shade, "shade") is Shade.DARK
    with pytest.raises(
        ValueError, match=r"^shade must be one of Shade\.DARK, Shade\.LIGHT, not an"
    ) as caught:
        expect_member(SECRET, Shade, "shade")
    assert SECRET not in str(caught.value)
    with pytest.raises(TypeError, match=r"Shade\.LIGHT, not int$"):
        expect_member(5, Shade, "shade")
