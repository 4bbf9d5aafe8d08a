"""The facts that hold in one set of places, kept up to date with the places."""

import threading
from array import array
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeAlias

from anyio import Lock

from factmem.concurrency.per_loop import PerLoop
from factmem.ledger.resolution import PlacedFact, UnreadableConcept, resolve
from factmem.models.facts import AnyFact, FactType
from factmem.models.places import Identity, Place
from factmem.recall.fact_index import FactIndex
from factmem.recall.match import Match
from factmem.recall.place_cache import EMPTY, PlaceCache, PlaceSnapshot
from factmem.recall.place_vectors import TextRows
from factmem.recall.query import RecallQuery

__all__ = ["PlacesIndex", "holding", "seen_together"]


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
        self, snapshots: Snapshots, queries: Sequence[RecallQuery], now: datetime
    ) -> Found | None:
        """Do what `search` does by words in an event loop; None if that may take too long."""
        is_quick = len(queries) == 1 and self._index.is_quick
        if not is_quick or not self._lock.acquire(blocking=False):
            return None
        try:
            return None if self._is_behind(snapshots) else self._searched(queries, now, None)
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
        for placed in holding(found, hiding, self.places.values()):
            fact, identity = placed.fact, placed.place.identity
            known = self._snapshots[identity].facts(fact.concept.keyword)
            self._index.put(identity, placed, known[fact.id].digest)
            kept[identity, fact.concept.keyword].add(fact.id)
        for (identity, keyword), ids in kept.items():
            gone = [each for each in self._index.ids(identity, keyword) if each not in ids]
            self._index.drop(identity, keyword, gone)


_Entity: TypeAlias = tuple[str, str | None]
_Placed: TypeAlias = PlacedFact[AnyFact]


def holding(
    found: Sequence[_Placed], unreadable: Sequence[UnreadableConcept], places: Iterable[Place]
) -> list[_Placed]:
    """Return the facts that hold over several places, as seen from any of the entities.

    Args:
        found: The current facts of the places.
        unreadable: What could not be read of them: it hides what is less specific.
        places: All of the places, those without facts too.
    """
    apart = _entities_apart(places)
    if not apart:
        return resolve(found, unreadable).placed
    by_keyword: dict[str, list[_Placed]] = {}
    for placed in found:
        by_keyword.setdefault(placed.fact.concept.keyword, []).append(placed)
    kept: list[_Placed] = []
    for keyword, facts in by_keyword.items():
        hidden = [each for each in unreadable if each.keyword == keyword]
        kept += _of_concept(facts, hidden, apart)
    return kept


def seen_together(places: Iterable[Place]) -> Mapping[Identity, Sequence[Identity]]:
    """Return for each place the others on which it depends what holds of its facts."""
    places = list(places)
    apart = _entities_apart(places)
    return {
        place.identity: [
            other.identity
            for other in places
            if other.identity != place.identity
            and (None in (ours, theirs := _among(apart, other)) or ours == theirs)
        ]
        for place in places
        for ours in [_among(apart, place)]
    }


def _entities_apart(places: Iterable[Place]) -> set[_Entity]:
    """Return the entities of the subjects that have more than one of them here."""
    entities: dict[str, set[_Entity]] = {}
    for place in places:
        entities.setdefault(place.subject.name, set()).add(_entity(place))
    return {each for those in entities.values() if len(those) > 1 for each in those}


def _entity(place: Place) -> _Entity:
    return place.subject.name, place.subject.entity


def _among(apart: set[_Entity], place: Place) -> _Entity | None:
    """Return the entity that a place is about; None where it is about what all of them share."""
    entity = _entity(place)
    return entity if entity in apart else None


def _of_concept(
    facts: list[_Placed], unreadable: list[UnreadableConcept], apart: set[_Entity]
) -> Iterable[_Placed]:
    own: dict[_Entity | None, list[_Placed]] = {}
    hidden: dict[_Entity | None, list[UnreadableConcept]] = {}
    for placed in facts:
        own.setdefault(_among(apart, placed.place), []).append(placed)
    for each in unreadable:
        hidden.setdefault(_among(apart, each.place), []).append(each)
    shared, hiding = own.pop(None, []), hidden.pop(None, [])
    views = own.keys() | hidden.keys()
    kept: dict[tuple[Identity, str], _Placed] = {}
    if len(views) < len(apart):  # an entity has no facts of its own about it
        _add(kept, resolve(shared, hiding).placed)
    for entity in views:
        theirs = resolve([*shared, *own.get(entity, ())], [*hiding, *hidden.get(entity, ())])
        _add(kept, theirs.placed)
    return kept.values()


def _add(kept: dict[tuple[Identity, str], _Placed], more: Iterable[_Placed]) -> None:
    """Take in facts; of one that some see less of, what is seen of it most."""
    for placed in more:
        key = placed.place.identity, placed.fact.id
        before = kept.get(key)
        if before is None or _size(before) < _size(placed):
            kept[key] = placed


def _size(placed: PlacedFact[Any]) -> int:
    return len(placed.fact.values)
