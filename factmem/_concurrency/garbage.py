"""Pauses of the garbage collector during the creation of many long-lived objects.

The objects of a place live as long as the place is in memory. The collector scans new objects every
700 allocations, scans all of them again as they grow, and finds nothing. Without a pause that takes
half of the time of reading 100,000 facts.
"""

import gc
import os
import threading
from contextlib import AbstractContextManager, nullcontext

_MANY = 1000
"""The number of facts or keywords from which a pause pays; for fewer the collector hardly runs."""


class _Pause:
    """Pauses automatic collection in the process while a thread is inside. Pauses may overlap.

    It sets the threshold of the youngest generation to zero. It does not call `gc.disable` and
    `gc.enable`, which the program may call at the same time. `gc.freeze` would hide the program's
    own garbage from the collector, and `gc.unfreeze` would undo a freeze of the program.
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
            self._inside = max(0, self._inside - 1)  # 0 in a child forked by a thread inside
            if not self._inside:
                self._resume()

    def _resume(self) -> None:
        if gc.get_threshold()[0] == 0:  # otherwise the program has set its own thresholds meanwhile
            gc.set_threshold(*self._thresholds)

    def start_in_child(self) -> None:
        """Resume in a forked child, in which the threads that were inside do not exist."""
        self._lock = threading.Lock()
        if self._inside:
            self._inside = 0
            self._resume()


_pause = _Pause()
if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(after_in_child=_pause.start_in_child)


def paused_collection(count: int) -> AbstractContextManager[None]:
    """Return a context in which the garbage collector does not start by itself.

    Use it only for work of bounded length: nothing in the process is collected meanwhile.
    There is no pause for a small `count` of facts or keywords.
    """
    return _pause if count >= _MANY else nullcontext()
