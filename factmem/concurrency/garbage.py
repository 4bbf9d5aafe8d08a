"""Pausing the garbage collector while very many long-lived objects are made.

The objects of a place live as long as the place is warm. The collector walks through the new ones
every 700 allocations, through all of them again and again as they grow, and finds nothing: half the
time of reading 100,000 facts.
"""

import gc
import os
import threading
from contextlib import AbstractContextManager, nullcontext

__all__ = ["paused_collection"]


_MANY = 1000
"""From how many facts or keywords on a pause pays; below it the collector hardly runs."""


class _Pause:
    """Pauses automatic collection in the process while a thread is inside. Pauses may overlap.

    It sets the threshold of the youngest generation to zero, and leaves `gc.disable` and
    `gc.enable` alone: a program that calls them meanwhile gets what it asked for. `gc.freeze` would
    hide the program's own garbage from the collector, and `gc.unfreeze` undo a freeze that the
    program made.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._thresholds = gc.get_threshold()

    def __enter__(self) -> None:
        with self._lock:
            self._inside += 1
            if self._inside == 1:
                self._thresholds = gc.get_threshold()
                gc.set_threshold(0, *self._thresholds[1:])

    def __exit__(self, *exc_info: object) -> None:
        with self._lock:
            self._inside = max(0, self._inside - 1)  # a thread that forked inside counts no more
            if not self._inside:
                self._resume()

    def _resume(self) -> None:
        if gc.get_threshold()[0] == 0:  # else the program has set thresholds of its own meanwhile
            gc.set_threshold(*self._thresholds)

    def start_in_child(self) -> None:
        """Resume in a forked child: the threads that were inside are not there to do it."""
        self._lock = threading.Lock()
        if self._inside:
            self._inside = 0
            self._resume()


_pause = _Pause()
os.register_at_fork(after_in_child=_pause.start_in_child)


def paused_collection(count: int) -> AbstractContextManager[None]:
    """Return a context in which the garbage collector does not start by itself.

    Enter it for work of bounded length only: nothing in the process is collected meanwhile.

    Args:
        count: About how many facts or keywords are made into objects. Few need no pause.
    """
    return _pause if count >= _MANY else nullcontext()
