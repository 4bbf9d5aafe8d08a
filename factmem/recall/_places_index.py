"""The index of the current facts in a set of places, updated between recalls."""

import threading
from array import array
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import TypeAlias, TypeVar

from anyio import Lock

from factmem._concurrency.per_loop import PerLoop
from factmem.ledger.resolution import PlacedFact, UnreadableConcept, resolve_entities, seen_together
from factmem.models.facts import AnyFact, FactType
from factmem.models.places import Identity, Place
from factmem.recall._fact_index import FactIndex
from factmem.recall._place_cache import EMPTY, PlaceCache, PlaceSnapshot
from factmem.recall._text_slots import QuestionVectors
from factmem.recall.match import Match
from factmem.recall.query import RecallQuery

R = TypeVar("R")

Snapshots: TypeAlias = Mapping[Identity, PlaceSnapshot]
"""The snapshots of some places."""

Found: TypeAlias = tuple[list[list[Match]], list[UnreadableConcept]]
"""The matches of each query, and the unreadable concepts."""


class PlacesIndex:
    """An index over several places. Thread-safe."""

    def __init__(self, places: Iterable[Place], caches: Mapping[Identity, PlaceCache]) -> None:
        self.places: Mapping[Identity, Place] = {place.identity: place for place in places}
        self.caches = caches
        self.turn: PerLoop[Lock] = PerLoop(Lock)
        """Held by the searching task of an event loop, so that others wait without a thread."""
        self._lock = threading.Lock()
        self._index = FactIndex(self.places.values())
        self._together = seen_together(self.places.values())
        self._snapshots: dict[Identity, PlaceSnapshot] = dict.fromkeys(self.places, EMPTY)
        """The snapshot of each place that is indexed."""

    def __len__(self) -> int:
        return len(self._index)

    def search(
        self,
        snapshots: Snapshots,
        queries: Sequence[RecallQuery],
        now: datetime,
        vectors: "Sequence[array[float]] | None",
    ) -> Found:
        """Return the matches of each query, and the unreadable concepts.

        Call it in a worker thread, because it takes processor time. Concurrent calls are safe.

        Args:
            snapshots: Snapshots of the places that are not older than the recall.
            queries: The questions with their filters.
            now: The time that recency is relative to.
            vectors: The vectors of the queries, of length 1; None to compare only words.
        """
        held = {identity: cache.vectors for identity, cache in self.caches.items()}
        asked: Sequence[QuestionVectors | None] = [None] * len(queries)
        if vectors is not None:
            asked = [QuestionVectors(vector, held) for vector in vectors]
        with self._lock:
            known = self._snapshots
            if any(known[each].number < new.number for each, new in snapshots.items()):
                self._follow()
            found = [
                self._index.search(query, now, near)
                for query, near in zip(queries, asked, strict=True)
            ]
            return found, self.unreadable(self._snapshots)

    def unreadable(self, snapshots: Snapshots) -> list[UnreadableConcept]:
        """Return the unreadable concepts of the places."""
        return [
            UnreadableConcept(place, keyword, error)
            for identity, place in self.places.items()
            for keyword, error in snapshots[identity].unreadable.items()
        ]

    def _follow(self) -> None:
        """Update the index to the latest snapshots."""
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
        """Whether all facts of a keyword are current: no other place seen with them has it."""
        for identity in identities:
            first = next(iter(self._snapshots[identity].facts(keyword).values()), None)
            if first and first.fact.concept.fact_type is FactType.SINGLE:
                return False
            others = self._together[identity]
            if any(self._snapshots[other].knows(keyword) for other in others):
                return False
            if any(self._index.ids(other, keyword) for other in others):
                return False  # it had the keyword before, so facts hidden by it may be current now
        return True

    def _take(self, identity: Identity, keyword: str, before: PlaceSnapshot) -> None:
        """Index the changed facts of a place without resolving them against other places."""
        place, known = self.places[identity], before.facts(keyword)
        facts = self._snapshots[identity].facts(keyword)
        held = self._index.ids(identity, keyword)
        for each, entry in facts.items():
            if known.get(each) is not entry or each not in held:
                self._index.put(identity, PlacedFact(place, entry.fact), entry.digest)
        self._index.drop(identity, keyword, [each for each in held if each not in facts])

    def _resolve(self, keywords: Collection[str]) -> None:
        """Index the current facts of some keywords, resolved over all places."""
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
