"""Argument checks. Errors name the type that was passed and show a correct call.

A message never contains a value, which may be a key or a user's words. Parts are known by their
methods and not by their class.
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from inspect import getattr_static
from os import PathLike
from typing import Any, TypeVar

E = TypeVar("E", bound=StrEnum)
T = TypeVar("T")


def kind_of(value: object) -> str:
    """Return the name of a value's type; a class is named as a class."""
    return f"the class {value.__name__}" if isinstance(value, type) else type(value).__name__


def has_name(value: object, name: str) -> bool:
    """Whether there is an attribute. A property is not read, as it may load a model."""
    try:
        getattr_static(value, name)
    except AttributeError:
        return hasattr(value, name)
    return True


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


def expect_path(value: object, name: str, example: str) -> str | PathLike[str]:
    """Return an argument that is a path.

    Raises:
        TypeError: It is neither a string nor an `os.PathLike`.
    """
    if isinstance(value, str | PathLike):
        return value
    raise TypeError(f"{name} must be a path, not {kind_of(value)}: {example}")


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
    if type(values) is not list and type(values) is not tuple:  # the usual ones, at less cost
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
    is_class = isinstance(value, type)
    lacking = [name for name in methods if is_class or not callable(getattr(value, name, None))]
    if not lacking:
        return value
    raise TypeError(
        f"{name} must have {_series(methods)}; {kind_of(value)} has no {_series(lacking)}: {example}"
    )


def expect_member(value: object, members: type[E], name: str, example: str = "") -> E:
    """Return the member of a string enum that is passed as itself or as its value.

    Raises:
        TypeError: It is neither a member nor a string.
        ValueError: It is a string that is no member's value.
    """
    if isinstance(value, members):  # nearly always, and to walk an enum takes a microsecond
        return value
    for member in members:
        if member == value:
            return member
    names = ", ".join(f"{members.__name__}.{member.name}" for member in members)
    error, other = (
        (ValueError, "another string") if isinstance(value, str) else (TypeError, kind_of(value))
    )
    shown = f": {example}" if example else ""
    raise error(f"{name} must be one of {names}, not {other}{shown}")


def _series(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
