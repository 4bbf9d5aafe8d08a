"""Worker threads with a limiter of their own in each event loop."""

from collections.abc import Callable
from typing import TypeVar

from anyio import CapacityLimiter, to_thread

from factmem.concurrency.per_loop import PerLoop

__all__ = ["Workers"]


R = TypeVar("R")

_THREADS = 40
"""As many as anyio's default limiter allows."""


class Workers:
    """Runs blocking work in threads with a limiter of its owner.

    On anyio's default limiter, forty threads that wait for a save would deadlock, and hanging calls
    would take the threads that everything else needs.

    Args:
        abandon: Whether a cancelled caller returns at once; the work finishes in its thread and its
            result is dropped. Otherwise the caller waits for it.
    """

    def __init__(self, *, abandon: bool = False) -> None:
        self._limiter = PerLoop(lambda: CapacityLimiter(_THREADS))
        self._abandon = abandon

    async def run(self, work: Callable[[], R]) -> R:
        """Run `work` in a worker thread and return its result."""
        return await to_thread.run_sync(
            work, limiter=self._limiter.get(), abandon_on_cancel=self._abandon
        )
