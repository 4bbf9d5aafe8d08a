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
    """An async object whose methods run in a portal."""

    def __init__(self, wrapped: W, portal: Portal = SHARED_PORTAL) -> None:
        self._wrapped = wrapped
        self._portal = portal

    @property
    def wrapped(self) -> W:
        """The async object itself."""
        return self._wrapped

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._wrapped!r})"


class WrapsContext(Wraps[C]):
    """An async object that is a context manager as well."""

    def __init__(self, wrapped: C, portal: Portal = SHARED_PORTAL) -> None:
        super().__init__(wrapped, portal)
        self._entered: list[ExitStack] = []

    def close(self) -> None:
        """Do what `aclose` does."""
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
