"""What was given in the place of something else: named by its type, told what to write instead.

A value is never in a message: it may be a key, or what somebody said. Parts are known by what they
can do and not by their class; nothing of one is called or read beyond the names that it must have.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
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


def expect(value: object, kind: type[T], name: str, example: str) -> T:
    """Return an argument that is of one kind.

    Args:
        value: The argument.
        kind: The class of which it must be an instance. A bool is no int.
        name: What the argument is called.
        example: A correct call.

    Raises:
        TypeError: It is of another kind.
    """
    if isinstance(value, kind) and not (isinstance(value, bool) and kind is not bool):
        return value
    article = "an" if kind.__name__[0].lower() in "aeio" else "a"
    raise TypeError(f"{name} must be {article} {kind.__name__}, not {kind_of(value)}: {example}")


def expect_function(value: T, name: str, example: str) -> T:
    """Return an argument that can be called and is no class.

    Raises:
        TypeError: It cannot be called, or is a class.
    """
    if callable(value) and not isinstance(value, type):
        return value
    raise TypeError(f"{name} must be a function, not {kind_of(value)}: {example}")


def expect_all(values: object, kind: type[T], name: str, example: str) -> tuple[T, ...]:
    """Return the members of a list whose members must be of one kind.

    A string, a mapping and a class are not lists, although Python iterates over them.

    Args:
        values: The argument.
        kind: The class of each member.
        name: What the argument is called.
        example: A correct call.

    Raises:
        TypeError: It is no list, or a member is of another kind.
    """
    wanted = f"{name} must be a list" + ("" if kind is object else f" of {kind.__name__}")
    is_one = isinstance(values, str | bytes | bytearray | Mapping | type)
    if is_one or not isinstance(values, Iterable):
        raise TypeError(f"{wanted}, not {kind_of(values)}: {example}")
    members: tuple[Any, ...] = tuple(values)
    for member in members:
        if not isinstance(member, kind):
            raise TypeError(f"{wanted}, not of {kind_of(member)}: {example}")
    return members


def expect_methods(value: T, methods: Sequence[str], name: str, example: str) -> T:
    """Return an argument that has the methods of a protocol.

    Args:
        value: The argument. A class has none of the methods, as it must be instantiated first.
        methods: The names of the methods.
        name: What the argument is called.
        example: A correct call.

    Raises:
        TypeError: A method is missing.
    """
    lacking = methods_lacking(value, *methods)
    if not lacking:
        return value
    raise TypeError(
        f"{name} must have {_series(methods)}; {kind_of(value)} has no {_series(lacking)}: {example}"
    )


def expect_member(value: object, members: type[E], name: str) -> E:
    """Return the member of a string enum that is passed as itself or as its value.

    Raises:
        TypeError: It is neither a member nor a string.
        ValueError: It is a string that is no member's value.
    """
    for member in members:
        if member == value:
            return member
    names = ", ".join(f"{members.__name__}.{member.name}" for member in members)
    error, other = (
        (ValueError, "another string") if isinstance(value, str) else (TypeError, kind_of(value))
    )
    raise error(f"{name} must be one of {names}, not {other}")


def _series(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
