"""Errors of calls that exist in other libraries: they name the call that it is here.

Without it Python says only that an object has no attribute `search`, or that a method got an
unexpected argument `top_k`.
"""

import inspect
import re
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from difflib import get_close_matches
from functools import wraps
from types import TracebackType
from typing import Any, NoReturn, TypeVar

from factmem.errors import InputTypeError

C = TypeVar("C", bound=type[Any])
T = TypeVar("T")

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

    Args:
        names: The calls here, by the names that other libraries have for them, separated by spaces.
        arguments: What to write instead of arguments of other libraries, by their names.
        calls: The methods whose wrong arguments are named, `__init__` for the class itself.
        items: The call that is meant by `object[key]`.
        closing: Whether the class is used with `async with`.
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
    """Return the message about an attribute that a class does not have."""
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
    """An async context manager whose errors show how it is opened.

    Args:
        manager: The context manager.
        example: How it is opened.
    """

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
