"""What was given in the place of something else: named by its type, told what to write instead.

A value is never in a message: it may be a key, or what somebody said. Parts are known by what they
can do and not by their class; nothing of one is called or read beyond the names that it must have.
"""

from collections.abc import Callable, Iterable
from enum import StrEnum
from inspect import getattr_static
from typing import Any, TypeVar

E = TypeVar("E", bound=StrEnum)
F = TypeVar("F", bound=Callable[..., Any])

T = TypeVar("T")


def kind_of(given: object) -> str:
    """Name what was given by its type alone."""
    return f"the class {given.__name__}" if isinstance(given, type) else type(given).__name__


def methods_lacking(given: object, *methods: str) -> list[str]:
    """Return the methods that something lacks; of a class none are there, as it must be made."""
    if isinstance(given, type):
        return list(methods)
    return [name for name in methods if not callable(getattr(given, name, None))]


def has_name(given: object, name: str) -> bool:
    """Whether there is an attribute; a property is not asked, as it may load a model."""
    try:
        getattr_static(given, name)
    except AttributeError:
        return hasattr(given, name)
    return True


def checked_function(given: F, what: str, example: str) -> F:
    """Return a function.

    Raises:
        TypeError: It cannot be called, or is a class.
    """
    if isinstance(given, type) or not callable(given):
        raise TypeError(f"{what}, not {kind_of(given)}: {example}")
    return given


def checked_clock(clock: F) -> F:
    """Return `clock` if it can be asked for the time.

    Raises:
        TypeError: It is something else, such as a time.
    """
    return checked_function(
        clock, "A clock is a function that tells the time", "clock=lambda: datetime.now(UTC)"
    )


def checked_token_counter(token_counter: F) -> F:
    """Return `token_counter` if it can be called.

    Raises:
        TypeError: It is something else, such as a number.
    """
    return checked_function(
        token_counter,
        "token_counter is a function that counts the tokens of a text",
        "token_counter=tiktoken_counter()",
    )


def check_max_tokens(max_tokens: int | None) -> None:
    """Make sure that a budget is a number.

    Raises:
        TypeError: It is something else.
    """
    if max_tokens is not None and not isinstance(max_tokens, int):
        raise TypeError(
            f"max_tokens is a whole number, not {kind_of(max_tokens)}: max_tokens=500, or None for "
            f"no limit"
        )


def listed(given: object, what: str, example: str) -> tuple[Any, ...]:
    """Return what is in a list, or in anything else that can be walked but a text or a mapping.

    Raises:
        TypeError: It is no list.
    """
    if type(given) is list or type(given) is tuple:
        return tuple(given)
    is_one = isinstance(given, str | bytes | bytearray | dict | type)
    if is_one or not isinstance(given, Iterable):
        raise TypeError(f"{what}, not {kind_of(given)}: {example}")
    return tuple(given)


def listed_as(kind: type[T], given: object, name: str, example: str) -> tuple[T, ...]:
    """Return what is in a list of one kind of thing.

    Args:
        kind: What each of them is.
        given: What was given for the list.
        name: What the list is called.
        example: What to write instead.

    Raises:
        TypeError: It is no list, or something else is in it.
    """
    what = f"{name} are a list of {kind.__name__}"
    found = listed(given, what, example)
    for each in found:
        if not isinstance(each, kind):
            raise TypeError(f"{what}, not of {kind_of(each)}: {example}")
    return found


def checked_member(members: type[E], given: object, what: str, advice: str = "") -> E:
    """Return the member that is given, or named by its text.

    Raises:
        ValueError: It is a text, and none of their names.
        TypeError: It is something else.
    """
    for member in members:
        if member == given:
            return member
    names = ", ".join(f"{members.__name__}.{member.name}" for member in members)
    is_text = isinstance(given, str)
    instead = "and the text given is none" if is_text else f"not {kind_of(given)}"
    error = ValueError if is_text else TypeError
    raise error(f"{what} is one of {names}, {instead}{advice}")


def misfit_of(concept: object, fact: str, other: str) -> TypeError | ValueError:
    """Return what is wrong with the first argument of a fact, which is no concept of its kind."""
    keyword = getattr(concept, "keyword", None)
    if isinstance(concept, type) or not isinstance(keyword, str):
        example = '"dark"' if fact == "SingleFact" else '["dark"]'
        return TypeError(
            f"A fact is about a Concept, not {kind_of(concept)}: "
            f'{fact}(Concept("theme", "The theme of the IDE"), {example})'
        )
    many = "many values" if fact == "SingleFact" else "one value"
    return ValueError(f"The concept {keyword!r} holds {many}: use {other}")


def check_values(values: object, keyword: str) -> None:
    """Make sure that the values of a fact can be walked, and are not the letters of a text.

    Raises:
        TypeError: They are one text, or cannot be walked.
    """
    if type(values) is list or type(values) is tuple:
        return  # as most are
    if isinstance(values, str | bytes):
        raise TypeError(f"The values for {keyword!r} are one text: give a list of values")
    if isinstance(values, type) or not isinstance(values, Iterable):
        raise TypeError(f"The values for {keyword!r} are a list, not {kind_of(values)}")
