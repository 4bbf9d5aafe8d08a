"""RecentPlaces: what a store remembers of the places that it has used last."""

from collections import OrderedDict
from threading import Lock
from typing import Generic, TypeVar

from factmem.models.places import Identity

__all__ = ["RecentPlaces"]

V = TypeVar("V")

_MOST = 4096


class RecentPlaces(Generic[V]):
    """A mapping of places to values, without those that were not used for longest. Thread-safe.

    A process may save to millions of places.
    """

    def __init__(self) -> None:
        self._known: OrderedDict[Identity, V] = OrderedDict()
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._known)

    def of(self, identity: Identity, default: V) -> V:
        """Return the value of a place; sets the default if there is none."""
        with self._lock:
            known = self._known.setdefault(identity, default)
            self._known.move_to_end(identity)
            self._trim()
            return known

    def set(self, identity: Identity, value: V) -> None:
        """Set the value of a place."""
        with self._lock:
            self._known[identity] = value
            self._known.move_to_end(identity)
            self._trim()

    def _trim(self) -> None:
        if len(self._known) > _MOST:
            self._known.popitem(last=False)
