"""Argument checks. Errors name the type that was passed and show a correct call.

A message never contains a value, which may be a key or a user's words. Parts are known by their
methods and not by their class.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from enum import StrEnum
from inspect import getattr_static
from numbers import Real
from os import PathLike
from typing import Any, TypeVar

from factmem.errors import InputTypeError, InputValueError

E = TypeVar("E", bound=StrEnum)
Q = TypeVar("Q", int, float, timedelta)
T = TypeVar("T")

_REAL = (int, float, Real)
"""The quick ones first: an abstract class answers slowly."""


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


def expect(value: object, kind: type[T] | tuple[type[T], ...], name: str, example: str) -> T:
    """Return an argument that is of one kind.

    Args:
        value: The argument.
        kind: The class of which it must be an instance, or several. A bool is no int.
        name: What the argument is called.
        example: A correct call.

    Raises:
        TypeError: It is of another kind.
    """
    if isinstance(value, kind) and not (isinstance(value, bool) and kind is not bool):
        return value
    wanted = " or ".join(map(_with_article, kind if isinstance(kind, tuple) else (kind,)))
    raise InputTypeError(f"{name} must be {wanted}, not {kind_of(value)}: {example}")


def expect_within(
    value: Q,
    kind: type[int | float | timedelta],
    name: str,
    example: str,
    *,
    least: Q | None = None,
    above: Q | None = None,
    most: Q | None = None,
) -> Q:
    """Return a number or a span that lies within bounds. NaN lies within none.

    Args:
        value: The argument.
        kind: `int`, `timedelta`, or `float` for any real number. A bool is none of them.
        name: What the argument is called.
        example: A correct call.
        least: The smallest value.
        above: The value that it must exceed.
        most: The largest value.

    Raises:
        TypeError: It is of another kind.
        ValueError: It lies outside the bounds.
    """
    is_kind = isinstance(value, _REAL if kind is float else kind)
    if is_kind and not isinstance(value, bool):
        is_within = (least is None or value >= least) and (above is None or value > above)
        if is_within and (most is None or value <= most):
            return value
    wanted = "a number" if kind is float else _with_article(kind)
    if least is not None:
        wanted += f" of at least {least or 0}" if most is None else f" from {least or 0} to {most}"
    elif above is not None:
        wanted += f" above {above or 0}" + ("" if most is None else f" and at most {most}")
    if not is_kind or isinstance(value, bool):
        raise InputTypeError(f"{name} must be {wanted}, not {kind_of(value)}: {example}")
    raise InputValueError(f"{name} must be {wanted}: {example}")


DATABASE_URL = re.compile(r"(?i)postgres(?:ql)?(?:\+\w+)?://?")
"""The beginning of the URL of a database. Paths drop one of two slashes."""
_NO_FOLDER = re.compile(r"[A-Za-z][\w+.-]+:/|\w+=")


def is_folder_name(text: str) -> bool:
    """Return whether a string may name a folder, and no URL or connection string."""
    return _NO_FOLDER.match(text) is None


def expect_path(value: object, name: str, example: str) -> str | PathLike[str]:
    """Return an argument that is a path.

    Raises:
        TypeError: It is neither a string nor an `os.PathLike`.
    """
    if isinstance(value, str | PathLike):
        return value
    raise InputTypeError(f"{name} must be a path, not {kind_of(value)}: {example}")


def expect_function(value: T, name: str, example: str) -> T:
    """Return an argument that can be called and is no class.

    Raises:
        TypeError: It cannot be called, or is a class.
    """
    if callable(value) and not isinstance(value, type):
        return value
    raise InputTypeError(f"{name} must be a function, not {kind_of(value)}: {example}")


def expect_all(
    values: object, kind: type[T] | tuple[type[T], ...], name: str, example: str
) -> tuple[T, ...]:
    """Return the members of a list whose members must be of one kind.

    A string, a mapping and a class are not lists, although Python iterates over them.

    Args:
        values: The argument.
        kind: The class of each member, or several.
        name: What the argument is called.
        example: A correct call.

    Raises:
        TypeError: It is no list, or a member is of another kind.
    """
    if type(values) is not list and type(values) is not tuple:  # the usual ones, at less cost
        is_one = isinstance(values, str | bytes | bytearray | Mapping | type)
        if is_one or not isinstance(values, Iterable):
            raise InputTypeError(
                f"{name} must be {_list_of(kind)}, not {kind_of(values)}: {example}"
            )
    members: tuple[Any, ...] = tuple(values)
    for member in members:
        if not isinstance(member, kind):
            wanted = f"{name} must be {_list_of(kind)}"
            raise InputTypeError(f"{wanted}, not of {kind_of(member)}: {example}")
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
    raise InputTypeError(
        f"{name} must have {_series(methods)}; {kind_of(value)} has no {_series(lacking)}: "
        f"{example}"
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
    wanted, shown = f"{name} must be one of {names}", f": {example}" if example else ""
    if not isinstance(value, str):
        raise InputTypeError(f"{wanted}, not {kind_of(value)}{shown}")
    raise InputValueError(f"{wanted}, not another string{shown}")


def _series(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _list_of(kind: type | tuple[type, ...]) -> str:
    if kind is object:
        return "a list"
    names = (each.__name__ for each in (kind if isinstance(kind, tuple) else (kind,)))
    return f"a list of {' or '.join(names)}"


def _with_article(kind: type) -> str:
    return f"{'an' if kind.__name__[0].lower() in 'aeio' else 'a'} {kind.__name__}"
