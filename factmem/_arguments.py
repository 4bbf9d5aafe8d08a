"""Argument checks. Errors name the type that was passed and show a correct call.

A message never contains a value, which may be a key or a user's words. Parts are known by their
methods and not by their class. `guided` names the calls here for those of other libraries, where
Python says only that an object has no attribute `search`, or a method no argument `top_k`.
"""

import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from difflib import get_close_matches
from enum import StrEnum
from functools import wraps
from inspect import getattr_static
from numbers import Real
from os import PathLike
from types import TracebackType
from typing import Any, NoReturn, TypeVar

from factmem.errors import InputTypeError, InputValueError

E = TypeVar("E", bound=StrEnum)
Q = TypeVar("Q", int, float, timedelta)
T = TypeVar("T")
C = TypeVar("C", bound=type[Any])

_REAL = (int, float, Real)
"""The quick ones first: an abstract class answers slowly."""


def kind_of(value: object) -> str:
    return f"the class {value.__name__}" if isinstance(value, type) else type(value).__name__


def has_name(value: object, name: str) -> bool:
    """Whether there is an attribute. A property is not read, as it may load a model."""
    try:
        getattr_static(value, name)
    except AttributeError:
        return hasattr(value, name)
    return True


def expect(value: object, kind: type[T] | tuple[type[T], ...], name: str, example: str) -> T:
    """Return an argument that is an instance of a class or of one of several; a bool is no int.

    Raises `TypeError` with what it is called and an example of a correct call, as all here do.
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
    """Return a number or a span within bounds: `least` and `most` are inside, `above` is not.

    `kind` is `int`, `timedelta`, or `float` for any real number. A bool is none of them, and NaN
    lies within none. Raises `ValueError` outside the bounds.
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
    """Return an argument that is a path: a string or an `os.PathLike`."""
    if isinstance(value, str | PathLike):
        return value
    raise InputTypeError(f"{name} must be a path, not {kind_of(value)}: {example}")


def expect_function(value: T, name: str, example: str) -> T:
    """Return an argument that can be called and is no class."""
    if callable(value) and not isinstance(value, type):
        return value
    raise InputTypeError(f"{name} must be a function, not {kind_of(value)}: {example}")


def expect_all(
    values: object, kind: type[T] | tuple[type[T], ...], name: str, example: str
) -> tuple[T, ...]:
    """Return the members of a list whose members must be of one kind.

    A string, a mapping and a class are not lists, although Python iterates over them.
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
    """Return an argument that has the methods of a protocol; a class has none of them."""
    is_class = isinstance(value, type)
    lacking = [name for name in methods if is_class or not callable(getattr(value, name, None))]
    if not lacking:
        return value
    raise InputTypeError(
        f"{name} must have {_series(methods)}; {kind_of(value)} has no {_series(lacking)}: "
        f"{example}"
    )


def expect_member(value: object, members: type[E], name: str, example: str = "") -> E:
    """Return the member of a string enum that is passed as itself or as its value."""
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


_ARGUMENT = re.compile(r"unexpected keyword argument '(\w+)'")


def guided(
    names: Mapping[str, str] | None = None,
    *,
    arguments: Mapping[str, str] | None = None,
    calls: tuple[str, ...] = (),
    items: str = "",
    closing: bool = False,
) -> Callable[[C], C]:
    """Return a decorator of a class, which only words errors that Python would raise as well.

    `names` has the calls here by the names that other libraries have for them, separated by spaces;
    `arguments` what to write instead of theirs. The methods in `calls` name their wrong arguments,
    `__init__` those of the class. `items` is the call that is meant by `object[key]`. With
    `closing` the class is used by `async with`.
    """
    known = _by_name(names)
    instead = _by_name(arguments)

    def decorate(cls: C) -> C:
        def lacks(self: object, name: str) -> NoReturn:
            raise AttributeError(_lacks(type(self), name, known), name=name, obj=self)

        cls.__getattr__ = lacks
        for name in calls:
            method: Any = vars(cls)[name]
            setattr(cls, name, _worded(method, f"{cls.__name__}.{name}", instead))
        if items:

            def no_item(self: object, *_: object) -> NoReturn:
                raise InputTypeError(f"{type(self).__name__} is not a dict: {items}")

            def assign(self: object, name: str, value: object) -> None:
                if name[:1] != "_" and type(self) is cls:
                    raise AttributeError(
                        f"{cls.__name__} has no attribute {name!r} to set: {items}"
                    )
                object.__setattr__(self, name, value)

            added = {"__getitem__": no_item, "__setitem__": no_item, "__delitem__": no_item}
            for name, function in {**added, "__setattr__": assign}.items():
                setattr(cls, name, function)
        if closing:
            cls.__enter__, cls.__exit__ = _enter, _enter
        return cls

    return decorate


def _enter(self: object, *_: object) -> NoReturn:
    raise InputTypeError(f"{type(self).__name__} is opened with `async with`, not with `with`")


def _by_name(table: Mapping[str, str] | None) -> dict[str, str]:
    return {name: text for names, text in (table or {}).items() for name in names.split()}


def _lacks(cls: type, name: str, known: Mapping[str, str]) -> str:
    text = f"{cls.__name__!r} object has no attribute {name!r}"
    if name[:1] == "_":
        return text
    public = [each for each in dir(cls) if each[:1] != "_"]
    close = get_close_matches(name, public, 1)
    hint = known.get(name) or (f"did you mean {close[0]!r}?" if close else known.get("*"))
    return f"{text}: {hint or 'it has ' + ', '.join(public)}"


def _worded(method: Any, title: str, instead: Mapping[str, str]) -> Any:
    """Return a method whose errors of binding say what to write."""
    if isinstance(method, classmethod):
        return classmethod(_worded(method.__func__, title, instead))
    name = title.removesuffix(".__init__")

    def message(exc: TypeError) -> str:
        unknown = _ARGUMENT.search(str(exc))
        hint = (unknown and instead.get(unknown[1])) or instead.get("*")
        return f"{exc}: {hint or _signature(name, method)}"

    is_context = inspect.isasyncgenfunction(inspect.unwrap(method))
    if inspect.iscoroutinefunction(method):

        @wraps(method)
        async def call_async(*args: Any, **options: Any) -> Any:
            try:
                coroutine = method(*args, **options)  # binds the arguments, and runs nothing
            except TypeError as exc:
                raise InputTypeError(message(exc)) from None
            return await coroutine

        return call_async

    @wraps(method)
    def call(*args: Any, **options: Any) -> Any:
        try:
            made = method(*args, **options)
        except TypeError as exc:
            trace = exc.__traceback__
            if trace is None or trace.tb_next is not None or isinstance(exc, InputTypeError):
                raise  # of the method itself
            raise InputTypeError(message(exc)) from None
        return AsyncWith(made, f"async with {name}(...) as opened:") if is_context else made

    return call


def _signature(name: str, method: Callable[..., Any]) -> str:
    """Return a call with its parameters, without annotations."""
    parameters = [
        each.replace(annotation=each.empty)
        for each in inspect.signature(method).parameters.values()
    ][1:]
    return f"{name}{inspect.Signature(parameters)}"


class AsyncWith(AbstractAsyncContextManager[T]):
    """An async context manager whose errors show how it is opened."""

    def __init__(self, manager: AbstractAsyncContextManager[T, bool | None], example: str) -> None:
        self._manager = manager
        self._example = example

    async def __aenter__(self) -> T:
        return await self._manager.__aenter__()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool | None:
        return await self._manager.__aexit__(kind, error, trace)

    def _refuse(self, *_: object) -> NoReturn:
        raise InputTypeError(f"Open it with `async with`: {self._example}")

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"No {name!r} before it is open: {self._example}", name=name, obj=self)

    __await__ = __enter__ = __exit__ = _refuse
