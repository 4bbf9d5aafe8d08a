"""The indexes of a memory, cached between recalls.

A memory creates its cache at once. The modules of the indexes are imported with the first recall,
because a program that only loads facts does not need them.
"""

import os
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Sequence, Sized
from typing import TYPE_CHECKING, TypeVar

from anyio import CapacityLimiter, Lock, to_thread

from factmem._concurrency.per_loop import PerLoop
from factmem.models.places import Identity, Place

if TYPE_CHECKING:
    from factmem.recall._place_cache import PlaceCache
    from factmem.recall._places_index import PlacesIndex
    from factmem.recall._turn_search import TurnIndex

R = TypeVar("R")
X = TypeVar("X", bound=Sized)

_MOST_FACTS = 200_000
"""The maximum number of facts in all indexes, and of messages, some kilobytes each. Beyond it, the least recently
used index is dropped when another set of places is searched."""
_MOST_INDEXES = 1_024
_THREADS = 4


class IndexCache:
    """The indexes of a memory and of all its views. Thread-safe; empty in a forked child."""

    def __init__(self) -> None:
        self.reset()
        _all.add(self)

    def reset(self) -> None:
        """Drop all indexes and locks. A forked child calls it, as an inherited lock may be held."""
        self._workers: PerLoop[CapacityLimiter] = PerLoop(lambda: CapacityLimiter(_THREADS))
        """The worker threads of each event loop."""
        self.writing: PerLoop[Lock] = PerLoop(Lock)
        """Held while an index is written. The store writes one at a time, and its deadline may be
        shorter than the write of another index."""
        self._lock = threading.Lock()
        self._indexes: OrderedDict[frozenset[Place], PlacesIndex] = OrderedDict()
        self._turns: OrderedDict[frozenset[Place], TurnIndex] = OrderedDict()
        self._places: weakref.WeakValueDictionary[Identity, PlaceCache] = (
            weakref.WeakValueDictionary()
        )

    async def work(self, work: Callable[[], R]) -> R:
        """Run a function that takes processor time in a worker thread."""
        return await to_thread.run_sync(work, limiter=self._workers.get())

    def of(self, places: Sequence[Place], *, has_meaning: bool) -> "PlacesIndex":
        """Return the index of a set of places; create an empty one if there is none.

        Args:
            places: The places, in any order.
            has_meaning: Whether meanings are compared; the same at each call.
        """
        from factmem.recall._places_index import PlacesIndex

        def make() -> PlacesIndex:
            caches = {place.identity: self._place(place.identity, has_meaning) for place in places}
            return PlacesIndex(places, caches)

        return self._kept(self._indexes, places, make)

    def of_turns(
        self, places: Sequence[Place], make: "Callable[[Sequence[Place]], TurnIndex]"
    ) -> "TurnIndex":
        """Return the index of the conversations of a set of places; an empty one if there is none."""
        return self._kept(self._turns, places, lambda: make(places))

    def _kept(
        self,
        indexes: OrderedDict[frozenset[Place], X],
        places: Sequence[Place],
        make: Callable[[], X],
    ) -> X:
        """Return an index; drop the least recently used ones beyond the limits before making one."""
        key = frozenset(places)
        with self._lock:
            index = indexes.get(key)
            if index is None:
                held = sum(map(len, indexes.values()))
                while len(indexes) > 1 and (held > _MOST_FACTS or len(indexes) > _MOST_INDEXES):
                    held -= len(indexes.popitem(last=False)[1])
                index = indexes[key] = make()
            indexes.move_to_end(key)
            return index

    def places(self) -> "list[tuple[Place, PlaceCache]]":
        """Return the places of all cached indexes, without duplicates, with their caches."""
        with self._lock:
            indexes = list(self._indexes.values())
        known = {
            identity: (place, index.caches[identity])
            for index in indexes
            for identity, place in index.places.items()
        }
        return list(known.values())

    def _place(self, identity: Identity, has_meaning: bool) -> "PlaceCache":
        from factmem.recall._place_cache import PlaceCache

        cache = self._places.get(identity)
        if cache is None:
            cache = self._places[identity] = PlaceCache(identity, has_meaning=has_meaning)
        return cache


_all: "weakref.WeakSet[IndexCache]" = weakref.WeakSet()


def _start_in_child() -> None:
    for indexes in list(_all):
        indexes.reset()


if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(after_in_child=_start_in_child)
