"""One object for each event loop: connections belong to the loop that opened them."""

from collections.abc import Awaitable, Callable
from typing import Any, Generic, TypeVar
from weakref import WeakKeyDictionary

import anyio
import anyio.to_thread
from anyio.lowlevel import RunVar

__all__ = ["PerLoop", "PerLoopResource"]


T = TypeVar("T")


class _Slot(Generic[T]):
    __slots__ = ("lock", "value")

    def __init__(self) -> None:
        self.lock = anyio.Lock()
        self.value: T | None = None


class PerLoopResource(Generic[T]):
    """Opens a resource on first use in each event loop, and keeps it until it is closed there."""

    def __init__(self, opened: Callable[[], T], close: Callable[[T], Awaitable[None]]) -> None:
        self._opened = opened
        self._close = close
        self._slot: RunVar[_Slot[T]] = RunVar("slot")

    async def get(self) -> T:
        """Return the resource of the running loop; it is opened in a worker thread."""
        slot = self._slot.get(None)
        if slot is None:
            slot = _Slot()
            self._slot.set(slot)
        async with slot.lock:
            if slot.value is None:
                slot.value = await anyio.to_thread.run_sync(self._opened)
            return slot.value

    async def aclose(self) -> None:
        """Close the resource of the running loop, if it is open; the next `get` opens another."""
        slot = self._slot.get(None)
        if slot is None:
            return
        async with slot.lock:
            value, slot.value = slot.value, None
            if value is not None:
                await self._close(value)


_made: RunVar[WeakKeyDictionary["PerLoop[Any]", Any]] = RunVar("factmem_per_loop")


class PerLoop(Generic[T]):
    """Creates one object for each event loop, on first use. It lives as long as the loop and this."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make

    def get(self) -> T:
        """Return the object of the running loop."""
        made = _made.get(None)
        if made is None:
            made = WeakKeyDictionary()
            _made.set(made)
        mine: T | None = made.get(self)
        if mine is None:
            mine = made[self] = self._make()
        return mine
