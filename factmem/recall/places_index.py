"""The facts that hold in one set of places, followed as the places change."""

import threading
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeAlias

from anyio import Lock

from factmem.concurrency.per_loop import PerLoop
from factmem.ledger.resolution import (
    PlacedFact,
    UnreadableConcept,
    resolve,
)
from factmem.models.facts import AnyFact, FactType
from factmem.models.places import Identity, Place
from factmem.recall.fact_index import FactIndex, Similarities
from factmem.recall.match import Match
from factmem.recall.place_cache import PlaceMirror, PlaceState
from factmem.recall.query import RecallQuery

__all__ = ["PlacesIndex", "holding", "seen_together"]


_Touched: TypeAlias = Mapping[Identity, Collection[str] | None]
"""What changed under one keyword: by place the ids of facts, or None for all of them."""


class PlacesIndex:
    """An index over several places. Safe for threads."""

    def __init__(self, places: Iterable[Place], mirrors: Mapping[Identity, PlaceMirror]) -> None:
        self.places: Mapping[Identity, Place] = {place.identity: place for place in places}
        self.mirrors = mirrors
        self.turn: PerLoop[Lock] = PerLoop(Lock)
        """Held in each event loop by the one task that searches: the others wait without a thread."""
        self._lock = threading.Lock()
        self._index = FactIndex()
        self._together = seen_together(self.places.values())
        self._numbers: dict[Identity, int] = dict.fromkeys(self.places, 0)
        """Up to which reading each place was followed."""
        self._unreadable: list[UnreadableConcept] = []

    def __len__(self) -> int:
        return len(self._index)

    def search(
        self,
        states: Mapping[Identity, PlaceState],
        queries: Sequence[RecallQuery],
        now: datetime,
        similar: Sequence[Similarities] | None,
    ) -> tuple[list[list[Match]], list[UnreadableConcept]]:
        """Return the matches of each query, and what could not be read.

        Takes processor time, so it is for worker threads; any number may call at once.

        Args:
            states: What was current in the places when the recall began, or later.
            queries: What to look for.
            now: The time that recency is reckoned from.
            similar: For each query the cosines with it, where meanings are compared.
        """
        with self._lock:
            if any(self._numbers[identity] < state.number for identity, state in states.items()):
                self._follow()
            found = [
                self._index.search(query, now, None if similar is None else similar[at])
                for at, query in enumerate(queries)
            ]
            return found, self._unreadable

    def _follow(self) -> None:
        """Bring the index up to date with what was read last."""
        touched: dict[str, dict[Identity, Collection[str] | None]] = {}
        numbers: dict[Identity, int] = {}
        for identity, mirror in self.mirrors.items():
            delta = mirror.since(self._numbers[identity])
            numbers[identity] = delta.number
            for keyword, ids in delta.changed.items():
                touched.setdefault(keyword, {})[identity] = ids
            if delta.is_whole:
                for keyword in self._index.keywords(identity):
                    touched.setdefault(keyword, {})[identity] = None
        self._unreadable = [
            UnreadableConcept(place, keyword, error)
            for identity, place in self.places.items()
            for keyword, error in self.mirrors[identity].state.unreadable.items()
        ]
        alone = {keyword for keyword, those in touched.items() if self._is_alone(keyword, those)}
        for keyword in alone:
            for identity, ids in touched[keyword].items():
                self._take(identity, keyword, ids or ())
        self._resolve(touched.keys() - alone)
        self._numbers = numbers

    def _is_alone(self, keyword: str, touched: _Touched) -> bool:
        """Whether all facts of a keyword hold, as nothing that is seen with them has it too."""
        for identity, ids in touched.items():
            first = next(iter(self.mirrors[identity].facts(keyword).values()), None)
            if ids is None or (first and first.concept.fact_type is FactType.SINGLE):
                return False
            if any(self.mirrors[other].knows(keyword) for other in self._together[identity]):
                return False
        return True

    def _take(self, identity: Identity, keyword: str, ids: Collection[str]) -> None:
        """Hold some facts of a place as they are there."""
        place, mirror = self.places[identity], self.mirrors[identity]
        facts, digests = mirror.facts(keyword), mirror.digests(keyword)
        for each in ids:
            if each in facts:
                self._index.put(identity, PlacedFact(place, facts[each]), digests.get(each, b""))
        self._index.drop(identity, keyword, [each for each in ids if each not in facts])

    def _resolve(self, keywords: Collection[str]) -> None:
        """Hold what holds of some keywords, looked at in all places together."""
        found: list[PlacedFact[AnyFact]] = []
        digests: dict[tuple[Identity, str], Mapping[str, bytes]] = {}
        kept: dict[tuple[Identity, str], set[str]] = {}
        for identity, place in self.places.items():
            mirror = self.mirrors[identity]
            for keyword in keywords:
                found += [PlacedFact(place, fact) for fact in mirror.facts(keyword).values()]
                digests[identity, keyword] = mirror.digests(keyword)
                kept[identity, keyword] = set()
        unreadable = [each for each in self._unreadable if each.keyword in keywords]
        for placed in holding(found, unreadable, self.places.values()):
            fact = placed.fact
            key = placed.place.identity, fact.concept.keyword
            self._index.put(key[0], placed, digests[key].get(fact.id, b""))
            kept[key].add(fact.id)
        for (identity, keyword), ids in kept.items():
            gone = [each for each in self._index.ids(identity, keyword) if each not in ids]
            self._index.drop(identity, keyword, gone)


_Entity: TypeAlias = tuple[str, str | None]
_Placed: TypeAlias = PlacedFact[AnyFact]


def holding(
    found: Sequence[_Placed], unreadable: Sequence[UnreadableConcept], places: Iterable[Place]
) -> list[_Placed]:
    """Return what holds over several places, as seen from any of the entities.

    Args:
        found: What is current in the places.
        unreadable: What of it could not be read: it hides what is less specific.
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
    if len(views) < len(apart):  # somebody has nothing of his own about it
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
