"""The base classes of the synchronous twins."""

from contextlib import AbstractAsyncContextManager, ExitStack
from types import TracebackType
from typing import Any, Generic, Protocol, Self, TypeVar

from factmem.sync.portal import SHARED_PORTAL, Portal

W = TypeVar("W")


class Closable(AbstractAsyncContextManager[Any], Protocol):
    """An async context manager with `aclose`."""

    async def aclose(self) -> None: ...


C = TypeVar("C", bound=Closable)


class Wraps(Generic[W]):
    """A synchronous wrapper of an async object, whose methods run in a portal."""

    def __init__(self, wrapped: W, portal: Portal = SHARED_PORTAL) -> None:
        self._wrapped = wrapped
        self._portal = portal

    @property
    def wrapped(self) -> W:
        """The wrapped async object."""
        return self._wrapped

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._wrapped!r})"


class WrapsContext(Wraps[C]):
    """A synchronous wrapper of an async context manager."""

    def __init__(self, wrapped: C, portal: Portal = SHARED_PORTAL) -> None:
        super().__init__(wrapped, portal)
        self._entered: list[ExitStack] = []

    def close(self) -> None:
        """Close the wrapped object; see its `aclose`."""
        self._portal.call(self._wrapped.aclose)

    def __enter__(self) -> Self:
        stack = ExitStack()
        stack.enter_context(self._portal.entered(self._wrapped))
        self._entered.append(stack)
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._entered.pop().__exit__(exc_type, exc, traceback)
