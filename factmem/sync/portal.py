"""Portal: an event loop in its own thread, for synchronous callers.

The synchronous twins hold the asynchronous objects and call them through a portal, so no code
exists twice. Twins share `SHARED_PORTAL` unless they get another one: with one loop, what is opened
in one call can be used in the next. Each call runs as a task of that loop, so calls of several
threads overlap.
"""

import atexit
import os
import threading
import weakref
from collections.abc import Awaitable, Callable, Generator
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, AbstractContextManager, contextmanager
from functools import partial
from types import TracebackType
from typing import ParamSpec, Self, TypeVar

import anyio
from anyio.from_thread import BlockingPortal

__all__ = ["Portal"]

P = ParamSpec("P")
T = TypeVar("T")


class Portal:
    """Runs async functions for synchronous callers, all in one event loop.

        portal = Portal()
        facts = portal.call(memory.current)

    The loop runs in a daemon thread that starts with the first call. Any thread may call it, even
    one that runs an event loop itself, such as a notebook's; that loop is blocked until the call
    returns. The function sees the caller's context variables. An interrupt (Ctrl-C) cancels it.

    After a fork, the child starts its own loop at its first call. Resources that the parent keeps
    open are not open in the child.
    """

    def __init__(self) -> None:
        self._lost: list[object] = []
        self._reset()
        if hasattr(os, "register_at_fork"):  # Windows has no fork
            _register_at_fork(weakref.WeakMethod(self._forget_parent))

    def _reset(self) -> None:
        self._lock = threading.Lock()  # another thread may have held the old one during the fork
        self._running: _Loop | None = None

    def _forget_parent(self) -> None:
        # Garbage collection of the parent's loop would close descriptors that both processes share.
        self._lost.append(self._running)
        self._reset()

    def call(self, function: Callable[P, Awaitable[T]], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call an async function in the portal's loop and return its result.

        Raises:
            RuntimeError: The caller runs in the portal's own loop, which would wait for itself.
        """
        future = self.start(function, *args, **kwargs)
        try:
            return future.result()
        except BaseException:
            future.cancel()  # only an interrupt of this thread leaves the function running
            raise

    def start(
        self, function: Callable[P, Awaitable[T]], *args: P.args, **kwargs: P.kwargs
    ) -> "Future[T]":
        """Start an async function in the portal's loop and return a future of its result.

        Raises:
            RuntimeError: The caller runs in the portal's own loop, which would wait for itself.
        """
        return self._loop().start(partial(function, *args, **kwargs))

    @contextmanager
    def entered(self, resource: AbstractAsyncContextManager[T]) -> Generator[T]:
        """Enter an async context manager around a `with` block."""
        with self._loop().wrap(resource) as value:
            yield value

    def close(self) -> None:
        """Stop the thread. A later call starts a new loop."""
        with self._lock:
            running, self._running = self._running, None
        if running is not None:
            running.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _loop(self) -> "_Loop":
        with self._lock:
            if self._running is None:
                self._running = _Loop()
            return self._running


class _Loop:
    """A running event loop and its thread.

    anyio's `start_blocking_portal` does the same in a generator. In a forked child, the garbage
    collection of that generator waits forever for a thread that the child does not have.
    """

    def __init__(self) -> None:
        started: Future[BlockingPortal] = Future()
        self._thread = threading.Thread(
            target=_serve, args=(started,), name="factmem-portal", daemon=True
        )
        self._thread.start()
        self._portal = started.result()

    def start(self, function: Callable[[], Awaitable[T]]) -> "Future[T]":
        self._check_thread()
        return self._portal.start_task_soon(function)

    def wrap(self, resource: AbstractAsyncContextManager[T]) -> AbstractContextManager[T]:
        self._check_thread()
        return self._portal.wrap_async_context_manager(resource)

    def close(self) -> None:
        self._portal.call(self._portal.stop)
        self._thread.join()

    def _check_thread(self) -> None:
        if threading.current_thread() is self._thread:
            raise RuntimeError(
                "This thread runs the portal's own event loop, and the call would wait for itself: "
                "await the async method here"
            )


def _serve(started: "Future[BlockingPortal]") -> None:
    async def serve() -> None:
        async with BlockingPortal() as portal:
            started.set_result(portal)
            await portal.sleep_until_stopped()

    try:
        anyio.run(serve)
    except BaseException as exc:
        if started.done():
            raise
        started.set_exception(exc)


def _register_at_fork(method: "weakref.WeakMethod[Callable[[], None]]") -> None:
    def call() -> None:
        if (bound := method()) is not None:
            bound()

    os.register_at_fork(after_in_child=call)


SHARED_PORTAL = Portal()
"""The default portal of all synchronous twins. It closes at interpreter exit, after the exit
handlers that were registered after the import of this module. Python 3.12 starts no thread at exit:
a call that needs one raises there."""

atexit.register(SHARED_PORTAL.close)
