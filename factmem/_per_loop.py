"""One of each per event loop: locks, limiters and events belong to the loop they were made in."""

from collections.abc import Callable
from typing import Any, Generic, TypeVar
from weakref import WeakKeyDictionary

from anyio.lowlevel import RunVar

__all__ = ["PerLoop"]

T = TypeVar("T")

_made: RunVar[WeakKeyDictionary["PerLoop[Any]", Any]] = RunVar("factmem_per_loop")


class PerLoop(Generic[T]):
    """Makes one object for each event loop that asks; it goes with the loop, or with this."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make

    def get(self) -> T:
        """Return the running loop's own."""
        made = _made.get(None)
        if made is None:
            made = WeakKeyDictionary()
            _made.set(made)
        mine: T | None = made.get(self)
        if mine is None:
            mine = made[self] = self._make()
        return mine
