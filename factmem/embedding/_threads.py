"""The worker threads of an embedder."""

from collections.abc import Callable
from typing import TypeVar

from anyio import CapacityLimiter, to_thread

from factmem._per_loop import PerLoop

__all__ = ["Threads"]

R = TypeVar("R")

_THREADS = 40


class Threads:
    """Threads of an embedder's own, for each event loop.

    A call that hangs keeps its thread after those who asked have given up: of anyio's default ones
    a few dozen would be gone on trio, and all else that needs a thread would wait.
    """

    def __init__(self) -> None:
        self._limiter = PerLoop(lambda: CapacityLimiter(_THREADS))

    async def run(self, work: Callable[[], R]) -> R:
        """Do blocking work; when cancelled it runs on to its end, and its result is dropped."""
        return await to_thread.run_sync(work, limiter=self._limiter.get(), abandon_on_cancel=True)
