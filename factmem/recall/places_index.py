"""Indexes of the facts that hold in sets of places, kept between recalls and up to date."""

import os
import threading
import weakref
from array import array
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import TypeAlias, TypeVar

from anyio import CapacityLimiter, Lock, to_thread

from factmem.concurrency.per_loop import PerLoop
from factmem.ledger.resolution import PlacedFact, UnreadableConcept, resolve_entities, seen_together
from factmem.models.facts import AnyFact, FactType
from factmem.models.places import Identity, Place
from factmem.recall.fact_index import FactIndex
from factmem.recall.match import Match
from factmem.recall.place_cache import EMPTY, PlaceCache, PlaceSnapshot
from factmem.recall.place_vectors import TextRows
from factmem.recall.query import RecallQuery

__all__ = ["IndexCache", "PlacesIndex"]


R = TypeVar("R")

_MOST_FACTS = 200_000
"""How many facts the indexes hold in all, a kilobyte each with the fact. The one not used for
longest goes first, when another set of places is asked."""
_MOST_INDEXES = 1_024
_THREADS = 4

Snapshots: TypeAlias = Mapping[Identity, PlaceSnapshot]
"""The snapshots of some places."""

Found: TypeAlias = tuple[list[list[Match]], list[UnreadableConcept]]
"""The matches of each query, and what could not be read."""


class _QuestionVectors:
    """The vectors of some places, and that of a question."""

    def __init__(self, caches: Mapping[Identity, PlaceCache], vector: "array[float]") -> None:
        self._caches = caches
        self._vector = vector

    def cosines(self, identity: Identity, texts: TextRows) -> Sequence[float]:
        return self._caches[identity].vectors.cosines(self._vector, texts)

    def along(
        self, identity: Identity, texts: TextRows, direction: Sequence[float]
    ) -> Sequence[float]:
        return self._caches[identity].vectors.cosines(array("f", direction), texts)

    def total(
        self, identity: Identity, texts: TextRows, chosen: Sequence[bool] | None
    ) -> Sequence[float] | None:
        return self._caches[identity].vectors.total(texts, chosen, len(self._vector))

    def changes(self, identity: Identity) -> object:
        return self._caches[identity].vectors.changes


class PlacesIndex:
    """An index over several places. Safe for threads."""

    def __init__(self, places: Iterable[Place], caches: Mapping[Identity, PlaceCache]) -> None:
        self.places: Mapping[Identity, Place] = {place.identity: place for place in places}
        self.caches = caches
        self.turn: PerLoop[Lock] = PerLoop(Lock)
        """Held in each event loop by the one task that searches; others wait without a thread."""
        self._lock = threading.Lock()
        self._index = FactIndex(self.places.values())
        self._together = seen_together(self.places.values())
        self._snapshots: dict[Identity, PlaceSnapshot] = dict.fromkeys(self.places, EMPTY)
        """What is indexed of each place."""

    def __len__(self) -> int:
        return len(self._index)

    def search(
        self,
        snapshots: Snapshots,
        queries: Sequence[RecallQuery],
        now: datetime,
        vectors: "Sequence[array[float]] | None",
    ) -> Found:
        """Return the matches of each query, and what could not be read.

        Takes processor time, so it is for worker threads; any number may call at once.

        Args:
            snapshots: The places when the recall began, or later.
            queries: What to look for.
            now: The time that recency is reckoned from.
            vectors: Those of the queries, of length 1, where meanings are compared.
        """
        with self._lock:
            if self._is_behind(snapshots):
                self._follow()
            return self._searched(queries, now, vectors)

    def search_at_once(
        self,
        snapshots: Snapshots,
        queries: Sequence[RecallQuery],
        now: datetime,
        vectors: "Sequence[array[float]] | None",
    ) -> Found | None:
        """Do what `search` does in an event loop; None if that may take too long."""
        index = self._index
        is_quick = index.is_quick if vectors is None else index.is_quick_with(len(vectors[0]))
        if len(queries) > 1 or not is_quick or not self._lock.acquire(blocking=False):
            return None
        try:
            return None if self._is_behind(snapshots) else self._searched(queries, now, vectors)
        finally:
            self._lock.release()

    def _is_behind(self, snapshots: Snapshots) -> bool:
        known = self._snapshots
        return any(known[each].number < new.number for each, new in snapshots.items())

    def _searched(
        self,
        queries: Sequence[RecallQuery],
        now: datetime,
        vectors: "Sequence[array[float]] | None",
    ) -> Found:
        found = [
            self._index.search(
                query,
                now,
                None if vectors is None else _QuestionVectors(self.caches, vectors[at]),
            )
            for at, query in enumerate(queries)
        ]
        return found, self.unreadable(self._snapshots)

    def unreadable(self, snapshots: Snapshots) -> list[UnreadableConcept]:
        """Return what could not be read of the places."""
        return [
            UnreadableConcept(place, keyword, error)
            for identity, place in self.places.items()
            for keyword, error in snapshots[identity].unreadable.items()
        ]

    def _follow(self) -> None:
        """Bring the index up to date with the latest snapshots."""
        before = self._snapshots
        self._snapshots = {identity: cache.snapshot for identity, cache in self.caches.items()}
        changed = {
            identity: snapshot.changed_since(before[identity])
            for identity, snapshot in self._snapshots.items()
        }
        places_of: dict[str, list[Identity]] = {}
        for identity, keywords in changed.items():
            for keyword in keywords:
                places_of.setdefault(keyword, []).append(identity)
        together = [each for each, places in places_of.items() if not self._is_alone(each, places)]
        resolved = frozenset(together)
        for identity, keywords in changed.items():
            for keyword in keywords:
                if keyword not in resolved:
                    self._take(identity, keyword, before[identity])
        self._resolve(together)

    def _is_alone(self, keyword: str, identities: Iterable[Identity]) -> bool:
        """Whether all facts of a keyword hold: no other place seen with them has it too."""
        for identity in identities:
            first = next(iter(self._snapshots[identity].facts(keyword).values()), None)
            if first and first.fact.concept.fact_type is FactType.SINGLE:
                return False
            others = self._together[identity]
            if any(self._snapshots[other].knows(keyword) for other in others):
                return False
            if any(self._index.ids(other, keyword) for other in others):
                return False  # it had until now, so facts of this place may come back
        return True

    def _take(self, identity: Identity, keyword: str, before: PlaceSnapshot) -> None:
        """Index the changed facts of a place as they are there."""
        place, known = self.places[identity], before.facts(keyword)
        facts = self._snapshots[identity].facts(keyword)
        held = self._index.ids(identity, keyword)
        for each, entry in facts.items():
            if known.get(each) is not entry or each not in held:
                self._index.put(identity, PlacedFact(place, entry.fact), entry.digest)
        self._index.drop(identity, keyword, [each for each in held if each not in facts])

    def _resolve(self, keywords: Collection[str]) -> None:
        """Index what holds of some keywords, looked at in all places together."""
        found: list[PlacedFact[AnyFact]] = []
        kept: dict[tuple[Identity, str], set[str]] = {}
        for identity, place in self.places.items():
            for keyword in keywords:
                known = self._snapshots[identity].facts(keyword)
                found += [PlacedFact(place, entry.fact) for entry in known.values()]
                kept[identity, keyword] = set()
        unreadable = self.unreadable(self._snapshots)
        hiding = [each for each in unreadable if each.keyword in keywords]
        for placed in resolve_entities(found, hiding, self.places.values()):
            fact, identity = placed.fact, placed.place.identity
            known = self._snapshots[identity].facts(fact.concept.keyword)
            self._index.put(identity, placed, known[fact.id].digest)
            kept[identity, fact.concept.keyword].add(fact.id)
        for (identity, keyword), ids in kept.items():
            gone = [each for each in self._index.ids(identity, keyword) if each not in ids]
            self._index.drop(identity, keyword, gone)


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
