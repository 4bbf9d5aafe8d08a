"""Indexes kept between recalls: one for each set of places that was asked."""

import os
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import TypeVar

from anyio import CapacityLimiter, Lock, to_thread

from factmem.concurrency.per_loop import PerLoop
from factmem.models.places import Identity, Place
from factmem.recall.place_cache import PlaceCache
from factmem.recall.places_index import PlacesIndex

__all__ = ["IndexCache"]


R = TypeVar("R")

_MOST_FACTS = 200_000
"""How many facts the indexes hold in all, a kilobyte each with the fact. The one not used for
longest goes first, when another set of places is asked."""
_MOST_INDEXES = 1_024
_THREADS = 4


class IndexCache:
    """The indexes of a memory and of all its views. Safe for threads; a forked child starts empty."""

    def __init__(self) -> None:
        self.start_afresh()
        _all.add(self)

    def start_afresh(self) -> None:
        """Forget everything; also called in forked children, where an inherited lock may be held."""
        self._workers: PerLoop[CapacityLimiter] = PerLoop(lambda: CapacityLimiter(_THREADS))
        """The threads of each event loop that search."""
        self.writing: PerLoop[Lock] = PerLoop(Lock)
        """Held while an index is written: the store lets one in at a time, and does not wait as long
        as another index takes."""
        self._lock = threading.Lock()
        self._indexes: OrderedDict[frozenset[Place], PlacesIndex] = OrderedDict()
        self._places: weakref.WeakValueDictionary[Identity, PlaceCache] = (
            weakref.WeakValueDictionary()
        )

    async def work(self, work: Callable[[], R]) -> R:
        """Do what takes processor time in a worker thread."""
        return await to_thread.run_sync(work, limiter=self._workers.get())

    def of(self, places: Sequence[Place], *, has_meaning: bool) -> PlacesIndex:
        """Return the index of a set of places, an empty one if need be.

        Args:
            places: The places, in any order.
            has_meaning: Whether meanings are compared; the same at each call.
        """
        key = frozenset(places)
        with self._lock:
            index = self._indexes.get(key)
            if index is None:
                caches = {
                    place.identity: self._place(place.identity, has_meaning) for place in places
                }
                self._let_go()
                index = self._indexes[key] = PlacesIndex(places, caches)
            self._indexes.move_to_end(key)
            return index

    def places(self) -> list[tuple[Place, PlaceCache]]:
        """Return the places that were asked about of late, each once, with what is known of it."""
        with self._lock:
            indexes = list(self._indexes.values())
        known = {
            identity: (place, index.caches[identity])
            for index in indexes
            for identity, place in index.places.items()
        }
        return list(known.values())

    def _place(self, identity: Identity, has_meaning: bool) -> PlaceCache:
        cache = self._places.get(identity)
        if cache is None:
            cache = self._places[identity] = PlaceCache(identity, has_meaning=has_meaning)
        return cache

    def _let_go(self) -> None:
        """Drop what was not used for longest, until little enough is left."""
        held = sum(map(len, self._indexes.values()))
        while len(self._indexes) > 1 and (held > _MOST_FACTS or len(self._indexes) > _MOST_INDEXES):
            _, dropped = self._indexes.popitem(last=False)
            held -= len(dropped)


_all: "weakref.WeakSet[IndexCache]" = weakref.WeakSet()


def _start_in_child() -> None:
    for indexes in list(_all):
        indexes.start_afresh()


os.register_at_fork(after_in_child=_start_in_child)
